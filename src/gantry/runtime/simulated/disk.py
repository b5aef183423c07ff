"""A disk in memory that knows what is on stable storage and what would be lost with the power.

A file's content is a run of bytes of which the first ``stable`` are safe. Changes of names (a rename, a removal, a
file written without sync) queue up in order, as in a journaling file system; the sync of any directory makes all of
them safe. When the power fails, a seeded part of the queue survives, and of each file the safe bytes and a seeded part
of the rest. Faults to switch on and off: the attributes of ``Disk``, and ``flip``.
"""

import asyncio
import errno
import hashlib
import os
import posixpath
import random
from collections.abc import Callable, Mapping

from gantry.runtime import interface
from gantry.runtime.simulated import boot, clock, files, opened

# free space that a disk without ``capacity`` reports
ENDLESS = 1 << 40


class Disk:
    """The file system of one machine; it outlives the machine's boots.

    ``capacity`` is the room for content in bytes (None: endless). ``fail_read``, ``fail_write`` and ``fail_sync`` are
    the probabilities that one fails with EIO (True: always); a failed append has written a part, and what a failed sync
    was to make safe is lost with the power. A failure is told to all who have the file or the disk open, and if nobody
    has heard of it yet, to who opens them next. ``delay`` is the range of seconds that a write or sync takes.
    ``on_visit`` is called at each write and sync of the device, in the middle of it: who ends the machine there has it
    torn. ``broken`` are folders, file systems of their own, below which a share of the files cannot be made or
    replaced.
    """

    def __init__(self, machine_clock: clock.Clock, source: random.Random) -> None:
        self.clock = machine_clock
        self.capacity: int | None = None
        self.fail_read = 0.0
        self.fail_write = 0.0
        self.fail_sync = 0.0
        self.broken: Mapping[str, float] = {}
        self.delay = (0.0, 0.002)
        self.on_visit: Callable[[], None] | None = None
        self._random = source
        root = files.Node(mode=0o755, mtime=machine_clock.now(), directory=True)
        self._names: dict[str, files.Node] = {"/": root}
        self._durable: dict[str, files.Node] = {"/": root}
        self._pending: list[files.Change] = []
        self._locks: dict[str, files.FileLock] = {}
        # syncs of files that failed, and how many of them somebody has heard of by a sync of all
        self.failures = self.told = 0

    def flip(self, path: str, offset: int) -> None:
        """Damage the byte at ``offset`` of a file, on stable storage too."""
        self._file(path).content[offset] ^= 0xFF

    def lose_power(self) -> None:
        """Go back to what is on stable storage, with the seeded part of what was on its way."""
        for change in self._pending[: self._random.randint(0, len(self._pending))]:
            files.apply(self._durable, change)
        self._pending.clear()
        self._names = dict(self._durable)
        for node in self._names.values():
            node.tear(self._random)
        self.told = self.failures

    async def work(self) -> None:
        """Take the time of a visit to the device; the machine may end meanwhile."""
        boot.check()
        await asyncio.sleep(self._random.uniform(*self.delay))
        if self.on_visit is not None:
            self.on_visit()
        boot.check()

    def fails(self, chance: float) -> bool:
        """Draw whether something fails that does so with the probability ``chance``."""
        return chance > 0 and self._random.random() < chance

    def room(self, wanted: int) -> int:
        """Return how many of ``wanted`` bytes the disk can still take."""
        if self.capacity is None:
            return wanted
        return max(0, min(wanted, self.capacity - self._used()))

    def write_back(self, node: files.Node) -> None:
        """Put a file's content on stable storage; when ``fail_sync`` strikes, the failure is noted instead."""
        if self.fails(self.fail_sync):
            node.lost = True
            node.failures += 1
            self.failures += 1
        elif not node.lost:
            node.stable = len(node.content)

    def write_all_back(self, path: str) -> None:
        """Do so with all files; ``path`` must be there."""
        self._node(path)
        for node in self._names.values():
            if node.stable < len(node.content):
                self.write_back(node)

    def sync_names(self, path: str) -> None:
        """Put all names on stable storage; OSError EIO when ``fail_sync`` strikes."""
        if self.fails(self.fail_sync):
            raise files.error(errno.EIO, path)
        for change in self._pending:
            files.apply(self._durable, change)
        self._pending.clear()

    def place_socket(self, path: str, mode: int) -> None:
        """Make the entry that a bound UNIX socket has; it replaces a stale one."""
        self._parent(path)
        self._change({path: files.Node(mode=mode, mtime=self.clock.now())})

    def remove_socket(self, path: str) -> None:
        """Remove the entry of a UNIX socket, if it is there."""
        self._change({path: None})

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or directory at ``path``."""
        boot.check()
        return path in self._names

    def status(self, path: str) -> interface.FileStatus:
        """Describe the file at ``path``."""
        node = self._node(path)
        return interface.FileStatus(node.size, node.mtime, node.mode, node.directory)

    def names(self, path: str) -> list[str]:
        """List a directory, sorted."""
        self._directory(path)
        beginning = path if path.endswith("/") else f"{path}/"
        start = len(beginning)
        below = [name for name in self._names if name.startswith(beginning) and name.find("/", start) < 0]
        return sorted(name[start:] for name in below if name != beginning)

    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""
        node = self._file(path)
        if self.fails(self.fail_read):
            raise files.error(errno.EIO, path)
        return bytes(node.content) + bytes(node.hole)

    async def write(self, path: str, data: bytes, *, mode: int = 0o640, sync: bool = True) -> None:
        """Replace the file at ``path`` as a whole."""
        self._parent(path)
        if self.room(len(data)) < len(data):
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
        """Replace files one after the other, none of them synced; return what failed, by path."""
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
        """Put all content and all names on stable storage; see ``opened.FileSystem.sync``."""
        await self.file_system(path).sync()

    def file_system(self, path: str) -> opened.FileSystem:
        """Hold the disk open."""
        return opened.FileSystem(self, path)

    async def append_file(self, path: str, *, mode: int = 0o640) -> opened.AppendFile:
        """Open a file for appending, creating it when missing."""
        self._parent(path)
        await self.work()
        if path not in self._names:
            self._change({path: files.Node(mode=mode, mtime=self.clock.now())})
            self.sync_names(path)
        return opened.AppendFile(self, path, self._file(path))

    async def make_directory(self, path: str, *, mode: int = 0o750) -> None:
        """Create a directory and those above it, on stable storage."""
        await self.work()
        if path in self._names:
            self._directory(path)
            return
        missing = []
        while path not in self._names:
            missing.append(path)
            path = posixpath.dirname(path)
        self._directory(path)
        self._change({name: files.Node(mode=mode, mtime=self.clock.now(), directory=True) for name in missing})
        self.sync_names(path)

    async def rename(self, moves: Mapping[str, str]) -> None:
        """Move files or directories one after the other; not safe before the next sync of a name."""
        for old, new in moves.items():
            await self.work()
            node = self._node(old)
            self._parent(new)
            if not node.directory:
                self._refuse_directory(new)
            moved = self._below(old)
            self._change(dict.fromkeys(moved) | {new + p[len(old) :]: n for p, n in moved.items()})

    async def remove(self, path: str) -> None:
        """Remove a file; not safe before the next sync of a name."""
        await self.work()
        self._file(path)
        self._change({path: None})

    async def remove_tree(self, path: str) -> None:
        """Remove a directory with all below it; a crash may leave a part."""
        await self.work()
        if path in self._names:
            self._directory(path)
        for name in sorted(self._below(path), reverse=True):
            self._change({name: None})

    async def make_sparse(self, path: str, size: int, *, mode: int = 0o600) -> None:
        """Create a new file of ``size`` bytes that takes no room, in memory neither."""
        self._parent(path)
        await self.work()
        if path in self._names:
            raise files.error(errno.EEXIST, path)
        self._refuse_broken(path)
        self._change({path: files.Node(mode=mode, mtime=self.clock.now(), hole=size)})

    def free_space(self, path: str) -> tuple[int, int]:
        """Return free and total bytes."""
        self._node(path)
        total = ENDLESS if self.capacity is None else self.capacity
        return max(0, total - self._used()), total

    def lock(self, path: str) -> files.FileLock:
        """Lock a file exclusively, creating it when missing; it then holds the process id, as a real one does."""
        boot.check()
        self._parent(path)
        before = self._locks.get(path)
        if before is not None and before.held:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        if path not in self._names:
            self._change({path: files.Node(mode=0o640, mtime=self.clock.now())})
        owner = boot.current()
        self._file(path).content[:] = b"%d\n" % (owner.pid if owner else boot.FIRST_PID)
        held = self._locks[path] = files.FileLock(self._locks, path, owner)
        return held

    def stable(self, path: str) -> bytes | None:
        """Return what a loss of power would leave of a file for certain; None where there would be no file."""
        node = self._durable.get(path)
        return None if node is None or node.directory else bytes(node.content[: node.stable])

    def stable_names(self, folder: str) -> list[str]:
        """List what a loss of power would leave of a directory for certain, in order."""
        beginning = f"{folder}/"
        below = [path[len(beginning) :] for path in self._durable if path.startswith(beginning)]
        return sorted(name for name in below if "/" not in name)

    def image(self) -> dict[str, tuple[int, bytes | None]]:
        """Return mode and content (None: a directory) of all files; nothing may be unsafe or sparse."""
        return {
            path: (node.mode, None if node.directory else bytes(node.content)) for path, node in self._names.items()
        }

    def restore(self, image: Mapping[str, tuple[int, bytes | None]]) -> None:
        """Take what ``image`` returned for the content of this disk, all of it safe."""
        now = self.clock.now()
        self._names = {
            path: files.Node(mode, now, content is None, bytearray(content or b""), stable=len(content or b""))
            for path, (mode, content) in image.items()
        }
        self._durable = dict(self._names)

    def _used(self) -> int:
        return sum(len(node.content) for node in self._names.values())

    def _change(self, change: files.Change) -> None:
        files.apply(self._names, change)
        self._pending.append(change)

    def _below(self, path: str) -> dict[str, files.Node]:
        return {name: node for name, node in self._names.items() if name == path or name.startswith(f"{path}/")}

    def _node(self, path: str) -> files.Node:
        boot.check()
        if path not in self._names:
            raise files.error(errno.ENOENT, path)
        return self._names[path]

    def _file(self, path: str) -> files.Node:
        node = self._node(path)
        if node.directory:
            raise files.error(errno.EISDIR, path)
        return node

    def _directory(self, path: str) -> files.Node:
        node = self._node(path)
        if not node.directory:
            raise files.error(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> None:
        self._directory(posixpath.dirname(path))

    def _refuse_broken(self, path: str) -> None:
        if any(path.startswith(f"{folder}/") and self.fails(share) for folder, share in self.broken.items()):
            raise files.error(errno.EIO, path)

    def _refuse_directory(self, path: str) -> None:
        if path in self._names and self._names[path].directory:
            raise files.error(errno.EISDIR, path)
