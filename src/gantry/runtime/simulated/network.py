"""The network between simulated machines: messages with seeded delay, loss and duplication, and partitions.

``Wires`` is the world's one network, ``Network`` a machine's door to it. A machine is reached by its name, by the
addresses that ``Wires.register`` gave it, and by itself as ``localhost``. A message that is lost is never answered: the
sender waits until its own time limit. TLS is not spoken; what remains of it is that both sides must want it, and
that the server sees the certificate that the client's machine was given (``Network.certificate``).
"""

import asyncio
import errno
import functools
import os
import random
import ssl
from dataclasses import dataclass, field

from gantry.runtime import interface
from gantry.runtime.simulated import boot, disk, streams

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(eq=False)
class _Listener:
    """A port on which a machine listens, and the tasks of its requests."""

    handler: interface.HttpHandler
    tls: bool
    body_limit: int
    owner: boot.Boot
    tasks: dict[asyncio.Task[interface.HttpResponse], None] = field(default_factory=dict)

    def begin(self, request: interface.HttpRequest) -> asyncio.Task[interface.HttpResponse]:
        task = self.owner.spawn(self._answer(request))
        self.tasks[task] = None
        task.add_done_callback(lambda done: self.tasks.pop(done, None))
        return task

    async def _answer(self, request: interface.HttpRequest) -> interface.HttpResponse:
        return await self.handler(request)


class Wires:
    """What connects the machines.

    ``delay`` is the range of seconds that a message travels, ``drop`` and ``duplicate`` are probabilities per message.
    Inside a machine nothing is lost or doubled.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, source: random.Random) -> None:
        self.delay = (0.0001, 0.002)
        self.drop = 0.0
        self.duplicate = 0.0
        self._loop = loop
        self._random = source
        self._addresses: dict[str, str] = {}
        self._cut: set[frozenset[str]] = set()
        self._listeners: dict[tuple[str, int], _Listener] = {}

    def register(self, address: str, machine: str) -> None:
        """Let ``machine`` be reached by ``address`` (an IP address or another name)."""
        self._addresses[address] = machine

    def partition(self, first: str, second: str) -> None:
        """Lose every message between two machines, in both directions."""
        self._cut.add(frozenset((first, second)))

    def heal(self, first: str, second: str) -> None:
        """End the partition of two machines."""
        self._cut.discard(frozenset((first, second)))

    def end(self, machine: str) -> None:
        """Close all ports of a machine."""
        self._listeners = {key: value for key, value in self._listeners.items() if key[0] != machine}

    def resolve(self, host: str, asking: str) -> str:
        """Return the machine that ``host`` means to the machine ``asking``; OSError when nobody has that name."""
        if host in LOOPBACK:
            return asking
        if host not in self._addresses:
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH), host)
        return self._addresses[host]

    def listen(self, machine: str, port: int, listener: _Listener) -> None:
        """Open a port; OSError EADDRINUSE when it is open already."""
        if (machine, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{machine}:{port}")
        self._listeners[machine, port] = listener

    def unlisten(self, machine: str, port: int, listener: _Listener) -> None:
        """Close a port that ``listener`` has open."""
        if self._listeners.get((machine, port)) is listener:
            del self._listeners[machine, port]

    async def exchange(
        self, source: str, target: str, port: int, request: interface.HttpRequest, *, tls: bool
    ) -> interface.HttpResponse:
        """Carry a request and its answer; OSError when the connection fails, no return when a message is lost."""
        await self._travel(source, target)
        listener = self._listeners.get((target, port))
        if listener is None:
            await self._travel(target, source)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {target}:{port}")
        if listener.tls != tls:
            raise ConnectionResetError(errno.ECONNRESET, f"only one side of {target}:{port} speaks TLS")
        if len(request.body) > listener.body_limit:
            return interface.HttpResponse(413, b"the body is too large", "text/plain")
        task = listener.begin(request)
        if source != target and self._random.random() < self.duplicate:
            listener.begin(request)
        answer = await self._outcome(task, f"{target}:{port}")
        await self._travel(target, source)
        return answer

    async def _travel(self, source: str, target: str) -> None:
        lost = self._random.random() < self.drop and source != target
        await asyncio.sleep(self._random.uniform(*self.delay))
        if lost or frozenset((source, target)) in self._cut:
            await self._loop.create_future()

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


class HttpClient:
    """A client on a simulated machine."""

    def __init__(self, network: "Network", tls: bool) -> None:
        self._network = network
        self._tls = tls

    async def post(self, host: str, port: int, path: str, body: bytes, *, timeout: float) -> interface.HttpResponse:
        """Send one POST; a lost message shows as TimeoutError."""
        boot.check()
        wires, machine = self._network.wires, self._network.machine
        request = interface.HttpRequest(
            method="POST",
            path=path,
            body=body,
            headers={"host": f"{host}:{port}", "content-type": "application/json"},
            peer_certificate=self._network.certificate if self._tls else None,
        )
        async with asyncio.timeout(timeout):
            target = wires.resolve(host, machine)
            return await wires.exchange(machine, target, port, request, tls=self._tls)

    async def close(self) -> None:
        """Nothing is kept between posts."""


class Network:
    """A machine's door to the network and to its own UNIX sockets; it outlives the machine's boots.

    ``certificate`` is what the machine shows as a client to servers with TLS, in DER.
    """

    def __init__(self, wires: Wires, machine: str, machine_disk: disk.Disk, first: boot.Boot) -> None:
        self.wires = wires
        self.machine = machine
        self.certificate: bytes | None = None
        self._disk = machine_disk
        self._boot = first
        self._sockets: dict[str, streams.Server] = {}

    def restart(self, following: boot.Boot) -> None:
        """Close everything that listens; what listens from now on belongs to the boot ``following``."""
        self.wires.end(self.machine)
        self._sockets.clear()
        self._boot = following

    async def serve_unix(self, path: str, handler: interface.StreamHandler, *, mode: int, limit: int) -> streams.Server:
        """Listen on a UNIX socket; a socket file on which nobody listens is replaced."""
        boot.check()
        held = self._sockets.get(path)
        if held is not None and held.open:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), path)
        self._disk.place_socket(path, mode)
        forget = functools.partial(self._disk.remove_socket, path)
        server = self._sockets[path] = streams.Server(handler, limit, owner=self._boot, forget=forget)
        return server

    async def connect_unix(self, path: str, *, limit: int) -> tuple[interface.Reader, interface.Writer]:
        """Connect to a UNIX socket of this machine."""
        self._disk.status(path)
        await asyncio.sleep(0)
        server = self._sockets.get(path)
        if server is None or not server.open:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED), path)
        return server.accept(limit)

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
        listener = _Listener(handler, tls is not None, body_limit, self._boot)
        self.wires.listen(self.machine, port, listener)
        return HttpServer(self.wires, self.machine, port, listener)

    def http_client(self, *, tls: ssl.SSLContext | None) -> HttpClient:
        """Return a client."""
        return HttpClient(self, tls is not None)
