"""Plausible mistakes about majorities, the lease and the vote, each found by the very promise that it breaks.

Each test begins with a seed that is known to find its mistake; if that seed no longer does, because the program has
changed, the test tries 300 seeds.
"""

import contextvars

import pytest
from tests.sim import first_seed
from tests.sim.first_seed import Patch

from gantry import errors
from gantry.node.membership import replica
from gantry.rpc import calls, targets
from gantry.runtime.simulated import opened
from gantry.sim import acknowledged, invariants, outcome
from gantry.state.candidates import lease, needed_copies, replication


def a_majority_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    def is_met(self: replication.Candidates, rule: needed_copies.Rule, _: needed_copies.Rule | None) -> bool:
        return rule.is_majority(self._holders(rule)) or all(member.lost for member in self._behind())

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
        """Continue as if all candidates answered."""

    patch.setattr(replication.Candidates, "stall", stall)


def a_stored_change_is_called_refused(patch: pytest.MonkeyPatch) -> None:
    def unacknowledged(self: replication.Candidates) -> errors.NotMasterError:
        return errors.NotMasterError("the change was refused", hint="nothing was changed; repeat the command")

    patch.setattr(replication.Candidates, "unacknowledged", unacknowledged)


MAJORITY_MISTAKES: dict[Patch, tuple[int, str]] = {
    a_majority_is_not_waited_for: (1, acknowledged.ENOUGH),
    what_was_sent_counts_as_held: (0, acknowledged.ENOUGH),
    a_candidate_answers_before_its_sync: (0, acknowledged.ENOUGH),
    the_end_of_a_lease_is_not_waited_for: (0, invariants.ONE_LEASE),
    a_lease_does_not_end: (0, invariants.ONE_LEASE),
    silence_renews_the_lease: (0, invariants.ONE_LEASE),
    drift_is_ignored: (0, invariants.ONE_LEASE),
    a_master_without_majority_does_not_say_so: (0, invariants.MARKED),
    a_stored_change_is_called_refused: (0, outcome.REFUSED),
}
"""Each mistake in the promises of a majority, with the seed that is tried first, and the promise that it breaks."""


@pytest.mark.parametrize("mistake", MAJORITY_MISTAKES, ids=lambda patch: patch.__name__)
@pytest.mark.slow
def test_a_mistake_is_found_by_the_promise_that_it_breaks(mistake: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    first, promise = MAJORITY_MISTAKES[mistake]
    assert next(filter(None, first_seed.broken_promises(mistake, first, monkeypatch)), "") == promise
