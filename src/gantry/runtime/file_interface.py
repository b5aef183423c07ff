"""The files of an ``interface.Disk``: their status, open files and locks."""

import contextlib
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class FileStatus:
    """A file's size in bytes, time of its last change in seconds since the epoch, and permission bits.

    ``identity`` is the same for all names (hard links) of a file, ``links`` is their number.
    """

    size: int
    mtime: float
    mode: int
    is_directory: bool
    links: int = 1
    identity: tuple[int, int] = (0, 0)


class AppendFile(Protocol):
    """A file that only grows, except that it is truncated after a failed write: for the journal."""

    @property
    def size(self) -> int:
        """Return the length in bytes, including data that is not synced yet."""
        ...

    def is_at(self, path: str) -> bool:
        """Return whether ``path`` still leads to this file: nobody has replaced or removed it."""
        ...

    async def append(self, data: bytes) -> None:
        """Write ``data`` at the end, and return when it is on stable storage; OSError if that fails.

        After an error the end of the file is undefined: ``truncate`` to the last good length.
        """
        ...

    async def append_with(self, data: bytes, path: str, follow_up: "FollowUp") -> bool:
        """Do what ``append`` does, then ``follow_up.append_after`` with its result: sooner than with a second call."""
        ...

    def append_here(self, data: bytes) -> None:
        """Write and sync ``data`` as ``append`` does, but block the thread that calls: for ``append_with``."""
        ...

    async def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes; this is on stable storage on return."""
        ...

    def close(self) -> None:
        """Close the file; nothing is written after this."""
        ...


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What is appended to a second file when the first one has its data: the second is never ahead of the first."""

    file: AppendFile
    data: bytes

    def append_after(self, first: AppendFile, path: str) -> bool:
        """Append the data if ``path`` leads to the first file; return whether it is on stable storage.

        If not, the end of the second file is undefined.
        """
        with contextlib.suppress(OSError):
            if first.is_at(path):
                self.file.append_here(self.data)
                return True
        return False


class FileSystem(Protocol):
    """An open file system: it reports every write that has failed since, even if that was reported elsewhere too.

    The kernel reports a failure once to each process that had the file system open, otherwise to the first that opens
    it later. So a caller that writes with ``sync=False`` opens the file system first; otherwise the failure may be
    reported to another caller of ``Disk.sync`` only.
    """

    async def sync(self) -> None:
        """Do what ``Disk.sync`` does; OSError if that fails or a write has failed since the previous call.

        After an error, rewrite everything that was written since the previous call: a later sync leaves it out.
        """
        ...

    def close(self) -> None:
        """Close the file system; a second call does nothing."""
        ...


class FileLock(Protocol):
    """An exclusive lock on a file, held until ``release`` or the end of the process."""

    def release(self) -> None:
        """Release the lock."""
        ...
