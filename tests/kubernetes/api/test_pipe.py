"""The pipe between a server and the controllers that it starts: both ends, over a real connection."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from gantry import errors
from gantry.kubernetes.api import pipe
from gantry.kubernetes.apiserver import pipe_server as answering
from gantry.runtime import http_interface


class Handler:
    """Answers by path; ``ended`` is set when a watch ends."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.slow = asyncio.Event()
        self.asked = list[http_interface.Request]()

    async def answer(self, request: http_interface.Request) -> http_interface.Response:
        self.asked.append(request)
        match request.path:
            case "/watch":
                return http_interface.Response(200, b"first", pieces=self._watch())
            case "/large":
                return http_interface.Response(200, b"", pieces=_once(b"12345678" * pipe.MAX_PIECE_BYTES))
            case "/broken":
                return http_interface.Response(200, b"", pieces=_broken())
            case "/bug":
                raise ZeroDivisionError
            case "/slow":
                await self.slow.wait()
        headers = {"Retry-After": "7"}
        return http_interface.Response(410, f"{request.method} {request.path}".encode(), "text/plain", headers)

    async def _watch(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b"second"
            await asyncio.sleep(600)
        finally:
            self.ended.set()


async def _once(piece: bytes) -> AsyncGenerator[bytes, None]:
    yield piece


async def _broken() -> AsyncGenerator[bytes, None]:
    yield b"good"
    raise ZeroDivisionError


class Ends:
    """A pipe, its server, and the server task."""

    def __init__(self, own: socket.socket, other: socket.socket) -> None:
        self._own, self._other = own, other
        self.handler = Handler()

    async def open(self) -> None:
        reader, self.writer = await asyncio.open_connection(sock=self._own)
        self.channel = pipe.Pipe(reader, self.writer)
        ends = await asyncio.open_connection(sock=self._other)
        self.other = ends[1]
        server = answering.Server(self.handler.answer, headers={"authorization": "Bearer a"})
        self.serving = asyncio.create_task(server.serve(*ends))

    async def get(self, path: str) -> http_interface.Response:
        return await self.channel.request("GET", "", 0, path, timeout=60)

    async def watch(self, path: str) -> AsyncGenerator[bytes, None]:
        answer = await self.channel.stream("", 0, path, timeout=60)
        assert answer.status == 200
        assert answer.pieces
        return answer.pieces


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    new_ends = Ends(*socket.socketpair())
    await new_ends.open()
    async with asyncio.timeout(60):
        yield new_ends
    await new_ends.channel.close()
    new_ends.serving.cancel()
    await asyncio.wait([new_ends.serving])
    new_ends.other.close()


async def test_a_request_comes_as_it_was_sent_with_who_asks_and_its_answer_goes_back(ends: Ends) -> None:
    answer = await ends.channel.request(
        "PATCH", "h", 1, "/a?b=c", body=b"{}", timeout=60, headers={"accept": "a", "authorization": "mine"}
    )
    expected = http_interface.Response(410, b"PATCH /a?b=c", "text/plain", {"retry-after": "7"})
    assert answer == expected
    (request,) = ends.handler.asked
    assert (request.body, request.headers) == (b"{}", {"accept": "a", "authorization": "Bearer a"})


async def test_a_large_request_reaches_who_may_refuse_it_and_ends_nothing(ends: Ends) -> None:
    body = b"12345678" * pipe.MAX_PIECE_BYTES
    answer = await ends.channel.request("PATCH", "", 0, "/large-one", body=body, timeout=60)
    assert answer.body == b"PATCH /large-one"
    assert ends.handler.asked[0].body == body


async def test_each_of_many_requests_gets_its_own_answer_whatever_takes_long(ends: Ends) -> None:
    slow = asyncio.create_task(ends.get("/slow"))
    paths = [f"/{number}" for number in range(1000)]
    answers = await asyncio.gather(*map(ends.get, paths))
    assert [answer.body for answer in answers] == [f"GET {path}".encode() for path in paths]
    assert [item.path for item in ends.handler.asked] == ["/slow", *paths]
    assert not slow.done()
    ends.handler.slow.set()
    assert (await slow).body == b"GET /slow"


async def test_a_client_that_does_not_wait_for_its_answer_disturbs_no_other(ends: Ends) -> None:
    slow = asyncio.create_task(ends.get("/slow"))
    await ends.get("/1")
    slow.cancel()
    ends.handler.slow.set()
    assert (await ends.get("/2")).body == b"GET /2"


async def test_pieces_come_as_they_are_made_until_who_asked_has_enough(ends: Ends) -> None:
    pieces = await ends.watch("/watch")
    assert [await anext(pieces), await anext(pieces)] == [b"first", b"second"]
    assert not ends.handler.ended.is_set()
    await pieces.aclose()
    await ends.handler.ended.wait()
    assert (await ends.get("/")).status == 410


async def test_a_long_piece_arrives_whole_and_the_end_is_seen(ends: Ends) -> None:
    pieces = [piece async for piece in await ends.watch("/large")]
    assert b"".join(pieces) == b"12345678" * pipe.MAX_PIECE_BYTES


async def test_a_refused_stream_has_the_refusal_as_its_only_piece(ends: Ends) -> None:
    answer = await ends.channel.stream("", 0, "/a", timeout=60)
    assert answer.pieces
    assert (answer.status, [piece async for piece in answer.pieces]) == (410, [b"GET /a"])


async def test_a_bug_of_the_server_fails_what_it_is_in_and_nothing_else(ends: Ends) -> None:
    pieces = await ends.watch("/broken")
    assert await anext(pieces) == b"good"
    with pytest.raises(ConnectionResetError):
        await anext(pieces)
    assert (await ends.get("/bug")).status == 500
    assert (await ends.get("/")).status == 410


async def test_with_the_connection_all_that_waits_fails_and_nothing_is_asked_any_more(ends: Ends) -> None:
    waiting = asyncio.create_task(ends.get("/slow"))
    beginning = asyncio.create_task(ends.channel.stream("", 0, "/slow", timeout=60))
    pieces = await ends.watch("/watch")
    assert [await anext(pieces), await anext(pieces)] == [b"first", b"second"]
    ends.other.close()
    await ends.channel.ended()
    for failed in (waiting, beginning, anext(pieces), ends.get("/"), ends.channel.stream("", 0, "/", timeout=60)):
        with pytest.raises(ConnectionResetError):
            await failed


async def test_the_server_ends_what_is_under_way_when_who_asked_has_gone(ends: Ends) -> None:
    pieces = await ends.watch("/watch")
    assert await anext(pieces) == b"first"
    waiting = asyncio.create_task(ends.get("/slow"))
    await ends.get("/")
    await ends.channel.close()
    await ends.serving
    assert ends.handler.ended.is_set()
    with pytest.raises(ConnectionResetError):
        await waiting


@pytest.mark.parametrize(
    ("sent", "what"),
    [(b"\0\0\0\3abc", "got `int`"), (b"\0\0\0\2\x92\1", "truncated")],
)
async def test_what_is_no_request_ends_the_connection(ends: Ends, sent: bytes, what: str) -> None:
    ends.writer.write(sent)
    await asyncio.wait([ends.serving])
    error = ends.serving.exception()
    assert isinstance(error, errors.ProtocolError)
    assert what in str(error)


async def test_what_is_no_answer_ends_the_connection(ends: Ends) -> None:
    waiting = asyncio.create_task(ends.get("/slow"))
    await ends.get("/")
    ends.other.write(b"\0\0\0\3abc")
    with pytest.raises(errors.ProtocolError, match="got `int`"):
        await ends.channel.ended()
    with pytest.raises(ConnectionResetError):
        await waiting
