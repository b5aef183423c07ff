"""Files and file systems that are held open on a simulated disk (``disk``)."""

import errno
from typing import Protocol

from gantry.runtime.simulated import boot, clock, files


class Device(Protocol):
    """What an open file needs of its disk; ``disk.Disk`` documents the members."""

    clock: clock.Clock
    fail_write: float
    fail_sync: float
    failures: int
    told: int

    def room(self, wanted: int, /) -> int:
        """Return how many of ``wanted`` bytes fit on the disk."""
        ...

    def fails(self, chance: float, /) -> bool:
        """Return whether an operation with this probability of failure fails now."""
        ...

    async def work(self) -> None:
        """Take the time of a visit to the device."""
        ...

    def write_back(self, node: files.Node, /) -> None:
        """Put a file's content on stable storage, or count a failure."""
        ...

    def write_all_back(self, path: str, /) -> None:
        """Put all content on stable storage."""
        ...

    def sync_names(self, path: str, /) -> None:
        """Put all names on stable storage; OSError when that fails."""
        ...


class AppendFile:
    """A growing file on a simulated disk."""

    def __init__(self, disk: Device, path: str, node: files.Node) -> None:
        self._disk = disk
        self._path = path
        self._node = node
        self._told = node.told
        self._closed = False

    @property
    def size(self) -> int:
        """Return the length in bytes, what is not yet synced included."""
        return self._node.size

    async def append(self, data: bytes) -> None:
        """Write ``data`` at the end and sync it; a full or a failing disk takes a part."""
        self._check()
        taken = self._disk.room(len(data))
        fails = self._disk.fails(self._disk.fail_write)
        self._node.content += data[: taken // 2 if fails else taken]
        self._node.mtime = self._disk.clock.now()
        if fails or taken < len(data):
            raise files.error(errno.EIO if fails else errno.ENOSPC, self._path)
        await self._disk.work()
        self._sync()

    async def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes; when the sync fails it keeps its length."""
        self._check()
        await self._disk.work()
        if self._disk.fails(self._disk.fail_sync):
            raise files.error(errno.EIO, self._path)
        self._node.content[size:] = bytes(max(0, size - len(self._node.content)))
        if size <= self._node.stable:
            self._node.lost = False
        self._node.stable = min(self._node.stable, size)
        self._sync()

    def close(self) -> None:
        """Close the file."""
        self._closed = True

    def _sync(self) -> None:
        """Put the content on stable storage; OSError when that fails now, or a sync by somebody else has failed."""
        self._disk.write_back(self._node)
        if self._told < self._node.failures:
            self._told = self._node.told = self._node.failures
            raise files.error(errno.EIO, self._path)

    def _check(self) -> None:
        boot.check()
        if self._closed:
            raise files.error(errno.EBADF, self._path)


class FileSystem:
    """A simulated disk that is held open."""

    def __init__(self, disk: Device, path: str) -> None:
        self._disk = disk
        self._path = path
        self._told = disk.told

    async def sync(self) -> None:
        """Put all content and all names on stable storage; OSError EIO when ``fail_sync`` strikes, or has before."""
        await self._disk.work()
        self._disk.write_all_back(self._path)
        if self._told < self._disk.failures:
            self._told = self._disk.told = self._disk.failures
            raise files.error(errno.EIO, self._path)
        self._disk.sync_names(self._path)

    def close(self) -> None:
        """Let it go."""
