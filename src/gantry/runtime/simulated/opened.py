"""What is open on a simulated disk: files that grow, and the file system itself (``disk``)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from gantry.runtime.simulated import boot, files

if TYPE_CHECKING:
    from gantry.runtime.simulated.disk import Disk


class AppendFile:
    """A growing file on a simulated disk."""

    def __init__(self, disk: Disk, path: str, node: files.Node) -> None:
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

    def __init__(self, disk: Disk, path: str) -> None:
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
