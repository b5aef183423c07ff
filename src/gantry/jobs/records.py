"""The queue's live jobs and their way into the journal.

``jobs.queue`` adds and removes them, ``jobs.processor`` moves them on. A record holds a job twice: ``newest`` is what
was decided, ``shown`` what readers see. Every change but log messages is committed (seed "Queue structure") and
shown when the commit has ended. A commit that fails, on a full disk for one, is shown all the same and kept: it is
tried again, with growing pauses, until it is durable. So memory is ahead of the journal by log messages and by what a
failing disk did not take, and no job is lost.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import structs

from gantry import errors
from gantry.jobs import lock_table
from gantry.model import job as jobs
from gantry.runtime import interface
from gantry.state import snapshot as states
from gantry.state import transaction

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds between attempts to store what a failing disk did not take."""


class Store(Protocol):
    """The state (``state.transaction.Store``)."""

    @property
    def snapshot(self) -> states.Snapshot:
        """Return the newest state."""
        ...

    def submit(self, changes: Sequence[states.Change], cause: transaction.Cause) -> Awaitable[states.Snapshot]:
        """Apply changes in this turn of the loop, or raise PrerequisiteError; the awaitable ends when they are durable.

        It raises StorageError when they could not be stored; then they were taken back.
        """
        ...


@dataclass(eq=False, slots=True)
class Record:
    """A live job; ``commits`` counts those under way, ``request`` is what it waits for while it waits for locks."""

    newest: jobs.Job
    shown: jobs.Job
    commits: int = 0
    changed: asyncio.Future[None] | None = None
    request: lock_table.Request | None = None

    def update(self, index: int, **fields: object) -> None:
        """Change one opcode's part of the job, not yet committed."""
        ops = list(self.newest.ops)
        ops[index] = structs.replace(ops[index], **fields)
        self.newest = structs.replace(self.newest, ops=tuple(ops))

    def end(self, status: jobs.Status, result: object, now: jobs.Timestamp) -> None:
        """Give every opcode that has not ended, and the job, the same end."""
        ops = tuple(
            step
            if step.status in jobs.FINAL
            else structs.replace(step, status=status, result=result, end_timestamp=now)
            for step in self.newest.ops
        )
        self.newest = structs.replace(self.newest, ops=ops, end_timestamp=now)


def cause(job: jobs.Job, index: int = 0) -> transaction.Cause:
    """Return what stands in the journal with the changes of an opcode: who asked and why are its reason trail."""
    op = job.ops[index].input
    return transaction.Cause(
        job=job.id,
        opcode=op.op_id,
        user=op.reason[0][0] if op.reason else "",
        reason="; ".join(text for _, text, _ in op.reason if text),
    )


class _View(Mapping[int, jobs.Job]):
    """The jobs by number, as they are shown, in the order of their numbers."""

    def __init__(self, records: Mapping[int, Record]) -> None:
        self._records = records

    def __getitem__(self, number: int) -> jobs.Job:
        return self._records[number].shown

    def __iter__(self) -> Iterator[int]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


class Records:
    """All live jobs, by number."""

    def __init__(self, store: Store, clock: interface.Clock) -> None:
        self.store = store
        self.clock = clock
        self._records: dict[int, Record] = {}
        # A dictionary, for its order.
        self._unsaved: dict[Record, None] = {}
        self._saver: asyncio.Task[None] | None = None
        self.view: Mapping[int, jobs.Job] = _View(self._records)

    def now(self) -> jobs.Timestamp:
        """Return the time as jobs hold it."""
        return jobs.timestamp(self.clock.now())

    def find(self, number: int) -> Record:
        """Return a live job's record; JobLostError."""
        record = self._records.get(number)
        if record is None:
            raise errors.JobLostError(f"no such job: {number}", hint="it was archived, or there never was one")
        return record

    def get(self, number: int) -> Record | None:
        """Return a live job's record or None."""
        return self._records.get(number)

    def finished(self) -> list[Record]:
        """Return the jobs that have ended, the oldest number first."""
        return [record for record in self._records.values() if record.shown.status in jobs.FINAL]

    def add(self, job: jobs.Job) -> Record:
        """Take a job in that the store has."""
        record = self._records[job.id] = Record(job, job)
        return record

    def drop(self, record: Record) -> None:
        """Forget a job."""
        del self._records[record.newest.id]
        self._unsaved.pop(record, None)

    def log(self, record: Record, index: int, message: str) -> None:
        """Append a message to an opcode's log; it is stored with the job's next change."""
        serial = 1 + sum(len(step.log) for step in record.newest.ops)
        entry: jobs.LogEntry = (serial, self.now(), "message", message)
        record.update(index, log=(*record.newest.ops[index].log, entry))
        self._show(record)

    async def commit(self, record: Record, index: int = 0) -> None:
        """Store ``newest``; StorageError when it is not durable, with the change still in memory."""
        record.commits += 1
        try:
            await self.store.submit([states.Put(record.newest)], cause(record.newest, index))
        finally:
            record.commits -= 1
            self._show(record)

    async def save(self, record: Record, index: int = 0) -> None:
        """Store ``newest``; when that fails the record is kept and stored later."""
        try:
            await self.commit(record, index)
        except errors.GantryError as error:
            logger.warning("job %d could not be stored and will be tried again: %s", record.newest.id, error)
            self._keep([record])
        else:
            self._unsaved.pop(record, None)

    async def save_all(self, changed: Sequence[Record]) -> None:
        """Store ``newest`` of several jobs in one transaction, as ``save`` does."""
        if not changed:
            return
        tried = [(record, record.newest) for record in changed]
        for record in changed:
            record.commits += 1
        try:
            late = transaction.Cause(job=0, opcode="", user="", reason="job queue")
            await self.store.submit([states.Put(job) for _, job in tried], late)
        except errors.GantryError as error:
            logger.warning("%d jobs could not be stored and will be tried again: %s", len(tried), error)
            self._keep(changed)
        else:
            for record, job in tried:
                if record.newest is job:
                    self._unsaved.pop(record, None)
        finally:
            for record in changed:
                record.commits -= 1
                self._show(record)

    async def wait(self, record: Record) -> None:
        """Return at the next change of what is shown."""
        if record.changed is None:
            record.changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(record.changed)

    async def close(self) -> None:
        """Stop trying to store what could not be stored."""
        if self._saver is not None:
            self._saver.cancel()
            await asyncio.gather(self._saver, return_exceptions=True)

    def _show(self, record: Record) -> None:
        # Commits end in the order of their begin: the last one shows all that the ones before it decided.
        if record.commits:
            return
        record.shown = record.newest
        if record.changed is not None:
            record.changed.set_result(None)
            record.changed = None

    def _keep(self, failed: Iterable[Record]) -> None:
        self._unsaved.update(dict.fromkeys(failed))
        if self._saver is None:
            self._saver = asyncio.create_task(self._save_later())

    async def _save_later(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._unsaved:
                await self.clock.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                await self.save_all([*self._unsaved])
        finally:
            self._saver = None


Values = Callable[[jobs.Job], list[object]]


async def wait_for_change(
    records: Records,
    number: int,
    values: Values,
    *,
    previous: list[object] | None,
    serial: int | None,
    timeout: float,
) -> tuple[list[object], list[jobs.LogEntry]] | None:
    """Return a job's values and new log entries once they differ; None when ``timeout`` seconds passed without.

    New are entries with a number above ``serial``. A job that has ended answers at once (contract:
    WaitForJobChange). JobLostError when there is no such job.
    """
    record = records.find(number)
    try:
        async with asyncio.timeout(timeout):
            while True:
                job = record.shown
                current = values(job)
                entries = [entry for step in job.ops for entry in step.log if entry[0] > (serial or 0)]
                if entries or current != previous or job.status in jobs.FINAL:
                    return current, entries
                await records.wait(record)
    except TimeoutError:
        return None
