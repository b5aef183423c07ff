"""Open files and file systems of a simulated disk (``disk``)."""

import errno
from typing import Protocol

from gantry.runtime import file_interface
from gantry.runtime.simulated import boot, clock, files


class Device(Protocol):
    """The members of a disk that open files use; ``disk.Disk`` documents them."""

    clock: clock.Clock
    fail_write: float
    fail_sync: float
    failures: int
    reported: int

    def writable(self, size: int, /) -> int:
        """Return how many of ``size`` bytes still fit on the disk."""
        ...

    def leads_to(self, path: str, node: files.Node, /) -> bool:
        """Return whether a path leads to a file."""
        ...

    def fails(self, chance: float, /) -> bool:
        """Return whether an operation with this probability of failure fails now."""
        ...

    async def work(self) -> None:
        """Take the time of a write or sync."""
        ...

    def write_back(self, node: files.Node, /) -> None:
        """Make a file's content stable, or record a failure."""
        ...

    def write_all_back(self, path: str, /) -> None:
        """Make all content stable."""
        ...

    def sync_names(self, path: str, /) -> None:
        """Make all name changes stable; OSError if that fails."""
        ...


class AppendFile:
    """A growing file on a simulated disk."""

    def __init__(self, disk: Device, path: str, node: files.Node) -> None:
        self._disk = disk
        self._path = path
        self._node = node
        self._reported = node.reported
        self._closed = False

    @property
    def size(self) -> int:
        """Return the length in bytes, including data that is not synced yet."""
        return self._node.size

    def is_at(self, path: str) -> bool:
        """Return whether ``path`` still leads to this file."""
        return self._disk.leads_to(path, self._node)

    async def append(self, data: bytes) -> None:
        """Write ``data`` at the end and sync it; a full or failing disk writes a part of it."""
        self._write(data)
        await self._disk.work()
        self._sync()

    async def append_with(self, data: bytes, path: str, follow_up: file_interface.FollowUp) -> bool:
        """Append here, then to a second file if ``path`` leads to this one; a crash may come between the two."""
        await self.append(data)
        await self._disk.work()
        return follow_up.append_after(self, path)

    def append_here(self, data: bytes) -> None:
        """Write ``data`` at the end and sync it, in no time."""
        self._write(data)
        self._sync()

    def _write(self, data: bytes) -> None:
        self._check()
        writable = self._disk.writable(len(data))
        fails = self._disk.fails(self._disk.fail_write)
        self._node.content += data[: writable // 2 if fails else writable]
        self._node.mtime = self._disk.clock.now()
        if fails or writable < len(data):
            raise files.error(errno.EIO if fails else errno.ENOSPC, self._path)

    async def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes; if the sync fails, the file keeps its length."""
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
        """Make the content stable; OSError if that fails, or if an earlier failure is not reported here yet."""
        self._disk.write_back(self._node)
        if self._reported < self._node.failures:
            self._reported = self._node.reported = self._node.failures
            raise files.error(errno.EIO, self._path)

    def _check(self) -> None:
        boot.check()
        if self._closed:
            raise files.error(errno.EBADF, self._path)


class FileSystem:
    """An open simulated disk."""

    def __init__(self, disk: Device, path: str) -> None:
        self._disk = disk
        self._path = path
        self._reported = disk.reported

    async def sync(self) -> None:
        """Make all content and names stable; OSError EIO if ``fail_sync`` applies, or did since the last call."""
        await self._disk.work()
        self._disk.write_all_back(self._path)
        if self._reported < self._disk.failures:
            self._reported = self._disk.reported = self._disk.failures
            raise files.error(errno.EIO, self._path)
        self._disk.sync_names(self._path)

    def close(self) -> None:
        """Close the disk; nothing happens."""
