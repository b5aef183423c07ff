"""How many calls are under way at a node, and which of them wait, in virtual time."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator

import pytest

from gantry.rpc import call_queue, targets
from gantry.runtime import simulated

NODE = targets.Target("u1", "node1", "192.0.2.1", 1811)
OTHER = targets.Target("u2", "node2", "192.0.2.2", 1811)
SLOTS = 24


class QueuedCalls:
    """Calls to nodes, and how many of them are and were under way at each."""

    def __init__(self, world: simulated.World) -> None:
        self.world = world
        self.slots = call_queue.Slots(SLOTS)
        self.under_way: dict[str, int] = {}
        self.most: dict[str, int] = {}

    def time(self) -> float:
        return self.world.loop.time()

    async def call(self, seconds: float, target: targets.Target = NODE) -> float:
        """Make a call that takes that time; return when it was sent."""
        async with self.slots.slot(target):
            sent = self.time()
            self.under_way[target.name] = self.under_way.get(target.name, 0) + 1
            self.most[target.name] = max(self.most.get(target.name, 0), self.under_way[target.name])
            try:
                await asyncio.sleep(seconds)
            finally:
                self.under_way[target.name] -= 1
        return sent

    def run(self, *work: Coroutine[object, object, float]) -> list[float]:
        """Run calls at once; return the seconds after which each was sent."""
        start = self.time()

        async def together() -> list[float]:
            return await asyncio.gather(*work)

        return [sent - start for sent in self.world.run(together())]


@pytest.fixture
def queued_calls() -> Iterator[QueuedCalls]:
    with simulated.World(seed=1) as world:
        yield QueuedCalls(world)


def test_ten_thousand_calls_at_once_take_turns_in_the_order_of_their_arrival(queued_calls: QueuedCalls) -> None:
    sent = queued_calls.run(*(queued_calls.call(0.1) for _ in range(10_000)))
    assert queued_calls.most == {"node1": SLOTS}
    assert sent == sorted(sent)


def test_a_node_with_many_calls_keeps_none_of_another_node_waiting(queued_calls: QueuedCalls) -> None:
    *_, last = queued_calls.run(*(queued_calls.call(1.0) for _ in range(100)), queued_calls.call(1.0, OTHER))
    assert last == 0


def test_short_calls_do_not_wait_for_the_end_of_long_ones(queued_calls: QueuedCalls) -> None:
    *_, short = queued_calls.run(*(queued_calls.call(3600.0) for _ in range(SLOTS)), queued_calls.call(0.1))
    assert short == pytest.approx(call_queue.LONG_SECONDS)


def test_long_calls_that_have_ended_leave_as_many_slots_as_before(queued_calls: QueuedCalls) -> None:
    queued_calls.run(*(queued_calls.call(10.0) for _ in range(5 * SLOTS)))
    queued_calls.most.clear()
    queued_calls.run(*(queued_calls.call(0.1) for _ in range(5 * SLOTS)))
    assert queued_calls.most == {"node1": SLOTS}


def test_long_calls_are_not_without_limit_and_all_have_their_turn(queued_calls: QueuedCalls) -> None:
    queued_calls.run(*(queued_calls.call(600.0) for _ in range(3 * call_queue.MAX_LONG)))
    assert queued_calls.most == {"node1": SLOTS + call_queue.MAX_LONG}
    queued_calls.most.clear()
    queued_calls.run(*(queued_calls.call(0.1) for _ in range(5 * SLOTS)))
    assert queued_calls.most == {"node1": SLOTS}


def test_a_call_that_is_cancelled_while_it_waits_is_not_sent_and_delays_no_other(queued_calls: QueuedCalls) -> None:
    async def check() -> None:
        first = [asyncio.ensure_future(queued_calls.call(1.0)) for _ in range(SLOTS)]
        cancelled = [asyncio.ensure_future(queued_calls.call(1.0)) for _ in range(SLOTS)]
        last = asyncio.ensure_future(queued_calls.call(1.0))
        await asyncio.sleep(0.5)
        for task in cancelled:
            task.cancel()
        await asyncio.gather(*first, *cancelled, return_exceptions=True)
        assert await last == pytest.approx(1.0)

    queued_calls.world.run(check())


def test_a_call_that_is_cancelled_as_it_gets_its_slot_passes_the_slot_on(queued_calls: QueuedCalls) -> None:
    async def check() -> None:
        async with contextlib.AsyncExitStack() as under_way:
            for _ in range(SLOTS):
                await under_way.enter_async_context(queued_calls.slots.slot(NODE))
            cancelled = [asyncio.ensure_future(queued_calls.call(1.0)) for _ in range(SLOTS)]
            last = asyncio.ensure_future(queued_calls.call(1.0))
            await asyncio.sleep(0.5)
        # The calls have got their slots, and have not run since.
        for task in cancelled:
            task.cancel()
        await asyncio.gather(*cancelled, return_exceptions=True)
        assert all(task.cancelled() for task in cancelled)
        async with asyncio.timeout(10):
            assert await last == pytest.approx(0.5)

    queued_calls.world.run(check())
