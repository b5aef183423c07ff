"""WebSockets of the real HTTP server: messages, their limits, and each way in which they end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests import ports

from gantry.runtime import http_interface
from gantry.runtime.real import RealRuntime

Conversation = Callable[[http_interface.WebSocket], Awaitable[None]]
HOST = "127.0.0.1"


@asynccontextmanager
async def serving(conversation: Conversation) -> AsyncIterator[tuple[str, http_interface.Handler]]:
    """Serve a conversation at each path; yield the address."""

    async def answer(request: http_interface.Request) -> http_interface.Response:
        headers = {"X-Request-Id": "7"}
        return http_interface.Response(101, b"", headers=headers, conversation=conversation, subprotocol="p")

    port = ports.free()
    server = await RealRuntime("node1").network.serve_http(HOST, port, answer, tls=None, body_limit=100)
    try:
        yield f"ws://{HOST}:{port}/", answer
    finally:
        await server.close()


async def echo(socket: http_interface.WebSocket) -> None:
    while (message := await socket.receive()) is not None:
        await socket.send(message)


async def test_messages_of_both_kinds_go_both_ways() -> None:
    async with (
        serving(echo) as (url, _),
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=("q", "p")) as client,
    ):
        assert client.protocol == "p"
        await client.send_str("text")
        assert await client.receive_str(timeout=60) == "text"
        await client.send_bytes(b"bytes")
        assert await client.receive_bytes(timeout=60) == b"bytes"


async def test_the_conversation_hears_that_the_client_has_gone() -> None:
    ended = asyncio.Event()

    async def listen(socket: http_interface.WebSocket) -> None:
        assert await socket.receive() is None
        ended.set()

    async with serving(listen) as (url, _), aiohttp.ClientSession() as session:
        for abort in (False, True):
            ended.clear()
            client = await session.ws_connect(url)
            if abort:
                transport = client._response.connection.transport  # type: ignore[union-attr]
                assert transport
                transport.abort()
            else:
                await client.close()
            await asyncio.wait_for(ended.wait(), 60)


async def test_the_client_hears_that_the_conversation_has_ended() -> None:
    async def say(socket: http_interface.WebSocket) -> None:
        await socket.send("last")

    async with (
        serving(say) as (url, _),
        aiohttp.ClientSession() as session,
        session.ws_connect(url) as client,
    ):
        assert await client.receive_str(timeout=60) == "last"
        assert (await client.receive(timeout=60)).type is aiohttp.WSMsgType.CLOSE


async def test_a_message_that_is_too_long_ends_the_connection() -> None:
    async with (
        serving(echo) as (url, _),
        aiohttp.ClientSession() as session,
        session.ws_connect(url, max_msg_size=0) as client,
    ):
        await client.send_bytes(bytes(http_interface.SOCKET_MESSAGE_BYTES - 1))
        assert len(await client.receive_bytes(timeout=60)) == http_interface.SOCKET_MESSAGE_BYTES - 1
        await client.send_bytes(bytes(http_interface.SOCKET_MESSAGE_BYTES + 1))
        message = await client.receive(timeout=60)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1009)


async def test_a_client_that_does_not_read_makes_the_conversation_wait() -> None:
    sent = 0

    async def flood(socket: http_interface.WebSocket) -> None:
        nonlocal sent
        while True:
            await socket.send(bytes(1 << 16))
            sent += 1 << 16

    async with serving(flood) as (url, _), aiohttp.ClientSession() as session:
        client = await session.ws_connect(url)
        before = -1
        async with asyncio.timeout(60):
            while sent != before:
                before = sent
                await asyncio.sleep(0.5)
        assert sent < 64 << 20
        assert not client.closed
        # Without a close handshake, whose answer would be behind all that the client has not read.
        await session.close()


async def test_a_server_that_closes_ends_its_conversations() -> None:
    ended = asyncio.Event()

    async def stay(socket: http_interface.WebSocket) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with aiohttp.ClientSession() as session:
        async with serving(stay) as (url, _):
            await session.ws_connect(url)
        await asyncio.wait_for(ended.wait(), 60)


async def test_a_request_that_is_no_handshake_is_refused() -> None:
    async with serving(echo) as (url, _), aiohttp.ClientSession() as session:
        for headers in ({}, {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}):
            async with session.get(url.replace("ws:", "http:"), headers=headers) as answer:
                assert answer.status == 400


async def test_what_a_conversation_raises_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(socket: http_interface.WebSocket) -> None:
        raise ConnectionResetError("gone")

    async with (
        serving(fail) as (url, _),
        aiohttp.ClientSession() as session,
        session.ws_connect(url) as client,
    ):
        assert (await client.receive(timeout=60)).type is aiohttp.WSMsgType.CLOSE
    assert caplog.records == []
