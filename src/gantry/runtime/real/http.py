"""HTTP of the real network, over aiohttp: one handler per server, pooled connections per client.

The path of a request is as it came on the wire, with its query; names of headers are in lower case.
"""

import asyncio
import errno
import functools
import socket
import ssl
from collections.abc import Mapping

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
UNHEARD = 15
"""Seconds after which a machine that confirms nothing is taken for dead, long before most requests time out."""


def _peer_certificate(request: web.BaseRequest) -> bytes | None:
    tls = request.transport.get_extra_info("ssl_object") if request.transport else None
    certificate: bytes | None = tls.getpeercert(True) if tls else None
    return certificate


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
            async with asyncio.timeout(BODY_PATIENCE):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=408, headers={"Connection": "close"})
        seen = interface.HttpRequest(
            method=request.method,
            path=request.raw_path,
            body=body,
            headers={name.lower(): value for name, value in request.headers.items()},
            peer_certificate=_peer_certificate(request),
            peer=request.remote or "",
        )
        response = await self._in_task(seen)
        headers = {"Content-Type": response.content_type, **response.headers}
        return web.Response(status=response.status, body=response.body, headers=headers)

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


class Client:
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

    async def post(
        self, host: str, port: int, path: str, body: bytes, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> interface.HttpResponse:
        """Send one POST; redirects are not followed."""
        name = f"[{host}]" if ":" in host else host
        url = yarl.URL(f"{self._scheme}://{name}:{port}{path}", encoded=True)
        limit = aiohttp.ClientTimeout(total=timeout)
        try:
            sending = self._session.post(url, data=body, headers=headers, timeout=limit, allow_redirects=False)
            async with sending as answer:
                content = await answer.read()
                return interface.HttpResponse(answer.status, content, answer.headers.get("Content-Type", ""))
        except TimeoutError:
            raise
        except aiohttp.ClientError as error:
            raise _as_os_error(error) from error

    async def close(self) -> None:
        """End the connections."""
        await self._session.close()
