"""The connections of the real HTTP server: refused, slow, at its end; and answers in pieces on them."""

import asyncio
import socket
from collections.abc import AsyncGenerator

import pytest

from gantry.runtime import http_interface, limits
from gantry.runtime.real import RealRuntime, connections, http_messages, http_refusals, http_server, opening

HOST = "127.0.0.1"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
END = b"0\r\n\r\n"

Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Door:
    """A handler whose requests wait until they may end."""

    def __init__(self) -> None:
        self.at_work = asyncio.Semaphore(0)
        self.may_end = asyncio.Event()

    async def answer(self, _: http_interface.Request) -> http_interface.Response:
        self.at_work.release()
        await self.may_end.wait()
        return http_interface.Response(200, b"hello")


async def serve(
    handler: http_interface.Handler,
    port: int,
    allowed: limits.HttpLimits | None = None,
    guard: http_interface.Guard | None = None,
) -> http_server.Server:
    network = RealRuntime("node1").network
    return await network.serve_http(HOST, port, handler, tls=None, body_limit=100, allowed=allowed, guard=guard)


async def send(port: int, data: bytes) -> Connected:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(data)
    return reader, writer


async def read(reader: asyncio.StreamReader, until: bytes = b"") -> bytes:
    async with asyncio.timeout(60):
        return await (reader.readuntil(until) if until else reader.read())


CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


class SlowGuard(http_refusals.PlainGuard):
    """A guard that admits a request when it may, or refuses it then."""

    def __init__(self, *, refuses: bool) -> None:
        super().__init__(1000)
        self.asked, self.may_decide = asyncio.Event(), asyncio.Event()
        self._refuses = refuses

    async def admit(self, request: http_interface.Request) -> limits.Admission | http_interface.Response:
        self.asked.set()
        await self.may_decide.wait()
        return http_interface.Response(401, b"who is it?") if self._refuses else await super().admit(request)


@pytest.mark.parametrize("chunks", [b"zz\r\n", b"5\r\nhello\r\nzz\r\n", b"5\r\nhelloXX0\r\n", b"f" * 20 + b"\r\na"])
@pytest.mark.parametrize(("refuses", "status"), [(False, b"400"), (True, b"401")])
async def test_a_body_with_invalid_chunks_is_refused_at_once_and_logs_no_traceback(
    port: int, chunks: bytes, refuses: bool, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    guard = SlowGuard(refuses=refuses)
    server = await serve(Door().answer, port, guard=guard)
    reader, writer = await send(port, CHUNKED)
    await asyncio.wait_for(guard.asked.wait(), 60)
    writer.write(chunks)
    await asyncio.sleep(0.01)  # the loop reads the chunks before its timers
    guard.may_decide.set()
    assert (await read(reader)).startswith(b"HTTP/1.1 " + status)
    assert [record for record in caplog.records if record.exc_info] == []
    writer.close()
    await server.close()


@pytest.mark.parametrize(
    ("allowed", "status"),
    [
        (limits.HttpLimits(connections=1), b"503"),
        (limits.HttpLimits(per_peer=1), b"429"),
        (limits.HttpLimits(requests=1), b"503"),
        (limits.HttpLimits(requests_per_peer=1), b"429"),
    ],
)
async def test_a_request_above_a_limit_is_refused_while_the_one_in_work_goes_on(
    port: int, allowed: limits.HttpLimits, status: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "TURN_SECONDS", 0.0)
    door = Door()
    server = await serve(door.answer, port, allowed)
    first, writer = await send(port, GET)
    await door.at_work.acquire()
    second, other_writer = await send(port, GET)
    answer = await read(second)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"Connection: close" in answer
    subject = b"this address" if status == b"429" else b"the server"
    assert answer.endswith(subject + b" has too many connections or requests at a time; try again later\n")
    assert door.at_work.locked()
    door.may_end.set()
    assert (await read(first, b"hello")).startswith(b"HTTP/1.1 200")
    for each in (writer, other_writer):
        each.close()
    await server.close()


async def test_a_request_that_arrives_while_the_server_closes_is_refused(port: int) -> None:
    at_work, closing, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hold(request: http_interface.Request) -> http_interface.Response:
        if request.method == "POST":
            try:
                at_work.set()
                await asyncio.Event().wait()
            finally:
                closing.set()
                await may_end.wait()
        return http_interface.Response(200, b"hello", known=True)

    server = await serve(hold, port)
    reader, writer = await send(port, GET)
    await read(reader, b"hello")
    _, other_writer = await send(port, POST)
    await asyncio.wait_for(at_work.wait(), 60)
    ending = asyncio.ensure_future(server.close())
    await asyncio.wait_for(closing.wait(), 60)
    writer.write(GET)
    assert (await read(reader)).startswith(b"HTTP/1.1 503")
    may_end.set()
    await ending
    for each in (writer, other_writer):
        each.close()


async def test_clients_that_wait_for_their_turn_when_the_server_closes_begin_no_more(
    port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "TURN_SECONDS", 3600.0)
    monkeypatch.setattr(connections, "MAX_TURN_SECONDS", 3600.0)
    monkeypatch.setattr(opening, "CHECK_SECONDS", 0.01)
    door = Door()
    server = await serve(door.answer, port, limits.HttpLimits(connections=1))
    ends = [await send(port, GET)]
    await door.at_work.acquire()
    for number in range(3):
        ends.append(await send(port, GET))
        async with asyncio.timeout(60):
            while sum(each.state is connections.State.TURN for each in server.connections) <= number:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    await server.close()
    await asyncio.sleep(2 * opening.CHECK_SECONDS)  # the timers of the loop run in their order
    assert [record for record in caplog.records if record.name == "asyncio"] == []
    for _, writer in ends:
        writer.close()


@pytest.mark.parametrize("reads", [False, True])
async def test_a_client_that_does_not_read_its_answer_is_closed_unless_it_goes_on(
    port: int, reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "SWEEP_SECONDS", 3600.0 if reads else 0.01)
    body = bytes(32 << 20)

    async def answer(_: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, body, known=True)

    server = await serve(answer, port, limits.HttpLimits(stall_seconds=0.0))
    reader, writer = await send(port, GET)
    if reads:
        async with asyncio.timeout(60):
            while not server.connections.late():  # noqa: ASYNC110 - it waits for the server
                await asyncio.sleep(0.001)
        for _ in range(2):
            await read(reader, b"\r\n\r\n")
            await asyncio.wait_for(reader.readexactly(len(body)), 60)
            assert server.connections.late() == []
            writer.write(GET)
    else:
        async with asyncio.timeout(60):
            while not len(server.connections):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            while len(server.connections):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    writer.transport.abort()
    await server.close()


class StrictGuard:
    """A guard that refuses each request with a body."""

    async def admit(self, request: http_interface.Request) -> limits.Admission | http_interface.Response:
        return http_interface.Response(401, b"no: " + request.method.encode())

    def knows(self, certificate: bytes) -> bool:
        return False

    def refuse(self, status: int, message: str) -> http_interface.Response:
        return http_interface.Response(status, message.encode())


async def test_a_request_that_the_guard_refuses_gets_its_answer_and_reaches_no_handler(port: int) -> None:
    door = Door()
    server = await serve(door.answer, port, guard=StrictGuard())
    reader, writer = await send(port, POST)
    answer = await read(reader, b"no: POST")
    assert answer.startswith(b"HTTP/1.1 401")
    assert door.at_work.locked()
    writer.close()
    await server.close()


async def test_an_answer_in_pieces_goes_on_while_its_client_is_connected_and_ends_the_request(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_messages, "DISCONNECT_POLL_SECONDS", 0.001)
    ended = asyncio.Event()

    async def pieces(forever: bool) -> AsyncGenerator[bytes, None]:
        try:
            for number in range(10):
                yield b"%d" % number
                await asyncio.sleep(0.005)
            if forever:
                await asyncio.Event().wait()
        finally:
            ended.set()

    async def answer(request: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, b"", pieces=pieces(request.method == "POST"), known=True)

    server = await serve(answer, port)
    reader, writer = await send(port, GET)
    for _ in range(2):
        received = await read(reader, b"\r\n" + END)
        assert received.startswith(b"HTTP/1.1 200")
        assert received.split(b"\r\n\r\n", 1)[1] == b"".join(b"1\r\n%d\r\n" % number for number in range(10)) + END
        writer.write(GET)
    writer.close()
    ended.clear()
    reader, writer = await send(port, POST)
    await read(reader, b"9\r\n")
    assert not ended.is_set()
    writer.close()
    await asyncio.wait_for(ended.wait(), 60)
    await server.close()


async def test_an_answer_that_fails_after_its_beginning_has_no_second_one_behind_it(port: int) -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"begun"
        raise ValueError("a fault")

    async def answer(_: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, b"", pieces=pieces())

    server = await serve(answer, port)
    reader, writer = await send(port, GET)
    received = await read(reader)
    assert received.startswith(b"HTTP/1.1 200")
    assert received.endswith(b"begun\r\n")
    writer.close()
    await server.close()


async def test_a_port_that_another_program_takes_meanwhile_is_in_use(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, sockets = Door(), list[socket.socket]()
    original = socket.socket.listen

    with socket.socket() as rival:
        rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        rival.bind((HOST, port))

        def listen(own: socket.socket, backlog: int) -> None:
            sockets.append(own)
            original(rival)
            original(own, backlog)

        monkeypatch.setattr(socket.socket, "listen", listen)
        with pytest.raises(OSError, match="in use"):
            await serve(door.answer, port)
    assert [each.fileno() for each in sockets] == [-1]
