"""A disk in memory that records what is on stable storage and what a power loss would lose.

Of a file's content, the first ``stable`` bytes are on stable storage. Name changes (a rename, a removal, a file written
without sync) are queued in order, as in a journaling file system; the sync of any directory makes all of them stable.
When the power fails, a random part of the queue survives, and of each file the stable bytes and a random part of the
remaining bytes, both from the seed. Faults can be switched on and off by the attributes of ``Disk``, and by ``flip``.
"""

import asyncio
import errno
import hashlib
import os
import random
from collections.abc import Callable, Mapping, Sequence

from gantry.runtime import file_interface
from gantry.runtime.simulated import boot, clock, files, opened

UNLIMITED_CAPACITY = 1 << 40
"""The capacity in bytes that a disk without ``capacity`` reports."""


class Disk:
    """The file system of one machine; it outlives the machine's boots.

    ``capacity`` limits the content in bytes (None: unlimited). ``fail_read``, ``fail_write`` and ``fail_sync`` are the
    probabilities that a read, write or sync fails with EIO (True: always). A failed append has written a part of its
    data; the data of a failed sync is lost with the power. A failure is reported to each open file and each open file
    system, and if it was not reported to any of them, to the next that is opened. ``delay`` is the range of seconds
    that a write or sync takes. ``on_visit`` is called during each write and sync: if it ends the machine, the write is
    torn. ``on_remove`` is called with the path of a file before ``remove`` removes the file. ``broken`` maps folders to
    the share of files below them that cannot be created or replaced. ``generated`` has the files whose content the
    kernel makes when they are read, as those of /proc: for each path the function that makes it.
    """

    def __init__(self, machine_clock: clock.Clock, source: random.Random) -> None:
        self.clock = machine_clock
        self.capacity: int | None = None
        self.fail_read = 0.0
        self.fail_write = 0.0
        self.fail_sync = 0.0
        self.broken: Mapping[str, float] = {}
        self.generated: dict[str, Callable[[], bytes]] = {}
        self.delay = (0.0, 0.002)
        self.on_visit: Callable[[], None] | None = None
        self.on_remove: Callable[[str], None] | None = None
        self._random = source
        root = files.Node(mode=0o755, mtime=machine_clock.now(), directory=True)
        self._names: dict[str, files.Node] = {"/": root}
        self._durable: dict[str, files.Node] = {"/": root}
        self._pending: list[files.Change] = []
        self._locks: dict[str, files.FileLock] = {}
        self._lists, self._durable_lists = files.Lists(self._names), files.Lists(self._durable)
        # The number of failed syncs of files, and how many of them a sync of the whole disk has reported.
        self.failures = self.reported = 0

    def flip(self, path: str, offset: int) -> None:
        """Corrupt the byte at ``offset`` of a file, on stable storage too."""
        self._file(path).content[offset] ^= 0xFF

    def lose_tail(self, path: str, size: int) -> None:
        """Lose the bytes of a file from ``size`` on, although they were synced; the whole file if ``size`` is 0."""
        node = self._file(path)
        del node.content[size:]
        node.stable = min(node.stable, size)
        if not size:
            self._change({path: None})
            self.sync_names(path)

    def lose_power(self) -> None:
        """Return to the content on stable storage, with a random part of the changes that were not stable."""
        for change in self._pending[: self._random.randint(0, len(self._pending))]:
            files.apply(self._durable, change)
        self._pending.clear()
        self._names = dict(self._durable)
        self._lists, self._durable_lists = files.Lists(self._names), files.Lists(self._durable)
        for node in self._names.values():
            node.tear(self._random)
        self.reported = self.failures

    async def work(self) -> None:
        """Take the time of a write or sync; the machine may end meanwhile."""
        boot.check()
        await asyncio.sleep(self._random.uniform(*self.delay))
        if self.on_visit is not None:
            self.on_visit()
        boot.check()

    def fails(self, chance: float) -> bool:
        """Return whether an operation fails this time whose probability of failure is ``chance``."""
        return chance > 0 and self._random.random() < chance

    def writable(self, size: int) -> int:
        """Return how many of ``size`` bytes still fit on the disk."""
        if self.capacity is None:
            return size
        return max(0, min(size, self.capacity - self._used()))

    def write_back(self, node: files.Node) -> None:
        """Make a file's content stable; if ``fail_sync`` applies, record the failure instead."""
        if self.fails(self.fail_sync):
            node.lost = True
            node.failures += 1
            self.failures += 1
        elif not node.lost:
            node.stable = len(node.content)

    def write_all_back(self, path: str) -> None:
        """Call ``write_back`` for each file with unstable content; ``path`` must exist."""
        self._node(path)
        for node in self._names.values():
            if node.stable < len(node.content):
                self.write_back(node)

    def sync_names(self, path: str) -> None:
        """Make all name changes stable; OSError EIO if ``fail_sync`` applies."""
        if self.fails(self.fail_sync):
            raise files.error(errno.EIO, path)
        for change in self._pending:
            files.apply(self._durable, change)
            self._durable_lists.forget(change)
        self._pending.clear()

    def place_socket(self, path: str, mode: int) -> None:
        """Create the directory entry of a UNIX socket; replace a stale entry."""
        self._parent(path)
        self._change({path: files.Node(mode=mode, mtime=self.clock.now())})

    def remove_socket(self, path: str) -> None:
        """Remove the directory entry of a UNIX socket, if it exists."""
        self._change({path: None})

    def resolve(self, path: str) -> str:
        """Return the path without ``..``: there are no symbolic links."""
        return os.path.normpath(path)

    def leads_to(self, path: str, node: files.Node) -> bool:
        """Return whether a path leads to a file."""
        return self._names.get(path) is node

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory at ``path``."""
        boot.check()
        return path in self._names or path in self.generated

    def status(self, path: str) -> file_interface.FileStatus:
        """Return the status of the file at ``path``."""
        node = self._node(path)
        return file_interface.FileStatus(node.size, node.mtime, node.mode, node.directory)

    def names(self, path: str) -> list[str]:
        """List a directory, sorted."""
        self._directory(path)
        return self._lists.names(path)

    def read_part(self, path: str, offset: int, size: int) -> bytes:
        """Return ``size`` bytes of a file from ``offset``, fewer at its end."""
        return self.read(path)[offset : offset + size]

    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""
        if path in self.generated:
            boot.check()
            return self.generated[path]()
        node = self._file(path)
        if self.fails(self.fail_read):
            raise files.error(errno.EIO, path)
        return bytes(node.content) + bytes(node.hole) if node.hole else bytes(node.content)

    async def write(self, path: str, data: bytes, *, mode: int = 0o640, sync: bool = True) -> None:
        """Replace the file at ``path`` atomically."""
        self._parent(path)
        if self.writable(len(data)) < len(data):
            raise files.error(errno.ENOSPC, path)
        await self.work()
        if self.fails(self.fail_write):
            raise files.error(errno.EIO, path)
        self._refuse_broken(path)
        node = files.Node(mode=mode, mtime=self.clock.now(), content=bytearray(data))
        if sync:
            self.write_back(node)
            if node.lost:
                raise files.error(errno.EIO, path)
        self._parent(path)
        self._refuse_directory(path)
        self._change({path: node})
        if sync:
            await self.work()
            self.sync_names(path)

    async def write_all(self, files: Mapping[str, bytes]) -> dict[str, OSError]:
        """Replace files one after the other, without a sync; return the errors by path."""
        failures: dict[str, OSError] = {}
        for path, data in files.items():
            try:
                await self.write(path, data, sync=False)
            except OSError as error:
                failures[path] = error
        return failures

    async def digest(self, path: str) -> str:
        """Return the SHA-256 of a file, in hex."""
        await self.work()
        return hashlib.sha256(self.read(path)).hexdigest()

    async def sync(self, path: str) -> None:
        """Make all content and all names stable; see ``opened.FileSystem.sync``."""
        await self.file_system(path).sync()

    def file_system(self, path: str) -> opened.FileSystem:
        """Open the disk."""
        return opened.FileSystem(self, path)

    async def append_file(self, path: str, *, mode: int = 0o640) -> opened.AppendFile:
        """Open a file for appending; create it if missing."""
        self._parent(path)
        await self.work()
        if path not in self._names:
            self._change({path: files.Node(mode=mode, mtime=self.clock.now())})
            self.sync_names(path)
        return opened.AppendFile(self, path, self._file(path))

    async def make_directory(self, path: str, *, mode: int = 0o750) -> None:
        """Create a directory and its parents, on stable storage."""
        await self.work()
        if path in self._names:
            self._directory(path)
            return
        missing = []
        while path not in self._names:
            missing.append(path)
            path = files.parent(path)
        self._directory(path)
        self._change({name: files.Node(mode=mode, mtime=self.clock.now(), directory=True) for name in missing})
        self.sync_names(path)

    async def rename(self, moves: Mapping[str, str]) -> None:
        """Rename files or directories one after the other; not stable before the next sync of names."""
        for old, new in moves.items():
            await self.work()
            node = self._node(old)
            self._parent(new)
            if not node.directory:
                self._refuse_directory(new)
            moved = self._below(old)
            self._change(dict.fromkeys(moved) | {new + p[len(old) :]: n for p, n in moved.items()})

    async def remove(self, path: str) -> None:
        """Remove a file; not stable before the next sync of names."""
        await self.work()
        self._file(path)
        if self.on_remove is not None:
            self.on_remove(path)
        self._change({path: None})

    async def remove_all(self, paths: Sequence[str]) -> None:
        """Remove files one after the other; not stable before the next sync of names."""
        for path in paths:
            if self.exists(path):
                await self.remove(path)

    async def remove_tree(self, path: str) -> None:
        """Remove a directory and everything below it; a crash may leave a part of it."""
        await self.work()
        if path in self._names:
            self._directory(path)
        for name in sorted(self._below(path), reverse=True):
            self._change({name: None})

    async def make_sparse(self, path: str, size: int, *, mode: int = 0o600) -> None:
        """Create a sparse file of ``size`` bytes, which uses no capacity and no memory."""
        self._parent(path)
        await self.work()
        if path in self._names:
            raise files.error(errno.EEXIST, path)
        self._refuse_broken(path)
        self._change({path: files.Node(mode=mode, mtime=self.clock.now(), hole=size)})

    async def lengthen(self, path: str, size: int) -> None:
        """Make a file at least ``size`` bytes long, with a hole at its end, as ``truncate`` does."""
        await self.work()
        node = self._file(path)
        node.hole = max(node.hole, size - len(node.content))

    def free_space(self, path: str) -> tuple[int, int]:
        """Return free and total bytes."""
        self._node(path)
        total = UNLIMITED_CAPACITY if self.capacity is None else self.capacity
        return max(0, total - self._used()), total

    def lock(self, path: str) -> files.FileLock:
        """Lock a file exclusively, creating it if missing, and write the process id into it, as the real disk does."""
        boot.check()
        self._parent(path)
        before = self._locks.get(path)
        if before is not None and before.valid:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        if path not in self._names:
            self._change({path: files.Node(mode=0o640, mtime=self.clock.now())})
        owner = boot.current()
        self._file(path).content[:] = b"%d\n" % (owner.pid if owner else boot.FIRST_PID)
        lock = self._locks[path] = files.FileLock(self._locks, path, owner)
        return lock

    def stable(self, path: str) -> bytes | None:
        """Return the part of a file that survives a power loss for certain; None if the file might be lost."""
        node = self._durable.get(path)
        return None if node is None or node.directory else bytes(memoryview(node.content)[: node.stable])

    def stable_names(self, folder: str) -> list[str]:
        """List the names in a directory that survive a power loss for certain, sorted."""
        return self._durable_lists.names(folder)

    def stable_files(self, folder: str) -> dict[str, tuple[int, bytes | None]]:
        """Return mode and content (None: a directory) of a folder and all below, as they survive a power loss."""
        return {
            path: (node.mode, None if node.directory else bytes(memoryview(node.content)[: node.stable]))
            for path, node in self._durable.items()
            if path == folder or path.startswith(f"{folder}/")
        }

    def put_back(self, folder: str, earlier: Mapping[str, tuple[int, bytes | None]]) -> None:
        """Replace a folder and all below with its ``stable_files`` of an earlier moment; all of it is stable."""
        now = self.clock.now()
        self._change(dict.fromkeys(self._below(folder)))
        self._change(
            {
                path: files.Node(mode, now, content is None, bytearray(content or b""), stable=len(content or b""))
                for path, (mode, content) in earlier.items()
            }
        )
        self.sync_names(folder)

    def image(self) -> dict[str, tuple[int, bytes | None]]:
        """Return mode and content (None: a directory) of all files; all must be stable, and none sparse."""
        return {
            path: (node.mode, None if node.directory else bytes(node.content)) for path, node in self._names.items()
        }

    def restore(self, image: Mapping[str, tuple[int, bytes | None]]) -> None:
        """Replace the content of this disk with an ``image``; all of it is stable."""
        now = self.clock.now()
        self._names = {
            path: files.Node(mode, now, content is None, bytearray(content or b""), stable=len(content or b""))
            for path, (mode, content) in image.items()
        }
        self._durable = dict(self._names)
        self._lists, self._durable_lists = files.Lists(self._names), files.Lists(self._durable)

    def _used(self) -> int:
        return sum(len(node.content) for node in self._names.values())

    def _change(self, change: files.Change) -> None:
        files.apply(self._names, change)
        self._lists.forget(change)
        self._pending.append(change)
        for path in change:
            if parent := self._names.get(files.parent(path)):
                parent.mtime = self.clock.now()

    def _below(self, path: str) -> dict[str, files.Node]:
        node = self._names.get(path)
        if node is not None and not node.directory:
            return {path: node}
        return {name: node for name, node in self._names.items() if name == path or name.startswith(f"{path}/")}

    def _node(self, path: str) -> files.Node:
        boot.check()
        node = self._names.get(path)
        if node is None:
            raise files.error(errno.ENOENT, path)
        return node

    def _file(self, path: str) -> files.Node:
        node = self._node(path)
        if node.directory:
            raise files.error(errno.EISDIR, path)
        return node

    def _directory(self, path: str) -> None:
        if not self._node(path).directory:
            raise files.error(errno.ENOTDIR, path)

    def _parent(self, path: str) -> None:
        self._directory(files.parent(path))

    def _refuse_broken(self, path: str) -> None:
        if any(path.startswith(f"{folder}/") and self.fails(share) for folder, share in self.broken.items()):
            raise files.error(errno.EIO, path)

    def _refuse_directory(self, path: str) -> None:
        if path in self._names and self._names[path].directory:
            raise files.error(errno.EISDIR, path)
