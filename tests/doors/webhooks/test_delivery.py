"""What the receivers of webhooks get, in which order, and what becomes of the others when one of them fails."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Iterator

import pytest
from tests.doors.webhooks import fake_receiver

from gantry import errors
from gantry.doors import webhooks
from gantry.doors.webhooks import attempts, receiver
from gantry.rpc import luxi
from gantry.runtime import http_interface, measures
from gantry.sim import cluster

TAGS = itertools.count()


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=5, nodes=1) as simulated:
        simulated.run(simulated.build())
        yield simulated


async def add(lab: cluster.SimulatedCluster, own: fake_receiver.Receiver, name: str = "hook", **fields: object) -> None:
    await lab.done({"OP_ID": "OP_WEBHOOK_ADD", "name": name, "url": own.url, **fields})


async def networks(lab: cluster.SimulatedCluster, number: int) -> list[tuple[str, str]]:
    """Add networks; return the changes of networks that a receiver gets about that."""
    names = [f"net{next(TAGS)}" for _ in range(number)]
    for name in names:
        await lab.done({"OP_ID": "OP_NETWORK_ADD", "network_name": name})
    return [(name, "added") for name in names]


def serials(own: fake_receiver.Receiver) -> list[int]:
    return [int(str(fake_receiver.contents(event)["serial"])) for event in own.events]


def test_a_receiver_gets_each_change_once_in_order_and_itself_first(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own)
            expected = await networks(lab, 5)
            await fake_receiver.until(lab, lambda: len(own.about("network")) == 5)
            assert own.about("network") == expected
            assert own.about("webhook") == [("hook", "added")]
            assert serials(own) == sorted(serials(own))
            identifiers = [request.headers["webhook-id"] for request in own.accepted]
            assert len(set(identifiers)) == len(identifiers)
            assert [event.get_id() for event in own.events] == identifiers
            assert {request.path for request in own.accepted} == {"/in?key=sesame"}
            (event,) = [event for event in own.events if event.get_type() == "gantry.webhook.added"]
            info = await lab.luxi("QueryClusterInfo")
            assert isinstance(info, dict)
            assert event.get_source() == f"urn:uuid:{info['uuid']}"
            assert event.get_subject() == "hook"
            assert fake_receiver.contents(event)["opcode"] == "OP_WEBHOOK_ADD"

    lab.run(scenario())


def test_a_receiver_gets_only_the_events_that_it_selects(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own, events=["network.removed", "job.error"])
            ((name, _),) = await networks(lab, 1)
            await lab.done({"OP_ID": "OP_NETWORK_REMOVE", "network_name": name})
            number = await lab.submit({"OP_ID": "OP_NETWORK_REMOVE", "network_name": name})
            assert (await lab.wait(number))[0] == "error"
            await fake_receiver.until(lab, lambda: len(own.accepted) == 3)
            assert own.about("network") == [(name, "removed")]
            assert own.about("job") == [(str(number), "error")]
            # What it selects does not keep it from events about itself.
            assert own.about("webhook") == [("hook", "added")]

    lab.run(scenario())


def test_an_event_is_sent_again_until_it_is_accepted_with_one_id_and_a_new_time(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master, fault=fake_receiver.answers(500, 302, 404, 400, 503))
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own, events=["network"])
            expected = await networks(lab, 3)
            await fake_receiver.until(lab, lambda: len(own.about("network")) == 3)
        attempted = [request.headers["webhook-id"] for request in own.requests]
        assert attempted == [attempted[0]] * 6 + attempted[6:]
        assert len(set(attempted)) == 4
        assert own.about("network") == expected
        stamps = [int(request.headers["webhook-timestamp"]) for request in own.requests[:6]]
        assert stamps == sorted(stamps)
        assert len(set(stamps)) > 3
        waits = [later - earlier for earlier, later in itertools.pairwise(own.times[:6])]
        for failures, wait in enumerate(waits):
            assert 2.0**failures / 2 <= wait <= 2.0**failures + 0.1

    lab.run(scenario())


def test_the_back_off_has_a_maximum(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master, fault=fake_receiver.answers(*[500] * 20))
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own, events=["network"])
            await fake_receiver.until(lab, lambda: bool(own.accepted), seconds=20 * attempts.MAX_BACK_OFF_SECONDS)
        waits = [later - earlier for earlier, later in itertools.pairwise(own.times)]
        assert attempts.MAX_BACK_OFF_SECONDS / 2 <= max(waits) <= attempts.MAX_BACK_OFF_SECONDS + 1
        assert len(set(waits[-5:])) == 5, "the jitter differs"

    lab.run(scenario())


def test_a_receiver_that_asks_for_time_gets_it(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master, fault=fake_receiver.answers(429, retry_after="77"))
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own)
            await fake_receiver.until(lab, lambda: bool(own.accepted))
        assert 77 <= own.times[1] - own.times[0] < 78

    lab.run(scenario())


@pytest.mark.parametrize("kind", ["hangs", "refuses", "long answer"])
def test_a_receiver_that_fails_delays_no_other(lab: cluster.SimulatedCluster, kind: str) -> None:
    def fault(_: http_interface.Request) -> http_interface.Response | None:
        return http_interface.Response(500, b"x" * 100_000) if kind == "long answer" else None

    async def scenario() -> None:
        bad = fake_receiver.Receiver(lab.master, port=8001, fault=fault, slow=10_000.0 if kind == "hangs" else 0.0)
        good = fake_receiver.Receiver(lab.master, port=8002)
        async with contextlib.AsyncExitStack() as ended, good.listening(), fake_receiver.sending(lab):
            await add(lab, bad, "bad", events=["network"])
            await add(lab, good, "good", events=["network"])
            if kind != "refuses":
                await ended.enter_async_context(bad.listening())
            begin = lab.world.clock.monotonic()
            expected = await networks(lab, 5)
            await fake_receiver.until(lab, lambda: len(good.about("network")) == 5)
            assert good.about("network") == expected
            assert lab.world.clock.monotonic() - begin < 60
            await lab.world.clock.sleep(60)
            assert not bad.accepted
            assert len(bad.requests) >= 2 or kind == "refuses"
            status, lag, failure = await fake_receiver.row(lab, "bad", "status", "lag", "failure")
            assert status == "failing"
            assert isinstance(lag, int)
            assert lag > 0
            assert {"hangs": "no answer within", "long answer": "status 500"}.get(kind, "connection") in str(failure)
            assert await fake_receiver.row(lab, "good", "status", "lag", "failure") == ["ok", 0, None]

    lab.run(scenario())


def test_a_long_answer_with_success_is_a_success(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master, fault=lambda _: http_interface.Response(200, b"x" * 100_000))
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own, events=["network"])
            await networks(lab, 2)
            await fake_receiver.until(lab, lambda: len(own.requests) == 3)

    lab.run(scenario())


def test_410_ends_the_webhook_until_somebody_enables_it_and_loses_nothing(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master, fault=fake_receiver.answers(410))
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own, events=["network"])
            expected = await networks(lab, 3)
            await lab.world.clock.sleep(100)
            assert len(own.requests) == 1
            assert await fake_receiver.row(lab, "hook", "status", "failure") == ["disabled", "status 410"]
            history = await lab.luxi("QueryHistory", "webhook", "hook", None, None, 10)
            assert "the receiver answered 410, Gone" in str(history)
            warnings = await _verify(lab)
            assert any("hook" in line and "it is disabled" in line for line in warnings), warnings
            await lab.done({"OP_ID": "OP_WEBHOOK_SET_PARAMS", "name": "hook", "enabled": True})
            await fake_receiver.until(lab, lambda: len(own.about("network")) == 3)
            assert own.about("network") == expected
            assert own.about("webhook")[0] == ("hook", "added")

    lab.run(scenario())


async def _verify(lab: cluster.SimulatedCluster) -> list[str]:
    number = await lab.submit({"OP_ID": "OP_CLUSTER_VERIFY"})
    await lab.wait(number)
    answer = await lab.luxi("QueryJobs", [number], ["oplog"])
    assert isinstance(answer, list)
    return [str(entry[3]) for entry in answer[0][0][0] if "webhook" in str(entry[3])]


def test_verify_warns_of_a_receiver_that_fails_for_long_and_of_one_that_nothing_serves(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        async with fake_receiver.sending(lab):
            await add(lab, own, events=["network"])
            await lab.world.clock.sleep(100)
            assert await _verify(lab) == []
            await lab.world.clock.sleep(1000)
            (line,) = await _verify(lab)
            assert "WARNING: webhook hook: its receiver has not accepted an event for 18 minutes" in line
        async with own.listening(), fake_receiver.sending(lab):
            await fake_receiver.until(lab, lambda: bool(own.accepted), seconds=400)
            await lab.world.clock.sleep(2 * webhooks.STORE_SECONDS)
        assert await _verify(lab) == []
        for number in range(1100):
            await lab.luxi("SetDrainFlag", number % 2 == 0)
        (line,) = await _verify(lab)
        assert "changes behind; does gantry-rapi run here?" in line

    lab.run(scenario())


def test_after_a_restart_delivery_goes_on_without_a_gap_or_a_double(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        async with own.listening():
            async with fake_receiver.sending(lab):
                await add(lab, own, events=["network"])
                expected = await networks(lab, 3)
                await fake_receiver.until(lab, lambda: len(own.about("network")) == 3)
            expected += await networks(lab, 3)
            async with fake_receiver.sending(lab):
                await fake_receiver.until(lab, lambda: len(own.about("network")) == 6)
                await lab.world.clock.sleep(100)
        assert own.about("network") == expected

    lab.run(scenario())


def test_after_a_crash_and_on_another_master_doubles_have_the_same_id() -> None:
    with cluster.SimulatedCluster(seed=7, nodes=3) as lab:
        lab.run(lab.build())

        async def scenario() -> None:
            outside = lab.world.machine("outside")
            lab.world.network.register("203.0.113.9", "outside")
            own = fake_receiver.Receiver(outside)
            server = await outside.network.serve_http("203.0.113.9", 8000, own._answer, tls=None, body_limit=1 << 20)
            url = "http://203.0.113.9:8000/"
            fields = {"name": "hook", "url": url, "without_tls": True, "events": ["network"]}
            await lab.done({"OP_ID": "OP_WEBHOOK_ADD", **fields})
            async with fake_receiver.sending(lab, "node1"):
                expected = await networks(lab, 3)
                await fake_receiver.until(lab, lambda: len(own.about("network")) == 3)
                expected += await networks(lab, 2)
                await fake_receiver.until(lab, lambda: len(own.about("network")) == 5)
                lab.crash("node1")
            await lab.failover("node2")
            async with fake_receiver.sending(lab, "node2"):
                expected += await networks(lab, 2)
                await fake_receiver.until(lab, lambda: expected[-1] in own.about("network"))
            await server.close()
            once = {event.get_id(): fake_receiver.contents(event) for event in own.events}
            assert all(once[event.get_id()] == fake_receiver.contents(event) for event in own.events)
            changes = [(each["name"], each["what"]) for each in once.values() if each["kind"] == "network"]
            assert changes == expected

        lab.run(scenario())


@pytest.mark.parametrize("number", [250, pytest.param(2500, marks=pytest.mark.slow)])
def test_a_backlog_is_delivered_in_order_and_read_in_parts(lab: cluster.SimulatedCluster, number: int) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        await add(lab, own, events=["network"])
        expected = await networks(lab, 1)
        for each in range(number):
            await lab.luxi("SetDrainFlag", each % 2 == 0)
        expected += await networks(lab, 3)
        sizes: list[int] = []
        call = receiver.Receiver._next_events

        async def noted(self: receiver.Receiver) -> list[object]:
            events = await call(self)
            sizes.append(len(events))
            return list(events)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(receiver.Receiver, "_next_events", noted)
            async with own.listening(), fake_receiver.sending(lab):
                await fake_receiver.until(lab, lambda: len(own.about("network")) == 4)
        assert own.about("network") == expected
        assert max(sizes) == receiver.AT_ONCE
        # An answer of the master is used up before the next question.
        assert len(sizes) <= sum(sizes) // receiver.AT_ONCE + 2
        assert sum(sizes) < number + 50

    lab.run(scenario())


def test_a_receiver_learns_which_events_are_not_kept_any_more(lab: cluster.SimulatedCluster) -> None:
    """The journal's beginning is moved by a master that answers as one whose journal was pruned."""

    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        await add(lab, own, events=["network"])
        await networks(lab, 3)
        answer = await lab.luxi("WaitForEvents", 1 << 60, 1, 0.0)
        assert isinstance(answer, dict)
        kept = int(answer["serial"]) - 2
        async with own.listening(), fake_receiver.sending(lab) as sender:
            sender._master = _Pruned(sender._master, kept)
            await fake_receiver.until(lab, lambda: len(own.accepted) >= 1)
            first = own.events[0]
            assert first.get_type() == "gantry.history.pruned"
            begin = int(str(fake_receiver.contents(first)["begin"]))
            assert begin == kept
            assert int(str(fake_receiver.contents(first)["after"])) < begin - 1
            expected = await networks(lab, 1)
            await fake_receiver.until(lab, lambda: own.about("network")[-1:] == expected)
            assert min(serials(own)[1:] or [begin]) >= begin

    def serials(own: fake_receiver.Receiver) -> list[int]:
        return [int(str(fake_receiver.contents(event).get("serial", 0))) for event in own.events]

    lab.run(scenario())


class _Pruned:
    """A master whose journal begins with a serial."""

    def __init__(self, master: luxi.Caller, begin: int) -> None:
        self._master = master
        self._begin = begin

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        if method == "WaitForEvents":
            after = int(str(arguments[0]))
            if 0 < after < self._begin - 1:
                raise errors.PrunedError("the events are not kept any more")
            if after == 0:
                arguments = (self._begin - 1, *arguments[1:])
        return await self._master.call(kind, method, *arguments)


def test_metrics_say_what_was_delivered_what_failed_and_how_far_behind_a_receiver_is(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master, fault=fake_receiver.answers(*[500] * 4))
        counts = measures.Measures()

        def value(name: str) -> float:
            found_values = [
                sample.value
                for family in counts.families()
                for sample in family.samples
                if family.name == name and sample.labels == ["hook"]
            ]
            return found_values[0] if found_values else -1.0

        async with own.listening(), fake_receiver.sending(lab, counts=counts):
            await add(lab, own, events=["network"])
            await networks(lab, 2)
            await fake_receiver.until(lab, lambda: value("gantry_webhook_failed_total") == 3)
            assert value("gantry_webhook_lag_events") > 0
            assert value("gantry_webhook_lag_seconds") > 1
            await fake_receiver.until(lab, lambda: value("gantry_webhook_delivered_total") == 3)
            await lab.world.clock.sleep(50)
            assert value("gantry_webhook_failed_total") == 4
            assert value("gantry_webhook_lag_events") == 0
            assert value("gantry_webhook_lag_seconds") == 0
            await lab.done({"OP_ID": "OP_WEBHOOK_REMOVE", "name": "hook"})
            await fake_receiver.until(lab, lambda: value("gantry_webhook_lag_events") == -1)

    lab.run(scenario())


def test_an_idle_cluster_stays_idle(lab: cluster.SimulatedCluster) -> None:
    async def serial() -> object:
        answer = await lab.luxi("WaitForEvents", 1 << 60, 1, 0.0)
        assert isinstance(answer, dict)
        return answer["serial"]

    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own)
            await lab.world.clock.sleep(100)
            before = await serial()
            requests = len(own.requests)
            await lab.world.clock.sleep(3600)
            assert await serial() == before
            assert len(own.requests) == requests

    lab.run(scenario())


def test_a_removed_or_changed_webhook_takes_effect_while_its_receiver_hangs(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        hanging, other = (
            fake_receiver.Receiver(lab.master, port=8001, slow=10_000.0),
            fake_receiver.Receiver(lab.master, port=8002),
        )
        async with hanging.listening(), other.listening(), fake_receiver.sending(lab):
            await add(lab, hanging, "one", events=["network"])
            await add(lab, hanging, "two", events=["network"])
            await fake_receiver.until(lab, lambda: len(hanging.requests) == 2)
            await lab.done({"OP_ID": "OP_WEBHOOK_REMOVE", "name": "two"})
            await lab.done({"OP_ID": "OP_WEBHOOK_SET_PARAMS", "name": "one", "url": other.url})
            expected = await networks(lab, 2)
            await fake_receiver.until(lab, lambda: len(other.about("network")) == 2, seconds=30)
            assert other.about("network") == expected
            assert other.about("webhook") == [("one", "added"), ("one", "changed")]
            number = len(hanging.requests)
            await lab.world.clock.sleep(1000)
            assert len(hanging.requests) == number

    lab.run(scenario())


def test_a_dead_receiver_fills_no_log_and_no_log_has_its_url_or_secret(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> str:
        own = fake_receiver.Receiver(lab.master, fault=fake_receiver.answers(*[500] * 1000))
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own)
            await networks(lab, 20)
            await lab.world.clock.sleep(3600)
            return str(await lab.luxi("ReadWebhookSecret", "hook"))

    with caplog.at_level(logging.DEBUG):
        secret = lab.run(scenario())
    lines = [
        each.getMessage()
        for each in caplog.records
        if "hook: the rec" in each.getMessage() or "status 500" in each.getMessage()
    ]
    assert 1 <= len(lines) <= 40
    assert "sesame" not in caplog.text
    assert secret.removeprefix("whsec_") not in caplog.text


def test_a_receiver_that_fails_now_and_then_has_a_line_for_each_cause_and_minute(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(
            lab.master, fault=lambda _: http_interface.Response(500, b"") if odd(own) else None
        )
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own, events=["network"])
            expected = await networks(lab, 60)
            await fake_receiver.until(lab, lambda: own.about("network") == expected)
        assert len(own.requests) == 2 * len(own.accepted)

    def odd(own: fake_receiver.Receiver) -> bool:
        return len(own.requests) % 2 == 1

    lab.run(scenario())
    lines = [each for each in caplog.records if "has not accepted" in each.getMessage()]
    assert 1 <= len(lines) <= 3


def test_a_fault_of_the_program_about_one_event_ends_no_other_receiver(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own, other = fake_receiver.Receiver(lab.master, port=8001), fake_receiver.Receiver(lab.master, port=8002)
        run = receiver.Receiver._deliver
        broken: list[str] = []

        async def deliver(self: receiver.Receiver, event: object) -> bool:
            if self.hook.name == "own" and not broken:
                broken.append("once")
                raise KeyError
            return await run(self, event)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(receiver.Receiver, "_deliver", deliver)
            async with own.listening(), other.listening(), fake_receiver.sending(lab):
                await add(lab, own, "own", events=["network"])
                await add(lab, other, "other", events=["network"])
                expected = await networks(lab, 2)
                await fake_receiver.until(lab, lambda: other.about("network") == expected, seconds=20)
                await fake_receiver.until(lab, lambda: own.about("network") == expected)
        assert broken

    lab.run(scenario())


def test_a_master_that_is_away_delays_events_and_loses_none(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own, events=["network"])
            expected = await networks(lab, 2)
            await fake_receiver.until(lab, lambda: len(own.about("network")) == 2)
            await lab.stop_master("node1")
            await lab.world.clock.sleep(30)
            await lab.start_master("node1")
            expected += await networks(lab, 2)
            await fake_receiver.until(lab, lambda: len(own.about("network")) == 4)
            assert own.about("network") == expected

    lab.run(scenario())


def test_ended_tasks_are_not_left_behind(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        own = fake_receiver.Receiver(lab.master)
        before = len(asyncio.all_tasks())
        async with own.listening(), fake_receiver.sending(lab):
            await add(lab, own)
            await fake_receiver.until(lab, lambda: bool(own.accepted))
        await lab.world.clock.sleep(10)
        assert len(asyncio.all_tasks()) <= before + 1

    lab.run(scenario())
