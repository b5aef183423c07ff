"""The wires between simulated machines: requests and answers that are delayed, lost, late or repeated; partitions.

A machine is reachable by its name, by the addresses that ``Wires.register`` assigns to it, and from itself as
``localhost``. ``network`` is a machine's access to the wires.

The model has the faults of TCP, for requests rather than packets. An open connection never loses or reorders bytes; so
a lost message means a silent connection, on which the sender waits until its own timeout, or for an hour. Each request
has its own connection (clients pool them), so one client's requests can overtake each other. A delayed request arrives
even if its sender has timed out or ended meanwhile. A request that is served twice models a proxy that retries on
another connection and returns the last answer; our own clients never send a request twice. A broken connection raises
an error at once: either the request has not arrived, or it was served and the answer is incomplete.
"""

import asyncio
import contextlib
import contextvars
import dataclasses
import errno
import os
import random
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TypeVar

from gantry.runtime import http_interface
from gantry.runtime.simulated import boot, entrances

T = TypeVar("T")

LOOPBACK = ("localhost", "127.0.0.1", "::1")

SILENCE_SECONDS = 3600.0
"""Until a connection fails on which a message was lost; probes of the kernel find it earlier on a real network.

It is long, so that the time limits of nearly all calls are tested.
"""


@dataclass(eq=False)
class Listener:
    """A port on which a machine listens, and the tasks of its requests; its handler runs as a task of ``owner``."""

    handler: http_interface.Handler
    tls: bool
    body_limit: int
    owner: boot.Boot
    tasks: dict[asyncio.Task[object], None] = field(default_factory=dict)

    def begin(self, request: http_interface.Request) -> asyncio.Task[http_interface.Response]:
        """Serve a request, and return the task of its answer."""
        return self._spawn(self._answer(request))

    def _spawn(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        task = self.owner.spawn(work)
        self.tasks[task] = None
        task.add_done_callback(lambda done: self.tasks.pop(done, None))
        return task

    async def _answer(self, request: http_interface.Request) -> http_interface.Response:
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
    ``on_request`` is called with the sender, the receiver and each request that is sent, ``on_arrival`` with each that
    is about to be served; what that returns is called with the body of the answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, source: random.Random) -> None:
        self.delay = (0.0001, 0.002)
        self.lateness = 5.0
        self.drop = 0.0
        self.reorder = 0.0
        self.duplicate = 0.0
        self.reset = 0.0
        self.entrances = entrances.Entrances()
        self.on_request: Callable[[str, str, http_interface.Request], None] | None = None
        self.on_arrival: Callable[[str, str, http_interface.Request], Callable[[bytes], None] | None] | None = None
        self._loop = loop
        self._random = source
        self._addresses: dict[str, str] = {}
        self._cut: set[tuple[str, str]] = set()
        self._slow: dict[tuple[str, str], float] = {}
        self._listeners: dict[tuple[str, int], Listener] = {}

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

    def listen(self, machine: str, port: int, listener: Listener) -> None:
        """Open a port; OSError EADDRINUSE if it is already open."""
        if self._listener(machine, port):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{machine}:{port}")
        self._listeners[machine, port] = listener

    def intercept(
        self, machine: str, port: int, front: Callable[[http_interface.Handler], http_interface.Handler]
    ) -> None:
        """Let a handler answer in front of an open port's own, as on a broken machine, until the port is closed."""
        listener = self._listeners[machine, port]
        listener.handler = front(listener.handler)

    def unlisten(self, machine: str, port: int, listener: Listener) -> None:
        """Close a port that ``listener`` has opened."""
        if self._listeners.get((machine, port)) is listener:
            del self._listeners[machine, port]

    def _listener(self, machine: str, port: int) -> Listener | None:
        listener = self._listeners.get((machine, port))
        return None if listener is None or listener.owner.ended else listener

    async def exchange(
        self, source: str, target: str, port: int, request: http_interface.Request, *, tls: bool
    ) -> http_interface.Response:
        """Transfer a request and its answer; OSError if the connection fails, at last if a message is lost."""
        if self.on_request is not None:
            self.on_request(source, target, request)
        # A message on the wire is not a task of any machine: it arrives even if its sender is cancelled.
        carrier = contextvars.Context().run(self._loop.create_task, self._carry(source, target, port, request, tls=tls))
        await self._end(carrier)
        if answer := carrier.result():
            return answer
        await asyncio.sleep(SILENCE_SECONDS)
        raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH), f"{target}:{port}")

    async def _carry(
        self, source: str, target: str, port: int, request: http_interface.Request, *, tls: bool
    ) -> http_interface.Response | None:
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
            return http_interface.Response(413, b"the body is too large", "text/plain")
        where = f"{target}:{port}"
        served = [self._serve(listener, source, target, request)]
        if self._chance(self.duplicate, source, target) and await self._travel(source, target):
            served.append(self._serve(listener, source, target, request))
        # The last task to end provides the answer.
        answers = [await self._outcome(task, where) for task in served]
        if breaks:
            raise ConnectionResetError(errno.ECONNRESET, f"{where} broke the connection in its answer")
        return answers[-1] if await self._travel(target, source) else None

    def _serve(
        self, listener: Listener, source: str, target: str, request: http_interface.Request
    ) -> asyncio.Task[http_interface.Response]:
        answered = self.on_arrival(source, target, request) if self.on_arrival is not None else None
        task = listener.begin(request)
        if answered is not None:

            def ended(done: asyncio.Task[http_interface.Response]) -> None:
                if not done.cancelled() and done.exception() is None:
                    answered(done.result().body)

            task.add_done_callback(ended)
        return task

    async def follow(self, answer: http_interface.Response, server: str, client: str) -> AsyncGenerator[bytes, None]:
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

    async def _outcome(self, task: asyncio.Task[http_interface.Response], where: str) -> http_interface.Response:
        # A server continues when its client disconnects.
        await self._end(task)
        if task.cancelled():
            raise ConnectionResetError(errno.ECONNRESET, f"{where} ended the connection")
        error = task.exception()
        if error is None:
            return task.result()
        self._loop.call_exception_handler({"message": f"the handler of {where} failed", "exception": error})
        return http_interface.Response(500, b"the handler failed", "text/plain")
