"""HTTP of the real network, over aiohttp: one handler per server, pooled connections per client.

The path of a request is as it came on the wire, with its query; names of headers are in lower case.
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
# A client drops idle connections long before the server does: a POST is never sent into a closing connection.
CLIENT_KEEPS_IDLE = 15.0
CONNECTIONS = 2000
BODY_PATIENCE = 120.0
"""Seconds that a client has to send a body."""
LOOK = 5.0
"""Seconds between two looks whether the client of an answer in pieces is still there."""
UNHEARD = 15
"""Seconds after which a machine that confirms nothing is taken for dead, long before most requests time out."""


def _peer_certificate(request: web.BaseRequest) -> bytes | None:
    tls = request.transport.get_extra_info("ssl_object") if request.transport else None
    certificate: bytes | None = tls.getpeercert(True) if tls else None
    return certificate


@contextlib.asynccontextmanager
async def _while_connected(request: web.BaseRequest) -> AsyncGenerator[None, None]:
    """Cancel what is done inside when the client has gone: who has nothing to send does not notice by himself."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    timers: list[asyncio.TimerHandle] = []

    def look() -> None:
        if request.transport is not None:
            timers[:] = [loop.call_later(LOOK, look)]
        elif task:
            task.cancel()

    timers[:] = [loop.call_later(LOOK, look)]
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


def _text(value: str) -> str:
    """Return text of the wire without the halves of characters that bytes which are none were read as."""
    return value if value.isascii() else value.encode(errors="surrogateescape").decode(errors="replace")


async def _streamed(
    request: web.BaseRequest,
    response: interface.HttpResponse,
    pieces: AsyncGenerator[bytes, None],
    headers: Mapping[str, str],
) -> web.StreamResponse:
    """Send an answer whose body comes in pieces, until it ends or the client has gone."""
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
        """Bind and listen; OSError EADDRINUSE when the port is taken."""
        requests = functools.partial(web.BaseRequest, loop=asyncio.get_running_loop(), client_max_size=self._body_limit)
        server = web.Server(self._answer, request_factory=requests, access_log=None)
        # the handlers are ended before the runner is asked, so it has nothing to wait for
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=tls, backlog=BACKLOG).start()
        except OSError:
            await self.close()
            raise

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._runner is None:  # we are closing
            return web.Response(status=503)
        try:
            if request.content.is_eof():
                body = await request.read()
            else:
                async with asyncio.timeout(BODY_PATIENCE):
                    body = await request.read()
        except TimeoutError:
            return web.Response(status=408, headers={"Connection": "close"})
        seen = interface.HttpRequest(
            method=request.method,
            path=request.raw_path,
            body=body,
            headers={name.lower(): _text(value) for name, value in request.headers.items()},
            peer_certificate=_peer_certificate(request),
            peer=request.remote or "",
        )
        response = await self._in_task(seen)
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
        """Stop listening, cancel the handlers, end the connections; a second call does nothing."""
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
    """Return the OSError that a socket would have raised: its number chooses the class."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ETIMEDOUT:
        # The machine is gone; a TimeoutError would say that its answer took too long.
        number = errno.EHOSTUNREACH
    return OSError(number or errno.ECONNRESET, str(error) or type(error).__name__)


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a client's socket, whose kernel asks a silent peer whether it is still there."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, UNHEARD)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, UNHEARD // 3)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNHEARD * 1000)
    return made


_UNLIMITED = aiohttp.ClientTimeout(total=None)


def _response(answer: aiohttp.ClientResponse, body: bytes) -> interface.HttpResponse:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return interface.HttpResponse(answer.status, body, answer.headers.get("Content-Type", ""), headers)


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """Yield the body as it comes; the connection ends with the generator."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except aiohttp.ClientError as error:
        raise _as_os_error(error) from error
    finally:
        answer.close()


class Client(interface.HttpClient):
    """Connections to any number of servers, kept while they are used."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._scheme = "https" if tls else "http"
        connector = aiohttp.TCPConnector(
            ssl=tls or True, limit=CONNECTIONS, keepalive_timeout=CLIENT_KEEPS_IDLE, socket_factory=_socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": "application/json"},
        )

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
        """Send one request; redirects are not followed."""
        limit = aiohttp.ClientTimeout(total=timeout)
        url = self._url(host, port, path)
        sending = self._session.request(
            method, url, data=body or None, headers=headers, timeout=limit, allow_redirects=False
        )
        try:
            async with sending as answer:
                return _response(answer, await answer.read())
        except TimeoutError:
            raise
        except aiohttp.ClientError as error:
            raise _as_os_error(error) from error

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> interface.HttpResponse:
        """Send one GET and return when its answer begins."""
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
