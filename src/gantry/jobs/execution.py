"""The execution of an opcode while its locks are held, in the phases of ``operations.base``; ``processor`` calls it.

A plan's changes are stored, its steps done, then its last changes stored. After a failure the done steps are undone,
and the changes reverted if all of that worked.
"""

import logging
from collections.abc import Iterable, Sequence

import msgspec

from gantry import errors
from gantry.ipam import shared
from gantry.jobs import environment, hooks, lock_modes, lock_table, locks, records
from gantry.model import access, lock, opcodes
from gantry.operations import base
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

logger = logging.getLogger(__name__)

AnyUnit = base.Unit[opcodes.AnyOpcode, object]

_LEVELS = {
    "instances": lock.Level.INSTANCE,
    "disks": lock.Level.INSTANCE,
    "nodegroups": lock.Level.GROUP,
    "nodes": lock.Level.NODE,
    "networks": lock.Level.NETWORK,
}


def _inherit(op: opcodes.AnyOpcode, parent: opcodes.AnyOpcode) -> opcodes.AnyOpcode:
    """Return an opcode that ``parent`` submits, with the values that it has from it."""
    return msgspec.structs.replace(
        op,
        reason=op.reason or parent.reason,
        priority=op.priority or parent.priority,
        comment=op.comment or f"Submitted by {parent.op_id}",
    )


class Execution:
    """One opcode while its locks are held."""

    def __init__(
        self,
        store: records.Store,
        services: environment.Services,
        *,
        locks: locks.LockManager,
        request: lock_table.Request,
        log: environment.JobLog,
        submitter: access.Subject | None = None,
    ) -> None:
        """Execute an opcode; the jobs that it submits are its submitter's too."""
        self._submitter = submitter
        self._store = store
        self._services = services
        self._locks = locks
        self._request = request
        self._log = log

    async def run(self, unit: AnyUnit, *, cause: transaction.Cause) -> object:
        """Execute a unit, and return its result for clients; raises the errors of its phases."""
        with self._log.killable():
            facts = await unit.inspect(self._store.snapshot)
        ledger, database = self._services.ledger, self._services.database
        before, plan = await self._planned(unit, facts, cause.job) if database else self._plan(unit, facts)
        if unit.op.dry_run:
            before.apply(plan.changes, serial=before.serial + 1)
            return list(plan.lines)
        ledger.hold(cause.job, before, changes=plan.changes)
        try:
            if database:
                before, plan = await self._secure(database, unit, facts, first=(before, plan), cause=cause)
            await self._carry_out(plan, before, cause=cause)
        finally:
            ledger.release(cause.job)
            if now := self._services.database:
                now.done(cause.job)
        result: object = msgspec.to_builtins(plan.result())
        return result if plan.jobs is None else await self._submit_jobs(plan.jobs, result, parent=unit.op)

    def _plan(self, unit: AnyUnit, facts: object) -> tuple[states.Snapshot, base.Plan]:
        return self._store.snapshot, unit.plan(self._store.snapshot, facts)

    async def _planned(self, unit: AnyUnit, facts: object, job: int) -> tuple[states.Snapshot, base.Plan]:
        """Plan; if there is no free address, look for released ones that the database still keeps."""
        while True:
            try:
                return self._plan(unit, facts)
            except errors.NoRoomError:
                database = self._services.database
                if database is None or not await database.forget_released(job):
                    raise

    async def _secure(
        self,
        database: shared.Shared,
        unit: AnyUnit,
        facts: object,
        *,
        first: tuple[states.Snapshot, base.Plan],
        cause: transaction.Cause,
    ) -> tuple[states.Snapshot, base.Plan]:
        """Return a plan whose addresses the database has allocated to this cluster, and the plan's snapshot."""
        ledger, (before, plan) = self._services.ledger, first
        for attempt in range(shared.ATTEMPTS):
            if await database.secure(cause.job, before, plan.changes, attempt=attempt):
                self._check_unmoved(plan.changes, before, cause=cause)
                return before, plan
            ledger.release(cause.job)
            before, plan = await self._planned(unit, facts, cause.job)
            ledger.hold(cause.job, before, changes=plan.changes)
        raise database.conflict_error()

    async def _submit_jobs(
        self, jobs: Sequence[Sequence[opcodes.AnyOpcode]], more: object, *, parent: opcodes.AnyOpcode
    ) -> dict[str, object]:
        """Submit the jobs of the unit of ``parent``; return what clients expect of such a unit.

        See contracts/jobs.md#jobs-that-submit-jobs.
        """
        inherited = [[_inherit(op, parent) for op in job] for job in jobs]
        answers = await self._services.submit(inherited, self._submitter) if jobs else []
        answers_for_clients: object = [
            [False, str(answer)] if isinstance(answer, errors.GantryError) else [True, answer] for answer in answers
        ]
        return {"jobs": answers_for_clients} | (more if isinstance(more, dict) else {})

    async def _carry_out(self, plan: base.Plan, before: states.Snapshot, *, cause: transaction.Cause) -> None:
        """Carry out the plan, with the hooks around it.

        Nodes get commands that follow from acknowledged changes alone. The changes of a plan are acknowledged after
        those that it is based on. Without changes, and before hooks, the job waits until those are acknowledged.
        """
        runner = plan.hooks and hooks.Runner(plan.hooks, cause.opcode, services=self._services, log=self._log)
        if (runner and runner.asks(before)) or (not plan.changes and (plan.steps or plan.after)):
            with self._log.killable():
                await self._store.acknowledged(before)
        if runner:
            with self._log.killable():
                await runner.before(before)
            self._check_unmoved(plan.changes, before, cause=cause)
        await self._submit(plan.changes, cause)
        finished = await self._work(plan, before, cause=cause)
        remaining = list(plan.after)
        try:
            with self._log.killable():
                if runner:
                    await runner.after(self._store.snapshot, leaving=True)
                while remaining:
                    self._log.info(remaining[0].text)
                    await self._perform(remaining[0].do)
                    del remaining[0]
                if runner:
                    await runner.after(self._store.snapshot)
        except errors.JobCanceledError:
            for step in remaining:
                self._log.warning(f"the job was canceled, and this may not be done: {step.text}")
            raise
        finally:
            forget_locks(self._locks, self._request, [*plan.changes, *finished])

    def _check_unmoved(
        self, changes: Sequence[states.Change], before: states.Snapshot, *, cause: transaction.Cause
    ) -> None:
        """Refuse to overwrite objects that changed while the hooks ran; locks should have prevented that."""
        now = self._store.snapshot
        for change in changes:
            if now.get(change.kind, change.key) != before.get(change.kind, change.key):
                raise errors.WrongStateError(
                    f"{change.kind} {change.key} was changed by another job before {cause.opcode} could change it",
                    hint="submit the job again",
                )

    async def _work(
        self, plan: base.Plan, before: states.Snapshot, *, cause: transaction.Cause
    ) -> Sequence[states.Change]:
        """Run the steps and return the last changes; if a step fails, undo everything."""
        done: list[base.Step] = []
        try:
            for step in plan.steps:
                done.append(step)
                self._log.info(step.text)
                await self._submit(step.changes, cause)
                with self._log.killable():
                    await self._perform(step.do)
            if plan.finish is None:
                return ()
            finished = plan.finish(self._store.snapshot)
            await self._submit(finished, cause)
        except Exception as error:  # a bug in a unit is undone like any failure, and raised again
            if isinstance(error, errors.JobCanceledError):
                self._report_kill(done, keeps=plan.keep_on_failure)
            if not plan.keep_on_failure and await self._undo(done, cause):
                changes = [*plan.changes, *(change for step in done for change in step.changes)]
                await self._revert(inverse(changes, before), cause)
            elif isinstance(error, errors.PrerequisiteError):
                # Its class promises that nothing was changed (contracts/luxi.md#errors).
                raise errors.ExecutionError(error.message, hint=error.hint) from error
            raise
        return finished

    def _report_kill(self, done: Sequence[base.Step], *, keeps: bool) -> None:
        """Log what becomes of the steps of a canceled job; the last one was interrupted."""
        for step in done[:-1] if keeps else ():
            self._log.warning(f"the job was canceled, and this stays done: {step.text}")
        for step in done[-1:]:
            undone = "" if keeps else ", which is undone"
            self._log.warning(f"the job was canceled in the middle of this{undone}: {step.text}")

    async def _perform(self, actions: base.Actions) -> None:
        await base.perform(actions, self._services.nodes, self._log)

    async def _submit(self, changes: Sequence[states.Change], cause: transaction.Cause) -> None:
        for key in _deleted(changes):
            if not self._request.owns(key):
                raise errors.InternalError(f"{cause.opcode} would delete {lock_modes.title(key)} without holding it")
        for key in _created(changes, self._store.snapshot):
            # Other jobs see the object from now on, and have to wait until it is complete.
            self._locks.add(self._request, key)
        if changes:
            quarantine_changes = self._services.ledger.quarantine.changes(self._store.snapshot, changes)
            await self._store.submit([*changes, *quarantine_changes], cause)

    async def _undo(self, done: list[base.Step], cause: transaction.Cause) -> bool:
        """Undo steps in reverse; return whether all of it worked."""
        clean = True
        for step in reversed(done):
            try:
                await self._perform(step.undo)
            except Exception as error:  # the other steps must be undone nevertheless
                clean = False
                logger.warning("job %d: undo of %r failed", cause.job, step.text, exc_info=True)
                self._log.warning(f"could not undo: {step.text}: {error}")
        if not clean:
            # What a node may still have must not be allocated again: an address, a name, a disk.
            self._log.warning("the changes of the state are kept; check the node, then remove the object")
        return clean

    async def _revert(self, changes: Sequence[states.Change], cause: transaction.Cause) -> None:
        if not changes:
            return
        quarantine_changes = self._services.ledger.quarantine.changes(self._store.snapshot, changes, undo=True)
        try:
            await self._store.submit([*changes, *quarantine_changes], cause)
        except errors.GantryError as error:
            logger.warning("job %d: its changes could not be reverted", cause.job, exc_info=True)
            self._log.warning(f"could not revert the changes: {error}")


def forget_locks(manager: locks.LockManager, request: lock_table.Request, changes: Iterable[states.Change]) -> None:
    """Drop the locks of removed objects, while they are held."""
    for key in _deleted(changes):
        manager.remove(request, key)


def inverse(changes: Sequence[states.Change], before: states.Snapshot) -> list[states.Change]:
    """Return the changes that restore the objects in ``changes`` to their state in ``before``."""
    touched = {(change.kind, change.key): None for change in reversed(changes)}
    back: list[states.Change] = []
    for kind, key in touched:
        old = before.get(kind, key)
        back.append(states.Delete(kind, key) if old is None else states.Put(old))
    return back


def _deleted(changes: Iterable[states.Change]) -> list[lock_modes.Key]:
    return [
        (_LEVELS[change.kind], change.key)
        for change in changes
        if isinstance(change, states.Delete) and change.kind in _LEVELS
    ]


def _created(changes: Iterable[states.Change], before: states.Snapshot) -> list[lock_modes.Key]:
    return [
        (_LEVELS[change.kind], change.key)
        for change in changes
        if isinstance(change, states.Put) and change.kind in _LEVELS and before.get(change.kind, change.key) is None
    ]
