"""Requests and answers of aiohttp's server in the types of ``runtime.http_interface``."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from aiohttp import WSMsgType, web

from gantry.runtime import http_interface

DISCONNECT_POLL_SECONDS = 5.0
"""Interval at which a server checks whether the client of an answer in pieces is still connected."""
PING_SECONDS = 20.0
"""Interval at which a WebSocket is tried; a client that does not answer within half of it has gone."""
CLOSE_SECONDS = 2.0
"""How long the client of a WebSocket may take to confirm its end."""


def received(request: web.BaseRequest) -> http_interface.Request:
    """Return a request without its body."""
    return http_interface.Request(
        method=request.method,
        path=request.raw_path,
        body=b"",
        headers={name.lower(): _text(value) for name, value in request.headers.items()},
        peer_certificate=_peer_certificate(request),
        peer=request.remote or "",
    )


def whole(response: http_interface.Response) -> web.Response:
    """Return an answer that is complete."""
    headers = http_interface.wire_headers(response)
    return web.Response(status=response.status, body=response.body, headers=headers)


async def send(request: web.BaseRequest, response: http_interface.Response) -> web.StreamResponse:
    """Send an answer, until it ends or the client disconnects."""
    if response.pieces is None:
        answer = whole(response)
        with contextlib.suppress(ConnectionError):
            await answer.prepare(request)
            await answer.write_eof()
            await request.writer.drain()
        return answer
    headers = http_interface.wire_headers(response)
    sending = web.StreamResponse(status=response.status, headers=headers)
    async with contextlib.aclosing(response.pieces) as pieces, _while_connected(request):
        await sending.prepare(request)
        await sending.write(response.body)
        async for piece in pieces:
            try:
                await sending.write(piece)
            except ConnectionResetError:
                return sending
        await sending.write_eof()
    return sending


class _Socket:
    """A WebSocket as ``http_interface.WebSocket``."""

    def __init__(self, answer: web.WebSocketResponse) -> None:
        self._answer = answer

    async def receive(self) -> bytes | str | None:
        message = await self._answer.receive()
        if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
            return None
        data: bytes | str = message.data
        return data

    async def send(self, message: bytes | str) -> None:
        if isinstance(message, str):
            await self._answer.send_str(message)
        else:
            await self._answer.send_bytes(message)


async def converse(
    request: web.BaseRequest, response: http_interface.Response, conversation: http_interface.Conversation
) -> web.StreamResponse:
    """Make the connection of a request a WebSocket, until the conversation or the connection ends."""
    answer = web.WebSocketResponse(
        protocols=(response.subprotocol,) if response.subprotocol else (),
        timeout=CLOSE_SECONDS,
        heartbeat=PING_SECONDS,
        compress=False,
        max_msg_size=http_interface.SOCKET_MESSAGE_BYTES,
    )
    answer.headers.update({name: http_interface.header_text(value) for name, value in response.headers.items()})
    try:
        await answer.prepare(request)
    except web.HTTPBadRequest:
        return whole(http_interface.Response(400, b"this is not the handshake of a WebSocket", "text/plain"))
    try:
        await conversation(_Socket(answer))
    except ConnectionError:
        pass  # the client disconnected during a message
    finally:
        await answer.close()
    return answer


def _text(value: str) -> str:
    """Return text from the wire with the surrogates that stand for bytes outside UTF-8 replaced."""
    return value if value.isascii() else value.encode(errors="surrogateescape").decode(errors="replace")


def _peer_certificate(request: web.BaseRequest) -> bytes | None:
    tls = request.transport.get_extra_info("ssl_object") if request.transport else None
    certificate: bytes | None = tls.getpeercert(True) if tls else None
    return certificate


@contextlib.asynccontextmanager
async def _while_connected(request: web.BaseRequest) -> AsyncGenerator[None, None]:
    """Cancel the task inside when the client has disconnected; a task that has nothing to send would not notice."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    timers: list[asyncio.TimerHandle] = []

    def check_connection() -> None:
        if request.transport is not None:
            timers[:] = [loop.call_later(DISCONNECT_POLL_SECONDS, check_connection)]
        elif task:
            task.cancel()

    timers[:] = [loop.call_later(DISCONNECT_POLL_SECONDS, check_connection)]
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
