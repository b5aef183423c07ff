"""The archive of jobs: those that left the queue, read by number when somebody asks for them.

The queue asks for dependencies, queries for what a user names. A job is here from the moment in which the queue has it
no more, though its file is moved later (``jobfiles``). Archived jobs are no part of the state: they come to a master
candidate by the records that archive them, and the newest of them with a copy of the whole state (``copies``).

See contracts/cluster-design.md#history.
"""

import heapq
from collections.abc import Iterator, Mapping

from gantry.model import job as jobs
from gantry.runtime import interface
from gantry.state import jobfiles


class Archive:
    """The archived jobs; ``leaving`` are those whose files have not been moved yet (``transaction.Store``)."""

    def __init__(self, disk: interface.Disk, queue: str, leaving: Mapping[int, jobs.Job]) -> None:
        self._disk = disk
        self._folder = f"{queue}/archive"
        self._leaving = leaving

    def job(self, number: int) -> jobs.Job | None:
        """Return an archived job; None when there is none, or its file cannot be read."""
        if number in self._leaving:
            return self._leaving[number]
        found = jobfiles.read(self._disk, f"{self._folder}/{number // jobfiles.ARCHIVE_SIZE}", number)
        return found if isinstance(found, jobs.Job) else None

    def numbers(self) -> set[int]:
        """Return the numbers of all archived jobs."""
        names = self._disk.names(self._folder) if self._disk.exists(self._folder) else []
        return self._leaving.keys() | {
            number for name in names for number in jobfiles.numbers(self._disk, f"{self._folder}/{name}")
        }

    def newest(self, count: int) -> Iterator[jobs.Job]:
        """Yield archived jobs that can be read, of the ``count`` highest numbers; older folders are not listed."""
        found = set(self._leaving)
        names = self._disk.names(self._folder) if self._disk.exists(self._folder) else []
        for name in sorted((name for name in names if name.isdigit()), key=int, reverse=True):
            found |= jobfiles.numbers(self._disk, f"{self._folder}/{name}")
            if len(found) >= count:
                break
        for number in heapq.nlargest(count, found):
            if one := self.job(number):
                yield one
