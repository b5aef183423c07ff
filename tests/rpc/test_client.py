import re
import ssl
from collections.abc import Callable, Mapping

import msgspec
import pytest

from gantry import __version__, errors
from gantry.rpc import calls, client, targets
from gantry.runtime import http_interface
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

    async def post(
        self, host: str, port: int, path: str, body: bytes, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> http_interface.Response:
        self.requests.append((host, path, body))
        self.headers.append(dict(headers or {}))
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


@pytest.mark.parametrize("refusal", [errors.FencedError, errors.PromisedError, errors.UnknownCallerError])
async def test_a_refusal_without_a_reason_is_a_refusal(refusal: type[errors.GantryError]) -> None:
    body = msgspec.json.encode((False, ("WithoutReason", ())))
    nodes, _ = build_client(lambda _: http_interface.Response(refusal.status, body))
    with pytest.raises(refusal, match="node node1: WithoutReason"):
        await nodes.call(TARGET, calls.Version())


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


@pytest.mark.parametrize("kind", [errors.FencedError, errors.PromisedError])
async def test_a_master_hears_that_it_was_replaced_from_the_first_node_that_refuses_it(
    kind: type[errors.FencedError],
) -> None:
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
