"""A node carries a call out only while its permit lasts."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from gantry import errors
from gantry.node import permits
from gantry.rpc import calls
from gantry.runtime import simulated

OWNER, SUCCESSOR = "u1", "u2"


class NodePermits:
    """The permits of a node in virtual time; ``master`` is the node that has become the master last, and its epoch."""

    def __init__(self, world: simulated.World) -> None:
        self.world = world
        self.machine = world.machine("node1")
        self.master = (3, OWNER)
        self.done: list[str] = []
        self.permits = permits.Permits(self.machine.clock, "n1", check=self.check)
        self.programs = permits.Programs(self.machine.processes)

    def check(self, epoch: int, owner: str) -> None:
        newest, master = self.master
        if epoch < newest and owner != master:
            raise errors.FencedError(f"epoch {epoch} has passed")

    def now(self) -> float:
        return self.machine.clock.monotonic()

    async def carry_out(
        self, work: Callable[[], Awaitable[object]], *, seconds: float, run: str = "m1", number: int = 1, of: str = "n1"
    ) -> object:
        """Carry out a call whose permit lasts for ``seconds`` from now on."""
        permit = calls.Permit(run, number, calls.Moment(of, self.now() + seconds))
        return await self.permits.carry_out(work, procedure="work", permit=permit, epoch=3, caller=OWNER)

    def extend(self, seconds: float, *, run: str = "m1", of: str = "n1") -> None:
        until = calls.Moment(of, self.now() + seconds).encode()
        self.permits.extend(calls.ExtendPermits(run=run, numbers=(1,), until=until))

    def does(self, what: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            self.done.append(what)

        return work

    def lasts(self, *, then: str = "") -> Callable[[], Awaitable[None]]:
        """Return work of 100 s, after which another step begins."""

        async def work() -> None:
            try:
                await asyncio.sleep(100)
                await permits.confirm()
                self.done.append(then)
            finally:
                await permits.confirm()
                self.done.append("cleaned up")

        return work


@pytest.fixture
def node_permits() -> Iterator[NodePermits]:
    with simulated.World(1) as world:
        yield NodePermits(world)


def run(node_permits: NodePermits, scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await asyncio.sleep(50)
        await scenario()

    node_permits.world.run(whole())


def test_what_arrives_in_time_is_done_at_once(node_permits: NodePermits) -> None:
    async def scenario() -> None:
        begin = node_permits.now()
        await node_permits.carry_out(node_permits.does("it"), seconds=1)
        assert node_permits.now() == begin

    run(node_permits, scenario)
    assert node_permits.done == ["it"]


@pytest.mark.parametrize("of", ["n1", "an earlier run"])
def test_what_arrives_late_is_not_done(node_permits: NodePermits, of: str) -> None:
    async def scenario() -> None:
        begin = node_permits.now()
        with pytest.raises(errors.WrongStateError, match="work is too late"):
            await node_permits.carry_out(node_permits.does("it"), seconds=-1 if of == "n1" else 1000, of=of)
        assert node_permits.now() - begin == pytest.approx(permits.WAIT_SECONDS)

    run(node_permits, scenario)
    assert node_permits.done == []


def test_what_arrives_late_is_done_if_its_caller_still_waits(node_permits: NodePermits) -> None:
    async def scenario() -> None:
        begin = node_permits.now()
        doing = asyncio.ensure_future(node_permits.carry_out(node_permits.does("it"), seconds=-60))
        await asyncio.sleep(0.9)
        node_permits.extend(2, of="an earlier run")
        node_permits.extend(2, run="m2")
        await asyncio.sleep(0.1)
        node_permits.extend(2)
        await doing
        assert node_permits.now() - begin == pytest.approx(1)

    run(node_permits, scenario)
    assert node_permits.done == ["it"]


def test_a_step_begins_only_while_the_permit_lasts_and_cleaning_up_always(node_permits: NodePermits) -> None:
    async def scenario() -> None:
        with pytest.raises(errors.WrongStateError, match="work is too late"):
            await node_permits.carry_out(node_permits.lasts(then="the next step"), seconds=50)
        assert node_permits.done == ["cleaned up"]
        await node_permits.carry_out(node_permits.lasts(then="the next step"), seconds=150)

    run(node_permits, scenario)
    assert node_permits.done == ["cleaned up", "the next step", "cleaned up"]


def test_no_step_begins_after_another_node_has_become_the_master(node_permits: NodePermits) -> None:
    async def scenario() -> None:
        doing = asyncio.ensure_future(node_permits.carry_out(node_permits.lasts(then="the next step"), seconds=1000))
        await asyncio.sleep(10)
        node_permits.master = (4, SUCCESSOR)
        with pytest.raises(errors.FencedError, match="epoch 3 has passed"):
            await doing

    run(node_permits, scenario)
    assert node_permits.done == ["cleaned up"]


def test_a_master_that_is_confirmed_again_keeps_what_it_has_at_work(node_permits: NodePermits) -> None:
    async def scenario() -> None:
        doing = asyncio.ensure_future(node_permits.carry_out(node_permits.lasts(then="the next step"), seconds=1000))
        await asyncio.sleep(10)
        node_permits.master = (4, OWNER)
        await node_permits.permits.end_former("m1", 4)
        await doing

    run(node_permits, scenario)
    assert node_permits.done == ["the next step", "cleaned up"]


def test_a_new_master_waits_for_the_end_of_what_the_former_one_left_at_work(node_permits: NodePermits) -> None:
    async def scenario() -> None:
        doing = asyncio.ensure_future(node_permits.carry_out(node_permits.lasts(), seconds=1000))
        await asyncio.sleep(10)
        begin = node_permits.now()
        await node_permits.permits.end_former("m2", 4)
        assert (node_permits.done, node_permits.now()) == (["cleaned up"], begin)
        with pytest.raises(errors.FencedError, match="work was ended: its master has given it up, or a later run"):
            await doing
        await node_permits.permits.end_former("m2", 4)

    run(node_permits, scenario)


def test_a_call_that_its_master_gives_up_is_ended_and_no_other(node_permits: NodePermits) -> None:
    async def scenario() -> None:
        doing = [
            asyncio.ensure_future(
                node_permits.carry_out(node_permits.lasts(then=str(number)), seconds=1000, number=number)
            )
            for number in (1, 2)
        ]
        await asyncio.sleep(10)
        begin = node_permits.now()
        await node_permits.permits.end(calls.EndCalls(run="m2", numbers=(1, 2)))
        await node_permits.permits.end(calls.EndCalls(run="m1", numbers=(1, 7)))
        assert (node_permits.done, node_permits.now()) == (["cleaned up"], begin)
        with pytest.raises(errors.FencedError, match="its master has given it up"):
            await doing[0]
        await doing[1]

    run(node_permits, scenario)
    assert node_permits.done == ["cleaned up", "2", "cleaned up"]


def test_a_task_that_outlasts_its_call_ends_with_its_master(node_permits: NodePermits) -> None:
    kept = list["asyncio.Task[None]"]()

    async def scenario() -> None:
        async def work() -> None:
            kept.append(asyncio.ensure_future(asyncio.sleep(1000)))
            permits.keep(kept[0])

        await node_permits.carry_out(work, seconds=1)
        await node_permits.permits.end_former("m1", 4)
        assert not kept[0].done()
        await node_permits.permits.end_former("m2", 4)
        assert kept[0].cancelled()

    run(node_permits, scenario)


def test_the_call_of_a_new_master_fails_if_what_was_left_does_not_end(node_permits: NodePermits) -> None:
    async def scenario() -> None:
        async def hangs() -> None:
            while True:
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    if len(node_permits.done) > 0:
                        raise
                    node_permits.done.append("hung")

        doing = asyncio.ensure_future(node_permits.carry_out(hangs, seconds=1000))
        await asyncio.sleep(1)
        with pytest.raises(errors.WrongStateError, match="work of a former master is still at work"):
            await node_permits.permits.end_former("m2", 4)
        await node_permits.permits.end_former("m2", 4)
        with pytest.raises(errors.FencedError):
            await doing

    run(node_permits, scenario)


def test_a_call_that_arrives_twice_is_extended_twice(node_permits: NodePermits) -> None:
    async def scenario() -> None:
        both = [
            asyncio.ensure_future(node_permits.carry_out(node_permits.does(name), seconds=-1))
            for name in ("first", "second")
        ]
        await asyncio.sleep(1)
        node_permits.extend(1)
        await asyncio.gather(*both)

    run(node_permits, scenario)
    assert node_permits.done == ["first", "second"]


def test_a_program_is_started_only_while_the_permit_of_its_call_lasts(node_permits: NodePermits) -> None:
    async def scenario() -> None:
        async def work() -> None:
            await asyncio.sleep(100)
            await node_permits.programs.run(["qemu"])

        with pytest.raises(errors.WrongStateError, match="work is too late"):
            await node_permits.carry_out(work, seconds=50)

        async def starts() -> None:
            await asyncio.sleep(100)
            await node_permits.programs.start(["qemu"], environment=None, log="/log")

        with pytest.raises(errors.WrongStateError, match="work is too late"):
            await node_permits.carry_out(starts, seconds=50)

    run(node_permits, scenario)
    with pytest.raises(FileNotFoundError):  # outside of a call, nothing is asked
        node_permits.world.run(node_permits.programs.run(["qemu"]))


class SlowClock:
    """A clock that runs at a third of the speed of the timers; it fails when it is read without end."""

    READINGS = 10_000

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._readings = 0

    def now(self) -> float:
        return self.monotonic()

    def monotonic(self) -> float:
        self._readings += 1
        assert self._readings < self.READINGS
        return self._loop.time() / 3

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def test_a_call_whose_time_is_over_but_for_a_rounding_is_refused(node_permits: NodePermits) -> None:
    node_permits.permits = permits.Permits(SlowClock(node_permits.world.loop), "n1", check=node_permits.check)

    async def scenario() -> None:
        await asyncio.sleep(11)
        permit = calls.Permit("m1", 1, calls.Moment("n1", 0.0))
        with pytest.raises(errors.WrongStateError, match="too late"):
            await node_permits.permits.carry_out(
                node_permits.does("late"), procedure="work", permit=permit, epoch=3, caller=OWNER
            )

    node_permits.world.run(scenario())
    assert node_permits.done == []
