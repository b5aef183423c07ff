"""The job queue's files: one JSON file per job, written behind (contracts/cluster-design.md#queue-files).

    queue/job-N              a job that is not archived, exactly as in contracts/jobs.md#job-object
    queue/archive/K/job-N    an archived job, K = N div 10000; read only on request
    queue/serial             the highest job number assigned
    queue/version            the format of this folder
    queue/drain              exists while the queue accepts no new jobs
    queue/lock               held by the daemon that owns the queue (``store.transaction``)

The record in the journal makes a job durable. A file has only durable content, is replaced as a whole, and is about
``DELAY`` seconds behind; so several changes of a job cost one write, and no sync at all. ``flush`` before a
checkpoint and ``sync`` after it make the files as durable as the journal. Only the archive is more than a copy: once a
file is there, recovery looks for the job nowhere else. So its content is synced before it is moved. After a failed sync
its files are written again: the kernel regards them as written, and the next sync would skip them.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from gantry.lib_files import frame, queue
from gantry.model import job
from gantry.runtime import interface
from gantry.state.objects import snapshot

logger = logging.getLogger(__name__)

DELAY = 1.0
"""Seconds between two rounds of writing."""

VERSION = b"1\n"
BATCH = 64

_DECODER = msgspec.json.Decoder(job.Job)


class JobFiles:
    """Writes the files of jobs that changed; ``durable`` returns the durable state.

    ``filed`` are the jobs whose files are on stable storage already, as the files have them.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        folder: str,
        *,
        durable: Callable[[], snapshot.Snapshot],
        filed: Mapping[int, job.Job],
    ) -> None:
        self._disk = runtime.disk
        self._clock = runtime.clock
        self._folder = folder
        # Open from the beginning: a failure is reported to each open descriptor, even if another process saw it first.
        self._file_system = runtime.disk.file_system(folder)
        self._durable = durable
        # The pending work for each job's file: None means new content, a job means the move to the archive.
        self._due: dict[int, job.Job | None] = {}
        self._leaving: dict[int, job.Job] = {}
        # The known content of each file in the queue's folder. A correct file is not rewritten: until the next sync a
        # power failure might lose the new file, and an unchanged archived job exists nowhere else.
        self._written = dict(filed)
        self._unsynced: set[int] = set()
        self._serial = -1
        self._turn = asyncio.Lock()

    def mark(self, due: Mapping[int, job.Job | None]) -> None:
        """Note jobs that became durable: changed jobs (None), and jobs to archive, with the content to store."""
        self._due.update(due)
        self._leaving.update({number: archived for number, archived in due.items() if archived})

    @property
    def leaving(self) -> Mapping[int, job.Job]:
        """Return a live view of the archived jobs whose files have not been moved yet."""
        return self._leaving

    async def run(self) -> None:
        """Write the marked jobs every ``DELAY`` seconds until cancelled; a failure is logged and retried."""
        failing = False
        while True:
            await self._clock.sleep(DELAY)
            try:
                await self.flush()
                failing = False
            except OSError as error:
                if not failing:
                    logger.error("job files cannot be written, the journal holds their content: %s", error)
                failing = True

    async def flush(self) -> None:
        """Write the jobs that are marked now; raises the first OSError, and unwritten jobs stay marked.

        Jobs that are marked during the call are left for the next one, because under load there would be no end.
        """
        async with self._turn:
            await self._write_serial()
            await self._show_drained()
            remaining = len(self._due)
            while remaining > 0 and self._due:
                batch = dict(itertools.islice(self._due.items(), min(BATCH, remaining)))
                remaining -= len(batch)
                for number in batch:
                    del self._due[number]
                unwritten = dict(batch)
                try:
                    await self._write_all(batch, unwritten)
                finally:
                    for number, archived in unwritten.items():
                        self._due.setdefault(number, archived)

    async def sync(self) -> None:
        """Sync all written files to stable storage; raises OSError, and then all of them are due again."""
        async with self._turn:
            await self._sync()

    async def _sync(self) -> None:
        try:
            await self._file_system.sync()
        except OSError:
            for number in self._unsynced:
                self._written.pop(number, None)
                self._due.setdefault(number, self._leaving.get(number))
            self._serial = -1
            self._unsynced.clear()
            raise
        self._unsynced.clear()

    def close(self) -> None:
        """Close the handle of the file system."""
        self._file_system.close()

    async def _write_all(self, batch: dict[int, job.Job | None], unwritten: dict[int, job.Job | None]) -> None:
        """Write a batch, then move archived jobs; finished jobs are removed from ``unwritten``."""
        failures = await self._write(archived or self._durable().jobs.get(str(n)) for n, archived in batch.items())
        written = [number for number in batch if number not in failures]
        archived = [number for number in written if batch[number]]
        for number in written:
            if not batch[number]:
                del unwritten[number]
        if archived:
            await self._sync()
            await move_to_archive(self._disk, self._folder, archived)
        for number in archived:
            self._written.pop(number, None)
            del self._leaving[number], unwritten[number]
        for error in failures.values():
            raise error

    async def _write(self, contents: Iterable[job.Job | None]) -> dict[int, OSError]:
        """Write the files that do not have this content yet; return the errors by job number."""
        due = {
            queue.path(self._folder, queued_job.id): queued_job
            for queued_job in contents
            if queued_job and not self._is_written(queued_job)
        }
        for queued_job in due.values():
            self._written.pop(queued_job.id, None)
            self._unsynced.add(queued_job.id)
        failures = await self._disk.write_all({path: encode(queued_job) for path, queued_job in due.items()})
        self._written.update((queued_job.id, queued_job) for path, queued_job in due.items() if path not in failures)
        return {due[path].id: error for path, error in failures.items()}

    def _is_written(self, queued_job: job.Job) -> bool:
        return queued_job is self._written.get(queued_job.id) and self._disk.exists(
            queue.path(self._folder, queued_job.id)
        )

    async def _show_drained(self) -> None:
        owner = self._durable().cluster
        drained = owner is not None and owner.queue_drained
        path = f"{self._folder}/drain"
        if drained and not self._disk.exists(path):
            await self._disk.write(path, b"", sync=False)
        elif not drained and self._disk.exists(path):
            await self._disk.remove(path)

    async def _write_serial(self) -> None:
        serial = self._durable().last_job
        if serial != self._serial:
            await self._disk.write(f"{self._folder}/serial", queue.encode_serial(serial), sync=False)
            self._serial = serial


def read(disk: interface.Disk, folder: str, number: int, *, expected: str | None = None) -> job.Job | str:
    """Return the job in a file, or why the file cannot be used; ``expected`` is the ``digest`` that it must have."""
    try:
        data = disk.read(queue.path(folder, number))
        if expected is not None and queue.digest(data) != expected:
            return "the file does not match its digest in the checkpoint"
        stored_job = _DECODER.decode(data)
    except OSError as error:
        return error.strerror or str(error)
    except frame.UNREADABLE as error:
        return str(error)
    return stored_job if stored_job.id == number else f"the file holds job {stored_job.id}"


def encode(queued_job: job.Job) -> bytes:
    """Return the content of a job's file."""
    return msgspec.json.encode(queued_job)


def numbers(disk: interface.Disk, folder: str) -> set[int]:
    """Return the numbers of the jobs that have a file."""
    return queue.numbers(disk.names(folder))


async def move_to_archive(disk: interface.Disk, folder: str, job_numbers: Collection[int]) -> None:
    """Move the files of jobs to the archive."""
    archive_folders = {number: queue.archive_folder(f"{folder}/archive", number) for number in job_numbers}
    for archive_folder in sorted(set(archive_folders.values())):
        await disk.make_directory(archive_folder)
    await disk.rename(
        {
            queue.path(folder, number): queue.path(archive_folder, number)
            for number, archive_folder in archive_folders.items()
        }
    )


async def prepare(disk: interface.Disk, folder: str) -> None:
    """Make the queue's folder with its version file."""
    await disk.make_directory(folder)
    if not disk.exists(f"{folder}/version"):
        await disk.write(f"{folder}/version", VERSION)
