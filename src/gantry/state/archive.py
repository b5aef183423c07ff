"""The archive of jobs: those that left the queue, read by number when somebody asks for them (seed "History").

The queue asks for dependencies, queries for what a user names. A job is here from the moment in which the queue has it
no more, though its file is moved later (``jobfiles``).
"""

from collections.abc import Mapping

from gantry.model import job
from gantry.runtime import interface
from gantry.state import jobfiles


class Archive:
    """The archived jobs; ``leaving`` are those whose files have not been moved yet (``transaction.Store``)."""

    def __init__(self, disk: interface.Disk, queue: str, leaving: Mapping[int, job.Job]) -> None:
        self._disk = disk
        self._folder = f"{queue}/archive"
        self._leaving = leaving

    def job(self, number: int) -> job.Job | None:
        """Return an archived job; None when there is none, or its file cannot be read."""
        if number in self._leaving:
            return self._leaving[number]
        found = jobfiles.read(self._disk, f"{self._folder}/{number // jobfiles.ARCHIVE_SIZE}", number)
        return found if isinstance(found, job.Job) else None

    def numbers(self) -> set[int]:
        """Return the numbers of all archived jobs."""
        names = self._disk.names(self._folder) if self._disk.exists(self._folder) else []
        return self._leaving.keys() | {
            number for name in names for number in jobfiles.numbers(self._disk, f"{self._folder}/{name}")
        }
