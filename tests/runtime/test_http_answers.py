"""What the real HTTP server makes of an answer on the wire, whatever a handler has put into it."""

import asyncio
import contextlib
import http.client
from collections.abc import Mapping

import pytest
from tests import ports

from gantry.runtime import http_interface, interface, limits
from gantry.runtime.real import RealRuntime, connections, http_server


async def wire_headers(status: int, headers: Mapping[str, str]) -> tuple[int, http.client.HTTPMessage]:
    """Return status and headers of an answer as a client of the standard library reads them."""
    runtime, port = RealRuntime("node1"), ports.free()

    async def answer(_: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(status, b"{}", headers=headers)

    def ask() -> tuple[int, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, answer.headers

    server = await runtime.network.serve_http("127.0.0.1", port, answer, tls=None, body_limit=100)
    try:
        return await runtime.block(ask)
    finally:
        await server.close()


@pytest.mark.parametrize("text", ["a\0b", "a\r\nX-Injected: b", "a\nb", "a\x7fb", "a\x1b[2Jb", "\ud800"])
async def test_a_header_with_a_text_of_a_client_is_sent_and_injects_nothing(text: str) -> None:
    status, headers = await wire_headers(201, {"X-Text": text})
    assert status == 201
    assert "X-Injected" not in headers
    assert "\\" in headers["X-Text"]
    assert headers["X-Text"].isprintable()


@pytest.mark.parametrize(
    ("status", "headers", "retry_after"),
    [
        (503, {}, "1"),
        (429, {}, "1"),
        (503, {"retry-after": "7"}, "7"),
        (429, {"Retry-After": "7"}, "7"),
        (500, {}, None),
        (200, {}, None),
    ],
)
async def test_an_answer_after_which_a_client_may_try_again_says_when(
    status: int, headers: dict[str, str], retry_after: str | None
) -> None:
    answered, received = await wire_headers(status, headers)
    assert answered == status
    assert received.get_all("Retry-After") == (retry_after and [retry_after])


async def answers_until_the_end(monkeypatch: pytest.MonkeyPatch, *packets: bytes) -> bytes:
    """Send packets to a server with a short limit for headers; return all its answers until it closes the connection.

    No request is answered before the last packet has arrived.
    """
    has_all = asyncio.Event()

    async def handler(_: http_interface.Request) -> http_interface.Response:
        await has_all.wait()
        return http_interface.Response(200, b"")

    monkeypatch.setattr(http_server, "SWEEP_SECONDS", 0.01)
    port, allowed = ports.free(), limits.HttpLimits(header_seconds=0.2)
    runtime = RealRuntime("node1")
    server = await runtime.network.serve_http("127.0.0.1", port, handler, tls=None, body_limit=100, allowed=allowed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    arrivals: asyncio.Queue[bytes] = asyncio.Queue()
    original = http_server._Protocol.data_received

    def data_received(self: http_server._Protocol, data: bytes) -> None:
        original(self, data)
        arrivals.put_nowait(data)
        if data == packets[-1]:
            has_all.set()

    monkeypatch.setattr(http_server._Protocol, "data_received", data_received)
    try:
        async with asyncio.timeout(60):
            for number, packet in enumerate(packets):
                received = b""
                while number and received != packets[number - 1]:
                    received += await arrivals.get()
                writer.write(packet)
            return await reader.read()
    finally:
        writer.close()
        await server.close()


async def test_headers_that_are_not_complete_in_time_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = await answers_until_the_end(monkeypatch, b"GET / HTTP/1.1\r\nHost")
    assert b"HTTP/1.1 408 " in answers
    assert b"the request took too long to arrive" in answers


async def test_headers_that_are_too_long_are_answered_in_whatever_parts_they_come() -> None:
    async def handler(_: http_interface.Request) -> http_interface.Response:
        raise AssertionError("the headers never end")

    port, line = ports.free(), b"X-Header: %s\r\n" % (b"x" * 1012)
    assert 64 * len(line) == limits.HEADER_BYTES
    server = await RealRuntime("node1").network.serve_http("127.0.0.1", port, handler, tls=None, body_limit=100)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in (b"GET / HTTP/1.1\r\n", *[line] * 64):
        writer.write(piece)
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readline() == b"the headers of the request have more than 65536 bytes\n"
    writer.close()
    await server.close()


async def test_a_request_that_is_not_valid_http_is_answered_and_ends_its_connection() -> None:
    server, port = await serve(hello, limits.HttpLimits())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / SMTP/1.1\r\n\r\n")
    async with asyncio.timeout(60):
        answer = await reader.read()
    headers, _, body = answer.partition(b"\r\n\r\n")
    assert headers.partition(b" ")[2].startswith(b"400 Bad Request\r\n")
    assert b"\r\nContent-Type: text/plain" in headers
    assert body == b"the request is not valid HTTP\n"
    writer.close()
    await server.close()


GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345"
CHUNKS = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n"


@pytest.mark.parametrize("requests", [[GET], [POST], [CHUNKS], [GET, POST]])
@pytest.mark.parametrize("separate", [False, True])
async def test_headers_that_begin_before_the_last_answer_have_the_same_time(
    requests: list[bytes], separate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, part = b"".join(requests), b"GET / HTTP/1.1\r\nHost"
    answers = await answers_until_the_end(monkeypatch, *([whole, part] if separate else [whole + part]))
    assert [line[:12] for line in answers.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")] == [
        *([b"HTTP/1.1 200"] * len(requests)),
        b"HTTP/1.1 408",
    ]


async def serve(handler: http_interface.Handler, allowed: limits.HttpLimits) -> tuple[interface.HttpServer, int]:
    port = ports.free()
    runtime = RealRuntime("node1")
    return await runtime.network.serve_http("127.0.0.1", port, handler, tls=None, body_limit=100, allowed=allowed), port


async def hello(_: http_interface.Request) -> http_interface.Response:
    return http_interface.Response(200, b"hello", known=True)


async def test_headers_that_begin_on_an_idle_connection_have_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SWEEP_SECONDS", 0.01)
    server, port = await serve(hello, limits.HttpLimits(header_seconds=0.2))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(60):
            writer.write(GET)
            assert b"200" in await reader.readuntil(b"hello")
            writer.write(GET[:-2])
            assert b"HTTP/1.1 408 " in await reader.read()
    finally:
        writer.close()
        await server.close()


@pytest.mark.parametrize("request_bytes", [GET, POST, CHUNKS])
async def test_a_connection_whose_request_was_answered_may_be_idle_for_longer_than_headers_may_take(
    request_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "SWEEP_SECONDS", 0.01)
    server, port = await serve(hello, limits.HttpLimits(header_seconds=0.1))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(60):
            for _ in range(2):
                writer.write(request_bytes)
                assert b"HTTP/1.1 200 " in await reader.readuntil(b"hello")
                await asyncio.sleep(0.5)
    finally:
        writer.close()
        await server.close()


async def test_a_request_whose_headers_were_refused_is_not_handled_when_they_are_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "SWEEP_SECONDS", 0.01)
    server, port = await serve(hello, limits.HttpLimits(header_seconds=1))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(60):
            writer.write(GET + GET[:-2])
            await reader.readuntil(b"HTTP/1.1 408 ")
            writer.write(GET[-2:])
            with contextlib.suppress(ConnectionError):
                assert b"hello" not in await reader.read()
    finally:
        writer.close()
        await server.close()


async def test_a_connection_that_has_ended_leaves_room_for_another() -> None:
    server, port = await serve(hello, limits.HttpLimits(connections=2, strangers=2, per_peer=2))
    try:
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            assert b"HTTP/1.1 200 " in await reader.readuntil(b"\r\n")
            writer.close()
            await writer.wait_closed()
    finally:
        await server.close()


async def test_a_server_that_closes_ends_the_connections_that_have_sent_nothing_yet() -> None:
    server, port = await serve(hello, limits.HttpLimits())
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    connections[1][1].write(GET)
    await connections[1][0].readuntil(b"hello")
    await server.close()
    async with asyncio.timeout(60):
        for reader, writer in connections:
            assert await reader.read() == b""
            writer.close()


async def test_a_request_whose_handler_has_not_begun_does_not_count_as_a_client_that_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states = list[connections.State]()
    original = http_server._Protocol.data_received

    def data_received(self: http_server._Protocol, data: bytes) -> None:
        original(self, data)
        states.append(self.connection.state)

    monkeypatch.setattr(http_server._Protocol, "data_received", data_received)
    await wire_headers(200, {})
    assert states == [connections.State.WORK]
