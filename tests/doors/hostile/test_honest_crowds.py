"""Many honest clients at one moment, ten times what the servers usually have: each gets an answer, none is cut off.

All clients are this one process. On a busy machine it writes the last request much later than it connected, so the
servers wait longer here than for a client that is one of many.
"""

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from tests.cluster import lab
from tests.doors.hostile import clients, conftest

from gantry.kubernetes.controllers import client as api_client
from gantry.kubernetes.controllers import kubeconfig, metrics, rate_limit
from gantry.rpc import calls, client, targets
from gantry.runtime.real import RealRuntime, connections

Targets = dict[str, clients.Target]

ANSWERED = {"200", "429 with Retry-After", "503 with Retry-After"}

PATIENT = ("--handshake-timeout", "120", "--header-timeout", "120")

every_front_end = pytest.mark.parametrize("name", ["remote API", "Neutron API"])


@pytest.fixture(scope="module")
def plain(cluster: lab.Lab) -> Iterator[Targets]:
    with conftest.front_ends(cluster, *PATIENT) as front_ends:
        yield front_ends


@pytest.fixture(scope="module")
def encrypted(cluster: lab.Lab) -> Iterator[Targets]:
    with conftest.front_ends(cluster, *PATIENT, tls=True) as front_ends:
        yield front_ends


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[clients.Target]:
    with conftest.kubernetes_server(*PATIENT) as target:
        yield target


async def _outcome(target: clients.Target, tls: ssl.SSLContext | None) -> str:
    """Send the honest request on a connection of its own; return the status of the answer, or how it failed."""
    try:
        reader, writer = await asyncio.open_connection(clients.HOST, target.port, ssl=tls)
        with contextlib.closing(writer):
            body = target.body or b""
            lines = [f"{target.method} {target.path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
            lines += [f"{name}: {value}" for name, value in target.headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
    except (OSError, EOFError) as error:
        return type(error).__name__
    status = head.split()[1].decode()
    return f"{status} with Retry-After" if b"\r\nretry-after: 1\r\n" in head.lower() else status


def at_once(target: clients.Target, number: int) -> Counter[str]:
    """Send the honest request ``number`` times at one moment; return how often each outcome was."""

    async def ask() -> list[str]:
        return await asyncio.gather(*(_outcome(target, target.tls) for _ in range(number)))

    return Counter(asyncio.run(ask()))


@every_front_end
def test_each_of_300_requests_at_one_moment_is_answered(plain: Targets, name: str) -> None:
    outcomes = at_once(plain[name], 300)
    assert set(outcomes) <= ANSWERED
    assert outcomes["200"]


@pytest.mark.slow
@every_front_end
def test_each_of_1000_requests_at_one_moment_is_answered(plain: Targets, name: str) -> None:
    outcomes = at_once(plain[name], 1000)
    assert set(outcomes) <= ANSWERED
    assert outcomes["200"]


@pytest.mark.slow
@every_front_end
def test_each_of_300_requests_with_tls_at_one_moment_is_answered(encrypted: Targets, name: str) -> None:
    outcomes = at_once(encrypted[name], 300)
    assert set(outcomes) <= ANSWERED
    assert outcomes["200"]


@pytest.mark.parametrize("number", [connections.HANDSHAKES, pytest.param(300, marks=pytest.mark.slow)])
def test_each_of_many_requests_of_a_kubernetes_server_at_one_moment_is_answered(
    kubernetes: clients.Target, number: int
) -> None:
    """A full server counts on each client to answer within two seconds, which a single process for 300 may not do."""
    outcomes = at_once(kubernetes, number)
    assert set(outcomes) <= ANSWERED
    assert outcomes["200"]


@pytest.mark.slow
def test_2000_requests_of_the_controllers_at_one_moment_all_end_well(kubernetes: clients.Target) -> None:
    """Ten times as many as the controllers work on at a time; they repeat what is refused with Retry-After."""
    token = kubernetes.headers["Authorization"].removeprefix("Bearer ")

    async def ask() -> None:
        runtime = RealRuntime()
        limit = rate_limit.RateLimit(runtime.clock, per_second=1e6, burst=5000)
        access = kubeconfig.Access(host=clients.HOST, port=kubernetes.port, token=token)
        server = api_client.Client(runtime, access, tls=kubernetes.tls, limit=limit, counts=metrics.Metrics())

        async def attempt() -> float:
            """Return after how many seconds to repeat the request, 0 if it was answered."""
            try:
                await server.get(kubernetes.path)
            except api_client.RefusedError as error:
                return error.retry_after if error.http_status in (429, 503) and error.retry_after else -1.0
            return 0.0

        async def get() -> None:
            while seconds := await attempt():
                assert seconds > 0
                await asyncio.sleep(seconds)

        try:
            await asyncio.gather(*(get() for _ in range(2000)))
        finally:
            await server.close()

    asyncio.run(ask())


def _call_at_once(node: clients.Target, number: int) -> None:
    """Make calls to a node as the jobs of a master do, each of which must succeed."""

    async def call() -> None:
        connections = client.Client(RealRuntime().network, node.tls)
        nodes = client.Queued(connections)
        target = targets.Target("", "node1", clients.HOST, node.port)
        try:
            answers = await nodes.fan_out([target] * number, calls.MasterName())
        finally:
            await nodes.close()
            await connections.close()
        assert not [str(answer.error) for answer in answers if answer.error]

    asyncio.run(call())


@pytest.mark.slow
def test_a_master_that_makes_1000_calls_at_one_moment_gets_all_answers(node: clients.Target) -> None:
    _call_at_once(node, 1000)


@pytest.mark.parametrize("sources", [clients.ATTACKERS, (clients.HOST,)], ids=["others", "same machine"])
@pytest.mark.parametrize(
    "data",
    [pytest.param(b"", id="silent"), pytest.param(clients.CLIENT_HELLO, id="half a handshake", marks=pytest.mark.slow)],
)
def test_a_master_gets_all_answers_beside_a_crowd(node: clients.Target, sources: Sequence[str], data: bytes) -> None:
    with clients.Crowd(node.port, sources, data=data) as crowd:
        crowd.open(clients.CROWD)
        _call_at_once(node, 320)


@pytest.mark.slow
@pytest.mark.parametrize("sources", [clients.ATTACKERS, (clients.HOST,)], ids=["others", "same machine"])
def test_a_crowd_that_stops_in_the_middle_of_its_handshakes_keeps_no_other_client_out(
    encrypted: Targets, sources: Sequence[str]
) -> None:
    target = encrypted["remote API"]
    with clients.Crowd(target.port, sources, data=_hello(clients.unverified())) as crowd:
        crowd.open(clients.CROWD)
        for _ in range(3):
            lab.wait_until(lambda: target.ask().status == 200, "an answer")


def _hello(context: ssl.SSLContext) -> bytes:
    """Return a whole first message of a TLS client."""
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()
