"""Plausible mistakes, put into the product on purpose: each is found within 300 seeds, by the promise that it breaks.

Each test begins with a seed that is known to find its mistake; if that seed no longer does, because the program has
changed, the test tries all seeds.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Iterator, Sequence

import pytest
from tests.sim import first_seed
from tests.sim.first_seed import Patch

from gantry.ipam import embedded, segments
from gantry.jobs import brief, environment, execution, queue, records
from gantry.lib_files import frame
from gantry.mastership import vote
from gantry.model import cluster_settings, opcodes
from gantry.model import job as jobs
from gantry.model import network as networks
from gantry.node.daemon import server
from gantry.node.hypervisors import fake
from gantry.node.membership import fence, frames, replica
from gantry.operations import base
from gantry.operations.instance import power
from gantry.rpc import calls
from gantry.runtime import http_interface
from gantry.runtime.simulated import disk, opened
from gantry.sim import acknowledged, cluster, faults, fenced, invariants, node_disks, outcome
from gantry.state.journal import journal, record
from gantry.state.objects import indexes
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction


def journal_not_synced(patch: pytest.MonkeyPatch) -> None:
    async def append(self: opened.AppendFile, data: bytes) -> None:
        self._node.content += data
        await self._disk.work()

    patch.setattr(opened.AppendFile, "append", append)


def shown_before_stored(patch: pytest.MonkeyPatch) -> None:
    original = records.Records._commit

    async def commit(self: records.Records, changed: Sequence[records.Record], why: transaction.Cause) -> None:
        for changed_record in changed:
            self._show(changed_record, changed_record.current)
        await original(self, changed, why)

    patch.setattr(records.Records, "_commit", commit)


def majority_counts_one_too_many(patch: pytest.MonkeyPatch) -> None:
    original = cluster_settings.Replication.copies_needed

    def copies_needed(self: cluster_settings.Replication, candidates: int) -> int:
        return original(self, candidates) - 1

    patch.setattr(cluster_settings.Replication, "copies_needed", copies_needed)


def silent_nodes_count_as_yes(patch: pytest.MonkeyPatch) -> None:
    def decide(claim: vote.Claim, answers: Sequence[vote.Answer]) -> vote.Verdict:
        refusals = tuple(filter(None, (vote._contradiction(claim, answer) for answer in answers)))
        return vote.Verdict(vote.Outcome.REFUSED if refusals else vote.Outcome.CONFIRMED, refusals)

    patch.setattr(vote, "decide", decide)


def epoch_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    def check(self: fence.Fence, epoch: int, *, at_least: int = 0) -> None:
        """Accept every epoch."""

    def judge(self: fence.Fence, epoch: int, owner: str) -> None:
        """Accept every master."""

    patch.setattr(fence.Fence, "check", check)
    patch.setattr(fence.Fence, "check_grant", check)
    patch.setattr(fence.Fence, "_judge", judge)


def an_epoch_is_granted_to_everybody(patch: pytest.MonkeyPatch) -> None:
    async def grant(self: fence.Fence, granted: calls.GrantedEpoch) -> bool:
        return True

    patch.setattr(fence.Fence, "grant", grant)


def _index_without_conflicts(patch: pytest.MonkeyPatch, field: str) -> None:
    original = indexes.UniqueIndex.add

    def add(self: indexes.UniqueIndex[object, object, object], maps: indexes.Maps, value: object) -> None:
        original(dataclasses.replace(self, conflict=None) if self.field == field else self, maps, value)

    patch.setattr(indexes.UniqueIndex, "add", add)


def addresses_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    def mark(self: embedded.Ledger, vm: object, *, used: bool) -> None:
        """Forget who has what."""

    _index_without_conflicts(patch, "addresses")
    patch.setattr(embedded.Ledger, "_mark", mark)


def jobs_in_one_step_are_reported_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    original = brief.Brief._submitted

    def submitted(
        self: brief.Brief, record: records.Record, unit: execution.AnyUnit, log: environment.JobLog
    ) -> Awaitable[states.Snapshot] | None:
        stored = original(self, record, unit, log)
        return None if stored is None else asyncio.sleep(0, self._book.store.snapshot)

    patch.setattr(brief.Brief, "_submitted", submitted)


def _in_two_steps(patch: pytest.MonkeyPatch, *, job_first: bool) -> None:
    original = brief.Brief._submitted

    def submitted(
        self: brief.Brief, record: records.Record, unit: execution.AnyUnit, log: environment.JobLog
    ) -> Awaitable[states.Snapshot] | None:
        store = self._book.store
        submit = store.submit

        async def one_by_one(parts: Sequence[Sequence[states.Change]], why: transaction.Cause) -> states.Snapshot:
            for part in parts:
                stored = await submit(part, why)
            return stored

        def apart(changes: Sequence[states.Change], why: transaction.Cause) -> Awaitable[states.Snapshot]:
            job_changes = [change for change in changes if change.kind == "jobs"]
            other_changes = [change for change in changes if change.kind != "jobs"]
            return (
                one_by_one([job_changes, other_changes] if job_first else [other_changes, job_changes], why)
                if other_changes
                else submit(changes, why)
            )

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(store, "submit", apart)
            return original(self, record, unit, log)

    patch.setattr(brief.Brief, "_submitted", submitted)


def changes_are_stored_before_their_job(patch: pytest.MonkeyPatch) -> None:
    _in_two_steps(patch, job_first=False)


def success_is_stored_before_the_changes(patch: pytest.MonkeyPatch) -> None:
    _in_two_steps(patch, job_first=True)


def segments_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    def mark(self: segments.Segments, net: object, *, used: bool) -> None:
        """Forget who has what."""

    def check(self: segments.Segments, state: object, segment: object) -> None:
        """Accept every segment."""

    _index_without_conflicts(patch, "segments")
    patch.setattr(segments.Segments, "_mark", mark)
    patch.setattr(segments.Segments, "check_free", check)


def segments_are_never_free_again(patch: pytest.MonkeyPatch) -> None:
    original = segments.Segments._mark

    def mark(self: segments.Segments, net: networks.Network | None, *, used: bool) -> None:
        if used:
            original(self, net, used=used)

    patch.setattr(segments.Segments, "_mark", mark)


def locks_are_released_before_steps_and_undo(patch: pytest.MonkeyPatch) -> None:
    original = execution.Execution._work

    async def work(
        self: execution.Execution, plan: base.Plan, before: states.Snapshot, *, cause: transaction.Cause
    ) -> Sequence[states.Change]:
        self._locks.release(self._request)
        return await original(self, plan, before, cause=cause)

    patch.setattr(execution.Execution, "_work", work)


def locks_are_released_before_the_undo(patch: pytest.MonkeyPatch) -> None:
    original = execution.Execution._undo

    async def undo(self: execution.Execution, done: list[base.Step], cause: transaction.Cause) -> bool:
        self._locks.release(self._request)
        return await original(self, done, cause)

    patch.setattr(execution.Execution, "_undo", undo)


def undo_is_skipped(patch: pytest.MonkeyPatch) -> None:
    async def undo(self: execution.Execution, done: list[base.Step], cause: transaction.Cause) -> bool:
        return True

    patch.setattr(execution.Execution, "_undo", undo)


def reservations_go_before_the_guest(patch: pytest.MonkeyPatch) -> None:
    original = power.InstanceRemove.plan

    def plan(self: power.InstanceRemove, snapshot: states.Snapshot, facts: None) -> base.Plan:
        original_plan = original(self, snapshot, facts)
        assert original_plan.finish is not None
        return dataclasses.replace(original_plan, changes=original_plan.finish(snapshot), finish=None)

    patch.setattr(power.InstanceRemove, "plan", plan)


def frames_are_appended_twice(patch: pytest.MonkeyPatch) -> None:
    async def append(self: replica.Replica, call: calls.JournalAppend, caller: str = "") -> calls.CandidateState:
        async with self._locked():
            contents = await self._contents()
            self._check_epoch(contents, call.epoch, caller)
            lines, end = call.frame.encode(), contents.end
            if not self._disk.exists(self._folders.config):
                return self._state(contents.end)
            if call.previous == end.digest:
                for line in lines.splitlines(keepends=True):
                    end = frames.follow(end, line)
            self._cached = await self._append(contents, end, lines=lines, begins=call.begins_section)
            return self._state(end)

    patch.setattr(replica.Replica, "append", append)


def recovery_drops_the_last_frame(patch: pytest.MonkeyPatch) -> None:
    def read(self: journal.Replay) -> Iterator[record.Record]:
        for line in list(frame.scan(self._disk.read(self.section)))[:-1]:
            for decoded in map(record.decode, line.records):
                self.end = journal.Position(decoded.serial, line.digest, decoded.epoch)
                yield decoded
            self.size = line.offset + len(line.line)

    patch.setattr(journal.Replay, "_read", read)


def restart_forgets_queued_jobs(patch: pytest.MonkeyPatch) -> None:
    original = queue.Queue.start

    async def start(self: queue.Queue) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self, "_enqueue", lambda record: None)
            await original(self)

    patch.setattr(queue.Queue, "start", start)


def restart_leaves_running_jobs_running(patch: pytest.MonkeyPatch) -> None:
    async def start(self: queue.Queue) -> None:
        for job in sorted(self._book.store.snapshot.jobs.values(), key=lambda each: each.id):
            member = self._book.add(job)
            if job.status is jobs.Status.QUEUED:
                self._enqueue(member)
        self._admit()

    patch.setattr(queue.Queue, "start", start)


def a_running_job_holds_nothing(patch: pytest.MonkeyPatch) -> None:
    def hold(self: embedded.Ledger, job: int, before: states.Snapshot, *, changes: Sequence[states.Change]) -> None:
        """Hold no address."""

    patch.setattr(embedded.Ledger, "hold", hold)


def _running(store: records.Store) -> list[jobs.Job]:
    return [job for job in store.snapshot.jobs.values() if job.status is jobs.Status.RUNNING]


def restart_forgets_what_running_jobs_have(patch: pytest.MonkeyPatch) -> None:
    original = queue.Queue.start

    async def start(self: queue.Queue) -> None:
        running_jobs = _running(self._book.store)
        await original(self)
        ledger, state = self._processor._services.ledger, self._book.store.snapshot
        for step in (step for job in running_jobs for step in job.ops):
            uuid = state.names.get(("instances", getattr(step.input, "instance_name", "")))
            if uuid:
                ledger._mark(state.instances[uuid], used=False)

    patch.setattr(queue.Queue, "start", start)


def restart_drops_what_running_jobs_have_created(patch: pytest.MonkeyPatch) -> None:
    original = queue.Queue.start

    async def start(self: queue.Queue) -> None:
        running_jobs = _running(self._book.store)
        await original(self)
        created = [
            step.input for job in running_jobs for step in job.ops if isinstance(step.input, opcodes.InstanceCreate)
        ]
        names = self._book.store.snapshot.names
        uuids = [names[key] for op in created if (key := ("instances", op.instance_name)) in names]
        if uuids:
            deletions = [states.Delete("instances", uuid) for uuid in uuids]
            await self._book.store.submit(deletions, transaction.Cause(reason="restart"))

    patch.setattr(queue.Queue, "start", start)


def a_stop_does_nothing(patch: pytest.MonkeyPatch) -> None:
    async def stop(self: fake.Fake, name: str, *, timeout: float) -> None:
        """Report success."""

    patch.setattr(fake.Fake, "stop", stop)


def a_node_ignores_permits(patch: pytest.MonkeyPatch) -> None:
    def permit(request: http_interface.Request) -> None:
        """Return no permit, whatever the call has."""

    patch.setattr(server, "_permit", permit)


def _is_not_synced(patch: pytest.MonkeyPatch, name: str) -> None:
    original = disk.Disk.write

    async def write(self: disk.Disk, path: str, data: bytes, *, mode: int = 0o640, sync: bool = True) -> None:
        await original(self, path, data, mode=mode, sync=sync and path != f"{cluster.FOLDERS.lib}/{name}")

    patch.setattr(disk.Disk, "write", write)


def a_grant_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    _is_not_synced(patch, "promise")


def an_epoch_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    _is_not_synced(patch, "epoch")


MISTAKES: dict[Patch, tuple[int, str]] = {
    journal_not_synced: (0, acknowledged.KEPT),
    shown_before_stored: (0, acknowledged.KEPT),
    majority_counts_one_too_many: (0, acknowledged.ENOUGH),
    silent_nodes_count_as_yes: (0, invariants.ONE_EPOCH),
    epoch_is_not_compared: (0, invariants.ONE_LEASE),
    an_epoch_is_granted_to_everybody: (39, invariants.ONE_EPOCH),
    addresses_are_not_checked: (10, invariants.UNIQUE),
    jobs_in_one_step_are_reported_before_they_are_stored: (2, acknowledged.KEPT),
    changes_are_stored_before_their_job: (2, invariants.WHOLE),
    success_is_stored_before_the_changes: (126, outcome.FACTS),
    segments_are_not_checked: (9, invariants.UNIQUE),
    segments_are_never_free_again: (9, outcome.COUNTED),
    locks_are_released_before_steps_and_undo: (0, invariants.LOCKS_HELD),
    locks_are_released_before_the_undo: (9, invariants.LOCKS_HELD),
    undo_is_skipped: (27, node_disks.DISKS),
    reservations_go_before_the_guest: (61, node_disks.DISKS),
    frames_are_appended_twice: (11, acknowledged.ENOUGH),
    recovery_drops_the_last_frame: (7, faults.ENDS),
    restart_forgets_queued_jobs: (26, outcome.JOBS_END),
    restart_leaves_running_jobs_running: (0, outcome.JOBS_END),
    a_running_job_holds_nothing: (80, invariants.STORED),
    restart_forgets_what_running_jobs_have: (28, outcome.COUNTED),
    restart_drops_what_running_jobs_have_created: (21, outcome.NODES),
    a_stop_does_nothing: (6, outcome.NODES),
    a_node_ignores_permits: (11, invariants.GUESTS),
    a_grant_is_not_synced: (2, invariants.ONE_EPOCH),
    an_epoch_is_not_synced: (183, fenced.FENCED),
}
"""Each mistake, with the seed that is tried first, and the promise that it breaks."""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda patch: patch.__name__)
@pytest.mark.slow
def test_a_mistake_is_found_by_the_promise_that_it_breaks(mistake: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    first, promise = MISTAKES[mistake]
    # Another promise may be broken too, and end a seed before this one is seen.
    assert promise in first_seed.broken_promises(mistake, first, monkeypatch)
