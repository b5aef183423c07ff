"""What webhooks do while the master fails, is behind them, or is the reason for a fault of the program."""

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest
from tests.doors.webhooks import fake_receiver
from tests.doors.webhooks.test_delivery import add, networks

from gantry import errors
from gantry.doors import webhooks
from gantry.doors.webhooks import receiver
from gantry.rpc import luxi
from gantry.runtime import interface
from gantry.sim import cluster

Calls = Callable[[str, tuple[object, ...]], bool]
"""Whether a call is one of those that fail."""


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=5, nodes=1) as simulated:
        simulated.run(simulated.build())
        yield simulated


class FailingMaster:
    """A master that answers the first of some calls with these outcomes, and notes the times of these calls."""

    def __init__(
        self, master: luxi.Caller, clock: interface.Clock, which: Calls, outcomes: Sequence[Exception | object]
    ) -> None:
        self.times: list[float] = []
        self._master, self._clock, self._which = master, clock, which
        self._outcomes = list(outcomes)

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        if not self._which(method, arguments):
            return await self._master.call(kind, method, *arguments)
        self.times.append(self._clock.monotonic())
        if not self._outcomes:
            return await self._master.call(kind, method, *arguments)
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return msgspec.convert(outcome, kind)


def failing(
    lab: cluster.SimulatedCluster, sender: webhooks.Webhooks, which: Calls, *outcomes: Exception | object
) -> FailingMaster:
    """Let the first of some calls of a sender that has not begun yet fail."""
    sender._master = master = FailingMaster(sender._master, lab.world.clock, which, outcomes)
    return master


def is_reading(method: str, arguments: tuple[object, ...]) -> bool:
    """Return whether a receiver, and not the whole, asks for events."""
    return method == "WaitForEvents" and arguments[1] == receiver.AT_ONCE


def of(name: str) -> Calls:
    return lambda method, _: method == name


def waits(times: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(times)]


BROKEN = errors.RemoteError("the connection is lost")


@pytest.mark.parametrize(
    ("outcome", "lines"),
    [(BROKEN, ["webhook hook cannot read events: the connection is lost"]), ({"events": [], "serial": 1 << 60}, [])],
    ids=["error", "no events"],
)
def test_a_receiver_whose_events_cannot_be_read_asks_again_each_second(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture, outcome: object, lines: list[str]
) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        await add(lab, own, events=["network"])
        expected = await networks(lab, 2)
        async with own.listening(), fake_receiver.sending(lab) as sender:
            master = failing(lab, sender, is_reading, *[outcome] * 3)
            await fake_receiver.until(lab, lambda: len(own.about("network")) == 2, seconds=20)
            assert own.about("network") == expected
            assert waits(master.times[:4]) == pytest.approx([receiver.RETRY_SECONDS] * 3, abs=0.2)

    with caplog.at_level(logging.INFO):
        lab.run(scenario())
    assert [line for line in caplog.messages if "cannot read events" in line] == lines
    assert "failed" not in caplog.text


@pytest.mark.parametrize(
    ("which", "line"),
    [(of("ReadWebhooks"), "webhooks failed"), (is_reading, "webhook hook failed")],
    ids=["all", "alone"],
)
def test_a_fault_of_the_program_delays_receivers_for_a_minute_and_loses_nothing(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture, which: Calls, line: str
) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        await add(lab, own, events=["network"])
        expected = await networks(lab, 2)
        begin = lab.world.clock.monotonic()
        async with own.listening(), fake_receiver.sending(lab) as sender:
            failing(lab, sender, which, KeyError("x"))
            await fake_receiver.until(lab, lambda: len(own.about("network")) == 2)
        assert own.about("network") == expected
        assert webhooks.FAULT_SECONDS <= lab.world.clock.monotonic() - begin <= webhooks.FAULT_SECONDS + 20

    lab.run(scenario())
    assert [text for text in caplog.messages if "failed" in text] == [line]


def test_a_webhook_is_disabled_once_the_master_takes_the_job(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master, fault=fake_receiver.answers(410))
        await add(lab, own)
        async with own.listening(), fake_receiver.sending(lab) as sender:
            master = failing(lab, sender, of("SubmitJob"), *[BROKEN] * 3)
            await fake_receiver.until(lab, lambda: len(master.times) == 3)
            assert await fake_receiver.row(lab, "hook", "status") == ["failing"]
            await lab.world.clock.sleep(10)
            assert await fake_receiver.row(lab, "hook", "status") == ["disabled"]
            assert waits(master.times) == pytest.approx([webhooks.RETRY_SECONDS] * 3, abs=0.2)
            assert len(own.requests) == 1

    with caplog.at_level(logging.INFO):
        lab.run(scenario())
    assert "webhook hook is not disabled: the connection is lost" in caplog.messages


def test_positions_that_cannot_be_stored_are_logged_and_stored_later(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        await add(lab, own, events=["network"])
        async with own.listening(), fake_receiver.sending(lab) as sender:
            master = failing(lab, sender, of("StoreWebhookPositions"), BROKEN)
            await networks(lab, 2)
            await fake_receiver.until(lab, lambda: len(own.about("network")) == 2)
            await fake_receiver.until(lab, lambda: len(master.times) == 2, seconds=3 * webhooks.STORE_SECONDS)

    with caplog.at_level(logging.INFO):
        lab.run(scenario())
    assert "the positions of webhooks are not stored: the connection is lost" in caplog.messages


def test_a_receiver_that_is_ahead_of_a_recovered_state_gets_what_follows(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        await add(lab, own, events=["network"])
        newest = lab.daemons[lab.leader].store.snapshot.serial
        (uuid,) = lab.daemons[lab.leader].store.snapshot.webhooks
        await lab.luxi("StoreWebhookPositions", [(uuid, newest + 1000, "", None)])
        async with own.listening(), fake_receiver.sending(lab):
            await networks(lab, 1)
            await fake_receiver.until(lab, lambda: bool(own.events), seconds=20)
            gap = own.events[0]
            assert gap.get_type() == "gantry.history.pruned"
            assert fake_receiver.contents(gap)["after"] == newest + 1000
            assert fake_receiver.contents(gap)["begin"] == lab.daemons[lab.leader].store.snapshot.serial
            expected = await networks(lab, 2)
            await fake_receiver.until(lab, lambda: len(own.about("network")) >= 2, seconds=20)
            assert own.about("network") == expected

    lab.run(scenario())


def test_a_receiver_that_is_gone_when_events_are_missing_learns_of_them_once_it_is_enabled_again(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master, fault=fake_receiver.answers(410))
        await add(lab, own, events=["network"])
        await networks(lab, 2)
        newest = lab.daemons[lab.leader].store.snapshot.serial
        (uuid,) = lab.daemons[lab.leader].store.snapshot.webhooks
        await lab.luxi("StoreWebhookPositions", [(uuid, newest + 1000, "", None)])
        async with own.listening(), fake_receiver.sending(lab):
            await networks(lab, 1)
            await lab.world.clock.sleep(100)
            assert len(own.requests) == 1
            assert await fake_receiver.row(lab, "hook", "status", "failure") == ["disabled", "status 410"]
            await lab.done({"OP_ID": "OP_WEBHOOK_SET_PARAMS", "name": "hook", "enabled": True})
            await fake_receiver.until(lab, lambda: len(own.accepted) >= 1)
            assert own.events[0].get_type() == "gantry.history.pruned"

    lab.run(scenario())
