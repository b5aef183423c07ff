"""What only the simulated network does: TLS on one side, connections without an end, and what it refuses."""

import asyncio
import errno
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

import pytest

from gantry.runtime import bytestream, http_interface
from gantry.runtime.simulated import SimulatedRuntime, World, wires

TLS = http_interface.UncheckedContext(ssl.PROTOCOL_TLS_CLIENT)
PORT = 1811


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=5) as new_world:
        yield new_world


async def answer(request: http_interface.Request) -> http_interface.Response:
    return http_interface.Response(200, request.body)


@pytest.mark.parametrize("server", [TLS, None], ids=["server with TLS", "server without"])
@pytest.mark.parametrize("client", [TLS, None], ids=["client with TLS", "client without"])
def test_a_connection_breaks_unless_both_sides_or_neither_use_tls(
    world: World, server: ssl.SSLContext | None, client: ssl.SSLContext | None
) -> None:
    first, second = world.machine("one"), world.machine("two")

    async def scenario() -> bytes:
        await second.network.serve_http("", PORT, answer, tls=server, body_limit=100)
        return (await first.network.http_client(tls=client).post("two", PORT, "/", b"hello", timeout=10)).body

    if server is client:
        assert world.run(scenario()) == b"hello"
    else:
        with pytest.raises(ConnectionResetError, match="only one side of the connection to two:1811 uses TLS"):
            world.run(scenario())


def test_a_connection_on_which_a_message_was_lost_fails_after_an_hour(world: World) -> None:
    first, second = world.machine("one"), world.machine("two")

    async def scenario() -> float:
        await second.network.serve_http("", PORT, answer, tls=None, body_limit=100)
        world.network.partition("one", "two")
        begin = world.clock.monotonic()
        with pytest.raises(OSError) as caught:
            await first.network.http_client(tls=None).post("two", PORT, "/", b"", timeout=2 * wires.SILENCE_SECONDS)
        assert caught.value.errno == errno.EHOSTUNREACH
        return world.clock.monotonic() - begin

    assert world.run(scenario()) == pytest.approx(3600, abs=1)


def test_the_refusal_of_a_closed_port_can_be_lost_as_any_answer(world: World) -> None:
    first, _ = world.machine("one"), world.machine("two")

    async def ask() -> None:
        await first.network.http_client(tls=None).post("two", PORT, "/", b"", timeout=10)

    with pytest.raises(ConnectionRefusedError):
        world.run(ask())
    world.network.partition("two", "one", one_way=True)
    with pytest.raises(TimeoutError):
        world.run(ask())


async def _endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"piece"
        await asyncio.sleep(1)


async def _streamed(machine: SimulatedRuntime, server: SimulatedRuntime) -> AsyncGenerator[bytes, None]:
    """Return the pieces of an answer whose first one has arrived."""

    async def handler(request: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, b"", pieces=_endless())

    await server.network.serve_http("", PORT, handler, tls=None, body_limit=100)
    pieces = (await machine.network.http_client(tls=None).stream(server.host, PORT, "/", timeout=10)).pieces
    assert pieces
    assert await anext(pieces) == b"piece"
    return pieces


def test_a_stream_breaks_with_its_connection(world: World) -> None:
    first, second = world.machine("one"), world.machine("two")

    async def scenario() -> None:
        pieces = await _streamed(first, second)
        world.network.reset = 1.0
        with pytest.raises(ConnectionResetError, match="two broke the connection in its answer"):
            await anext(pieces)

    world.run(scenario())


def test_after_a_lost_piece_nothing_more_of_a_stream_arrives(world: World) -> None:
    first, second = world.machine("one"), world.machine("two")

    async def scenario() -> None:
        pieces = await _streamed(first, second)
        world.network.partition("one", "two")
        following = asyncio.ensure_future(anext(pieces))
        await world.clock.sleep(10)
        world.network.heal("one", "two")
        await world.clock.sleep(1000)
        assert not following.done()

    world.run(scenario())


def test_an_entrance_is_not_reached_through_a_partition(world: World) -> None:
    first, second = world.machine("one"), world.machine("two")

    async def scenario() -> None:
        entrance = await second.network.listen_once("", token="t", tls=None, limit=100)
        world.network.partition("one", "two", one_way=True)
        with pytest.raises(OSError) as caught:
            await first.network.connect_port("two", entrance.port, tls=None, limit=100)
        assert caught.value.errno == errno.EHOSTUNREACH
        world.network.heal("one", "two")
        world.network.partition("two", "one", one_way=True)
        await first.network.connect_port("two", entrance.port, tls=None, limit=100)
        await entrance.close()

    world.run(scenario())


async def _stdin(machine: SimulatedRuntime, _: bytestream.Writer) -> object:
    return await machine.network.stdin_connection(limit=100)


async def _passed(machine: SimulatedRuntime, writer: bytestream.Writer) -> None:
    await machine.network.pass_connection(writer, b"take it\n", host="", port=PORT, timeout_seconds=1)


@pytest.mark.parametrize(("ask", "number"), [(_stdin, errno.ENOTSOCK), (_passed, errno.EOPNOTSUPP)])
def test_what_a_simulated_machine_cannot_do_is_an_os_error(
    world: World, ask: Callable[[SimulatedRuntime, bytestream.Writer], Awaitable[object]], number: int
) -> None:
    machine = world.machine("one")

    async def idle(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        await reader.read()

    async def scenario() -> None:
        await machine.network.serve_unix("/sock", idle, mode=0o600, limit=100)
        _, writer = await machine.network.connect_unix("/sock", limit=100)
        with pytest.raises(OSError) as caught:
            await ask(machine, writer)
        assert caught.value.errno == number

    world.run(scenario())


@pytest.mark.parametrize("certificate", [b"DER", None])
def test_a_handler_gets_the_certificate_and_the_headers_of_the_client(world: World, certificate: bytes | None) -> None:
    requests = list[http_interface.Request]()
    tls = http_interface.UncheckedContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.certificate = certificate

    async def handler(request: http_interface.Request) -> http_interface.Response:
        requests.append(request)
        return http_interface.Response(200, b"", headers={"ETag": "7"})

    async def scenario() -> None:
        await world.machine("b").network.serve_http("", PORT, handler, tls=tls, body_limit=100)
        client = world.machine("a").network.http_client(tls=tls)
        answer = await client.request("PUT", "b", PORT, "/x", body=b"new", timeout=10, headers={"if-match": "6"})
        assert answer.headers == {"etag": "7"}
        await client.request("GET", "b", PORT, "/x", timeout=10, headers={"content-type": "text/plain"})

    world.run(scenario())
    headers = {"host": "b:1811", "content-type": "application/json", "if-match": "6"}
    assert requests[0] == http_interface.Request("PUT", "/x", b"new", headers, peer_certificate=certificate)
    assert requests[1].headers == {"host": "b:1811", "content-type": "text/plain"}


def test_the_pieces_of_an_answer_have_the_time_limit_of_its_request(world: World) -> None:
    async def handler(request: http_interface.Request) -> http_interface.Response:
        async def pieces() -> AsyncGenerator[bytes, None]:
            yield b"first"
            await world.clock.sleep(5)
            yield b"second"

        return http_interface.Response(200, b"", pieces=pieces())

    async def scenario() -> None:
        await world.machine("b").network.serve_http("", PORT, handler, tls=None, body_limit=100)
        client = world.machine("a").network.http_client(tls=None)
        assert (await client.request("GET", "b", PORT, "/", timeout=6)).body == b"firstsecond"
        with pytest.raises(TimeoutError):
            await client.request("GET", "b", PORT, "/", timeout=4)

    world.run(scenario())
