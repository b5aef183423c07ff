import asyncio
import dataclasses
import math
import re
import ssl
from collections.abc import Callable, Mapping

import msgspec
import pytest

from gantry import __version__, errors
from gantry.rpc import call_queue, calls, client, liveness, targets
from gantry.rpc.calls import reach
from gantry.runtime import http_interface, limits, simulated
from gantry.runtime.real import http, network

Reply = Callable[[str], http_interface.Response]
TARGET = targets.Target("u1", "node1", "192.0.2.1", 1811)
OFFLINE = targets.Target("u2", "node2", "192.0.2.2", 1811, offline=True)


class Http(http.Client):
    """A client whose servers answer what ``reply`` says."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.requests: list[tuple[str, str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.timeouts: list[float] = []

    async def post(
        self, host: str, port: int, path: str, body: bytes, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> http_interface.Response:
        self.requests.append((host, path, body))
        self.headers.append(dict(headers or {}))
        self.timeouts.append(timeout)
        return self._reply(host)

    async def close(self) -> None: ...


class Network(network.Network):
    def __init__(self, http: Http) -> None:
        self._http = http

    def http_client(self, *, tls: ssl.SSLContext | None) -> Http:
        return self._http


def ok(result: object) -> http_interface.Response:
    return http_interface.Response(200, msgspec.json.encode((True, result)))


def build_client(reply: Reply) -> tuple[client.Client, Http]:
    http = Http(reply)
    return client.Client(Network(http), None), http


def raising(error: OSError) -> Reply:
    def reply(host: str) -> http_interface.Response:
        raise error

    return reply


async def test_a_call_travels_under_its_name_and_comes_back_typed() -> None:
    nodes, http = build_client(lambda _: ok({"software": "1", "node": "node1", "cluster": "c"}))
    assert await nodes.call(TARGET, calls.Version()) == calls.VersionInfo(software="1", node="node1", cluster="c")
    assert http.requests == [("192.0.2.1", "/version", b"{}")]


async def test_an_empty_result_is_none() -> None:
    nodes, _ = build_client(lambda _: ok(None))
    assert await nodes.call(TARGET, calls.InstanceInfo(hypervisor="fake", name="x")) is None


@pytest.mark.promise("cluster-90")
async def test_an_offline_node_is_answered_for_without_asking_it() -> None:
    nodes, http = build_client(lambda _: ok("m"))
    online, offline = await nodes.fan_out([TARGET, OFFLINE], calls.MasterName())
    assert (online.value, online.offline) == ("m", False)
    assert offline.offline
    assert "node2 is marked offline" in str(offline.error)
    assert [host for host, _, _ in http.requests] == ["192.0.2.1"]


async def test_failures_of_some_nodes_do_not_hide_the_answers_of_others() -> None:
    def reply(host: str) -> http_interface.Response:
        if host == "192.0.2.3":
            raise ConnectionRefusedError(111, "Connection refused")
        return ok(host)

    nodes, _ = build_client(reply)
    third = targets.Target("u3", "node3", "192.0.2.3", 1811)
    answers = await nodes.fan_out([third, TARGET], calls.MasterName())
    assert isinstance(answers[0].error, errors.RemoteError)
    assert answers[1].value == "192.0.2.1"


async def test_the_error_of_a_node_is_raised_here_with_its_name() -> None:
    pair = errors.NoRoomError("disk of 10 MiB does not fit").luxi_pair()
    nodes, _ = build_client(lambda _: http_interface.Response(409, msgspec.json.encode((False, pair))))
    with pytest.raises(errors.NoRoomError, match="node node1: disk of 10 MiB does not fit"):
        await nodes.call(TARGET, calls.Version())


@pytest.mark.parametrize(
    "error, message",
    [
        (ConnectionRefusedError(111, "Connection refused"), "cannot be reached: Connection refused.*gantry-noded"),
        (TimeoutError(), "did not answer version within 60 s.*offline"),
        (OSError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate is not yet valid"), "no trusted connection.*clocks"),
        (OSError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"), "no trusted connection.*cluster"),
    ],
)
async def test_an_unreachable_node_is_named_with_its_address_and_what_to_do(error: OSError, message: str) -> None:
    nodes, _ = build_client(raising(error))
    with pytest.raises(errors.RemoteError, match=rf"node node1 \(192.0.2.1 port 1811\).*{message}"):
        await nodes.call(TARGET, calls.Version())


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'[true, "x"]', b"[false, 1]", b"[true, {}, 3]"])
async def test_what_is_no_answer_is_a_remote_error(body: bytes) -> None:
    nodes, _ = build_client(lambda _: http_interface.Response(502, body))
    with pytest.raises(errors.RemoteError, match="node node1 sent an invalid answer to version"):
        await nodes.call(TARGET, calls.Version())


@pytest.mark.parametrize("refusal", [errors.FencedError, errors.NotGrantedError, errors.UnknownCallerError])
async def test_a_refusal_without_a_reason_is_a_refusal(refusal: type[errors.GantryError]) -> None:
    body = msgspec.json.encode((False, ("WithoutReason", ())))
    nodes, _ = build_client(lambda _: http_interface.Response(refusal.status, body))
    with pytest.raises(refusal, match="node node1: WithoutReason"):
        await nodes.call(TARGET, calls.Version())


@pytest.mark.parametrize(
    ("header", "obeyed"), [({}, (0, "")), ({"x-gantry-obeyed": "3 u3"}, (3, "u3")), ({"x-gantry-obeyed": "3"}, (0, ""))]
)
async def test_a_node_that_does_not_know_the_caller_says_whom_it_obeys(
    header: dict[str, str], obeyed: tuple[int, str]
) -> None:
    body = msgspec.json.encode((False, errors.UnknownCallerError().luxi_pair()))
    nodes, _ = build_client(lambda _: http_interface.Response(errors.UnknownCallerError.status, body, headers=header))
    with pytest.raises(errors.UnknownCallerError) as refused:
        await nodes.call(TARGET, calls.Version())
    assert refused.value.obeyed == obeyed


@pytest.mark.parametrize("token", ["rubbish", '{"secret": "s", "certificate": "rubbish"}'])
async def test_a_bad_join_token_is_the_callers_fault(token: str) -> None:
    nodes, http = build_client(lambda _: ok(""))
    with pytest.raises(errors.InvalidError, match=r"node node1.*join-token"):
        await nodes.join(TARGET, token, calls.Version())
    assert not http.requests


async def permitted() -> None:
    """Allow all calls."""


async def test_calls_carry_the_epoch_of_a_confirmed_master_and_none_before() -> None:
    nodes, http = build_client(lambda _: ok("m"))
    await nodes.call(TARGET, calls.MasterName())
    nodes.fence(lambda: 7, lambda error: None, permitted=permitted)
    await nodes.call(TARGET, calls.MasterName())
    await nodes.fan_out([TARGET], calls.NodeDemote())
    assert [headers.get("x-gantry-epoch") for headers in http.headers] == [None, "7", "7"]


async def test_calls_of_a_confirmed_master_say_how_far_changes_are_acknowledged() -> None:
    nodes, http = build_client(lambda _: ok("m"))
    positions = [(0, 0), (2, 40), (2, 41)]
    nodes.fence(lambda: 2, lambda error: None, permitted=permitted, acknowledged=lambda: positions[len(http.headers)])
    for _ in positions:
        await nodes.call(TARGET, calls.MasterName())
    assert [headers.get(reach.HEADER) for headers in http.headers] == [None, "2-40", "2-41"]


async def test_calls_carry_the_version_and_the_protocol_numbers_of_the_master() -> None:
    nodes, http = build_client(lambda _: ok("m"))
    await nodes.call(TARGET, calls.MasterName())
    assert http.headers == [{"x-gantry-software": __version__, "x-gantry-protocol": "1-1"}]


def of_protocol(numbers: str) -> http_interface.Response:
    headers = {"x-gantry-software": "9.1", "x-gantry-protocol": numbers}
    return http_interface.Response(200, msgspec.json.encode((True, "m")), headers=headers)


@pytest.mark.parametrize("numbers", ["1-1", "1-5"])
async def test_a_node_of_a_near_version_is_understood(numbers: str) -> None:
    nodes, _ = build_client(lambda _: of_protocol(numbers))
    assert await nodes.call(TARGET, calls.MasterName()) == "m"


@pytest.mark.parametrize("numbers", ["2-3", "nonsense", "3-1"])
async def test_the_answer_of_a_node_too_far_from_this_version_is_refused_with_both_versions(numbers: str) -> None:
    nodes, _ = build_client(lambda _: of_protocol(numbers))
    words = f"node node1 runs Gantry 9.1 with protocol {numbers}, this machine Gantry {__version__} with protocol 1-1: "
    with pytest.raises(errors.IncompatibleError, match=re.escape(words)):
        await nodes.call(TARGET, calls.MasterName())


async def test_a_node_that_refuses_the_protocol_is_reported_in_its_words() -> None:
    refused = errors.IncompatibleError("this node runs Gantry 9.1", hint="upgrade")
    body = msgspec.json.encode((False, refused.luxi_pair()))
    headers = {"x-gantry-protocol": "2-3"}
    nodes, _ = build_client(lambda _: http_interface.Response(refused.status, body, headers=headers))
    with pytest.raises(errors.IncompatibleError, match=r"node node1: this node runs Gantry 9\.1; upgrade"):
        await nodes.call(TARGET, calls.MasterName())


@pytest.mark.parametrize("kind", [errors.FencedError, errors.NotGrantedError])
async def test_a_master_hears_that_it_was_replaced_from_the_first_node_that_refuses_it(
    kind: type[errors.FencedError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CONFIRMATION_SECONDS", 1)
    refused = kind("epoch 7 has passed", hint="stop it")
    body = msgspec.json.encode((False, refused.luxi_pair()))
    nodes, _ = build_client(lambda _: http_interface.Response(refused.status, body))
    refusals: list[errors.FencedError] = []
    nodes.fence(lambda: 7, refusals.append, permitted=permitted)
    with pytest.raises(errors.FencedError, match="node node1: epoch 7 has passed; stop it"):
        await nodes.call(TARGET, calls.NodeDemote())
    (answer,) = await nodes.fan_out([TARGET], calls.NodeDemote())
    assert type(answer.error) is kind
    assert [type(error) for error in refusals] == [kind, kind]


def busy(status: int, headers: Mapping[str, str] = {"retry-after": "1"}) -> http_interface.Response:
    body = msgspec.json.encode((False, errors.BusyError("the server has too many connections").luxi_pair()))
    return http_interface.Response(status, body, headers=headers)


@pytest.mark.parametrize("status", [429, 503])
def test_a_node_that_is_too_busy_is_called_again_within_the_timeout(status: int) -> None:
    answers = [busy(status), busy(status), ok("m")]
    nodes, http = build_client(lambda _: answers.pop(0))
    with simulated.World(seed=1) as world:
        assert world.run(nodes.call(TARGET, calls.MasterName())) == "m"
        assert world.loop.time() == pytest.approx(2 * limits.RETRY_SECONDS)
    assert http.timeouts[0] > http.timeouts[1] > http.timeouts[2]


def test_a_node_that_stays_too_busy_is_given_up_after_the_timeout() -> None:
    nodes, _ = build_client(lambda _: busy(503))
    with simulated.World(seed=1) as world:
        with pytest.raises(errors.BusyError, match="node node1: the server has too many connections"):
            world.run(nodes.call(TARGET, calls.MasterName()))
        assert world.loop.time() <= calls.MasterName.LIMIT


@pytest.mark.parametrize("headers", [{}, {"retry-after": "1", calls.SOFTWARE_HEADER: "1.0"}])
def test_an_error_of_a_driver_with_the_same_status_is_not_a_refusal_of_the_server(headers: dict[str, str]) -> None:
    nodes, http = build_client(lambda _: busy(503, headers))
    with simulated.World(seed=1) as world, pytest.raises(errors.BusyError):
        world.run(nodes.call(TARGET, calls.MasterName()))
    assert len(http.requests) == 1


class Slow(Http):
    """A client whose servers answer after some seconds."""

    def __init__(self, reply: Reply, *, seconds: float = 1.0) -> None:
        super().__init__(reply)
        self.seconds = seconds

    async def post(
        self, host: str, port: int, path: str, body: bytes, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> http_interface.Response:
        answer = await super().post(host, port, path, body, timeout=timeout, headers=headers)
        await asyncio.sleep(self.seconds)
        return answer


@pytest.mark.parametrize("number", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_calls_of_jobs_have_few_connections_and_all_of_their_timeouts(number: int) -> None:
    http = Slow(lambda _: ok(None))
    nodes = client.Queued(client.Client(Network(http), None))
    call = calls.InstanceInfo(hypervisor="fake", name="x")
    with simulated.World(seed=1) as world:
        answers = world.run(nodes.fan_out([TARGET] * number, call))
        assert world.loop.time() == pytest.approx(math.ceil(number / call_queue.JOB_SLOTS))
    assert call_queue.JOB_SLOTS + call_queue.QUERY_SLOTS <= 32
    assert not [answer for answer in answers if answer.error]
    assert set(http.timeouts) == {call.LIMIT}


def test_no_call_of_the_master_itself_waits_behind_those_of_jobs() -> None:
    http = Slow(lambda _: ok({"software": "1"}))
    direct = client.Client(Network(http), None)
    nodes = client.Queued(direct)
    own: list[calls.Call[object]] = [
        calls.LeaseRenew(node="node1", epoch=1),
        calls.MasterName(),
        calls.JournalAppend(epoch=1, previous="", frame=""),
    ]

    async def check() -> float:
        crowd = asyncio.ensure_future(nodes.fan_out([TARGET] * 1000, calls.NicValidate(nics=())))
        await asyncio.sleep(0.5)
        begin = asyncio.get_running_loop().time()
        asking = [nodes.call(TARGET, calls.Version()), *(direct.call(TARGET, call) for call in own)]
        await asyncio.gather(*asking, return_exceptions=True)
        seconds = asyncio.get_running_loop().time() - begin
        crowd.cancel()
        await asyncio.gather(crowd, return_exceptions=True)
        return seconds

    with simulated.World(seed=1) as world:
        assert world.run(check()) == pytest.approx(1.0)


def test_an_offline_node_is_answered_for_at_once_while_jobs_wait() -> None:
    nodes = client.Queued(client.Client(Network(Slow(lambda _: ok(None))), None))

    async def check() -> None:
        crowd = asyncio.ensure_future(nodes.fan_out([TARGET] * 1000, calls.NicValidate(nics=())))
        await asyncio.sleep(0.5)
        with pytest.raises(errors.RemoteError, match="is marked offline"):
            await nodes.call(dataclasses.replace(TARGET, offline=True), calls.NicValidate(nics=()))
        crowd.cancel()
        await asyncio.gather(crowd, return_exceptions=True)

    with simulated.World(seed=1) as world:
        world.run(check())
        assert world.loop.time() == 0.5


async def test_the_client_knows_when_a_node_last_answered_anything() -> None:
    refused = errors.NotGrantedError("no").luxi_pair()
    nodes, _ = build_client(lambda _: http_interface.Response(409, msgspec.json.encode((False, refused))))
    assert nodes.last_answer(TARGET) == liveness.NEVER
    with pytest.raises(errors.GantryError):
        await nodes.call(TARGET, calls.MasterName())
    assert nodes.last_answer(TARGET) <= asyncio.get_running_loop().time()
    assert nodes.last_answer(TARGET) > liveness.NEVER
    unreachable, _ = build_client(raising(ConnectionResetError()))
    with pytest.raises(errors.RemoteError):
        await unreachable.call(TARGET, calls.MasterName())
    assert unreachable.last_answer(TARGET) == liveness.NEVER


def test_thousands_of_jobs_that_ask_at_a_time_whether_a_node_answers_share_a_call() -> None:
    http = Slow(lambda _: ok({"software": "1"}))
    nodes = client.Queued(client.Client(Network(http), None))

    async def check() -> None:
        first = asyncio.ensure_future(nodes.call(TARGET, calls.Version()))
        await asyncio.sleep(0.5)
        asking = [asyncio.ensure_future(nodes.call(TARGET, calls.Version())) for _ in range(3000)]
        await asyncio.sleep(0.1)
        asking.pop().cancel()
        assert {(await each).software for each in [first, *asking]} == {"1"}
        assert len(http.requests) == 1
        await nodes.call(TARGET, calls.Version())
        assert len(http.requests) == 2

    with simulated.World(seed=1) as world:
        world.run(check())


def test_a_check_of_a_node_does_not_share_a_call_whose_answer_may_be_lost() -> None:
    http = Slow(lambda _: ok({"software": "1"}), seconds=30.0)
    nodes = client.Queued(client.Client(Network(http), None))

    async def check() -> None:
        lost = asyncio.ensure_future(nodes.call(TARGET, calls.Version()))
        await asyncio.sleep(client.SHARED_CHECK_SECONDS + 0.1)
        http.seconds = 0.1
        assert (await nodes.call(TARGET, calls.Version())).software == "1"
        assert not lost.done()
        lost.cancel()
        await nodes.close()
        assert len(asyncio.all_tasks()) == 1

    with simulated.World(seed=1) as world:
        world.run(check())
