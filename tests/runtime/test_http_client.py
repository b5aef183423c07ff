"""The real HTTP client: its errors before an answer begins, and its end while a request is under way."""

import asyncio
import resource
import socket
from collections.abc import AsyncGenerator

import pytest

from gantry.runtime import http_interface
from gantry.runtime.real import RealRuntime, http

HOST = "127.0.0.1"


async def test_a_stream_from_a_closed_port_is_refused(port: int) -> None:
    client = RealRuntime("node1").network.http_client(tls=None)
    with pytest.raises(ConnectionRefusedError):
        await client.stream(HOST, port, "/", timeout=60)
    await client.close()


async def test_a_stream_whose_answer_does_not_begin_in_time_times_out(port: int) -> None:
    runtime, may_answer = RealRuntime("node1"), asyncio.Event()

    async def wait(_: http_interface.Request) -> http_interface.Response:
        await may_answer.wait()
        return http_interface.Response(200, b"")

    server = await runtime.network.serve_http(HOST, port, wait, tls=None, body_limit=100)
    client = runtime.network.http_client(tls=None)
    with pytest.raises(TimeoutError):
        await client.stream(HOST, port, "/", timeout=0.1)
    await client.close()
    await server.close()


async def test_a_client_that_is_retired_ends_its_connections_after_the_last_request_under_way(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "CLIENT_IDLE_SECONDS", 3600.0)
    runtime, at_work, may_answer = RealRuntime("node1"), asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def wait(_: http_interface.Request) -> http_interface.Response:
        at_work.release()
        await may_answer.acquire()
        return http_interface.Response(200, b"answer")

    server = await runtime.network.serve_http(HOST, port, wait, tls=None, body_limit=100)
    client = runtime.network.http_client(tls=None)
    assert isinstance(client, http.Client)
    requests = [asyncio.ensure_future(client.request("GET", HOST, port, "/", timeout=60)) for _ in range(2)]
    for _ in requests:
        await at_work.acquire()
    await client.retire()
    may_answer.release()
    done, under_way = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
    assert [request.result().body for request in done] == [b"answer"]
    assert len(server.connections) == 2
    may_answer.release()
    assert [(await request).body for request in under_way] == [b"answer"]
    async with asyncio.timeout(60):
        while len(server.connections):  # noqa: ASYNC110 - it waits for the server
            await asyncio.sleep(0.01)
    await server.close()


async def test_the_kernel_notices_a_server_that_is_gone_within_seconds(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets: list[socket.socket] = []
    make = http._socket

    def noted(address: tuple[int, int, int, str, tuple[str, int]]) -> socket.socket:
        sockets.append(make(address))
        return sockets[-1]

    monkeypatch.setattr(http, "_socket", noted)
    runtime = RealRuntime("node1")

    async def answer(_: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, b"")

    server = await runtime.network.serve_http(HOST, port, answer, tls=None, body_limit=100)
    client = runtime.network.http_client(tls=None)
    await client.request("GET", HOST, port, "/", timeout=60)
    (connection,) = sockets
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_USER_TIMEOUT)
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert [connection.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [15, 5, 15_000]
    await client.close()
    await server.close()


async def test_a_stream_that_is_not_read_to_its_end_ends_its_connection(port: int) -> None:
    runtime = RealRuntime("node1")

    async def endless() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"piece"
            await asyncio.sleep(0.01)

    async def answer(_: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, b"", pieces=endless())

    server = await runtime.network.serve_http(HOST, port, answer, tls=None, body_limit=100)
    client = runtime.network.http_client(tls=None)
    pieces = (await client.stream(HOST, port, "/", timeout=60)).pieces
    assert pieces is not None
    assert (await anext(pieces)).startswith(b"piece")
    assert len(server.connections) == 1
    await pieces.aclose()
    async with asyncio.timeout(60):
        while len(server.connections):  # noqa: ASYNC110 - it waits for the server
            await asyncio.sleep(0.01)
    await client.close()
    await server.close()


def test_a_client_uses_half_of_the_descriptors_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, most in ((1024, 512), (3, 1), (1, 1)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert http._max_connections() == most
