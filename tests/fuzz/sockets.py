"""The fuzzers' requests through a real socket: bytes to the HTTP server, its answer back, as a client reads it.

The servers that are tested run on simulated machines, in this process and in the thread of the test. An HTTP server of
the real runtime runs in another thread, with a loop of its own: it parses the request, has it answered in the thread of
the test, and writes the answer. So parser and writer of HTTP get what a message makes of them.
"""

import asyncio
import contextlib
import dataclasses
import http.client
import io
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator

from tests import ports

from gantry.runtime import http_interface, interface
from gantry.runtime.real import RealRuntime

Answer = Callable[[http_interface.Request], Awaitable[http_interface.Response]]
LONGEST_SECONDS = 60.0
REFUSAL = b'[false, ["refused", []]]'
"""Stands for the body of a refusal of the HTTP server itself: a node's answers have this form."""


@dataclasses.dataclass
class _Call:
    """A request that the server has parsed, and where its answer is expected."""

    request: http_interface.Request
    answer: asyncio.Future[http_interface.Response]


class _File(io.BytesIO):
    """What ``http.client`` reads an answer from."""

    def makefile(self, *_: object) -> "_File":
        return self


class Wire:
    """A real server in a thread, and a client of it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._events: queue.Queue[_Call | bytes | BaseException] = queue.Queue()
        self._port = ports.free()
        self._server: interface.HttpServer | None = None

    @contextlib.contextmanager
    def serving(self) -> Iterator["Wire"]:
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(LONGEST_SECONDS)
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(server.close(), self._loop).result(LONGEST_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(LONGEST_SECONDS)
            self._loop.close()

    async def _serve(self) -> interface.HttpServer:
        runtime = RealRuntime("fuzz")
        return await runtime.network.serve_http("127.0.0.1", self._port, self._pass_on, tls=None, body_limit=64 << 20)

    async def _pass_on(self, request: http_interface.Request) -> http_interface.Response:
        answer: asyncio.Future[http_interface.Response] = self._loop.create_future()
        self._events.put(_Call(request, answer))
        return await answer

    async def _exchange(self, data: bytes) -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            with contextlib.suppress(ConnectionError):  # the server may refuse it before its end
                writer.write(data)
                await writer.drain()
            received = b""
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(LONGEST_SECONDS):
                    received = await reader.read()
            writer.close()
            self._events.put(received)
        except BaseException as error:
            self._events.put(error)
            raise

    async def ask(self, request: http_interface.Request, answer: Answer) -> http_interface.Response:
        """Send a request; return what came over the wire for ``answer``, or the refusal of the server itself."""
        asyncio.run_coroutine_threadsafe(self._exchange(encoded(request)), self._loop)
        whole: http_interface.Response | None = None
        while True:
            event = self._events.get(timeout=2 * LONGEST_SECONDS)
            if isinstance(event, BaseException):
                raise event
            if isinstance(event, bytes):
                return checked(request, event, whole)
            parsed = dataclasses.replace(event.request, peer_certificate=request.peer_certificate)
            whole = await answer(parsed)
            sent = dataclasses.replace(whole, pieces=None)
            self._loop.call_soon_threadsafe(event.answer.set_result, sent)


def encoded(request: http_interface.Request) -> bytes:
    """Return the bytes of a request, also of one that is not valid HTTP."""
    framing = {"Host": "x", "Connection": "close", "Content-Length": str(len(request.body))}
    odd = {name: value for name, value in request.headers.items() if name.lower() not in ("content-length", "host")}
    lines = [
        f"{request.method} {request.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in (framing | odd).items()),
    ]
    return "\r\n".join(lines).encode(errors="replace") + b"\r\n\r\n" + request.body


def checked(
    request: http_interface.Request, received: bytes, whole: http_interface.Response | None
) -> http_interface.Response:
    """Return the answer in bytes from the wire; AssertionError if it is not HTTP, or not what was answered."""
    parsed = http.client.HTTPResponse(_File(received), method=request.method)  # type: ignore[arg-type]
    try:
        parsed.begin()
        body = parsed.read()
    except (http.client.HTTPException, ValueError) as error:
        raise AssertionError(f"the answer to {request} is not HTTP: {received[:500]!r}") from error
    status = whole.status if whole else parsed.status
    assert parsed.status == status, (request, received[:500], whole)
    assert parsed.status not in http_interface.RETRIED or parsed.headers["Retry-After"], (request, received[:500])
    if whole is None:
        assert 400 <= parsed.status < 500, (request, received[:500])
        return http_interface.Response(parsed.status, REFUSAL)
    if request.method.upper() != "HEAD" and whole.status not in (204, 304):
        assert body == whole.body, (request, body[:500], whole)
    return whole
