"""Jobs in one step: jobs that a front end waits for, and that ask no node and change only the state.

The queue stores a job when it is accepted, when it runs, with its changes, and when it ends, so that after a crash
nothing outside of the state is half done and no job is forgotten. If nothing outside of the state is involved and no
client has the job's number yet, all of that is one transaction in one turn of the event loop: all of it is stored, or
nothing. ``jobs.queue`` tries it for ``run``; other jobs go the usual way (``run`` returns None).

While the master waits for candidates that do not answer (``state.candidates.replication``), no job can begin. A change
that ends the wait, because it gives one of them up, is such a transaction too (``give_up``).
"""

from collections.abc import Awaitable

import msgspec

from gantry import errors
from gantry.jobs import environment, execution, hooks, locks, processor, records
from gantry.model import access, opcodes
from gantry.model import job as jobs
from gantry.operations import base
from gantry.operations.access import check as access_check
from gantry.runtime import request_ids
from gantry.state.objects import snapshot as states


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

    async def run(self, op: opcodes.AnyOpcode, submitter: access.Subject | None) -> jobs.Job | None:
        """Run an opcode as a job of its own, and return the job when it is durable, failed or not.

        A submitter who may not run it gets a failed job. Returns None if it must go the usual way: it depends on jobs,
        waits for locks, or involves more than the state.
        Raises StorageError if nothing could be stored.
        """
        unit = self._units.get(type(op))
        if unit is None or not unit.BRIEF or op.dry_run or op.depends or self._services.database:
            return None
        record = self._begun(op, submitter)
        log = environment.JobLog(self._book, record, 0)
        stored = self._submitted(record, unit(op, environment.Environment(self._services, self._book.store, log)), log)
        if stored is None:
            return None
        await stored
        return record.current

    async def give_up(self, op: opcodes.AnyOpcode, submitter: access.Subject | None) -> jobs.Job | None:
        """Run an opcode that ends the master's wait for candidates, and return the job when it is acknowledged.

        Returns None for any other opcode; raises the errors of its check. Jobs that wait for the same candidates keep
        their locks until then, so none are taken: no job overwrites an object that has changed since it was read. Steps
        that command nodes are left out, and the job's log names them.
        """
        kind = self._units.get(type(op))
        if kind is None or op.dry_run or op.depends:
            return None
        store = self._book.store
        asking = kind(op, environment.Environment(self._services, store, environment.ReadLog()))
        if not asking.ends_wait():
            return None
        facts = await asking.inspect(store.snapshot)
        record = self._begun(op, submitter)
        log = environment.JobLog(self._book, record, 0)
        before = store.snapshot
        record.update(0, right=access_check.check(before, submitter, op))
        plan = kind(op, environment.Environment(self._services, store, log)).plan(before, facts)
        if not plan.changes:
            return None
        for step in (*plan.steps, *plan.after):
            if step.do:
                log.warning(f"left out, because too few master candidates answered: {step.text}")
            else:
                log.info(step.text)
        self._end(record, jobs.Status.SUCCESS, msgspec.to_builtins(plan.result()))
        await store.submit([*plan.changes, states.Put(record.current)], records.cause(record.current))
        return record.current

    def _begun(self, op: opcodes.AnyOpcode, submitter: access.Subject | None) -> records.Record:
        """Return a new job that runs; no other gets its number if it is stored in this turn of the event loop."""
        now = self._book.now()
        step = jobs.Step(
            input=op, priority=op.priority, status=jobs.Status.RUNNING, start_timestamp=now, exec_timestamp=now
        )
        number = self._book.store.snapshot.last_job + 1
        job = jobs.Job(
            id=number,
            ops=(step,),
            received_timestamp=now,
            start_timestamp=now,
            submitter=submitter,
            request=request_ids.CURRENT.get(),
        )
        return records.Record(job, job)

    def _submitted(
        self, record: records.Record, unit: execution.AnyUnit, log: environment.JobLog
    ) -> Awaitable[states.Snapshot] | None:
        """Submit a job with its changes, or failed without any; None: go the usual way."""
        store = self._book.store
        before = store.snapshot
        try:
            request = self._locks.try_acquire(record.current.id, unit.locks(before))
            if request is None:
                return None
            try:
                record.update(0, right=access_check.check(before, record.current.submitter, unit.op))
                plan = unit.plan(before, None)
                if not self._is_brief(plan, before, unit.op, log=log):
                    return None
                self._end(record, jobs.Status.SUCCESS, msgspec.to_builtins(plan.result()))
                quarantine_changes = self._services.ledger.quarantine.changes(before, plan.changes)
                changes = [*plan.changes, *quarantine_changes, states.Put(record.current)]
                stored = store.submit(changes, records.cause(record.current))
                execution.forget_locks(self._locks, request, plan.changes)
                return stored
            finally:
                self._locks.release(request)
        except errors.PrerequisiteError as error:
            self._end(record, jobs.Status.ERROR, processor.encode_error(error))
            return store.submit([states.Put(record.current)], records.cause(record.current))

    def _is_brief(
        self, plan: base.Plan, before: states.Snapshot, op: opcodes.AnyOpcode, *, log: environment.JobLog
    ) -> bool:
        """Return whether a plan consists of its changes alone, and no hook scripts run for it."""
        if plan.steps or plan.after or plan.finish is not None or plan.jobs is not None:
            return False
        return not (plan.hooks and hooks.Runner(plan.hooks, op.op_id, services=self._services, log=log).asks(before))

    def _end(self, record: records.Record, status: jobs.Status, result: object) -> None:
        now = self._book.now()
        record.update(0, status=status, result=result, end_timestamp=now)
        record.current = msgspec.structs.replace(record.current, end_timestamp=now)
