"""Retention: which files of a growing series are removed, the oldest first, by age and by size.

The journal and the archive of jobs, on the master and on master candidates, and the logs of scripts use it. A series is
removed in order, so a crash at any moment leaves it without a gap: as in a journaling file system, of several removals
the first ones survive.

``ArchiveFolder`` has the files of archived jobs, ``<folder>/<K>/job-<N>`` with K = N div ``folder_size``. Its cost does
not grow with the archive: each trim reads the names in folders that have changed, and the status of files in the
oldest folders only.
"""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gantry.runtime import interface

BLOCK = 4096
"""Bytes in which a small file uses a disk: a job of 900 bytes counts as one block."""

BATCH = 256
"""Files that are removed in one call, so that other work on the disk gets its turn."""

SETTLED_SECONDS = 2.0
"""After the last change of a folder, until a further change is certain to change the folder's time."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of a series: age in seconds, size in bytes; None for no limit."""

    seconds: float | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class File:
    """A file of a series: path, bytes, and the time of its last change."""

    path: str
    size: int
    mtime: float


def surplus(files: Iterable[File], keep: Retention, *, size: int, now: float) -> Iterator[File]:
    """Yield those of ``files``, the oldest first, that are beyond a limit; ``size`` is that of the whole series.

    It ends with the first file that stays.
    """
    excess = 0 if keep.size is None else size - keep.size
    for file in files:
        if excess <= 0 and (keep.seconds is None or file.mtime > now - keep.seconds):
            return
        yield file
        excess -= file.size


async def prune_sections(
    disk: interface.Disk, paths: Mapping[int, str], keep: Retention, *, before: int, now: float
) -> int:
    """Remove the oldest sections of a journal that are beyond the limits, and return their number.

    ``paths`` are all sections by the serial of their first record, in order. Sections that have records from ``before``
    on stay, and so does the last, however old it is: a journal is never without a record.
    """
    statuses = {first: disk.status(path) for first, path in paths.items()}
    files = [File(paths[first], status.size, status.mtime) for first, status in statuses.items()]
    removable = [file for file, following in zip(files, [*paths][1:], strict=False) if following <= before]
    expired = list(surplus(removable, keep, size=sum(file.size for file in files), now=now))
    for file in expired:
        await disk.remove(file.path)
    return len(expired)


async def keep_newest(disk: interface.Disk, folder: str, *, most: int) -> None:
    """Remove the oldest files of a folder if it has more than ``most``; then a fifth of them goes at once."""
    names = disk.names(folder)
    if len(names) <= most:
        return
    times: dict[str, float] = {}
    for name in names:
        # Another call may be removing it.
        with contextlib.suppress(FileNotFoundError):
            times[f"{folder}/{name}"] = disk.status(f"{folder}/{name}").mtime
    await disk.remove_all(sorted(times, key=times.__getitem__)[: len(names) - most * 4 // 5])


class ArchiveFolder:
    """The files of archived jobs in ``folder``; ``trim`` removes those beyond the limits."""

    def __init__(self, runtime: interface.Runtime, folder: str, *, folder_size: int) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._folder = folder
        self._jobs_each = folder_size
        # The time and the size of folders that have not changed lately.
        self._sizes: dict[int, tuple[float, int]] = {}

    async def trim(self, keep: Retention, *, most: int, ends: int | None = None) -> int:
        """Remove the files of jobs beyond the limits, at most ``most`` of them, and return their number.

        They are removed in the order of their numbers. Folders that become empty are removed too, except those of jobs
        from ``ends`` on, where others may add files meanwhile.
        """
        if keep == Retention() or not self._disk.exists(self._folder):
            return 0
        numbers = sorted(int(name) for name in self._disk.names(self._folder) if name.isdigit())
        size = 0 if keep.size is None else await self._size(numbers)
        removed = 0
        for number in numbers:
            expired, whole = await self._expired(number, keep, size=size, most=most - removed)
            for start in range(0, len(expired), BATCH):
                await self._disk.remove_all([file.path for file in expired[start : start + BATCH]])
            removed += len(expired)
            size -= sum(file.size for file in expired)
            if not whole or removed >= most:
                break
            folder = f"{self._folder}/{number}"
            if (ends is None or (number + 1) * self._jobs_each <= ends) and not self._disk.names(folder):
                await self._disk.remove_tree(folder)
        return removed

    async def _expired(self, number: int, keep: Retention, *, size: int, most: int) -> tuple[list[File], bool]:
        """Return the files to remove in a folder, and whether these are all of its files."""
        now = self._runtime.clock.now()

        def read() -> tuple[list[File], bool]:
            paths = self._paths(number)
            expired = list(itertools.islice(surplus(map(self._file, paths), keep, size=size, now=now), most))
            return expired, len(expired) == len(paths)

        return await self._runtime.block(read)

    async def _size(self, numbers: Sequence[int]) -> int:
        """Return the size of all files; only folders that have changed are read."""
        for gone in self._sizes.keys() - set(numbers):
            del self._sizes[gone]
        return sum([await self._folder_size(number) for number in numbers])

    async def _folder_size(self, number: int) -> int:
        mtime = self._disk.status(f"{self._folder}/{number}").mtime
        known = self._sizes.get(number)
        if known is not None and known[0] == mtime:
            return known[1]
        size = await self._runtime.block(lambda: sum(self._file(path).size for path in self._paths(number)))
        if mtime < self._runtime.clock.now() - SETTLED_SECONDS:
            self._sizes[number] = mtime, size
        return size

    def _paths(self, number: int) -> list[str]:
        folder = f"{self._folder}/{number}"
        names = [name for name in self._disk.names(folder) if name.startswith("job-") and name[4:].isdigit()]
        return [f"{folder}/{name}" for name in sorted(names, key=lambda name: int(name[4:]))]

    def _file(self, path: str) -> File:
        status = self._disk.status(path)
        return File(path, -(-status.size // BLOCK) * BLOCK, status.mtime)
