"""The network between simulated machines: requests and answers that are delayed, lost, late or repeated; partitions.

``Wires`` is the world's one network, ``Network`` a machine's door to it. A machine is reached by its name, by the
addresses that ``Wires.register`` gave it, and by itself as ``localhost``. TLS is not spoken; what remains of it is that
both sides must want it, and that the server sees the certificate that the client's machine was given
(``Network.certificate``).

What TCP can do is modelled, for requests rather than for packets. Bytes of one connection are never lost or out of
order while it lives; so a message that is lost is a connection that has fallen silent: the sender waits until its own
time limit. Each request has a connection to itself (clients pool them), so requests of one client overtake each other.
One that is held up arrives though its sender has given up meanwhile, or has ended. One that is served twice stands for
something on the way that tries again on another connection and hands on the last answer; our own clients send nothing
twice. A connection that breaks gives an error at once: the request may not have arrived, or it was served and the
answer is cut off in the middle.
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

from gantry.runtime import bytestream, interface
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
        """Let the server send by itself, however far its client has read; the connection breaks if the server ends."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def send() -> None:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    queue.put_nowait(piece)

        sending = self._spawn(send())

        def ended(done: asyncio.Task[None]) -> None:
            # Its failure counts as looked at, though the client may have gone.
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
    """What connects the machines; its attributes may be changed at any time.

    ``delay`` is the range of seconds that a message travels, ``lateness`` how many more it is held up at most. The
    others are probabilities: ``drop`` and ``reorder`` that a message is lost or held up, ``duplicate`` that a request
    is served a second time, and ``reset`` that a connection breaks. Inside a machine there is only delay.
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
        self._listeners: dict[tuple[str, int], _Listener] = {}

    def register(self, address: str, machine: str) -> None:
        """Let ``machine`` be reached by ``address`` (an IP address or another name)."""
        self._addresses[address] = machine

    def partition(self, first: str, second: str, *, one_way: bool = False) -> None:
        """Lose every message between two machines; ``one_way``: only those from the first to the second."""
        self._cut.add((first, second))
        if not one_way:
            self._cut.add((second, first))

    def heal(self, first: str, second: str) -> None:
        """End the partition of two machines, in both directions."""
        self._cut -= {(first, second), (second, first)}

    def is_cut(self, source: str, target: str) -> bool:
        """Tell whether every message from one machine to another is lost."""
        return (source, target) in self._cut

    def resolve(self, host: str, asking: str) -> str:
        """Return the machine that ``host`` means to the machine ``asking``; OSError when nobody has that name."""
        if host in LOOPBACK:
            return asking
        if host not in self._addresses:
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH), host)
        return self._addresses[host]

    def listen(self, machine: str, port: int, listener: _Listener) -> None:
        """Open a port; OSError EADDRINUSE when it is open already."""
        if self._listener(machine, port):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{machine}:{port}")
        self._listeners[machine, port] = listener

    def unlisten(self, machine: str, port: int, listener: _Listener) -> None:
        """Close a port that ``listener`` has open."""
        if self._listeners.get((machine, port)) is listener:
            del self._listeners[machine, port]

    def _listener(self, machine: str, port: int) -> _Listener | None:
        found = self._listeners.get((machine, port))
        return None if found is None or found.owner.ended else found

    async def exchange(
        self, source: str, target: str, port: int, request: interface.HttpRequest, *, tls: bool
    ) -> interface.HttpResponse:
        """Carry a request and its answer; OSError when the connection fails, no return when a message is lost."""
        # What is on the wire is nobody's task: it arrives though its sender is cancelled.
        carrier = self._alone(self._carry(source, target, port, request, tls=tls))
        await asyncio.wait([carrier])
        if answer := carrier.result():
            return answer
        silence: asyncio.Future[interface.HttpResponse] = self._loop.create_future()
        return await silence

    async def _carry(
        self, source: str, target: str, port: int, request: interface.HttpRequest, *, tls: bool
    ) -> interface.HttpResponse | None:
        """Bring a request there and its answer back; None when either is lost."""
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
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {target}:{port}")
        if listener.tls != tls:
            raise ConnectionResetError(errno.ECONNRESET, f"only one side of {target}:{port} speaks TLS")
        if len(request.body) > listener.body_limit:
            return interface.HttpResponse(413, b"the body is too large", "text/plain")
        where = f"{target}:{port}"
        served = [listener.begin(request)]
        if self._chance(self.duplicate, source, target) and await self._travel(source, target):
            served.append(listener.begin(request))
        # the one that answers is the last to be done
        answers = [await self._outcome(task, where) for task in served]
        if breaks:
            raise ConnectionResetError(errno.ECONNRESET, f"{where} broke the connection in its answer")
        return answers[-1] if await self._travel(target, source) else None

    async def follow(self, answer: interface.HttpResponse, server: str, client: str) -> AsyncGenerator[bytes, None]:
        """Carry a body that comes in pieces; from a piece that is lost on there is silence."""
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
        """Take the time of a way; tell whether the message arrives."""
        lost = self._chance(self.drop, source, target)
        late = self._random.uniform(0, self.lateness) if self._chance(self.reorder, source, target) else 0.0
        await asyncio.sleep(self._random.uniform(*self.delay) + late)
        return not lost and (source, target) not in self._cut

    def _chance(self, probability: float, source: str, target: str) -> bool:
        return probability > 0 and source != target and self._random.random() < probability

    def _alone(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Run what belongs to no machine; its failure is looked at by who waits for it, if anybody does."""
        task = contextvars.Context().run(self._loop.create_task, work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _outcome(self, task: asyncio.Task[interface.HttpResponse], where: str) -> interface.HttpResponse:
        # waiting does not cancel: a server goes on when its client gives up
        await asyncio.wait([task])
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
    """A client on a simulated machine."""

    def __init__(self, network: "Network", tls: bool) -> None:
        self._network = network
        self._tls = tls

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
        """Send one request; a lost message shows as TimeoutError. What of an answer comes in pieces is waited for."""
        answer = await self._send(method, host, port, path, body=body, timeout=timeout, headers=headers)
        if answer.pieces is None:
            return answer
        async with asyncio.timeout(timeout), contextlib.aclosing(answer.pieces):
            rest = b"".join([piece async for piece in answer.pieces])
        return dataclasses.replace(answer, body=answer.body + rest, pieces=None)

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> interface.HttpResponse:
        """Send one GET and return when its answer begins; a cut network shows as silence."""
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
            headers={"host": f"{host}:{port}", "content-type": "application/json"} | dict(headers or {}),
            peer_certificate=self._network.certificate if self._tls else None,
        )
        async with asyncio.timeout(timeout):
            target = wires.resolve(host, machine)
            answer = await wires.exchange(machine, target, port, request, tls=self._tls)
        seen = {name.lower(): value for name, value in answer.headers.items()}
        return dataclasses.replace(answer, headers=seen)

    async def close(self) -> None:
        """Nothing is kept between posts."""


class Network:
    """A machine's door to the network and to its own UNIX sockets; it outlives the machine's boots.

    ``certificate`` is what the machine shows as a client to servers with TLS, in DER. What listens belongs to the boot
    that ``owner`` returns at that moment.
    """

    def __init__(self, wires: Wires, machine: str, machine_disk: disk.Disk, owner: Callable[[], boot.Boot]) -> None:
        self.wires = wires
        self.machine = machine
        self.certificate: bytes | None = None
        self._disk = machine_disk
        self._owner = owner
        self._sockets: dict[str, streams.Server] = {}

    async def serve_unix(self, path: str, handler: bytestream.Handler, *, mode: int, limit: int) -> streams.Server:
        """Listen on a UNIX socket; a socket file on which nobody listens is replaced."""
        boot.check()
        held = self._sockets.get(path)
        if held is not None and held.open:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), path)
        self._disk.place_socket(path, mode)
        forget = functools.partial(self._disk.remove_socket, path)
        server = self._sockets[path] = streams.Server(handler, limit, owner=self._owner(), forget=forget)
        return server

    async def connect_unix(self, path: str, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to a UNIX socket of this machine."""
        self._disk.status(path)
        await asyncio.sleep(0)
        server = self._sockets.get(path)
        if server is None or not server.open:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED), path)
        return server.accept(limit)

    async def inherited(self, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Raise OSError: a simulated daemon has no standard input."""
        raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))

    async def pass_connection(
        self, writer: bytestream.Writer, message: bytes, *, host: str, port: int, patience: float
    ) -> None:
        """Raise OSError: no program of a simulated machine takes connections from others."""
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    async def serve_http(
        self,
        host: str,
        port: int,
        handler: interface.HttpHandler,
        *,
        tls: ssl.SSLContext | None,
        body_limit: int,
    ) -> HttpServer:
        """Open a port, on all addresses of the machine whatever ``host`` says."""
        boot.check()
        listener = _Listener(handler, tls is not None, body_limit, self._owner())
        self.wires.listen(self.machine, port, listener)
        return HttpServer(self.wires, self.machine, port, listener)

    def http_client(self, *, tls: ssl.SSLContext | None) -> HttpClient:
        """Return a client."""
        return HttpClient(self, tls is not None)
