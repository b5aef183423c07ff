"""The lease of a master: when it is missed, and what its renewals say of candidates that do not know the master."""

import asyncio
from typing import cast

import pytest
from tests.state import build

from gantry import errors
from gantry.model import cluster_settings
from gantry.rpc import calls, targets
from gantry.runtime import simulated
from gantry.state.candidates import candidate, lease, replication

CANDIDATES = [targets.Target(uuid, uuid, uuid, 1811) for uuid in ("n1", "n2")]


class Candidates:
    """Candidates that answer nothing but renewals of the lease.

    Those in ``silent`` do not answer these either, and those in ``strangers_to`` do not know the master.
    """

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.strangers_to: set[str] = set()

    async def call(self, target: targets.Target, call: calls.Call[candidate.Result]) -> candidate.Result:
        await asyncio.sleep(0.001)
        if not isinstance(call, calls.LeaseRenew) or target.uuid in self.silent:
            raise errors.RemoteError(f"node {target.name} cannot be reached")
        if target.uuid in self.strangers_to:
            raise errors.UnknownCallerError(f"node {target.name} does not know this master")
        return cast("candidate.Result", None)


def doubt_after(*rounds: set[str]) -> replication.Refusal | None:
    """Return the master's doubt after some renewals, for each of which these candidates do not know the master."""
    nodes = Candidates()

    async def scenario() -> replication.Refusal | None:
        candidates = replication.Candidates(machine, nodes)
        candidates.set_targets(CANDIDATES, policy=cluster_settings.Replication.MAJORITY)
        renewed = lease.Lease(candidates, node="node0", epoch=lambda: 1)
        for strangers in rounds:
            nodes.strangers_to = strangers
            if strangers is rounds[0]:
                renewed.start()
            # The change is in the middle between two renewals.
            await machine.clock.sleep(lease.IDLE_SECONDS * (0.5 if strangers is rounds[0] else 1))
        await renewed.close()
        await candidates.close()
        return candidates.doubt

    with simulated.World(seed=1) as world:
        machine = world.machine("node0")
        return build.on(world, machine, scenario())


def test_a_master_with_nothing_to_write_doubts_when_no_majority_knows_it() -> None:
    assert isinstance(doubt_after({"n1", "n2"}), errors.UnknownCallerError)


@pytest.mark.parametrize("stranger", ["n1", "n2"])
def test_a_master_that_a_majority_knows_does_not_doubt(stranger: str) -> None:
    assert doubt_after({stranger}) is None


def test_a_candidate_that_knows_the_master_again_does_not_count_as_one_that_does_not() -> None:
    assert doubt_after({"n1"}, set(), {"n2"}) is None


@pytest.mark.parametrize("answer", [True, False])
def test_the_first_lease_is_missed_only_some_time_after_it_is_needed(
    caplog: pytest.LogCaptureFixture, *, answer: bool
) -> None:
    nodes = Candidates()
    if not answer:
        nodes.strangers_to = {"n1", "n2"}

    async def scenario() -> bool:
        candidates = replication.Candidates(machine, nodes)
        renewed = lease.Lease(candidates, node="node0", epoch=lambda: 1)
        renewed.start()
        await machine.clock.sleep(10 * replication.TIMEOUT)
        candidates.set_targets(CANDIDATES, policy=cluster_settings.Replication.MAJORITY)
        await machine.clock.sleep(0.5 * replication.TIMEOUT)
        assert not candidates.stalled.is_set()
        await machine.clock.sleep(replication.TIMEOUT)
        await renewed.close()
        await candidates.close()
        return candidates.stalled.is_set()

    with simulated.World(seed=1) as world:
        machine = world.machine("node0")
        assert build.on(world, machine, scenario()) is not answer
        assert ("nothing can be changed until they answer" in caplog.text) is not answer


@pytest.mark.parametrize(
    ("silent", "number", "is_held"),
    [
        (0, 1, True),
        (1, 1, False),
        (1, 2, True),
        (2, 2, False),
        (1, 3, True),
        (2, 3, False),
        (2, 4, True),
        (3, 4, False),
    ],
)
def test_a_master_may_command_nodes_while_it_and_those_who_answer_are_a_majority(
    silent: int, number: int, *, is_held: bool
) -> None:
    targets_of_all = [targets.Target(f"n{index}", f"n{index}", "n", 1811) for index in range(number)]
    nodes = Candidates()
    nodes.silent = {target.uuid for target in targets_of_all[:silent]}

    async def scenario() -> bool:
        candidates = replication.Candidates(machine, nodes)
        candidates.set_targets(targets_of_all, policy=cluster_settings.Replication.MAJORITY)
        renewed = lease.Lease(candidates, node="node0", epoch=lambda: 1)
        renewed.start()
        await machine.clock.sleep(lease.IDLE_SECONDS)
        result = renewed.is_held()
        await renewed.close()
        await candidates.close()
        return result

    with simulated.World(seed=1) as world:
        machine = world.machine("node0")
        assert build.on(world, machine, scenario()) is is_held
