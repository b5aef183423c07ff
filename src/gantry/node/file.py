"""File-based disks: one raw, sparse file per disk.

    <file storage>/<instance>/<disk uuid>

The last part of a disk's logical id is that path. It comes over the wire, so it is checked before each use: two names
below the storage's folder and nothing else. A disk is refused when the file system has less room than its size, though
a sparse file takes none yet: an instance that writes into a full disk is worse than one that is not made.
"""

import errno
import os.path

from gantry import errors
from gantry.rpc import calls
from gantry.runtime import interface

MIB = 1 << 20


class FileStorage:
    """The disk type ``file``; ``root`` is the storage's folder, ``node`` this node's name, for messages."""

    def __init__(self, disk: interface.Disk, root: str, *, node: str) -> None:
        self._disk = disk
        self._root = root
        self._node = node

    def logical_id(self, instance: str, uuid: str) -> str:
        """Return the path of a disk that is to be made."""
        return self._checked(f"{self._root}/{instance}/{uuid}")

    def path(self, disk: calls.Disk) -> str:
        """Return a disk's file; InvalidError when the logical id leads out of the storage."""
        return self._checked(disk.logical_id[-1] if disk.logical_id else "")

    def _checked(self, path: str) -> str:
        names = path.removeprefix(f"{self._root}/").split("/")
        inside = path.startswith(f"{self._root}/") and len(names) == 2
        if not inside or any(name in ("", ".", "..") or "\0" in name for name in names):
            raise errors.InvalidError(
                f"{path!r} is no place for a disk on node {self._node}",
                hint=f"it must be {self._root}/INSTANCE/DISK",
            )
        return path

    async def create(self, disk: calls.Disk, *, owner: str) -> str:
        """Make the file, and the folder of its instance when it is the first."""
        path = self.path(disk)
        if disk.size <= 0:
            raise errors.InvalidError(f"disk {disk.index} of {owner}: a size of {disk.size} MiB is not possible")
        if self._disk.exists(path):
            raise errors.ExistsError(f"disk {disk.index} of {owner}: {path} exists already on node {self._node}")
        await self._disk.make_directory(os.path.dirname(path))
        free = self._disk.free_space(self._root)[0] // MIB
        if disk.size > free:
            await self._remove_empty(path)
            raise self._no_room(disk, free)
        try:
            await self._disk.make_sparse(path, disk.size * MIB)
        except OSError as error:
            await self._remove_empty(path)
            if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise self._no_room(disk, free) from error
            raise errors.BlockDeviceError(f"{path} on node {self._node} cannot be made: {error.strerror}") from error
        return path

    def _no_room(self, disk: calls.Disk, free: int) -> errors.NoRoomError:
        return errors.NoRoomError(
            f"disk of {disk.size} MiB does not fit, {free} MiB are free in {self._root} on node {self._node}"
        )

    async def remove(self, disk: calls.Disk) -> None:
        """Remove the file, and the folder of its instance when it was the last."""
        path = self.path(disk)
        if self._disk.exists(path):
            await self._disk.remove(path)
        await self._remove_empty(path)

    async def _remove_empty(self, path: str) -> None:
        folder = os.path.dirname(path)
        if self._disk.exists(folder) and not self._disk.names(folder):
            await self._disk.remove_tree(folder)

    def exists(self, disk: calls.Disk) -> bool:
        """Tell whether the file is there."""
        return self._disk.exists(self.path(disk))

    async def storage(self) -> calls.StorageInfo:
        """Return the room of the file system that holds the storage."""
        await self._disk.make_directory(self._root)
        free, total = self._disk.free_space(self._root)
        return calls.StorageInfo(kind="file", path=self._root, free=free // MIB, total=total // MIB)
