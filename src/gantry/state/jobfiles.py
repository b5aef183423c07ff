"""The job queue's files: one JSON file per job, written behind (contracts/cluster-design.md#queue-files).

    queue/job-N              a job that is not archived, exactly as in contracts/jobs.md#job-object
    queue/archive/K/job-N    an archived one, K = N div 10000; nobody reads it again by default
    queue/serial             the highest job number given out
    queue/version            the format of this folder
    queue/drain              there while the queue takes no new jobs
    queue/lock               held by the daemon that owns the queue (``transaction``)

What keeps a job safe is its record in the journal. A file shows only what is durable there, is replaced as a whole,
and is about ``DELAY`` seconds behind; so many changes of a job cost one write, and no sync at all. ``flush`` before a
checkpoint and ``sync`` after it make the files as safe as the journal. Only the archive is more than a view: once a
file is there, recovery looks for the job nowhere else. So its content is synced before it is moved. What a sync that
failed was to save is written again: the kernel takes it for written, and the next sync would leave it out.
"""

import asyncio
import hashlib
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from gantry.model import job
from gantry.runtime import interface
from gantry.state import frame, snapshot

logger = logging.getLogger(__name__)

DELAY = 1.0
"""Seconds between two rounds of writing."""

VERSION = b"1\n"
BATCH = 64
ARCHIVE_SIZE = 10_000

_DECODER = msgspec.json.Decoder(job.Job)
_DIGEST_LENGTH = 16


class JobFiles:
    """Writes the files of jobs that changed; ``durable`` returns the newest state that cannot be lost.

    ``filed`` are jobs as the files hold them that are on stable storage already.
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
        # held open from the beginning: if somebody else hears of a failure first, it is told here all the same
        self._file_system = runtime.disk.file_system(folder)
        self._durable = durable
        # what each job's file waits for: None its new content, a job the archive
        self._due: dict[int, job.Job | None] = {}
        self._leaving: dict[int, job.Job] = {}
        # What each file in the queue's folder holds, as far as that is known. One that is right is left alone: until
        # the next sync another in its place might be lost, and a job that is archived unchanged is nowhere else.
        self._written = dict(filed)
        self._unsynced: set[int] = set()
        self._serial = -1
        self._turn = asyncio.Lock()

    def mark(self, due: Mapping[int, job.Job | None]) -> None:
        """Note what became durable: jobs that changed (None), and jobs that go to the archive as they are given."""
        self._due.update(due)
        self._leaving.update({number: archived for number, archived in due.items() if archived})

    @property
    def leaving(self) -> Mapping[int, job.Job]:
        """Return a live view of the archived jobs whose files have not been moved yet."""
        return self._leaving

    async def run(self) -> None:
        """Write what is marked, round after round, until cancelled; a failure is logged and tried again."""
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
        """Write all that is marked; raises the first OSError, and what was not written stays marked."""
        async with self._turn:
            await self._write_serial()
            await self._show_drained()
            while self._due:
                batch = dict(itertools.islice(self._due.items(), BATCH))
                for number in batch:
                    del self._due[number]
                left = dict(batch)
                try:
                    await self._write_all(batch, left)
                finally:
                    for number, archived in left.items():
                        self._due.setdefault(number, archived)

    async def sync(self) -> None:
        """Bring all that was written to stable storage; raises OSError, and then all of it is due again."""
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
        """Let the file system go."""
        self._file_system.close()

    async def _write_all(self, batch: dict[int, job.Job | None], left: dict[int, job.Job | None]) -> None:
        """Write a batch, then move those that are archived; what is done goes out of ``left``."""
        failures = await self._write(archived or self._durable().jobs.get(str(n)) for n, archived in batch.items())
        written = [number for number in batch if number not in failures]
        archived = [number for number in written if batch[number]]
        for number in written:
            if not batch[number]:
                del left[number]
        if archived:
            await self._sync()
            await move_to_archive(self._disk, self._folder, archived)
        for number in archived:
            self._written.pop(number, None)
            del self._leaving[number], left[number]
        for error in failures.values():
            raise error

    async def _write(self, contents: Iterable[job.Job | None]) -> dict[int, OSError]:
        """Write the files of jobs that do not hold this yet; return what failed, by job."""
        due = {job_path(self._folder, one.id): one for one in contents if one and not self._is_written(one)}
        for one in due.values():
            self._written.pop(one.id, None)
            self._unsynced.add(one.id)
        failures = await self._disk.write_all({path: encode(one) for path, one in due.items()})
        self._written.update((one.id, one) for path, one in due.items() if path not in failures)
        return {due[path].id: error for path, error in failures.items()}

    def _is_written(self, one: job.Job) -> bool:
        return one is self._written.get(one.id) and self._disk.exists(job_path(self._folder, one.id))

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
            await self._disk.write(f"{self._folder}/serial", b"%d\n" % serial, sync=False)
            self._serial = serial


def job_path(folder: str, number: int) -> str:
    """Return the path of a job's file."""
    return f"{folder}/job-{number}"


def read(disk: interface.Disk, folder: str, number: int, *, expected: str | None = None) -> job.Job | str:
    """Read a job's file, or say why it cannot be taken; ``expected`` is the ``digest`` that it must have."""
    try:
        data = disk.read(job_path(folder, number))
        if expected is not None and digest(data) != expected:
            return "the file is not as it was written"
        found = _DECODER.decode(data)
    except OSError as error:
        return error.strerror or str(error)
    except frame.UNREADABLE as error:
        return str(error)
    return found if found.id == number else f"the file holds job {found.id}"


def encode(one: job.Job) -> bytes:
    """Return what a job's file holds."""
    return msgspec.json.encode(one)


def digest(data: bytes) -> str:
    """Return by what a change of a job's file is noticed."""
    return hashlib.sha256(data).hexdigest()[:_DIGEST_LENGTH]


def numbers(disk: interface.Disk, folder: str) -> set[int]:
    """Return the jobs that have a file."""
    names = [name.removeprefix("job-") for name in disk.names(folder) if name.startswith("job-")]
    return {int(name) for name in names if name.isdigit()}


async def move_to_archive(disk: interface.Disk, folder: str, moved: Collection[int]) -> None:
    """Move the files of jobs to the archive."""
    places = {number: f"{folder}/archive/{number // ARCHIVE_SIZE}" for number in moved}
    for place in sorted(set(places.values())):
        await disk.make_directory(place)
    await disk.rename({job_path(folder, number): f"{place}/job-{number}" for number, place in places.items()})


async def prepare(disk: interface.Disk, folder: str) -> None:
    """Make the queue's folder with its version file."""
    await disk.make_directory(folder)
    if not disk.exists(f"{folder}/version"):
        await disk.write(f"{folder}/version", VERSION)
