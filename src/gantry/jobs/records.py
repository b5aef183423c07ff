"""The queue's live jobs, and how they are written to the journal.

``jobs.queue`` adds and removes them, ``jobs.processor`` changes them. A record has a job twice: ``current`` is the job
with all decisions, ``durable`` the job that readers see. Every change except log messages is committed
(contracts/cluster-design.md#queue-files) and is visible only when it is durable, so a crash never reverts what a reader
has seen. A change that the store could not write, because the disk is full for example, is kept and written again, with
a growing back-off.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import structs

from gantry import errors
from gantry.jobs import lock_table
from gantry.model import base
from gantry.model import job as jobs
from gantry.runtime import interface
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

logger = logging.getLogger(__name__)

MIN_BACK_OFF_SECONDS = 0.5
MAX_BACK_OFF_SECONDS = 30.0
"""Limits of the time between attempts to store what a failing disk did not store."""

_QUEUE = transaction.Cause(reason="job queue")


class Store(Protocol):
    """The state (``state.store.transaction.Store``)."""

    @property
    def snapshot(self) -> states.Snapshot:
        """Return the current state; its last changes may not be acknowledged yet."""
        ...

    @property
    def durable(self) -> states.Snapshot:
        """Return the acknowledged state."""
        ...

    async def acknowledged(self, state: states.Snapshot) -> None:
        """Return when a state that was current is acknowledged; raises the errors of the awaitable of ``submit``."""
        ...

    def submit(self, changes: Sequence[states.Change], cause: transaction.Cause) -> Awaitable[states.Snapshot]:
        """Apply changes in this turn of the loop, or raise PrerequisiteError; the awaitable ends when they are durable.

        It raises StorageError if they could not be stored; then they are reverted.
        """
        ...


@dataclass(eq=False, slots=True)
class Record:
    """A live job; ``request`` is its request for locks while it waits for them.

    While it is ``stoppable``, a running job can be canceled: it checks by itself whether it was. A job that is
    ``killed`` ends at once while its task is ``killable``, otherwise when it is killable again. ``progress`` says how
    far its present work is, empty if that is not measured; it is never stored.
    """

    current: jobs.Job
    durable: jobs.Job
    changed: asyncio.Future[None] | None = None
    request: lock_table.Request | None = None
    stoppable: bool = False
    killed: bool = False
    killable: asyncio.Task[object] | None = None
    progress: str = ""

    def check_killed(self) -> None:
        """Raise JobCanceledError if the job was killed while it was not killable."""
        if self.killed:
            raise errors.JobCanceledError

    def kill(self) -> None:
        """End what the job does; a job that is doing nothing that can be ended does so later."""
        first, self.killed = not self.killed, True
        if self.killable and first:
            self.killable.cancel()

    def update(self, index: int, **fields: object) -> None:
        """Change one opcode's part of the job, not yet committed."""
        ops = list(self.current.ops)
        ops[index] = structs.replace(ops[index], **fields)
        self.current = structs.replace(self.current, ops=tuple(ops))

    def end(self, status: jobs.Status, result: object, now: jobs.Timestamp) -> None:
        """End every unfinished opcode, and the job, in the same way."""
        ops = tuple(
            step
            if step.status in jobs.FINAL
            else structs.replace(step, status=status, result=result, end_timestamp=now)
            for step in self.current.ops
        )
        self.current = structs.replace(self.current, ops=ops, end_timestamp=now)


def cause(job: jobs.Job, index: int = 0) -> transaction.Cause:
    """Return the cause of an opcode's changes for the journal.

    User and reason are from its reason trail. Somebody who may not do everything cannot write another user there.
    """
    op, submitter = job.ops[index].input, job.submitter
    named = op.reason[0][0] if op.reason else ""
    return transaction.Cause(
        job=job.id,
        opcode=op.op_id,
        user=named if submitter is None or submitter.is_admin else submitter.signature,
        reason="; ".join(text for _, text, _ in op.reason if text),
    )


def lost(number: int) -> errors.JobLostError:
    """Return the error for a job that is not in the queue."""
    return errors.JobLostError(f"no such job: {number}", hint="it was archived, or never existed")


class _View(Mapping[int, jobs.Job]):
    """The jobs by number, as readers see them, in the order of their numbers."""

    def __init__(self, records: Mapping[int, Record]) -> None:
        self._records = records

    def __getitem__(self, number: int) -> jobs.Job:
        return self._records[number].durable

    def __iter__(self) -> Iterator[int]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


class Records:
    """All live jobs, by number; ``on_end`` is called when the end of a job is durable.

    ``secrets`` are the parameters of opcodes that are never stored, by number of the job and index.
    """

    def __init__(self, store: Store, clock: interface.Clock) -> None:
        self.store = store
        self.clock = clock
        self._records: dict[int, Record] = {}
        # A dictionary, because it is ordered.
        self._unsaved: dict[Record, None] = {}
        self._saver: asyncio.Task[None] | None = None
        self.view: Mapping[int, jobs.Job] = _View(self._records)
        self.secrets: dict[tuple[int, int], base.Parameters] = {}
        self.on_end: Callable[[Record], None] = lambda record: None

    def now(self) -> jobs.Timestamp:
        """Return the time in the format of jobs."""
        return jobs.timestamp(self.clock.now())

    def find(self, number: int) -> Record:
        """Return a live job's record; raises JobLostError."""
        record = self._records.get(number)
        if record is None:
            raise lost(number)
        return record

    def get(self, number: int) -> Record | None:
        """Return a live job's record, or None."""
        return self._records.get(number)

    def finished(self) -> list[Record]:
        """Return the ended jobs, the oldest number first."""
        return [record for record in self._records.values() if record.durable.status in jobs.FINAL]

    def add(self, job: jobs.Job) -> Record:
        """Add a job that the store has."""
        record = Record(job, job)
        self.adopt(record)
        return record

    def adopt(self, record: Record) -> None:
        """Add a job that the store has as ``current``."""
        record.durable = record.current
        self._records[record.current.id] = record

    def drop(self, record: Record) -> None:
        """Forget a job."""
        del self._records[record.current.id]
        self._unsaved.pop(record, None)

    def log(self, record: Record, index: int, message: str) -> None:
        """Append a message to an opcode's log; readers see it at once, it is stored with the job's next change."""
        serial = 1 + sum(len(step.log) for step in record.current.ops)
        entry: jobs.LogEntry = (serial, self.now(), "message", message)
        record.update(index, log=(*record.current.ops[index].log, entry))
        self._show(record, record.durable)

    def show_progress(self, record: Record, text: str) -> None:
        """Show how far the present work of a job is; empty when that work has ended."""
        if record.progress != text:
            record.progress = text
            self._notify(record)

    async def commit(self, record: Record, index: int = 0) -> None:
        """Store ``current`` and make it visible; StorageError if it is not durable, with the change still in memory."""
        await self._commit([record], cause(record.current, index))

    async def save(self, record: Record, index: int = 0) -> bool:
        """Store ``current`` and make it visible; a failed record is stored later. Return whether it is stored."""
        return await self._save([record], cause(record.current, index))

    async def save_all(self, changed: Sequence[Record]) -> None:
        """Store ``current`` of several jobs in one transaction, as ``save`` does."""
        if changed:
            await self._save(changed, _QUEUE)

    def save_soon(self, record: Record) -> None:
        """Store ``current`` as ``save`` does, without waiting for it."""
        self._unsaved[record] = None
        if self._saver is None:
            self._saver = asyncio.create_task(self._save_later())

    async def _save(self, changed: Sequence[Record], why: transaction.Cause) -> bool:
        try:
            await self._commit(changed, why)
        except errors.GantryError as error:
            numbers = ", ".join(str(record.current.id) for record in changed)
            logger.warning("jobs that could not be stored, will be retried: %s: %s", numbers, error)
            for record in changed:
                self.save_soon(record)
            return False
        return True

    async def _commit(self, changed: Sequence[Record], why: transaction.Cause) -> None:
        tried = [(record, record.current) for record in changed]
        await self.store.submit([states.Put(job) for _, job in tried], why)
        for record, job in tried:
            if record.current is job:
                self._unsaved.pop(record, None)
            self._show(record, job)

    async def wait(self, record: Record) -> None:
        """Return at the next visible change."""
        if record.changed is None:
            record.changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(record.changed)

    async def close(self) -> None:
        """Stop retrying to store failed changes."""
        if self._saver is not None:
            self._saver.cancel()
            await asyncio.gather(self._saver, return_exceptions=True)

    def _show(self, record: Record, durable: jobs.Job) -> None:
        """Make a stored job visible, with all of its log."""
        ended = record.durable.end_timestamp is None and durable.end_timestamp is not None
        record.durable = _with_log(durable, record.current)
        self._notify(record)
        if ended:
            record.progress = ""
            for index in range(len(durable.ops)):
                self.secrets.pop((durable.id, index), None)
            self.on_end(record)

    def _notify(self, record: Record) -> None:
        """Wake the clients that wait for a change of a job."""
        if record.changed is not None:
            record.changed.set_result(None)
            record.changed = None

    async def _save_later(self) -> None:
        back_off_seconds = 0.0
        try:
            while self._unsaved:
                await self.clock.sleep(back_off_seconds)
                saved = await self._save([*self._unsaved], _QUEUE)
                back_off_seconds = (
                    0.0 if saved else min(max(MIN_BACK_OFF_SECONDS, 2 * back_off_seconds), MAX_BACK_OFF_SECONDS)
                )
        finally:
            self._saver = None


def _with_log(job: jobs.Job, current: jobs.Job) -> jobs.Job:
    """Return a job with its current log."""
    if job is current:
        return job
    pairs = zip(job.ops, current.ops, strict=True)
    steps = (old if old.log is new.log else structs.replace(old, log=new.log) for old, new in pairs)
    return structs.replace(job, ops=tuple(steps))


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
    """Return a job's values and new log entries once they differ; None if ``timeout`` seconds passed without.

    New entries have a number above ``serial``. An ended job answers at once (contracts/jobs.md#waiting-for-a-change).
    Raises JobLostError if there is no such job.
    """
    record = records.find(number)
    try:
        async with asyncio.timeout(timeout):
            while True:
                job = record.durable
                current = values(job)
                entries = [entry for step in job.ops for entry in step.log if entry[0] > (serial or 0)]
                if entries or current != previous or job.status in jobs.FINAL:
                    return current, entries
                await records.wait(record)
    except TimeoutError:
        return None
