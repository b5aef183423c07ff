"""The permits of calls: until when a node may carry out each, by the node's clock."""

import asyncio
from collections.abc import Iterator

import pytest

from gantry import errors
from gantry.rpc import calls, permits, targets
from gantry.runtime import simulated

TARGET = targets.Target("u1", "node1", "192.0.2.1", 1811)


class DaemonPermits:
    """The permits of one daemon in virtual time, and what it asked nodes."""

    def __init__(self, world: simulated.World) -> None:
        self.world = world
        self.asked: list[calls.ExtendPermits] = []
        self.ended: list[tuple[int, ...]] = []
        self.answer_seconds = 0.1
        self.permits = permits.Permits("m1", self.ask)

    async def ask(self, target: targets.Target, call: calls.Call[None]) -> None:
        if isinstance(call, calls.EndCalls):
            self.ended.append(call.numbers)
            await asyncio.sleep(self.answer_seconds)
        else:
            assert isinstance(call, calls.ExtendPermits)
            self.asked.append(call)

    def tell(self, seconds: float) -> None:
        """Let the node's answer arrive, by whose clock it is ``seconds``."""
        self.permits.note(TARGET, {calls.MOMENT_HEADER: calls.Moment("n1", seconds).encode()})


@pytest.fixture
def daemon_permits() -> Iterator[DaemonPermits]:
    with simulated.World(1) as world:
        yield DaemonPermits(world)


def end(header: dict[str, str]) -> float:
    """Return when the permit in a call's headers ends."""
    permit = calls.decode_permit(header[calls.PERMIT_HEADER])
    assert permit is not None
    assert (permit.run, permit.until.run) == ("m1", "n1")
    return permit.until.seconds


def test_a_permit_ends_by_the_nodes_clock_and_not_after_the_masters_right(daemon_permits: DaemonPermits) -> None:
    async def scenario() -> None:
        daemon_permits.tell(500.0)
        async with daemon_permits.permits.permit(TARGET) as headers:
            assert end(headers) == 500 + permits.PERMIT_SECONDS
        await asyncio.sleep(3)
        async with daemon_permits.permits.permit(TARGET) as headers:
            assert end(headers) == 503 + permits.PERMIT_SECONDS
        daemon_permits.permits.limit(lambda: 1.5)
        async with daemon_permits.permits.permit(TARGET) as headers:
            assert end(headers) == 504.5
        daemon_permits.permits.limit(lambda: -7.0)
        async with daemon_permits.permits.permit(TARGET) as headers:
            assert end(headers) == 496

    daemon_permits.world.run(scenario())


def test_a_moment_that_is_old_or_not_known_is_asked_for(daemon_permits: DaemonPermits) -> None:
    async def scenario() -> None:
        assert daemon_permits.permits.needs_moment(TARGET)
        daemon_permits.tell(500.0)
        assert not daemon_permits.permits.needs_moment(TARGET)
        await asyncio.sleep(permits.MAX_AGE_SECONDS + 0.1)
        assert daemon_permits.permits.needs_moment(TARGET)

    daemon_permits.world.run(scenario())


def test_a_node_that_tells_no_moment_gets_no_permit(daemon_permits: DaemonPermits) -> None:
    async def scenario() -> None:
        daemon_permits.permits.note(TARGET, {})
        assert not daemon_permits.permits.needs_moment(TARGET)
        async with daemon_permits.permits.permit(TARGET) as headers:
            assert headers == {}
            await asyncio.sleep(10)

    daemon_permits.world.run(scenario())
    assert daemon_permits.asked == []


def test_permits_of_calls_under_way_are_extended_and_no_others(daemon_permits: DaemonPermits) -> None:
    async def scenario() -> None:
        daemon_permits.tell(500.0)
        async with daemon_permits.permits.permit(TARGET):
            async with daemon_permits.permits.permit(TARGET):
                await asyncio.sleep(1.5)
            await asyncio.sleep(1.0)
        await asyncio.sleep(10)

    daemon_permits.world.run(scenario())
    assert [call.numbers for call in daemon_permits.asked] == [(1, 2), (1,)]
    assert [call.until for call in daemon_permits.asked] == ["n1 505.000", "n1 506.000"]


def test_a_master_without_its_right_extends_nothing_until_it_has_it_again(daemon_permits: DaemonPermits) -> None:
    right = -1.0

    async def scenario() -> None:
        nonlocal right
        daemon_permits.tell(500.0)
        daemon_permits.permits.limit(lambda: right)
        async with daemon_permits.permits.permit(TARGET):
            await asyncio.sleep(5.5)
            assert daemon_permits.asked == []
            right = 2.0
            await asyncio.sleep(1)

    daemon_permits.world.run(scenario())
    assert [call.until for call in daemon_permits.asked] == ["n1 508.000"]


@pytest.mark.parametrize(("answer_seconds", "lasted"), [(0.1, 0.1), (1000.0, permits.END_SECONDS)])
def test_a_call_that_is_given_up_is_ended_on_its_node_and_that_is_waited_for(
    daemon_permits: DaemonPermits, answer_seconds: float, lasted: float
) -> None:
    daemon_permits.answer_seconds = answer_seconds

    async def calling(error: Exception | None = None) -> None:
        async with daemon_permits.permits.permit(TARGET):
            if error:
                raise error
            await asyncio.sleep(1000)

    async def scenario() -> None:
        daemon_permits.tell(500.0)
        call = asyncio.ensure_future(calling())
        await asyncio.sleep(0.5)
        begin = daemon_permits.world.clock.monotonic()
        call.cancel()
        await asyncio.wait([call])
        assert daemon_permits.world.clock.monotonic() - begin == pytest.approx(lasted)
        with pytest.raises(errors.RemoteError):
            await calling(errors.RemoteError("no answer"))
        with pytest.raises(errors.ExecutionError):
            await calling(errors.ExecutionError("the node's own error"))

    daemon_permits.world.run(scenario())
    assert daemon_permits.ended == [(1,), (2,)]
