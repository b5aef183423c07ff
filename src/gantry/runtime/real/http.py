"""HTTP on the real network, with aiohttp: each server has one handler, each client a pool of connections.

The path of a request is unchanged from the wire and includes the query; header names are in lower case.
"""

import asyncio
import contextlib
import dataclasses
import errno
import functools
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping

import aiohttp
import yarl
from aiohttp import web

from gantry.runtime import interface

BACKLOG = 1024
CLIENT_IDLE_SECONDS = 15.0
"""A client closes idle connections long before the server does, so it never sends a POST on a closing connection."""
MAX_CLIENT_CONNECTIONS = 2000
BODY_TIMEOUT_SECONDS = 120.0
"""For a client to send a request's body."""
DISCONNECT_POLL_SECONDS = 5.0
"""Interval at which a server checks whether the client of an answer in pieces is still connected."""
PEER_TIMEOUT_SECONDS = 15
"""Without acknowledgements from a peer, before the connection fails; much shorter than most requests' timeouts."""


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


def _text(value: str) -> str:
    """Return text from the wire with the surrogates that stand for bytes outside UTF-8 replaced."""
    return value if value.isascii() else value.encode(errors="surrogateescape").decode(errors="replace")


async def _streamed(
    request: web.BaseRequest,
    response: interface.HttpResponse,
    pieces: AsyncGenerator[bytes, None],
    headers: Mapping[str, str],
) -> web.StreamResponse:
    """Send an answer whose body comes in pieces, until the answer ends or the client disconnects."""
    sending = web.StreamResponse(status=response.status, headers=headers)
    async with contextlib.aclosing(pieces), _while_connected(request):
        await sending.prepare(request)
        await sending.write(response.body)
        async for piece in pieces:
            try:
                await sending.write(piece)
            except ConnectionResetError:
                return sending
        await sending.write_eof()
    return sending


class Server:
    """A listening port and the tasks of its requests."""

    def __init__(self, handler: interface.HttpHandler, body_limit: int) -> None:
        self._handler = handler
        self._body_limit = body_limit
        self._tasks: set[asyncio.Task[interface.HttpResponse]] = set()
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None) -> None:
        """Bind and listen; OSError EADDRINUSE if the port is in use."""
        requests = functools.partial(web.BaseRequest, loop=asyncio.get_running_loop(), client_max_size=self._body_limit)
        server = web.Server(self._answer, request_factory=requests, access_log=None)
        # ``close`` ends the handlers before it stops the runner, so the runner has nothing to wait for.
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=tls, backlog=BACKLOG).start()
        except OSError:
            await self.close()
            raise

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._runner is None:  # ``close`` was called
            return web.Response(status=503)
        try:
            if request.content.is_eof():
                body = await request.read()
            else:
                async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
                    body = await request.read()
        except TimeoutError:
            return web.Response(status=408, headers={"Connection": "close"})
        received = interface.HttpRequest(
            method=request.method,
            path=request.raw_path,
            body=body,
            headers={name.lower(): _text(value) for name, value in request.headers.items()},
            peer_certificate=_peer_certificate(request),
            peer=request.remote or "",
        )
        response = await self._in_task(received)
        headers = {"Content-Type": response.content_type, **response.headers}
        if response.pieces is None:
            return web.Response(status=response.status, body=response.body, headers=headers)
        return await _streamed(request, response, response.pieces, headers)

    async def _in_task(self, request: interface.HttpRequest) -> interface.HttpResponse:
        task = asyncio.ensure_future(self._handler(request))
        self._tasks.add(task)
        try:
            return await task
        finally:
            self._tasks.discard(task)

    async def close(self) -> None:
        """Stop listening, cancel the handlers, and end the connections; a second call does nothing."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for site in list(runner.sites):
            await site.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await runner.cleanup()


def _as_os_error(error: aiohttp.ClientError) -> OSError:
    """Return the OSError that a socket would have raised; its class depends on the error number."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ETIMEDOUT:
        # The machine is unreachable; a TimeoutError would mean that its answer took too long.
        number = errno.EHOSTUNREACH
    return OSError(number or errno.ECONNRESET, str(error) or type(error).__name__)


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a client's socket; the kernel sends keep-alive probes to a silent peer."""
    family, kind, protocol, _, _ = address
    client_socket = socket.socket(family, kind, protocol)
    client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PEER_TIMEOUT_SECONDS)
    client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PEER_TIMEOUT_SECONDS // 3)
    client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PEER_TIMEOUT_SECONDS * 1000)
    return client_socket


_UNLIMITED = aiohttp.ClientTimeout(total=None)


def _response(answer: aiohttp.ClientResponse, body: bytes) -> interface.HttpResponse:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return interface.HttpResponse(answer.status, body, answer.headers.get("Content-Type", ""), headers)


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    """Return the whole body; one that is too long is not read to its end, so its connection is closed."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > interface.ANSWER_LIMIT:
            answer.close()
            raise interface.answer_too_long()
    return bytes(body)


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """Yield the body as it arrives; the connection ends with the generator."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except aiohttp.ClientError as error:
        raise _as_os_error(error) from error
    finally:
        answer.close()


class Client(interface.HttpClient):
    """Connections to any number of servers, kept open while they are in use."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._scheme = "https" if tls else "http"
        connector = aiohttp.TCPConnector(
            ssl=tls or True, limit=MAX_CLIENT_CONNECTIONS, keepalive_timeout=CLIENT_IDLE_SECONDS, socket_factory=_socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": "application/json"},
        )
        self._under_way = 0
        self._retired = False

    async def request(
        self,
        method: str,
        host: str,
        port: int,
        path: str,
        *,
        body: bytes = b"",
        timeout: float,
        headers: Mapping[str, str] | None = None,
    ) -> interface.HttpResponse:
        """Send one request; do not follow redirects."""
        limit = aiohttp.ClientTimeout(total=timeout)
        url = self._url(host, port, path)
        sending = self._session.request(
            method, url, data=body or None, headers=headers, timeout=limit, allow_redirects=False
        )
        self._under_way += 1
        try:
            async with sending as answer:
                return _response(answer, await _body(answer))
        except TimeoutError:
            raise
        except aiohttp.ClientError as error:
            raise _as_os_error(error) from error
        finally:
            self._under_way -= 1
            if self._retired and not self._under_way:
                await self.close()

    async def retire(self) -> None:
        """End the connections when the requests under way have ended."""
        self._retired = True
        if not self._under_way:
            await self.close()

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> interface.HttpResponse:
        """Send one GET request; return when its answer begins."""
        try:
            async with asyncio.timeout(timeout):
                answer = await self._session.get(
                    self._url(host, port, path), headers=headers, timeout=_UNLIMITED, allow_redirects=False
                )
        except TimeoutError:
            raise
        except aiohttp.ClientError as error:
            raise _as_os_error(error) from error
        return dataclasses.replace(_response(answer, b""), pieces=_pieces(answer))

    def _url(self, host: str, port: int, path: str) -> yarl.URL:
        name = f"[{host}]" if ":" in host else host
        return yarl.URL(f"{self._scheme}://{name}:{port}{path}", encoded=True)

    async def close(self) -> None:
        """End the connections."""
        await self._session.close()
