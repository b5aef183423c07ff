"""The life of a job's opcodes, one after the other; ``execution`` executes them.

``jobs.queue`` runs ``Processor.run`` as the task of a job. For each opcode it commits these statuses:

    queued -> (waiting, when the locks are not free at once) -> running -> success | error | canceled

A job that need not wait for anything is ``running`` in the commit that accepts it (``try_begin``): one commit less.
``running`` is durable before anything is executed, so that a job that a crash interrupts is not run twice. The success
of an opcode is stored together with the next opcode's status. A failed opcode ends the job: the later opcodes get the
same status without running. Locks are held from before ``running`` until the opcode has ended. With its locks, and
before it is ``running``, the access rules are asked whether the job's submitter may still run it.
"""

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.jobs import environment, execution, lock_table, locks, records
from gantry.model import confidential, opcodes
from gantry.model import job as jobs
from gantry.operations.access import check as access_check
from gantry.runtime import request_ids, traces

logger = logging.getLogger(__name__)

Registry = Mapping[type[opcodes.Opcode], type[execution.AnyUnit]]
"""The unit of each opcode."""

CANCELED_RESULT = "Job canceled by request"


def encode_error(error: errors.GantryError) -> list[object]:
    """Return an error as the result of an opcode (contracts/jobs.md#end-of-a-job)."""
    return list(error.luxi_pair())


@dataclass(frozen=True)
class _Started:
    """An opcode as its unit, with its locks."""

    unit: execution.AnyUnit
    log: environment.JobLog
    request: lock_table.Request


@dataclass(frozen=True)
class Begun:
    """A job whose first opcode has its locks and is ``running`` in ``record``, which is neither stored nor visible."""

    record: records.Record
    first: _Started


class Processor:
    """Runs jobs."""

    def __init__(
        self, book: records.Records, lock_manager: locks.LockManager, *, units: Registry, services: environment.Services
    ) -> None:
        self._book = book
        self._locks = lock_manager
        self._units = units
        self._services = services

    def try_begin(self, job: jobs.Job) -> Begun | None:
        """Begin a job in this turn of the event loop, if the locks of its first opcode are free now.

        The caller stores it, then calls ``run``, or ``abandon`` if it could not be stored.
        """
        record = records.Record(job, job)
        with contextlib.suppress(Exception):  # which ends the job in the usual way
            unit, log = self._unit(record, 0)
            right = access_check.check(self._book.store.snapshot, job.submitter, unit.op)
            request = self._locks.try_acquire(job.id, unit.locks(self._book.store.snapshot))
            if request is not None:
                self._start(record, 0)
                self._mark_running(record, 0, right)
                return Begun(record, _Started(unit, log, request))
        return None

    def abandon(self, begun: Begun) -> None:
        """Release the locks of a job that could not be stored."""
        self._locks.release(begun.first.request)

    async def run(self, record: records.Record, *, begun: Begun | None = None) -> None:
        """Run a job, ``begun`` or not, to its end, unless it was canceled before its task began; raises nothing."""
        if record.current.status in jobs.FINAL:
            return
        number, request = record.current.id, record.current.request
        request_ids.CURRENT.set(request or request_ids.of_job(number))
        with traces.entry("job", {"gantry.job": number}, request=request, kind=traces.Kind.INTERNAL) as span:
            await self._run_opcodes(record, begun)
            if record.current.status is not jobs.Status.SUCCESS:
                span.fail(record.current.status)

    async def _run_opcodes(self, record: records.Record, begun: Begun | None) -> None:
        """Run the opcodes of a job one after the other, and store how it ended."""
        for index, step in enumerate(record.current.ops):
            try:
                with traces.part(step.input.op_id):
                    result = await self._run_opcode(record, index, begun.first if begun and index == 0 else None)
            except errors.GantryError as error:
                self._fail(record, index, error)
                break
            except Exception as error:
                # A bug in a unit ends its job, not the queue.
                failure = _of_own_system(error)
                if failure is None:
                    logger.exception("job %d, opcode %d", record.current.id, index)
                    failure = errors.InternalError(f"{type(error).__name__}: {error}")
                else:
                    logger.warning("job %d, opcode %d", record.current.id, index, exc_info=True)
                self._fail(record, index, failure)
                break
            record.update(index, status=jobs.Status.SUCCESS, result=result, end_timestamp=self._book.now())
        else:
            record.current = msgspec.structs.replace(record.current, end_timestamp=self._book.now())
        await self._book.save(record, index)

    def cancel(self, record: records.Record) -> None:
        """Wake a job that waits for locks, after its status was set to canceling."""
        if record.request is not None:
            self._locks.release(record.request)

    def change_priority(self, record: records.Record, priority: int) -> None:
        """Change the priority of a job that waits for locks."""
        self._locks.change_priority(record.current.id, priority)

    def _fail(self, record: records.Record, index: int, error: errors.GantryError) -> None:
        now = self._book.now()
        if record.current.ops[index].status is jobs.Status.CANCELING or record.killed:
            record.end(jobs.Status.CANCELED, CANCELED_RESULT, now)
            return
        record.update(index, status=jobs.Status.ERROR, result=encode_error(error), end_timestamp=now)
        record.end(jobs.Status.ERROR, encode_error(errors.ExecutionError("Preceding opcode failed")), now)

    async def _run_opcode(self, record: records.Record, index: int, started: _Started | None) -> object:
        is_stored = started is not None
        # The kill may have come when an earlier opcode had done its work.
        record.check_killed()
        if started is None:
            self._start(record, index)
            unit, log = self._unit(record, index)
            started = _Started(unit, log, await self._acquire(record, index, unit))
        try:
            # Its rights may have been taken away while it waited, and names may mean other objects by now.
            right = access_check.check(self._book.store.snapshot, record.current.submitter, started.unit.op)
            if not is_stored:
                self._mark_running(record, index, right)
                await self._book.commit(record, index)
            work = execution.Execution(
                self._book.store,
                self._services,
                locks=self._locks,
                request=started.request,
                log=started.log,
                submitter=record.current.submitter,
            )
            return await work.run(started.unit, cause=records.cause(record.current, index))
        finally:
            self._locks.release(started.request)

    def _start(self, record: records.Record, index: int) -> None:
        now = self._book.now()
        record.update(index, start_timestamp=now)
        if record.current.start_timestamp is None:
            record.current = msgspec.structs.replace(record.current, start_timestamp=now)

    def _mark_running(self, record: records.Record, index: int, right: str) -> None:
        record.update(index, status=jobs.Status.RUNNING, exec_timestamp=self._book.now(), right=right)

    def _unit(self, record: records.Record, index: int) -> tuple[execution.AnyUnit, environment.JobLog]:
        secrets = self._book.secrets.get((record.current.id, index))
        op = confidential.with_secrets(record.current.ops[index].input, secrets)
        unit_class = self._units.get(type(op))
        if unit_class is None:
            raise errors.InternalError(f"there is no logical unit for {op.op_id}")
        log = environment.JobLog(self._book, record, index)
        return unit_class(op, environment.Environment(self._services, self._book.store, log)), log

    async def _acquire(self, record: records.Record, index: int, unit: execution.AnyUnit) -> lock_table.Request:
        """Return the locks that the unit needs in the state after they were granted."""
        while True:
            needed = unit.locks(self._book.store.snapshot)
            step = record.current.ops[index]
            request = self._locks.ask(record.current.id, needed, priority=step.priority)
            try:
                if request.state is lock_table.State.WAITING:
                    await self._wait(record, index, request)
                if unit.locks(self._book.store.snapshot) == needed:
                    return request
            except BaseException:  # a job that is canceled while it waits leaves the queue of the lock
                self._locks.release(request)
                raise
            self._locks.release(request)

    async def _wait(self, record: records.Record, index: int, request: lock_table.Request) -> None:
        record.request = request
        try:
            if record.current.ops[index].status is not jobs.Status.WAITING:
                record.update(index, status=jobs.Status.WAITING)
                # Together with other jobs that begin to wait now: a waiting job must cost little.
                self._book.save_soon(record)
            with traces.part("wait for locks"):
                await self._locks.granted(request)
        finally:
            record.request = None
        if record.current.ops[index].status is jobs.Status.CANCELING:
            raise errors.JobCanceledError


def _of_own_system(error: Exception) -> errors.GantryError | None:
    """Return the report of an error that the master's operating system raised, None for a bug."""
    if not isinstance(error, OSError) or error.errno is None:
        return None
    path = f": {error.filename}" if error.filename else ""
    return errors.ExecutionError(f"the master's own machine failed: {error.strerror}{path}")
