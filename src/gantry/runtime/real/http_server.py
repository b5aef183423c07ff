"""The HTTP server of the real network, with aiohttp: it accepts connections itself, within limits, and has one handler.

The path of a request is unchanged from the wire and includes the query; header names are in lower case. Before a body
is read, the ``guard`` decides by the headers how long it may be. Refusals (``http_refusals``) have the form of the
guard's protocol:

    408  headers or body take too long       429  the client's address has too many connections or requests
    413  the body is too long                503  the server is full
    431  the headers are too long            400  the request is not valid HTTP
"""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import resource
import ssl
from asyncio import sslproto
from collections.abc import AsyncGenerator, Awaitable
from http import HTTPStatus
from typing import Any, TypeVar

from aiohttp import web

from gantry.runtime import http_interface, limits, repeated_logs
from gantry.runtime.real import accepting, connections, http_messages, http_progress, http_refusals, opening

T = TypeVar("T")

log = logging.getLogger(__name__)

BACKLOG = 1024
SWEEP_SECONDS = 0.25
"""Interval at which a server looks for connections that take too long."""
LINGER_SECONDS = 2.0
"""For the rest of a body that is refused: the client reads the answer when it has sent it."""
TLS_BUFFER_BYTES = 32 << 10
"""The buffer of a TLS connection; that of asyncio is 256 KiB from the first byte of a handshake."""
SHUTDOWN_SECONDS = 0.1
"""``close`` ends the handlers first, so their connections have nothing to wait for."""

sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES


class _Protocol(web.RequestHandler):
    """aiohttp's protocol of a connection, which notes what the connection waits for."""

    __slots__ = ("_header_bytes", "_progress", "_server", "connection")

    def __init__(self, server: "Server", manager: web.Server, connection: connections.Connection) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp says so itself in its documentation
            keepalive_timeout=server.idle_seconds,
            lingering_time=LINGER_SECONDS,
        )
        self._server = server
        self._header_bytes = 0
        self._progress = http_progress.Progress()
        self.connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.connection.close = transport.abort
        self.connection.end = functools.partial(self.refuse_headers, 408)
        tls = transport.get_extra_info("ssl_object")
        self._server.recognize(self.connection, tls.getpeercert(True) if tls else None)
        self._server.connections.enter(self.connection, connections.State.HEADERS)
        self._server.note_room()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.connection.state is connections.State.IDLE:
            self._server.connections.enter(self.connection, connections.State.HEADERS)
        requests = self._request_count
        super().data_received(data)
        begun = self._request_count - requests
        self._progress.receive(data, requests=begun)
        current = self._current_request
        if begun and current is not None and not current.content.is_eof():
            # No request follows a body that has no end: its chunks are invalid. aiohttp lets their reader wait.
            current.content.set_exception(web.RequestPayloadError("the body is invalid"))
        if self.connection.state is not connections.State.HEADERS:
            return
        if begun:
            # It waits for its handler, on a busy machine for longer than a client may keep the server waiting.
            self._server.connections.enter(self.connection, connections.State.WORK)
        else:
            self._header_bytes += len(data)
            if self._header_bytes > limits.HEADER_BYTES:
                self.refuse_headers(431)

    def end_request(self, request: web.BaseRequest) -> None:
        """Wait for the next request, with the time limit for headers if a part of it has already arrived."""
        in_chunks = request.body_exists and request.content_length is None
        self._header_bytes = self._progress.end_request(None if in_chunks else request.content_length or 0)
        state = connections.State.HEADERS if self._header_bytes else connections.State.IDLE
        self._server.connections.enter(self.connection, state)

    def refuse_headers(self, status: int) -> None:
        """Answer a request whose headers are not complete, and end the connection; it is aborted if that is slow."""
        if self.transport and self._header_bytes:
            self.transport.write(self._server.refusals.encoded(status))
        self.force_close()
        self.connection.end = None
        self._server.connections.enter(self.connection, connections.State.HEADERS)

    def pause_writing(self) -> None:
        self.connection.stalled = asyncio.get_running_loop().time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.connection.stalled = None
        super().resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._server.connections.remove(self.connection)
        self._server.note_room()
        super().connection_lost(exc)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Return the answer for a request that is not valid HTTP, or that has failed by a fault in the server."""
        if isinstance(exc, ConnectionError):
            raise exc
        # The text of the exception has parts of the request, which may contain a password.
        self._server.log.write(
            logging.WARNING if status < HTTPStatus.INTERNAL_SERVER_ERROR else logging.ERROR,
            f"requests answered with status {status}",
            "a request from %s is answered with status %d: %s",
            request.remote,
            status,
            type(exc).__name__,
            traceback=status >= HTTPStatus.INTERNAL_SERVER_ERROR,
        )
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun")
        return http_messages.whole(self._server.refusals.answer(status))


class Server:
    """A listening port, its connections, and the tasks of its requests."""

    def __init__(
        self,
        handler: http_interface.Handler,
        body_limit: int,
        *,
        allowed: limits.HttpLimits | None = None,
        guard: http_interface.Guard | None = None,
    ) -> None:
        self._handler = handler
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._limits = (allowed or limits.HttpLimits()).within(descriptors)
        self._guard = guard or http_refusals.PlainGuard(body_limit)
        self._body_limit = body_limit
        self._body_bytes = 0
        self._tasks: set[asyncio.Future[Any]] = set()
        self._opening: opening.Opening | None = None
        self._acceptors: list[accepting.Acceptor] = []
        self._manager: web.Server | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self.log = repeated_logs.RepeatedLog(log)
        self.refusals = http_refusals.Refusals(self._guard, self.log)
        self.connections = connections.Connections(
            self._limits,
            time=lambda: asyncio.get_running_loop().time(),
            log=self.log,
            arrivals=limits.arrivals_within(descriptors),
        )

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None) -> None:
        """Bind and listen; OSError EADDRINUSE if the port is in use."""
        loop = asyncio.get_running_loop()
        requests = functools.partial(web.BaseRequest, loop=loop, client_max_size=self._body_limit)
        manager = self._manager = web.Server(self._answer, request_factory=requests, access_log=None)
        self._opening = opening.Opening(
            self.connections,
            lambda connection: _Protocol(self, manager, connection),
            tls=tls,
            handshake_seconds=self._limits.handshake_seconds,
            refusal=self.refusals.encoded,
            log=self.log,
        )
        # Only binds and listens: it begins to accept nothing by itself.
        listening = await loop.create_server(asyncio.Protocol, host, port, backlog=BACKLOG, start_serving=False)
        sockets = [each.dup() for each in listening.sockets]
        listening.close()
        try:
            for each in sockets:
                each.listen(BACKLOG)
        except OSError:
            for each in sockets:
                each.close()
            raise
        self._acceptors = [
            accepting.Acceptor(each, self._opening.accept, on_exhausted=self.connections.displace_some, log=self.log)
            for each in sockets
        ]
        self._sweep()

    def renew_tls(self, tls: ssl.SSLContext) -> None:
        """Begin the TLS of the next connections with another context; a handshake under way continues with its own."""
        if self._opening:
            self._opening.tls = tls

    @property
    def idle_seconds(self) -> float:
        """Return how long a connection may wait for its next request."""
        return self._limits.idle_seconds

    def recognize(self, connection: connections.Connection, certificate: bytes | None) -> None:
        """Note whether the guard knows a client certificate, which may have become or ceased to be a known one."""
        if certificate is not None:
            self.connections.recognize(connection, known=self._guard.knows(certificate))
            self.note_room()

    def note_room(self) -> None:
        """Note that there may be room for connections that wait for their turn."""
        if self._opening:
            self._opening.begin_soon()

    def _sweep(self) -> None:
        """End the connections that take too long."""
        for connection in self.connections.late():
            self.log.write(
                logging.INFO,
                "connections closed for being slow",
                "a connection of %s is closed: it waited too long for its %s",
                connection.peer,
                connection.state.value,
            )
            if connection.end and connection.stalled is None:
                connection.end()
            else:
                connection.close()
        self._sweep_timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        assert isinstance(protocol, _Protocol)
        connection = protocol.connection
        try:
            if self._manager is None:  # ``close`` was called
                raise http_refusals.RefusedError(self.refusals.answer(503))
            if connection.refusal:
                raise http_refusals.RefusedError(self.refusals.answer(connection.refusal))
            received = http_messages.received(request)
            self.recognize(connection, received.peer_certificate)
            if not request.can_read_body:
                response = await self._work(received, connection)
            else:
                async with self._body(request, received, connection) as body:
                    response = await self._work(dataclasses.replace(received, body=body), connection)
            if response.conversation:
                return await self._until_closed(http_messages.converse(request, response, response.conversation))
            return await http_messages.send(request, response)
        except http_refusals.RefusedError as refused:
            answer = http_messages.whole(refused.answer)
            if request.content.exception():
                request.content.feed_eof()  # aiohttp must not wait for the rest
            if answer.headers.get("Connection") == "close" or not request.content.is_eof():
                answer.force_close()  # the header alone makes aiohttp close nothing
            return answer
        finally:
            # The rest of a refused body still arrives; aiohttp drops it, and closes the connection.
            if request.content.is_eof():
                protocol.end_request(request)
            else:
                self.connections.enter(connection, connections.State.BODY)

    @contextlib.asynccontextmanager
    async def _body(
        self, request: web.BaseRequest, received: http_interface.Request, connection: connections.Connection
    ) -> AsyncGenerator[bytes, None]:
        """Read the body of a request that the guard admits; its bytes count until the request is answered."""
        self.connections.enter(connection, connections.State.BODY)
        admission = await self._guard.admit(received)
        if isinstance(admission, http_interface.Response):
            raise http_refusals.RefusedError(admission)
        if admission.known:
            self.connections.recognize(connection)
        limit = min(admission.body_bytes, self._body_limit)
        if (request.content_length or 0) > limit:
            raise self.refusals.error(received, 413, limit)
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(self._limits.body_seconds):
                    await self._read(request, received, body, limit=limit)
            except TimeoutError:
                raise self.refusals.error(received, 408) from None
            except web.RequestPayloadError:
                raise self.refusals.error(received, 400) from None
            yield bytes(body)
        finally:
            self._body_bytes -= len(body)

    async def _read(
        self, request: web.BaseRequest, received: http_interface.Request, body: bytearray, *, limit: int
    ) -> None:
        """Append the pieces of a body as they arrive."""
        while piece := await request.content.readany():
            body += piece
            self._body_bytes += len(piece)
            if len(body) > limit:
                raise self.refusals.error(received, 413, limit)
            if self._body_bytes > self._limits.body_bytes:
                raise self.refusals.error(received, 503)

    async def _work(
        self, received: http_interface.Request, connection: connections.Connection
    ) -> http_interface.Response:
        """Return the handler's answer; RefusedError if too many requests are in work."""
        if status := self.connections.begin_work(connection):
            raise self.refusals.error(received, status)
        self.connections.enter(connection, connections.State.WORK)
        try:
            response = await self._until_closed(self._handler(received))
        finally:
            self.connections.end_work(connection)
        if response.known:
            self.connections.recognize(connection)
            self.note_room()
        return response

    async def _until_closed(self, work: Awaitable[T]) -> T:
        """Return the result of a work that ``close`` cancels."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        try:
            return await task
        finally:
            self._tasks.discard(task)

    async def close(self) -> None:
        """Stop listening, cancel the handlers, and end the connections; a second call does nothing."""
        manager, self._manager = self._manager, None
        if manager is None:
            return
        for acceptor in self._acceptors:
            acceptor.close()
        if self._sweep_timer:
            self._sweep_timer.cancel()
        tasks = [*self._tasks, *(self._opening.close() if self._opening else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        manager.pre_shutdown()
        await manager.shutdown(SHUTDOWN_SECONDS)
