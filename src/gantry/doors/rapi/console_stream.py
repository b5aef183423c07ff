"""GET /2/instances/NAME/console/KIND: a console of an instance, as a WebSocket (RFC 6455).

``KIND`` is ``serial``, or ``vnc`` for the screen in the protocol RFB. Messages of bytes are data of the console, in
both directions. Messages of text are JSON, as this module's ``Report`` from the server and ``Receipt`` from the client:

    {"state": "open", "node": NAME}                 data follows
    {"state": "used", "user": NAME}                 another user has the serial console; ``?take-over=1`` takes it
    {"state": "refused", "text": WHY}               there is no console
    {"state": "ended", "text": WHY, "why": WORD}    after data: the console has ended

    {"received": BYTES}                             how much data the client has processed since the beginning

The server sends at most ``WINDOW_BYTES`` that the client has not reported as processed: a guest that prints faster has
to wait, and nothing grows. A console needs a session (``http.sessions``), and ends with it. The master decides whether
the user may operate the instance, opens the console on the node and says how to reach it; the data goes straight to the
node (explanation/security.md#consoles). A console ends soon after its user lost the right to it.
"""

import asyncio
import contextlib
import functools
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from gantry import errors, security
from gantry.doors import http
from gantry.doors.http import sessions
from gantry.doors.rapi import rights, routes, wire
from gantry.rpc import luxi
from gantry.rpc.calls import console
from gantry.runtime import bounded_json, bytestream, frames, http_interface, interface

log = logging.getLogger(__name__)

_PATH = "/2/instances/{name}/console/{kind}"

ROUTES = (
    routes.Route(
        "GET",
        _PATH,
        wire.Access.READ,
        None,
        "a WebSocket with the data of a console, `serial` or `vnc`; it needs a session",
        ("take-over",),
    ),
)

MOST = 100
"""Consoles at a time."""
MOST_OF_USER = 10
"""Consoles of one user at a time."""
WINDOW_BYTES = 256 << 10
"""Data that may be on its way to the client."""
IDLE_SECONDS = 3600.0
"""How long a serial console stays open without anything typed."""
CHECK_SECONDS = 2.0
"""Interval at which it is checked that the session lives."""
RIGHT_SECONDS = 10.0
"""Interval at which the master is asked whether the user still has the right to the console."""
CONNECT_SECONDS = 10.0
"""For the connection to the node."""
END_SECONDS = 5.0
"""For the last message to a client that may not read."""

KINDS = ("serial", "vnc")


class Ticket(msgspec.Struct):
    """What the master says about a console (``doors.luxi.consoles.Ticket``)."""

    node: str
    host: str
    port: int
    token: str
    authorities: str
    keys: list[str]
    user: str = ""
    instance: str = ""


class Report(msgspec.Struct, omit_defaults=True):
    """A message about a console to the client."""

    state: str
    text: str = ""
    why: str = ""
    node: str = ""
    user: str = ""


class Receipt(msgspec.Struct):
    """A message of the client: how many bytes it has processed."""

    received: int


def calls(runtime: interface.Runtime, gate: wire.Gate, master: luxi.Caller) -> Mapping[tuple[str, str], routes.Call]:
    """Return the function of the route."""
    consoles = _Consoles(runtime, gate.sessions, master)

    async def call(_: routes.Master, request: wire.Request, names: Mapping[str, str]) -> http_interface.Response:
        if names["kind"] not in KINDS:
            raise errors.NotFoundError(f"there is no console {names['kind']!r}", hint=f"use {' or '.join(KINDS)}")
        if request.raw.headers.get("upgrade", "").lower() != "websocket":
            raise http.RefusedError(426, "a console is a WebSocket", headers={"Upgrade": "websocket"})
        session = gate.sessions.of_socket(request.raw)
        opening = _Request(
            names["name"], names["kind"], session, takes_over=request.flag("take-over"), peer=request.raw.peer
        )
        return http_interface.Response(
            101, b"", conversation=functools.partial(consoles.serve, opening), subprotocol=sessions.PROTOCOL
        )

    return {("GET", _PATH): call}


@dataclass(frozen=True)
class _Request:
    """The console that a session asks for; ``peer`` is the address of its browser."""

    instance: str
    kind: str
    session: sessions.Session
    takes_over: bool
    peer: str


class _Consoles:
    """The consoles that are open."""

    def __init__(self, runtime: interface.Runtime, known: sessions.Sessions, master: luxi.Caller) -> None:
        self._runtime = runtime
        self._sessions = known
        self._master = master
        self._open: Counter[str] = Counter()

    async def serve(self, request: _Request, socket: http_interface.WebSocket) -> None:
        """Serve one console until it ends; the last message says why."""
        try:
            with self._counted(request.session.user.name):
                report = await self._converse(request, socket)
        except errors.GantryError as error:
            report = Report("refused", str(error))
        if report is None:
            return
        with contextlib.suppress(OSError):  # a TimeoutError is an OSError too
            async with asyncio.timeout(END_SECONDS):
                await _send(socket, report)

    @contextlib.contextmanager
    def _counted(self, user: str) -> Iterator[None]:
        if self._open[user] >= MOST_OF_USER or self._open.total() >= MOST:
            number, whose = (MOST_OF_USER, f"of {user}") if self._open[user] >= MOST_OF_USER else (MOST, "of all users")
            raise errors.BusyError(f"{number} consoles {whose} are open, the maximum", hint="close one of them")
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]

    async def _converse(self, request: _Request, socket: http_interface.WebSocket) -> Report | None:
        """Return the last message for the client; None if the client has gone."""
        user = request.session.user
        rights.act_for(user, request.peer)
        arguments = request.instance, request.kind, user.name, request.takes_over
        ticket = await self._master.call(Ticket, "OpenConsole", *arguments)
        if not ticket.port:
            return Report("used", user=ticket.user)
        async with self._connected(ticket) as (reader, writer):
            await _send(socket, Report("open", node=ticket.node))
            relay = _Relay(socket, reader, writer, self._runtime.clock)
            return await relay.run(self._watch(request, relay, ticket.instance), ticket.node)

    @contextlib.asynccontextmanager
    async def _connected(self, ticket: Ticket) -> AsyncGenerator[tuple[bytestream.Reader, bytestream.Writer], None]:
        """Connect to the node, and present the secret once the node has proven that it is the one of the ticket."""
        tls = security.member_context(ticket.authorities.encode(), keys=lambda _: frozenset(ticket.keys) or None)
        network = self._runtime.network
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await network.connect_port(ticket.host, ticket.port, tls=tls, limit=frames.PIECE_BYTES)
        except OSError as error:
            raise errors.RemoteError(
                f"the console's port on node {ticket.node} cannot be reached: {str(error) or 'no answer'}",
                hint=f"the master connects to {ticket.host}, to a port that the node chooses for each console",
            ) from None
        try:
            writer.write(ticket.token.encode() + b"\n")
            yield reader, writer
        finally:
            writer.close()

    async def _watch(self, request: _Request, relay: "_Relay", instance: str) -> Report:
        """Return when the session or the right has ended, or nobody has typed for too long."""
        clock = self._runtime.clock
        seen, checked_at = relay.typed, clock.monotonic()
        while True:
            await clock.sleep(CHECK_SECONDS)
            has_typed, seen = relay.typed != seen, relay.typed
            session = request.session
            # A console that nobody uses does not keep its session.
            if not (self._sessions.is_used(session) if has_typed else self._sessions.is_live(session)):
                return Report("ended", "The session has ended.", why="session")
            if request.kind == "serial" and clock.monotonic() - seen >= IDLE_SECONDS:
                return Report("ended", f"Nothing was typed for {IDLE_SECONDS / 60:.0f} minutes.", why="idle")
            if instance and clock.monotonic() - checked_at >= RIGHT_SECONDS:
                if refusal := await self._refusal(instance):
                    return Report("ended", refusal, why="right")
                checked_at = clock.monotonic()

    async def _refusal(self, instance: str) -> str:
        """Return why a user has lost the right to a console, empty if not, or while the master does not answer."""
        try:
            await self._master.call(type(None), "CheckConsole", instance)
        except (errors.ForbiddenError, errors.NotFoundError) as error:
            return error.message
        except errors.GantryError as error:
            log.debug("the right to a console was not checked: %s", error)
        return ""


class _Relay:
    """The data of a console between a client and a node; ``typed`` is when the client last sent data."""

    def __init__(
        self,
        socket: http_interface.WebSocket,
        reader: bytestream.Reader,
        writer: bytestream.Writer,
        clock: interface.Clock,
    ) -> None:
        self._socket = socket
        self._frames = frames.Frames(reader)
        self._writer = writer
        self._clock = clock
        self._sent = self._processed = 0
        self._progress = asyncio.Event()
        self.typed = clock.monotonic()

    async def run(self, watch: Awaitable[Report], node: str) -> Report | None:
        """Pass data on until one side ends or ``watch`` does; return the last message, None if the client has gone."""
        tasks: list[asyncio.Future[Report | None]] = [
            asyncio.ensure_future(work) for work in (self._to_client(node), self._to_node(node), watch)
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(task.result() for task in tasks if task.done())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _to_client(self, node: str) -> Report:
        while True:
            try:
                data = await self._frames.read()
            except OSError:
                return _lost(node)
            if not data:
                return _ended(self._frames.word, node)
            while self._sent - self._processed >= WINDOW_BYTES:
                self._progress.clear()
                await self._progress.wait()
            self._sent += len(data)
            await self._socket.send(data)

    async def _to_node(self, node: str) -> Report | None:
        while (message := await self._socket.receive()) is not None:
            if isinstance(message, str):
                if not self._note(message):
                    return Report("ended", "The client sent a message that is not valid.", why="invalid")
                continue
            self.typed = self._clock.monotonic()
            self._writer.write(message)
            try:
                await self._writer.drain()
            except OSError:
                return _lost(node)
        return None

    def _note(self, message: str) -> bool:
        """Note what the client has processed; return whether the message is valid."""
        try:
            received = bounded_json.decode(message.encode(), Receipt).received
        except bounded_json.UnreadableError:
            return False
        if not self._processed <= received <= self._sent:
            return False
        self._processed = received
        self._progress.set()
        return True


async def _send(socket: http_interface.WebSocket, report: Report) -> None:
    await socket.send(msgspec.json.encode(report).decode())


def _ended(word: str, node: str) -> Report:
    name, _, user = word.partition(" ")
    if name == console.TAKEN:
        return Report("ended", f"{user} has taken the console over.", why="taken", user=user)
    return Report(
        "ended", f"The guest on node {node} has closed the console: it has stopped, or has moved.", why="guest"
    )


def _lost(node: str) -> Report:
    return Report(
        "ended", f"Node {node} has broken the connection, or does not answer any more.", why="lost", node=node
    )
