"""The archive: jobs that have left the queue, read by job number on request.

The queue looks up dependencies here, queries look up the jobs that a user names. A job is in the archive as soon as it
has left the queue, though its file is moved later (``jobfiles``). The state does not contain archived jobs: a master
candidate receives them by the records that archive them, and the newest also with the whole state
(``candidates.copies``).

See contracts/cluster-design.md#history.
"""

import heapq
from collections.abc import Iterator, Mapping

from gantry.lib_files import queue as queue_file
from gantry.model import job as jobs
from gantry.runtime import interface
from gantry.state.files import jobfiles


class Archive:
    """The archived jobs; ``leaving`` are those whose files have not been moved yet (``store.transaction.Store``)."""

    def __init__(self, disk: interface.Disk, queue: str, leaving: Mapping[int, jobs.Job]) -> None:
        self._disk = disk
        self._folder = f"{queue}/archive"
        self._leaving = leaving

    def job(self, number: int) -> jobs.Job | None:
        """Return an archived job; None if it does not exist or its file cannot be read."""
        if number in self._leaving:
            return self._leaving[number]
        archived_job = jobfiles.read(self._disk, queue_file.archive_folder(self._folder, number), number)
        return archived_job if isinstance(archived_job, jobs.Job) else None

    def numbers(self) -> set[int]:
        """Return the numbers of all archived jobs."""
        names = self._disk.names(self._folder) if self._disk.exists(self._folder) else []
        return self._leaving.keys() | {
            number for name in names for number in jobfiles.numbers(self._disk, f"{self._folder}/{name}")
        }

    def newest(self, count: int) -> Iterator[jobs.Job]:
        """Yield archived jobs that can be read, of the ``count`` highest numbers; older folders are not listed."""
        archived_numbers = set(self._leaving)
        names = self._disk.names(self._folder) if self._disk.exists(self._folder) else []
        for name in sorted((name for name in names if name.isdigit()), key=int, reverse=True):
            archived_numbers |= jobfiles.numbers(self._disk, f"{self._folder}/{name}")
            if len(archived_numbers) >= count:
                break
        for number in heapq.nlargest(count, archived_numbers):
            if archived_job := self.job(number):
                yield archived_job
