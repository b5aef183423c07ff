"""The bytes of request bodies that the real HTTP server keeps: all together within a limit, and released."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests import ports

from gantry.runtime import http_interface, limits
from gantry.runtime.real import RealRuntime

TOTAL = 1000
LIMIT = 600


class WaitingServer:
    """A server whose handler answers a request for ``/wait`` when ``release`` is set, and any other one at once."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.release = asyncio.Event()
        self.at_work = asyncio.Semaphore(0)

    async def answer(self, request: http_interface.Request) -> http_interface.Response:
        self.at_work.release()
        if request.path == "/wait":
            await self.release.wait()
        return http_interface.Response(200, b"%d" % len(request.body))

    async def begin(self, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and send the beginning of a request."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent)
        await writer.drain()
        return reader, writer

    async def status(self, sent: bytes) -> int:
        """Send a request, and return the status of its answer."""
        reader, writer = await self.begin(sent)
        async with asyncio.timeout(60):
            answer = await reader.readline()
        writer.close()
        return int(answer.split()[1])

    async def until(self, status: int, sent: bytes) -> None:
        """Repeat a request until it gets this status."""
        async with asyncio.timeout(60):
            while await self.status(sent) != status:  # noqa: ASYNC110 - it waits for the server
                await asyncio.sleep(0.01)


def request(size: int, path: str = "/", *, chunked: bool = False, complete: bool = True) -> bytes:
    """Return a request with a body of this size; ``chunked`` does not say the size before the body."""
    body = b"x" * size
    encoding = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (size if complete else 2 * LIMIT)
    if chunked:
        body = b"%x\r\n%b\r\n" % (size, body) + (b"0\r\n\r\n" if complete else b"")
    return b"POST %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b\r\n\r\n%b" % (path.encode(), encoding, body)


@pytest.fixture
async def waiting_server() -> AsyncIterator[WaitingServer]:
    runtime, waiting_server = RealRuntime("node1"), WaitingServer(ports.free())
    server = await runtime.network.serve_http(
        "127.0.0.1",
        waiting_server.port,
        waiting_server.answer,
        tls=None,
        body_limit=LIMIT,
        allowed=limits.HttpLimits(body_bytes=TOTAL),
    )
    yield waiting_server
    await server.close()


@pytest.mark.parametrize("chunked", [False, True])
async def test_the_bodies_of_requests_in_work_count_together(waiting_server: WaitingServer, chunked: bool) -> None:
    waiting = asyncio.ensure_future(waiting_server.status(request(LIMIT, "/wait", chunked=chunked)))
    await waiting_server.at_work.acquire()
    assert await waiting_server.status(request(TOTAL - LIMIT + 1, chunked=chunked)) == 503
    assert await waiting_server.status(request(TOTAL - LIMIT, chunked=chunked)) == 200
    waiting_server.release.set()
    assert await waiting == 200
    assert await waiting_server.status(request(LIMIT, chunked=chunked)) == 200


async def test_a_body_that_is_not_complete_counts_and_is_released_with_its_connection(
    waiting_server: WaitingServer,
) -> None:
    _, writer = await waiting_server.begin(request(LIMIT - 1, chunked=True, complete=False))
    await waiting_server.until(503, request(LIMIT))
    writer.close()
    await waiting_server.until(200, request(LIMIT))


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_beyond_the_limit_of_its_client_takes_nothing_from_later_ones(
    waiting_server: WaitingServer, chunked: bool
) -> None:
    for _ in range(3):
        assert await waiting_server.status(request(LIMIT + 1, chunked=chunked)) == 413
    assert await waiting_server.status(request(LIMIT)) == 200


async def test_a_body_that_is_announced_as_too_long_is_refused_before_it_is_sent(waiting_server: WaitingServer) -> None:
    assert await waiting_server.status(request(0, complete=False)) == 413


async def test_the_body_of_an_answered_request_is_released_once(waiting_server: WaitingServer) -> None:
    for _ in range(3):
        assert await waiting_server.status(request(LIMIT)) == 200
    waiting = asyncio.ensure_future(waiting_server.status(request(LIMIT, "/wait")))
    for _ in range(4):
        await waiting_server.at_work.acquire()
    assert await waiting_server.status(request(LIMIT)) == 503
    waiting_server.release.set()
    assert await waiting == 200
