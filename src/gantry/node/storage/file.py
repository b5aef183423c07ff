"""File-based disks: a file per disk, either ``raw`` and sparse, or ``qcow2``.

    <file storage>/<instance>/<disk uuid>

``file`` keeps them on the node, ``sharedfile`` in a folder that all nodes mount. The disk's parameter ``format`` is the
file's format, raw by default. The last part of a disk's logical id is the path. The path comes over the wire, so it is
checked before each use: it must be two names below the storage's folder. ``create`` refuses a disk that is larger than
the free space of the file system, though a sparse file takes none yet: an instance that fills its file system later is
worse than an instance that is not created.

The file's name is the disk's UUID, so an existing file of the disk's size is that disk: a repeated ``create``, as by a
master that has lost the answer, does not change the file. An empty file is the remainder of a crash during ``create``.
A link may lead to another disk's file: ``create`` and ``adopt`` refuse symbolic links, and ``find`` returns all names.
"""

import errno
import os.path
from collections.abc import Iterator, Sequence

import msgspec

from gantry import errors
from gantry.node.storage import programs, qcow2_export
from gantry.rpc import calls
from gantry.runtime import file_interface, interface

MIB = programs.MIB
UTILITIES = "qemu-utils"
FORMATS = ("raw", "qcow2")
OWN, SHARED = "file", "sharedfile"


class _Image(msgspec.Struct, rename="kebab"):
    virtual_size: int


class FileStorage:
    """The disk type ``kind``; ``root`` is the storage's folder, ``views`` present files that are not raw as raw."""

    def __init__(self, runtime: interface.Runtime, root: str, *, views: qcow2_export.Views, kind: str = OWN) -> None:
        self._disk = runtime.disk
        self._views = views
        self._tools = programs.Programs(runtime)
        self._root = root
        self._kind = kind
        self._runtime = runtime

    def logical_id(self, instance: str, uuid: str, *, index: int) -> str:
        """Return the path of a disk to be created."""
        return self._checked(f"{self._root}/{instance}/{uuid}")

    def path(self, disk: calls.Disk) -> str:
        """Return the path of a disk's file; InvalidError if it is outside of the storage."""
        return self._checked(disk.logical_id[-1] if disk.logical_id else "")

    def _checked(self, path: str) -> str:
        names = path.removeprefix(f"{self._root}/").split("/")
        inside = path.startswith(f"{self._root}/") and len(names) == 2
        if not inside or any(name in ("", ".", "..") or "\0" in name for name in names):
            raise errors.InvalidError(
                f"{path!r} is not a valid path of a disk on node {self._runtime.host}",
                hint=f"it must be {self._root}/INSTANCE/DISK",
            )
        return path

    def _format(self, disk: calls.Disk) -> str:
        image_format = str(disk.params.get("format", "raw"))
        if image_format not in FORMATS:
            raise errors.InvalidError(
                f"disk {disk.index}: {image_format!r} is not a disk format", hint=f"use {' or '.join(FORMATS)}"
            )
        return image_format

    async def _prepare(self, folder: str) -> None:
        """Create the folder of an instance, but never a shared storage's own folder: it may just not be mounted."""
        if self._kind == SHARED and not self._disk.exists(self._root):
            raise errors.EnvironmentFaultError(
                f"there is no folder {self._root} on node {self._runtime.host}", hint="mount the shared storage there"
            )
        await self._disk.make_directory(folder)

    async def choose_volumes(self, disks: Sequence[calls.Disk]) -> tuple[tuple[str, ...], ...]:
        """Return no physical volumes: the file system chooses."""
        return ((),) * len(disks)

    async def create(self, disk: calls.Disk, *, owner: str, on: Sequence[str] = ()) -> str:
        """Create the file, and the folder of its instance unless it exists.

        ExistsError if the file exists with another size.
        """
        path = self.path(disk)
        kind = self._format(disk)
        if disk.size <= 0:
            raise errors.InvalidError(f"disk {disk.index} of {owner}: a size of {disk.size} MiB is not possible")
        if self._disk.exists(path):
            is_own = not self._is_link(path) and self._disk.status(path).links == 1
            if is_own and self._disk.status(path).size and await self._size(disk) == disk.size * MIB:
                await self._sync()
                return path
            if self._disk.status(path).size:
                raise errors.ExistsError(
                    f"disk {disk.index} of {owner}: {path} exists already on node {self._runtime.host}"
                )
            await self._disk.remove(path)
        await self._prepare(os.path.dirname(path))
        free = self._free()
        if disk.size > free:
            await self._remove_empty(path)
            raise self._no_space(disk.size, free)
        try:
            await self._disk.make_sparse(path, disk.size * MIB if kind == "raw" else 0)
        except OSError as error:
            await self._remove_empty(path)
            if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise self._no_space(disk.size, free) from error
            raise errors.BlockDeviceError(
                f"{path} on node {self._runtime.host} cannot be created: {error.strerror}"
            ) from error
        if kind != "raw":
            await self._create_image(disk, path)
        await self._sync()
        return path

    async def _sync(self) -> None:
        """Bring created, moved and removed files to stable storage, because the job will report that."""
        await self._disk.sync(self._root)

    async def _create_image(self, disk: calls.Disk, path: str) -> None:
        """Create the image in a draft file and rename it to ``path``, so that ``path`` is empty or complete."""
        draft = _draft(path)
        try:
            await self._disk.rename({path: draft})
            await self._image("create", "-q", "-f", self._format(disk), draft, f"{disk.size}M")
            await self._disk.rename({draft: path})
        except errors.GantryError:
            await self._disk.remove(draft)
            await self._remove_empty(path)
            raise

    async def _image(self, *arguments: str) -> str:
        process = await self._tools.run("qemu-img", *arguments, package=UTILITIES, tracked=True)
        if process.code:
            reason = programs.failure_reason(process)
            if "lock" in reason:
                raise errors.WrongStateError(
                    f"{arguments[-1]} on node {self._runtime.host} is in use", hint="stop its instance"
                )
            raise errors.BlockDeviceError(f"qemu-img failed on node {self._runtime.host}: {reason}")
        return process.stdout.decode()

    async def _size(self, disk: calls.Disk) -> int:
        """Return the size of the disk in bytes, as a guest sees it."""
        if self._format(disk) == "raw":
            return self._disk.status(self.path(disk)).size
        report = await self._image("info", "--force-share", "--output=json", "-f", self._format(disk), self.path(disk))
        return msgspec.json.decode(report, type=_Image).virtual_size

    def _free(self) -> int:
        return self._disk.free_space(self._root)[0] // MIB

    def _no_space(self, size: int, free: int) -> errors.NoRoomError:
        return errors.NoRoomError(
            f"disk of {size} MiB does not fit, {free} MiB are free in {self._root} on node {self._runtime.host}"
        )

    async def adopt(self, disk: calls.Disk, source: str, *, owner: str) -> int:
        """Move the file ``source``, which must be in the storage too, to the disk's path."""
        path, old = self.path(disk), self._checked(source)
        if self._disk.exists(old):
            if self._disk.exists(path):
                raise errors.ExistsError(
                    f"disk {disk.index} of {owner}: {path} exists already on node {self._runtime.host}"
                )
            if self._is_link(old):
                raise errors.InvalidError(
                    f"disk {disk.index} of {owner}: {old} on node {self._runtime.host} is a link "
                    f"to {self._disk.resolve(old)}",
                    hint="name the file itself",
                )
            await self._image("info", "-f", self._format(disk), old)
            await self._move(old, path)
        self._existing(disk)
        await self._sync()
        return await self._size(disk) // MIB

    def _existing(self, disk: calls.Disk) -> str:
        path = self.path(disk)
        if not self._disk.exists(path):
            raise errors.NotFoundError(f"disk {disk.index}: there is no file {path} on node {self._runtime.host}")
        return path

    async def _move(self, old: str, new: str) -> None:
        await self._prepare(os.path.dirname(new))
        await self._disk.rename({old: new})
        await self._remove_empty(old)

    async def remove(self, disk: calls.Disk) -> None:
        """Remove the file, and the folder of its instance if it is then empty."""
        path = self.path(disk)
        for file in (path, _draft(path)):
            if self._disk.exists(file):
                await self._disk.remove(file)
        await self._remove_empty(path)
        if self._disk.exists(self._root):
            await self._sync()

    async def _remove_empty(self, path: str) -> None:
        folder = os.path.dirname(path)
        if self._disk.exists(folder) and not self._disk.names(folder):
            await self._disk.remove_tree(folder)

    async def find(self, disk: calls.Disk) -> calls.DiskState | None:
        """Describe the file."""
        path = self.path(disk)
        if not self._disk.exists(path):
            return None
        size = await self._size(disk) // MIB
        return calls.DiskState(path=path, size=size, active=True, aliases=self._aliases(path))

    def _is_link(self, path: str) -> bool:
        """Return whether the last part of a path is a symbolic link; its folders may be some."""
        folder, _, name = path.rpartition("/")
        return self._disk.resolve(path) != f"{self._disk.resolve(folder)}/{name}"

    def _aliases(self, path: str) -> tuple[str, ...]:
        """Return the other paths in the storage of the same file. Cost: all files, if there are links, else none."""
        file = self._disk.status(path)
        if file.links == 1 and not self._is_link(path):
            return ()
        return tuple(
            other
            for other, status in _statuses(self._disk, self._root)
            if other != path and status.identity == file.identity
        )

    async def activate(self, disk: calls.Disk, *, primary: bool) -> str:
        """Check that the file exists."""
        return self._existing(disk)

    async def deactivate(self, disk: calls.Disk) -> None:
        """Do nothing: a file is always accessible."""

    async def expose(self, disk: calls.Disk) -> str:
        """Return the file's path, or a view of the file if it is not raw."""
        path, image = self.path(disk), self._format(disk)
        return path if image == "raw" else await self._views.open(disk.uuid, path, image=image)

    async def conceal(self, disk: calls.Disk) -> None:
        """Close the view of a file that is not raw."""
        if self._format(disk) != "raw":
            await self._views.close(disk.uuid)

    async def open(self, disk: calls.Disk, *, force: bool) -> None:
        """Do nothing: a file has no mirror."""

    async def close(self, disk: calls.Disk) -> None:
        """Do nothing: a file has no mirror."""

    async def set_mode(self, disk: calls.Disk) -> None:
        """Do nothing: the hypervisor opens a file according to the disk's mode."""

    async def grow(self, disk: calls.Disk, size: int, *, backing: bool, dry_run: bool) -> None:
        """Enlarge the file; a qcow2 file must not be in use."""
        path = self._existing(disk)
        increase = size - await self._size(disk) // MIB
        if increase <= 0:
            return
        if increase > self._free():
            raise self._no_space(increase, self._free())
        if dry_run:
            return
        if self._format(disk) == "raw":
            await self._tools.succeed("truncate", "--no-create", f"--size={size}M", path, package="coreutils")
        else:
            await self._image("resize", "-q", "-f", self._format(disk), path, f"{size}M")

    async def snapshot(self, disk: calls.Disk, name: str) -> tuple[str, tuple[str, ...]]:
        """Copy the file with shared blocks; WrongStateError unless the file system supports that (XFS, btrfs)."""
        path = self._existing(disk)
        copy = self._checked(f"{os.path.dirname(path)}/{name}")
        if not self._disk.exists(copy):
            process = await self._tools.run("cp", "--reflink=always", path, copy, package="coreutils", tracked=True)
            if process.code:
                # After a failure the program leaves an empty file.
                if self._disk.exists(copy):
                    await self._disk.remove(copy)
                raise errors.WrongStateError(
                    f"the file system of {self._root} on node {self._runtime.host} does not support snapshots: "
                    + programs.failure_reason(process),
                    hint="use XFS or btrfs, or stop the instance",
                )
        return self._kind, (self._kind, copy)

    async def rename(self, disk: calls.Disk, to: tuple[str, ...]) -> None:
        """Move the file; remove its old folder if it is then empty."""
        new = self._checked(to[-1] if to else "")
        if not self._disk.exists(new):
            await self._move(self._existing(disk), new)
        # Also if an earlier call has moved the file: that call may have ended before its sync.
        await self._sync()

    async def set_info(self, disk: calls.Disk, owner: str) -> None:
        """Do nothing: the name of the folder is the instance's name."""

    async def wipe(self, disk: calls.Disk, *, offset: int, size: int) -> None:
        """Punch a hole in the file, which reads as zeros."""
        command = f"write -q -z -u {offset}M {size}M"
        await self._tools.succeed(
            "qemu-io", "-f", self._format(disk), "-c", command, self._existing(disk), package=UTILITIES
        )

    async def storage(self, name: str) -> calls.StorageInfo:
        """Return the capacity of the storage's file system."""
        await self._prepare(self._root)
        free, total = self._disk.free_space(self._root)
        return calls.StorageInfo(kind=self._kind, path=self._root, free=free // MIB, total=total // MIB)

    async def verify(self, name: str) -> list[str]:
        """Raise EnvironmentFaultError or OSError if the folder is missing; a node's own folder is created first."""
        await self.storage(name)
        return []


def files(disk: interface.Disk, root: str) -> tuple[calls.DiskFile, ...]:
    """Return the files that lie where the disks of a storage do, sorted by path; none without the storage's folder."""
    statuses = _statuses(disk, root) if disk.exists(root) else ()
    listed = (calls.DiskFile(path, -(-status.size // MIB)) for path, status in statuses if not status.is_directory)
    return tuple(sorted(listed, key=lambda each: each.path))


def _statuses(disk: interface.Disk, root: str) -> Iterator[tuple[str, file_interface.FileStatus]]:
    """Yield what lies where the disks of a storage do; a link has the status of the file to which it leads."""
    for folder in (f"{root}/{name}" for name in disk.names(root)):
        if disk.exists(folder) and disk.status(folder).is_directory:
            for path in (f"{folder}/{name}" for name in disk.names(folder)):
                if disk.exists(path):
                    yield path, disk.status(path)


def _draft(path: str) -> str:
    return f"{os.path.dirname(path)}/.new-{os.path.basename(path)}"
