"""The network between simulated machines: requests and answers that are delayed, lost, late or repeated; partitions.

``Wires`` is the network of the world, ``Network`` a machine's access to it. A machine is reachable by its name, by the
addresses that ``Wires.register`` assigns to it, and from itself as ``localhost``. TLS is not simulated, except that
both sides must use it, and that the server receives the certificate of the client (``interface.UncheckedContext``).

The model has the faults of TCP, for requests rather than packets. An open connection never loses or reorders bytes; so
a lost message means a silent connection, on which the sender waits until its own timeout. Each request has its own
connection (clients pool them), so one client's requests can overtake each other. A delayed request arrives even if its
sender has timed out or ended meanwhile. A request that is served twice models a proxy that retries on another
connection and returns the last answer; our own clients never send a request twice. A broken connection raises an error
at once: either the request has not arrived, or it was served and the answer is incomplete.
"""

import asyncio
import contextlib
import contextvars
import dataclasses
import errno
import functools
import os
import random
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from gantry.runtime import bytestream, interface, limits
from gantry.runtime.simulated import boot, disk, streams

T = TypeVar("T")

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(eq=False)
class _Listener:
    """A port on which a machine listens, and the tasks of its requests."""

    handler: interface.HttpHandler
    tls: bool
    body_limit: int
    owner: boot.Boot
    tasks: dict[asyncio.Task[object], None] = field(default_factory=dict)

    def begin(self, request: interface.HttpRequest) -> asyncio.Task[interface.HttpResponse]:
        return self._spawn(self._answer(request))

    def _spawn(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        task = self.owner.spawn(work)
        self.tasks[task] = None
        task.add_done_callback(lambda done: self.tasks.pop(done, None))
        return task

    async def _answer(self, request: interface.HttpRequest) -> interface.HttpResponse:
        response = await self.handler(request)
        if response.pieces is None:
            return response
        return dataclasses.replace(response, pieces=self._sent(response.pieces))

    def _sent(self, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """Send in a task of the server, however fast the client reads; the server's end breaks the connection."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def send() -> None:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    queue.put_nowait(piece)

        sending = self._spawn(send())

        def ended(done: asyncio.Task[None]) -> None:
            # Retrieve the exception even if the client has disconnected, so that asyncio does not warn.
            if not done.cancelled():
                done.exception()
            queue.put_nowait(None)

        sending.add_done_callback(ended)
        return _received(sending, queue)


async def _received(sending: asyncio.Task[None], queue: asyncio.Queue[bytes | None]) -> AsyncGenerator[bytes, None]:
    try:
        while (piece := await queue.get()) is not None:
            yield piece
        if sending.cancelled() or sending.exception():
            raise ConnectionResetError(errno.ECONNRESET, "the server broke the connection in its answer")
    finally:
        sending.cancel()


class Wires:
    """The network between the machines; a test may change its attributes at any time.

    ``delay`` is the range of seconds that a message takes, ``lateness`` the maximum of additional seconds for a late
    message. The others are probabilities: of a lost message (``drop``), of a late message (``reorder``), of a request
    that is served twice (``duplicate``), and of a broken connection (``reset``). Inside a machine there is only delay.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, source: random.Random) -> None:
        self.delay = (0.0001, 0.002)
        self.lateness = 5.0
        self.drop = 0.0
        self.reorder = 0.0
        self.duplicate = 0.0
        self.reset = 0.0
        self._loop = loop
        self._random = source
        self._addresses: dict[str, str] = {}
        self._cut: set[tuple[str, str]] = set()
        self._slow: dict[tuple[str, str], float] = {}
        self._listeners: dict[tuple[str, int], _Listener] = {}

    def register(self, address: str, machine: str) -> None:
        """Make ``machine`` reachable by ``address`` (an IP address or another name)."""
        self._addresses[address] = machine

    def partition(self, first: str, second: str, *, one_way: bool = False) -> None:
        """Drop every message between two machines; ``one_way``: only messages from the first to the second."""
        self._cut.add((first, second))
        if not one_way:
            self._cut.add((second, first))

    def heal(self, first: str, second: str) -> None:
        """End the partition of two machines, in both directions."""
        self._cut -= {(first, second), (second, first)}

    def slow_down(self, first: str, second: str, seconds: float) -> None:
        """Let each message between two machines take up to ``seconds`` longer, and half of that at least; 0 ends it."""
        for link in ((first, second), (second, first)):
            self._slow[link] = seconds
            if not seconds:
                del self._slow[link]

    def is_cut(self, source: str, target: str) -> bool:
        """Return whether every message from one machine to another is lost."""
        return (source, target) in self._cut

    def resolve(self, host: str, client: str) -> str:
        """Return the machine that ``host`` means on the machine ``client``; OSError if no machine has that name."""
        if host in LOOPBACK:
            return client
        if host not in self._addresses:
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH), host)
        return self._addresses[host]

    def listen(self, machine: str, port: int, listener: _Listener) -> None:
        """Open a port; OSError EADDRINUSE if it is already open."""
        if self._listener(machine, port):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{machine}:{port}")
        self._listeners[machine, port] = listener

    def intercept(
        self, machine: str, port: int, front: Callable[[interface.HttpHandler], interface.HttpHandler]
    ) -> None:
        """Let a handler answer in front of an open port's own, as on a broken machine, until the port is closed."""
        listener = self._listeners[machine, port]
        listener.handler = front(listener.handler)

    def unlisten(self, machine: str, port: int, listener: _Listener) -> None:
        """Close a port that ``listener`` has opened."""
        if self._listeners.get((machine, port)) is listener:
            del self._listeners[machine, port]

    def _listener(self, machine: str, port: int) -> _Listener | None:
        listener = self._listeners.get((machine, port))
        return None if listener is None or listener.owner.ended else listener

    async def exchange(
        self, source: str, target: str, port: int, request: interface.HttpRequest, *, tls: bool
    ) -> interface.HttpResponse:
        """Transfer a request and its answer; OSError if the connection fails; never return if a message is lost."""
        # A message on the wire is not a task of any machine: it arrives even if its sender is cancelled.
        carrier = contextvars.Context().run(self._loop.create_task, self._carry(source, target, port, request, tls=tls))
        await self._end(carrier)
        if answer := carrier.result():
            return answer
        silence: asyncio.Future[interface.HttpResponse] = self._loop.create_future()
        return await silence

    async def _carry(
        self, source: str, target: str, port: int, request: interface.HttpRequest, *, tls: bool
    ) -> interface.HttpResponse | None:
        """Transfer a request and return its answer; None if either is lost."""
        breaks = self._chance(self.reset, source, target)
        arrives = await self._travel(source, target)
        if breaks and self._random.random() < 0.5:
            raise ConnectionResetError(errno.ECONNRESET, f"the connection to {target}:{port} broke")
        if not arrives:
            return None
        listener = self._listener(target, port)
        if listener is None:
            if not await self._travel(target, source):
                return None
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{target}:{port} refused the connection: no listener")
        if listener.tls != tls:
            raise ConnectionResetError(errno.ECONNRESET, f"only one side of the connection to {target}:{port} uses TLS")
        if len(request.body) > listener.body_limit:
            return interface.HttpResponse(413, b"the body is too large", "text/plain")
        where = f"{target}:{port}"
        served = [listener.begin(request)]
        if self._chance(self.duplicate, source, target) and await self._travel(source, target):
            served.append(listener.begin(request))
        # The last task to end provides the answer.
        answers = [await self._outcome(task, where) for task in served]
        if breaks:
            raise ConnectionResetError(errno.ECONNRESET, f"{where} broke the connection in its answer")
        return answers[-1] if await self._travel(target, source) else None

    async def follow(self, answer: interface.HttpResponse, server: str, client: str) -> AsyncGenerator[bytes, None]:
        """Transfer a body that comes in pieces; after a lost piece nothing more arrives."""
        if answer.body:
            yield answer.body
        if answer.pieces is None:
            return
        async with contextlib.aclosing(answer.pieces):
            async for piece in answer.pieces:
                if self._chance(self.reset, server, client):
                    raise ConnectionResetError(errno.ECONNRESET, f"{server} broke the connection in its answer")
                if not await self._travel(server, client):
                    await self._loop.create_future()
                yield piece

    async def _travel(self, source: str, target: str) -> bool:
        """Take the time of one message; return whether it arrives."""
        lost = self._chance(self.drop, source, target)
        late = self._random.uniform(0, self.lateness) if self._chance(self.reorder, source, target) else 0.0
        if slow := self._slow.get((source, target), 0.0):
            late += self._random.uniform(slow / 2, slow)
        await asyncio.sleep(self._random.uniform(*self.delay) + late)
        return not lost and (source, target) not in self._cut

    def _chance(self, probability: float, source: str, target: str) -> bool:
        return probability > 0 and source != target and self._random.random() < probability

    def _end(self, task: asyncio.Task[T]) -> asyncio.Future[None]:
        """Return a future of the end of a task, whose cancellation does not cancel the task, unlike the task's own.

        The exception of the task is retrieved, so that asyncio does not warn.
        """
        end: asyncio.Future[None] = self._loop.create_future()

        def ended(done: asyncio.Task[T]) -> None:
            if not done.cancelled():
                done.exception()
            if not end.done():
                end.set_result(None)

        task.add_done_callback(ended)
        return end

    async def _outcome(self, task: asyncio.Task[interface.HttpResponse], where: str) -> interface.HttpResponse:
        # A server continues when its client disconnects.
        await self._end(task)
        if task.cancelled():
            raise ConnectionResetError(errno.ECONNRESET, f"{where} ended the connection")
        error = task.exception()
        if error is None:
            return task.result()
        self._loop.call_exception_handler({"message": f"the handler of {where} failed", "exception": error})
        return interface.HttpResponse(500, b"the handler failed", "text/plain")


class HttpServer:
    """An open port of a simulated machine."""

    def __init__(self, wires: Wires, machine: str, port: int, listener: _Listener) -> None:
        self._wires = wires
        self._machine = machine
        self._port = port
        self._listener = listener

    async def close(self) -> None:
        """Close the port, cancel the handlers and wait for them."""
        self._wires.unlisten(self._machine, self._port, self._listener)
        tasks = list(self._listener.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class HttpClient(interface.HttpClient):
    """A client on a simulated machine; a TLS context may have a certificate, which the server gets."""

    def __init__(self, network: "Network", tls: ssl.SSLContext | None) -> None:
        self._network = network
        self._tls = tls

    def _certificate(self) -> bytes | None:
        return self._tls.certificate if isinstance(self._tls, interface.UncheckedContext) else None

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
        """Send one request, and wait for all pieces of its answer; a lost message results in TimeoutError."""
        answer = await self._send(method, host, port, path, body=body, timeout=timeout, headers=headers)
        if len(answer.body) > interface.ANSWER_LIMIT:
            raise interface.answer_too_long()
        if answer.pieces is None:
            return answer
        async with asyncio.timeout(timeout), contextlib.aclosing(answer.pieces):
            streamed_body = b"".join([piece async for piece in answer.pieces])
        return dataclasses.replace(answer, body=answer.body + streamed_body, pieces=None)

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> interface.HttpResponse:
        """Send one GET request; return when its answer begins. Pieces stop arriving during a partition."""
        answer = await self._send("GET", host, port, path, body=b"", timeout=timeout, headers=headers)
        wires, machine = self._network.wires, self._network.machine
        pieces = wires.follow(answer, wires.resolve(host, machine), machine)
        return dataclasses.replace(answer, body=b"", pieces=pieces)

    async def _send(
        self,
        method: str,
        host: str,
        port: int,
        path: str,
        *,
        body: bytes,
        timeout: float,
        headers: Mapping[str, str] | None,
    ) -> interface.HttpResponse:
        boot.check()
        wires, machine = self._network.wires, self._network.machine
        request = interface.HttpRequest(
            method=method,
            path=path,
            body=body,
            headers={"host": f"{host}:{port}", "content-type": "application/json", **(headers or {})},
            peer_certificate=self._certificate(),
        )
        async with asyncio.timeout(timeout):
            target = wires.resolve(host, machine)
            answer = await wires.exchange(machine, target, port, request, tls=self._tls is not None)
        if not answer.headers:
            return answer
        lower_case_headers = {name.lower(): value for name, value in answer.headers.items()}
        return dataclasses.replace(answer, headers=lower_case_headers)

    async def close(self) -> None:
        """Do nothing: connections are not kept between requests."""


class Network:
    """A machine's access to the network and to its own UNIX sockets; it outlives the machine's boots.

    A new server belongs to the boot that ``owner`` returns at that moment.
    """

    def __init__(self, wires: Wires, machine: str, machine_disk: disk.Disk, owner: Callable[[], boot.Boot]) -> None:
        self.wires = wires
        self.machine = machine
        self._disk = machine_disk
        self._owner = owner
        self._sockets: dict[str, streams.Server] = {}

    async def serve_unix(
        self,
        path: str,
        handler: bytestream.Handler,
        *,
        mode: int,
        limit: int,
        allowed: limits.UnixLimits | None = None,
    ) -> streams.Server:
        """Listen on a UNIX socket; replace a stale socket file."""
        boot.check()
        present = self._sockets.get(path)
        if present is not None and present.open:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), path)
        self._disk.place_socket(path, mode)
        forget = functools.partial(self._disk.remove_socket, path)
        server = self._sockets[path] = streams.Server(handler, limit, owner=self._owner(), forget=forget)
        return server

    def is_privileged(self, writer: bytestream.Writer) -> bool:
        """Return true: all processes of a simulated machine are root's."""
        return True

    async def connect_unix(self, path: str, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to a UNIX socket of this machine."""
        self._disk.status(path)
        await asyncio.sleep(0)
        server = self._sockets.get(path)
        if server is None or not server.open:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED), path)
        return server.accept(limit)

    async def stdin_connection(self, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Raise OSError: simulated daemons have no standard input."""
        raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))

    async def pass_connection(
        self, writer: bytestream.Writer, message: bytes, *, host: str, port: int, timeout_seconds: float
    ) -> None:
        """Raise OSError: programs of simulated machines cannot receive connections."""
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    async def serve_http(
        self,
        host: str,
        port: int,
        handler: interface.HttpHandler,
        *,
        tls: ssl.SSLContext | None,
        body_limit: int,
        allowed: limits.HttpLimits | None = None,
        guard: interface.HttpGuard | None = None,
    ) -> HttpServer:
        """Open a port on all addresses of the machine; ``host`` is ignored."""
        boot.check()
        listener = _Listener(handler, tls is not None, body_limit, self._owner())
        self.wires.listen(self.machine, port, listener)
        return HttpServer(self.wires, self.machine, port, listener)

    def http_client(self, *, tls: ssl.SSLContext | None) -> HttpClient:
        """Return a client."""
        return HttpClient(self, tls)
