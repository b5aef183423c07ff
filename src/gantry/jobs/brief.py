"""Jobs in one step: those of doors that wait for the answer, which ask and change nothing but the state.

A job of the queue is stored when it is taken in, when it runs, with what it changes, and when it has ended: so a crash
in between leaves nothing half done outside of the state, and nobody's job is forgotten. Where nothing is outside of the
state and nobody has the job's number yet, all that is one transaction in one turn of the loop: it is there as a whole
or not at all. ``jobs.queue`` tries it for ``run``; what cannot be done so goes the usual way (``run`` returns None).
"""

from collections.abc import Awaitable

import msgspec

from gantry import errors
from gantry.jobs import environment, hooks, locks, processor, records
from gantry.model import job as jobs
from gantry.model import opcodes
from gantry.operations import base
from gantry.state import snapshot as states


class Brief:
    """Runs units that are ``BRIEF``."""

    def __init__(
        self,
        book: records.Records,
        lock_manager: locks.LockManager,
        *,
        units: processor.Registry,
        services: environment.Services,
    ) -> None:
        self._book = book
        self._locks = lock_manager
        self._units = units
        self._services = services

    async def run(self, op: opcodes.AnyOpcode) -> jobs.Job | None:
        """Do an opcode as a job of its own and return the job when it is durable, failed or not.

        None when it has to go the usual way: it waits for others, for locks, or for what is not the state. Raises
        StorageError when nothing of it could be stored.
        """
        unit = self._units.get(type(op))
        if unit is None or not unit.BRIEF or op.dry_run or op.depends or self._services.database:
            return None
        now = self._book.now()
        step = jobs.Step(
            input=op, priority=op.priority, status=jobs.Status.RUNNING, start_timestamp=now, exec_timestamp=now
        )
        # Nobody else gets this number: it is stored in this turn of the loop.
        number = self._book.store.snapshot.last_job + 1
        job = jobs.Job(id=number, ops=(step,), received_timestamp=now, start_timestamp=now)
        record = records.Record(job, job)
        log = environment.JobLog(self._book, record, 0)
        stored = self._submitted(record, unit(op, environment.Environment(self._services, self._book.store, log)), log)
        if stored is None:
            return None
        await stored
        return record.newest

    def _submitted(
        self, record: records.Record, unit: processor.AnyUnit, log: environment.JobLog
    ) -> Awaitable[states.Snapshot] | None:
        """Submit a job with its changes, or failed without any; None: go the usual way."""
        store = self._book.store
        before = store.snapshot
        try:
            request = self._locks.try_acquire(record.newest.id, unit.locks(before))
            if request is None:
                return None
            try:
                plan = unit.plan(before, None)
                if not self._is_brief(plan, before, unit.op, log=log):
                    return None
                self._end(record, jobs.Status.SUCCESS, msgspec.to_builtins(plan.result()))
                rests = self._services.ledger.quarantine.changes(before, plan.changes)
                changes = [*plan.changes, *rests, states.Put(record.newest)]
                stored = store.submit(changes, records.cause(record.newest))
                processor.forget_locks(self._locks, request, plan.changes)
                return stored
            finally:
                self._locks.release(request)
        except errors.PrerequisiteError as error:
            self._end(record, jobs.Status.ERROR, processor.encode_error(error))
            return store.submit([states.Put(record.newest)], records.cause(record.newest))

    def _is_brief(
        self, plan: base.Plan, before: states.Snapshot, op: opcodes.AnyOpcode, *, log: environment.JobLog
    ) -> bool:
        """Tell whether a plan is nothing but its changes, and no scripts are asked about them."""
        if plan.steps or plan.after or plan.finish is not None or plan.jobs is not None:
            return False
        return not (plan.hooks and hooks.Runner(plan.hooks, op.op_id, services=self._services, log=log).asks(before))

    def _end(self, record: records.Record, status: jobs.Status, result: object) -> None:
        now = self._book.now()
        record.update(0, status=status, result=result, end_timestamp=now)
        record.newest = msgspec.structs.replace(record.newest, end_timestamp=now)
