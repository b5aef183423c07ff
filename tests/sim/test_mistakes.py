"""Plausible mistakes, put into the product on purpose: the simulation finds each within 200 seeds.

Each test begins with a seed that is known to find its mistake; if that seed no longer does, because the program has
changed, the test tries all seeds.
"""

import asyncio
import contextvars
import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest

from gantry import errors
from gantry.daemons import vote
from gantry.ipam import embedded, segments
from gantry.jobs import brief, environment, processor, queue, records
from gantry.model import cluster
from gantry.model import job as jobs
from gantry.model import network as networks
from gantry.node.hypervisors import fake
from gantry.node.membership import fence, frames, replica
from gantry.operations import base
from gantry.operations.instance import power
from gantry.rpc import calls, targets
from gantry.runtime.simulated import opened
from gantry.sim import acknowledged, built, invariants, outcome, scenario
from gantry.state import frame, indexes, journal, lease, record, replication, transaction
from gantry.state import snapshot as states

SEEDS = 200

Patch = Callable[[pytest.MonkeyPatch], None]


def journal_not_synced(patch: pytest.MonkeyPatch) -> None:
    async def append(self: opened.AppendFile, data: bytes) -> None:
        self._node.content += data
        await self._disk.work()

    patch.setattr(opened.AppendFile, "append", append)


def shown_before_stored(patch: pytest.MonkeyPatch) -> None:
    original = records.Records._commit

    async def commit(self: records.Records, changed: Sequence[records.Record], why: transaction.Cause) -> None:
        for changed_record in changed:
            self._show(changed_record, changed_record.newest)
        await original(self, changed, why)

    patch.setattr(records.Records, "_commit", commit)


def majority_counts_one_too_many(patch: pytest.MonkeyPatch) -> None:
    original = replication.Rule.is_majority

    def is_majority(self: replication.Rule, holders: int) -> bool:
        return original(self, holders + 1)

    patch.setattr(replication.Rule, "is_majority", is_majority)


def silent_nodes_count_as_yes(patch: pytest.MonkeyPatch) -> None:
    def decide(claim: vote.Claim, answers: Sequence[vote.Answer]) -> vote.Verdict:
        refusals = tuple(filter(None, (vote._contradiction(claim, answer) for answer in answers)))
        return vote.Verdict(vote.Outcome.REFUSED if refusals else vote.Outcome.CONFIRMED, refusals)

    patch.setattr(vote, "decide", decide)


def epoch_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    def check(self: fence.Fence, epoch: int, *, at_least: int = 0) -> None:
        """Accept every epoch."""

    patch.setattr(fence.Fence, "check", check)
    patch.setattr(fence.Fence, "check_promise", check)


def an_epoch_is_promised_to_everybody(patch: pytest.MonkeyPatch) -> None:
    async def promise(self: fence.Fence, promised: calls.Promised) -> bool:
        return True

    patch.setattr(fence.Fence, "promise", promise)


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
        self: brief.Brief, record: records.Record, unit: processor.AnyUnit, log: environment.JobLog
    ) -> Awaitable[states.Snapshot] | None:
        stored = original(self, record, unit, log)
        return None if stored is None else asyncio.sleep(0, self._book.store.snapshot)

    patch.setattr(brief.Brief, "_submitted", submitted)


def _in_two_steps(patch: pytest.MonkeyPatch, *, job_first: bool) -> None:
    original = brief.Brief._submitted

    def submitted(
        self: brief.Brief, record: records.Record, unit: processor.AnyUnit, log: environment.JobLog
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
    original = processor._Execution._work

    async def work(
        self: processor._Execution, plan: base.Plan, before: states.Snapshot, *, cause: transaction.Cause
    ) -> Sequence[states.Change]:
        self._locks.release(self._request)
        return await original(self, plan, before, cause=cause)

    patch.setattr(processor._Execution, "_work", work)


def locks_are_released_before_the_undo(patch: pytest.MonkeyPatch) -> None:
    original = processor._Execution._undo

    async def undo(self: processor._Execution, done: list[base.Step], cause: transaction.Cause) -> bool:
        self._locks.release(self._request)
        return await original(self, done, cause)

    patch.setattr(processor._Execution, "_undo", undo)


def undo_is_skipped(patch: pytest.MonkeyPatch) -> None:
    async def undo(self: processor._Execution, done: list[base.Step], cause: transaction.Cause) -> bool:
        return True

    patch.setattr(processor._Execution, "_undo", undo)


def reservations_go_before_the_guest(patch: pytest.MonkeyPatch) -> None:
    original = power.InstanceRemove.plan

    def plan(self: power.InstanceRemove, snapshot: states.Snapshot, facts: None) -> base.Plan:
        original_plan = original(self, snapshot, facts)
        assert original_plan.finish is not None
        return dataclasses.replace(original_plan, changes=original_plan.finish(snapshot), finish=None)

    patch.setattr(power.InstanceRemove, "plan", plan)


def frames_are_appended_twice(patch: pytest.MonkeyPatch) -> None:
    async def append(self: replica.Replica, call: calls.JournalAppend) -> calls.CandidateState:
        async with self._locked():
            contents = await self._contents()
            self._check_epoch(contents, call.epoch)
            lines, end = call.frame.encode(), contents.end
            if not self._disk.exists(self._folders.config):
                return self._state(contents.end)
            if call.previous == end.digest:
                for line in lines.splitlines(keepends=True):
                    end = frames.follow(end, line)
            self._cached = await self._append(contents, end, lines=lines, begins=call.begins_segment)
            return self._state(end)

    patch.setattr(replica.Replica, "append", append)


def recovery_drops_the_last_frame(patch: pytest.MonkeyPatch) -> None:
    def read(self: journal.Replay) -> Iterator[record.Record]:
        for line in list(frame.scan(self._disk.read(self.segment)))[:-1]:
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


def a_stop_does_nothing(patch: pytest.MonkeyPatch) -> None:
    async def stop(self: fake.Fake, name: str, *, timeout: float) -> None:
        """Report success."""

    patch.setattr(fake.Fake, "stop", stop)


def a_majority_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    original = replication.Candidates._is_met

    def is_met(self: replication.Candidates, rule: replication.Rule) -> bool:
        return original(self, dataclasses.replace(rule, policy=cluster.Replication.SEED))

    patch.setattr(replication.Candidates, "_is_met", is_met)


def the_end_of_a_lease_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    def seconds_to_wait(self: calls.LeaseState, node: str, *, stopped: object) -> float:
        return 0.0

    patch.setattr(calls.LeaseState, "seconds_to_wait", seconds_to_wait)


def a_lease_does_not_end(patch: pytest.MonkeyPatch) -> None:
    def is_held(self: lease.Lease) -> bool:
        return True

    patch.setattr(lease.Lease, "is_held", is_held)


def drift_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease, "RIGHT_SECONDS", calls.LEASE_SECONDS)


def silence_renews_the_lease(patch: pytest.MonkeyPatch) -> None:
    original = lease.Lease._ask

    async def ask(self: lease.Lease, target: targets.Target) -> None:
        self._renewed[target.uuid] = self._clock.monotonic()
        await original(self, target)

    patch.setattr(lease.Lease, "_ask", ask)


def what_was_sent_counts_as_held(patch: pytest.MonkeyPatch) -> None:
    def has_newest(self: replication.Candidates, member: object) -> bool:
        return True

    patch.setattr(replication.Candidates, "_has_newest", has_newest)


def a_candidate_answers_before_its_sync(patch: pytest.MonkeyPatch) -> None:
    in_replica = contextvars.ContextVar("in_replica", default=False)
    original_append, original_write = replica.Replica._append, opened.AppendFile.append

    async def append_frames(self: replica.Replica, *arguments: object, **options: object) -> object:
        token = in_replica.set(True)
        try:
            return await original_append(self, *arguments, **options)  # type: ignore[arg-type]
        finally:
            in_replica.reset(token)

    async def append(self: opened.AppendFile, data: bytes) -> None:
        if not in_replica.get():
            await original_write(self, data)
            return
        self._node.content += data
        await self._disk.work()

    patch.setattr(replica.Replica, "_append", append_frames)
    patch.setattr(opened.AppendFile, "append", append)


def a_master_without_majority_does_not_say_so(patch: pytest.MonkeyPatch) -> None:
    def stall(self: replication.Candidates, cause: str, describe: object) -> None:
        """Go on as if all candidates answered."""

    patch.setattr(replication.Candidates, "stall", stall)


def a_stored_change_is_called_refused(patch: pytest.MonkeyPatch) -> None:
    def unacknowledged(self: replication.Candidates) -> errors.NotMasterError:
        return errors.NotMasterError("the change was refused", hint="nothing was changed; repeat the command")

    patch.setattr(replication.Candidates, "unacknowledged", unacknowledged)


MISTAKES: dict[Patch, int] = {
    journal_not_synced: 0,
    shown_before_stored: 0,
    majority_counts_one_too_many: 0,
    silent_nodes_count_as_yes: 9,
    epoch_is_not_compared: 14,
    an_epoch_is_promised_to_everybody: 117,
    addresses_are_not_checked: 0,
    jobs_in_one_step_are_reported_before_they_are_stored: 0,
    changes_are_stored_before_their_job: 0,
    success_is_stored_before_the_changes: 23,
    segments_are_not_checked: 0,
    segments_are_never_free_again: 13,
    locks_are_released_before_steps_and_undo: 0,
    locks_are_released_before_the_undo: 2,
    undo_is_skipped: 28,
    reservations_go_before_the_guest: 23,
    frames_are_appended_twice: 1,
    recovery_drops_the_last_frame: 0,
    restart_forgets_queued_jobs: 7,
    restart_leaves_running_jobs_running: 1,
    a_stop_does_nothing: 6,
}
"""Each mistake, with the seed that is tried first."""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda patch: patch.__name__)
def test_a_mistake_is_found_within_200_seeds(mistake: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in built.KINDS:
        # Built once in a process, before the patch, because later tests use these clusters too.
        built.lab(0, kind).world.close()
    mistake(monkeypatch)
    broken_promises = (scenario.run(seed).broken for seed in [MISTAKES[mistake], *range(SEEDS)])
    # A traceback, or an error that ends the scenario, would be a mistake of the patch.
    assert next(filter(None, broken_promises), "") not in ("", invariants.SOUND, scenario.UNBROKEN)


MAJORITY_MISTAKES: dict[Patch, tuple[int, str]] = {
    a_majority_is_not_waited_for: (2, acknowledged.ENOUGH),
    what_was_sent_counts_as_held: (0, acknowledged.ENOUGH),
    a_candidate_answers_before_its_sync: (0, acknowledged.ENOUGH),
    the_end_of_a_lease_is_not_waited_for: (2, invariants.ONE_LEASE),
    a_lease_does_not_end: (2, invariants.ONE_LEASE),
    silence_renews_the_lease: (2, invariants.ONE_LEASE),
    drift_is_ignored: (2, invariants.ONE_LEASE),
    a_master_without_majority_does_not_say_so: (18, invariants.MARKED),
    a_stored_change_is_called_refused: (2, outcome.REFUSED),
}
"""Each mistake in the promises of a majority, with the seed that is tried first, and the promise that it breaks."""


@pytest.mark.parametrize("mistake", MAJORITY_MISTAKES, ids=lambda patch: patch.__name__)
def test_a_mistake_is_found_by_the_promise_that_it_breaks(mistake: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in built.KINDS:
        built.lab(0, kind).world.close()
    mistake(monkeypatch)
    first, promise = MAJORITY_MISTAKES[mistake]
    broken_promises = (scenario.run(seed).broken for seed in [first, *range(SEEDS)])
    assert next(filter(None, broken_promises), "") == promise
