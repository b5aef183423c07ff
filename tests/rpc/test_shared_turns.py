"""Which calls of queries share an answer, in virtual time."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import cast

import pytest

from gantry import errors
from gantry.rpc import call_queue, calls, shared_turns, targets
from gantry.runtime import simulated

NODE = targets.Target("u1", "node1", "192.0.2.1", 1811)
OTHER = targets.Target("u2", "node2", "192.0.2.2", 1811)
LIST = calls.InstanceList(hypervisors=("kvm",))
OTHER_LIST = calls.InstanceList(hypervisors=("fake",))
SECONDS = 1.0


class SharedNodes:
    """Nodes that take a second for each call, and answer with its number."""

    def __init__(self, world: simulated.World, slots: int) -> None:
        self.world = world
        self.turns = shared_turns.SharedTurns(call_queue.Slots(slots).slot)
        self.sent: list[tuple[str, tuple[str, ...]]] = []
        self.ended = 0
        self.is_broken = False

    async def make(self, target: targets.Target, call: calls.Call[shared_turns.Result]) -> shared_turns.Result:
        assert isinstance(call, calls.InstanceList)
        self.sent.append((target.name, call.hypervisors))
        number = len(self.sent)
        try:
            await asyncio.sleep(SECONDS)
        finally:
            self.ended += 1
        if self.is_broken:
            raise errors.RemoteError("node1 is broken")
        return cast("shared_turns.Result", number)

    async def ask(
        self, target: targets.Target = NODE, call: calls.InstanceList = LIST, *, after: float = 0.0
    ) -> tuple[object, float]:
        """Return the number of the call that answered, and when its answer was there."""
        await asyncio.sleep(after)
        return await self.turns.call(target, call, self.make), self.world.loop.time()

    def run(self, *work: Coroutine[object, object, object]) -> list[object]:
        async def together() -> list[object]:
            return await asyncio.gather(*work, return_exceptions=True)

        return self.world.run(together())


@pytest.fixture
def world() -> Iterator[simulated.World]:
    with simulated.World(seed=1) as world:
        yield world


def test_a_hundred_that_wait_for_their_turn_share_one_call(world: simulated.World) -> None:
    shared = SharedNodes(world, slots=1)
    first, *later = shared.run(shared.ask(), *(shared.ask(after=0.5) for _ in range(100)))
    assert shared.sent == [("node1", ("kvm",))] * 2
    assert first == (1, 1.0)
    assert later == [(2, 2.0)] * 100


def test_who_asks_while_a_call_is_under_way_gets_an_answer_of_a_later_one(world: simulated.World) -> None:
    shared = SharedNodes(world, slots=8)
    assert shared.run(shared.ask(), shared.ask(after=0.5)) == [(1, 1.0), (2, 1.5)]


def test_other_calls_and_other_nodes_are_not_answered_by_it(world: simulated.World) -> None:
    shared = SharedNodes(world, slots=8)
    shared.run(shared.ask(), shared.ask(call=OTHER_LIST), shared.ask(OTHER))
    assert sorted(shared.sent) == [("node1", ("fake",)), ("node1", ("kvm",)), ("node2", ("kvm",))]


def test_the_error_of_a_shared_call_reaches_all(world: simulated.World) -> None:
    shared = SharedNodes(world, slots=1)
    shared.is_broken = True
    assert [str(error) for error in shared.run(shared.ask(), shared.ask())] == ["node1 is broken"] * 2
    assert len(shared.sent) == 1


def test_a_query_that_ends_leaves_the_call_to_those_that_wait_with_it(world: simulated.World) -> None:
    shared = SharedNodes(world, slots=1)

    async def impatient() -> None:
        async with asyncio.timeout(0.5):
            await shared.ask()

    ended, answered = shared.run(impatient(), shared.ask())
    assert isinstance(ended, TimeoutError)
    assert answered == (1, 1.0)


@pytest.mark.parametrize(("slots", "sent"), [(1, ["fake", "kvm"]), (2, ["fake", "kvm", "kvm"])])
def test_a_call_whose_queries_have_all_ended_ends_and_the_next_query_has_its_own(
    world: simulated.World, slots: int, sent: list[str]
) -> None:
    shared = SharedNodes(world, slots)

    async def impatient() -> None:
        async with asyncio.timeout(0.5):
            await shared.ask()

    shared.run(shared.ask(call=OTHER_LIST), impatient(), shared.ask(after=0.7))
    assert [hypervisors for _, (hypervisors,) in shared.sent] == sent
    assert shared.ended == len(sent)
