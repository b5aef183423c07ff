"""The lease of a master: when it is missed, and what its renewals say of candidates that do not know the master."""

import asyncio
from collections.abc import Callable, Coroutine
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

    Those in ``silent`` do not answer these either, those in ``hanging`` much later; those in ``strangers_to`` do not
    know the master, those in ``fencing`` know of its successor.
    """

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.hanging: set[str] = set()
        self.fencing: set[str] = set()
        self.strangers_to: set[str] = set()

    async def call(self, target: targets.Target, call: calls.Call[candidate.Result]) -> candidate.Result:
        await asyncio.sleep(1e6 if target.uuid in self.hanging else 0.001)
        if not isinstance(call, calls.LeaseRenew) or target.uuid in self.silent:
            raise errors.RemoteError(f"node {target.name} cannot be reached")
        if target.uuid in self.fencing:
            raise errors.FencedError("epoch 1 has passed")
        if target.uuid in self.strangers_to:
            raise errors.UnknownCallerError(f"node {target.name} does not know this master")
        return cast("candidate.Result", None)


def target(name: str) -> targets.Target:
    return targets.Target(name, name, name, 1811)


class Leased:
    """A lease on a simulated machine under rules in force, each with the names of the candidates without the master."""

    def __init__(self, *rules: str) -> None:
        self._rules = rules
        self._world = simulated.World(seed=1)
        self._machine = self._world.machine("node0")
        self.clock = self._machine.clock
        self.nodes = Candidates()
        self.candidates = replication.Candidates(self._machine, self.nodes)
        self.lease = lease.Lease(self.candidates, node="node0", epoch=lambda: 1)

    def set_rule(self, names: str, policy: cluster_settings.Replication, *, serial: int) -> None:
        self.candidates.set_targets(list(map(target, names.split())), policy=policy, serial=serial)

    def run(self, scenario: Callable[["Leased"], Coroutine[object, object, None]]) -> None:
        async def whole() -> None:
            for serial, names in enumerate(self._rules):
                self.set_rule(names, cluster_settings.Replication.MAJORITY, serial=serial)
            try:
                await scenario(self)
            finally:
                await self.lease.close()
                await self.candidates.close()

        with self._world:
            build.on(self._world, self._machine, whole())


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
    ("silent", "candidates", "is_held"),
    [
        ("", "a", True), ("a", "a", False),
        ("a", "a b", True), ("a b", "a b", False),
        ("a", "a b c", True), ("a b", "a b c", False),
        ("a b", "a b c d", True), ("a b c", "a b c d", False),
    ],
)  # fmt: skip
def test_a_master_may_command_nodes_while_it_and_those_who_answer_are_a_majority(
    silent: str, candidates: str, *, is_held: bool
) -> None:
    async def scenario(leased: Leased) -> None:
        leased.nodes.silent = set(silent.split())
        leased.lease.start()
        await leased.clock.sleep(lease.IDLE_SECONDS)
        assert leased.lease.is_held() is is_held

    Leased(candidates).run(scenario)


@pytest.mark.parametrize(
    ("silent", "missing"),
    [("a c", ""), ("a b", "1 of 3 master candidates obey this master, 2 are needed, missing: a, b;"),
     ("c d a", "2 of 4 master candidates obey this master, 3 are needed, missing: c, d;")],
)  # fmt: skip
def test_while_the_candidates_change_a_majority_of_the_old_and_of_the_new_has_to_renew_the_lease(
    silent: str, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(leased: Leased) -> None:
        leased.nodes.silent = set(silent.split())
        leased.lease.start()
        await leased.clock.sleep(2 * replication.TIMEOUT)
        assert leased.lease.is_held() is not bool(missing)
        assert leased.candidates.stalled.is_set() is bool(missing)

    Leased("a b", "c d e").run(scenario)
    assert missing in caplog.text
    assert ("nothing can be changed" in caplog.text) is bool(missing)


def test_a_command_renews_the_lease_by_itself_and_goes_on_with_the_first_majority() -> None:
    async def scenario(leased: Leased) -> None:
        leased.nodes.silent = {"a"}
        begin = leased.clock.monotonic()
        await leased.lease.hold()
        assert leased.clock.monotonic() - begin < lease.BACK_OFF_SECONDS / 10
        leased.nodes.silent = {"a", "b"}
        await leased.clock.sleep(lease.RIGHT_SECONDS)
        waiting = asyncio.ensure_future(leased.lease.hold())
        await leased.clock.sleep(10 * lease.BACK_OFF_SECONDS)
        assert not waiting.done()
        leased.nodes.silent = set()
        await asyncio.wait_for(waiting, 2 * lease.BACK_OFF_SECONDS)

    Leased("a b").run(scenario)


def test_a_command_of_a_master_that_was_replaced_is_refused_with_what_the_node_says() -> None:
    async def scenario(leased: Leased) -> None:
        leased.nodes.fencing = {"a"}
        leased.nodes.silent = {"b"}
        waiting = asyncio.ensure_future(leased.lease.hold())
        await leased.clock.sleep(0.1)
        doubt = leased.candidates.doubt
        assert isinstance(doubt, errors.FencedError)
        leased.candidates.depose(doubt)
        with pytest.raises(errors.WrongStateError, match="is not the master any more: epoch 1 has passed"):
            await asyncio.wait_for(waiting, 2 * lease.BACK_OFF_SECONDS)

    Leased("a b").run(scenario)


def test_a_policy_that_needs_no_lease_ends_each_wait_for_it_at_once() -> None:
    async def scenario(leased: Leased) -> None:
        leased.nodes.silent = {"a", "b"}
        leased.lease.start()
        waiting = asyncio.ensure_future(leased.lease.hold())
        await leased.clock.sleep(2 * replication.TIMEOUT + 0.1)
        assert leased.candidates.stalled.is_set()
        leased.set_rule("a b", cluster_settings.Replication.SEED, serial=0)
        leased.candidates.rules_in_force.notify()
        await asyncio.wait_for(waiting, 0.01)
        assert leased.lease.is_held()
        assert not leased.candidates.stalled.is_set()

    Leased("a b").run(scenario)


def test_a_closed_lease_asks_no_candidate_any_more() -> None:
    async def scenario(leased: Leased) -> None:
        leased.nodes.hanging = {"a", "b"}
        leased.lease.start()
        await leased.clock.sleep(0.1)
        assert {"lease", "lease a", "lease b"} <= {task.get_name() for task in asyncio.all_tasks()}
        await leased.lease.close()
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("lease")]

    Leased("a b").run(scenario)
