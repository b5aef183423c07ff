"""A listening UNIX socket: its connections within limits, and how much of their messages is in memory.

A socket gets its permissions before it listens, so that no unauthorized user can connect in between. The kernel says
which user opened a connection. A full server closes the connection that has waited longest without a request in work,
those that never had a request first, but none whose bytes it has not read yet, and none that is new. A connection for
which there is no room is accepted, and its first message answered with the reason (``bytestream.RefusedError``), for up
to ``limits.UnixLimits.refused`` connections.
"""

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
import stat
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gantry.runtime import bytestream, limits, repeated_logs, serving
from gantry.runtime.real import accepting, open_files
from gantry.runtime.real import groups as machine_groups

log = logging.getLogger(__name__)

BACKLOG = 4096
"""A client finds no listener while that many others wait for their acceptance; most kernels allow no more."""
FIRST_TIMEOUT_SECONDS = 0.5
"""A client has that time for its first message, or to complete one, before a full server closes its connection."""
SWEEP_SECONDS = 1.0
"""Interval at which a server looks for messages that take too long."""
SMALL_MESSAGE_BYTES = 64 << 10
"""A message of this length does not make room for others."""
ROOT = 0

_CREDENTIALS = struct.Struct("3i")


def _has_listener(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # the backlog of the other process is full
            return True
        return True


def _bind(path: str, mode: int, names: Sequence[str]) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            if _has_listener(path):
                raise OSError(errno.EADDRINUSE, "another process is listening on this socket", path)
            os.unlink(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(bound.fileno(), mode)  # bind creates the file with this mode less the umask
        bound.bind(path)
        os.chmod(path, mode)
        machine_groups.open_socket(path, names)
    except OSError:
        bound.close()
        raise
    return bound


def _user_of(connection: socket.socket) -> int:
    """Return the id of the user that opened a connection."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(credentials)[1]
    return user


@dataclass(eq=False)
class _Connection:
    """A connection: its user, what it waits for since when, and the bytes of its messages that are in memory.

    ``reads`` says that the handler waits for a message, ``used`` that there was one; ``refusal`` is the reason why the
    next one is refused.
    """

    user: int
    since: float
    accepted: socket.socket = field(repr=False)
    reads: bool = True
    used: bool = False
    held: int = 0
    refusal: str = ""
    transport: asyncio.BaseTransport | None = field(default=None, repr=False)
    reader: "_Reader | None" = field(default=None, repr=False)


class _Reader(asyncio.StreamReader):
    """The stream of a connection, which counts what it holds."""

    def __init__(self, server: "UnixServer", connection: _Connection, *, limit: int) -> None:
        super().__init__(limit=limit)
        self._server = server
        self._connection = connection
        self._ended = False
        connection.reader = self

    # The base class accepts more kinds of buffers than a transport passes and a handler asks for.
    def feed_data(self, data: bytes) -> None:  # type: ignore[override]
        if self._ended:
            return
        if self._connection.reads and not self._connection.held:
            self._connection.since = asyncio.get_running_loop().time()
        super().feed_data(data)
        self._server.hold(self._connection, len(data))

    async def readuntil(self, separator: bytes = b"\n") -> bytes:  # type: ignore[override]
        """Read a message; bytestream.RefusedError if it takes too long, or too many connections or bytes are in use."""
        connection = self._connection
        self._server.hold(connection, len(self._buffered()) - connection.held)
        connection.reads, connection.since = True, asyncio.get_running_loop().time()
        try:
            message = await super().readuntil(separator)
        except asyncio.IncompleteReadError:
            if self._ended:
                raise bytestream.RefusedError(connection.refusal) from None
            raise
        finally:
            connection.reads = False
        if connection.refusal:
            raise bytestream.RefusedError(connection.refusal)
        connection.used = True
        return message

    def end(self) -> None:
        """Refuse the message that is not complete."""
        self.discard()
        self._ended = True
        self.feed_eof()

    def discard(self) -> None:
        """Free the memory at once: the garbage collector may find the stream late."""
        self._buffered().clear()
        self._server.hold(self._connection, -self._connection.held)

    def _buffered(self) -> bytearray:
        buffer: bytearray = self._buffer  # type: ignore[attr-defined]  # asyncio does not say how much it holds
        return buffer


class UnixServer:
    """A listening UNIX socket and the tasks of its connections."""

    def __init__(self, path: str, handler: bytestream.Handler, allowed: limits.UnixLimits | None = None) -> None:
        self._path = path
        self._handler = handler
        self._limits = (allowed or limits.UnixLimits()).within(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: dict[_Connection, None] = {}
        self._refused: dict[_Connection, None] = {}
        self._users: Counter[int] = Counter()
        self._bytes = 0
        self._limit = 0
        self._acceptor: accepting.Acceptor | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._log = repeated_logs.RepeatedLog(log)

    async def start(self, *, mode: int, limit: int, groups: Sequence[str] = ()) -> None:
        """Bind and listen; OSError EADDRINUSE if another process listens on the socket."""
        bound = _bind(self._path, mode, groups)
        bound.listen(BACKLOG)
        self._limit = limit
        self._acceptor = accepting.Acceptor(bound, self._accept, on_exhausted=self._displace_some, log=self._log)
        self._sweep()

    def _accept(self, accepted: socket.socket, _: object) -> None:
        connection = _Connection(_user_of(accepted), asyncio.get_running_loop().time(), accepted)
        connection.refusal = self._make_room(connection.user)
        if connection.refusal:
            self._refused[connection] = None
        else:
            self._connections[connection] = None
            self._users[connection.user] += 1
        task = asyncio.get_running_loop().create_task(self._serve(accepted, connection))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("the handler of %s failed", self._path, exc_info=error)

    def _make_room(self, user: int) -> str:
        """Return why a connection of a user is refused, "" if there is room, or another one was closed for it."""
        reason = ""
        if user != ROOT and self._users[user] >= self._limits.per_user:
            if not self._displace([each for each in self._connections if each.user == user], FIRST_TIMEOUT_SECONDS):
                reason = f"user {user} has too many connections: the limit is {self._limits.per_user}"
        elif len(self._connections) >= self._limits.connections and not self._displace(
            list(self._connections), FIRST_TIMEOUT_SECONDS
        ):
            reason = f"too many connections: the limit is {self._limits.connections}"
        if reason:
            self._log.write(logging.WARNING, "connections refused", "a connection to %s: %s", self._path, reason)
            if len(self._refused) >= self._limits.refused:
                self._abort(next(iter(self._refused)))
        return reason

    def _displace_some(self) -> None:
        """Close some connections, those that are refused first: the process needs their descriptors."""
        for each in list(self._refused)[: 1 + len(self._refused) // 4]:
            self._abort(each)
        for _ in range(1 + len(self._connections) // 10):
            if not self._displace(list(self._connections), 0):
                break

    def _displace(self, candidates: list[_Connection], timeout_seconds: float) -> bool:
        """Close the connection that is worth least; return whether there was one."""
        latest = asyncio.get_running_loop().time() - timeout_seconds
        waiting = [
            each for each in candidates if each.reads and ((each.used and not each.held) or each.since <= latest)
        ]
        waiting.sort(
            key=lambda each: (each.used and not each.held, each.user == ROOT, -self._users[each.user], each.since)
        )
        victim = next((each for each in waiting if not open_files.has_unread(each.accepted)), None)
        if victim is None:
            return False
        self._log.write(
            logging.WARNING,
            "connections closed for others",
            "a connection of user %d to %s is closed to make room for another",
            victim.user,
            self._path,
        )
        self._abort(victim)
        return True

    def _abort(self, connection: _Connection) -> None:
        self._forget(connection)
        if isinstance(connection.transport, asyncio.WriteTransport):
            connection.transport.abort()

    def _forget(self, connection: _Connection) -> None:
        self._refused.pop(connection, None)
        if connection in self._connections:
            del self._connections[connection]
            self._users[connection.user] -= 1
            if not self._users[connection.user]:
                del self._users[connection.user]

    async def _serve(self, accepted: socket.socket, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        reader = _Reader(self, connection, limit=self._limit)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted)
            connection.transport = transport
            if connection not in self._connections and connection not in self._refused:
                transport.abort()  # it was closed for another in the turn of its acceptance
                return
            await serving.serve(self._handler, reader, asyncio.StreamWriter(transport, protocol, reader, loop))
        finally:
            reader.discard()
            self._forget(connection)

    def hold(self, connection: _Connection, size: int) -> None:
        """Count bytes that a connection holds in memory; if all hold too many, refuse the oldest large message."""
        connection.held += size
        self._bytes += size
        if size > 0 and self._bytes > self._limits.message_bytes:
            large = [
                each for each in [*self._connections, *self._refused] if each.reads and each.held > SMALL_MESSAGE_BYTES
            ]
            if large:
                self._refuse(min(large, key=lambda each: each.since), "too many bytes of messages are in memory")

    def _refuse(self, connection: _Connection, reason: str) -> None:
        self._log.write(
            logging.WARNING, "messages refused", "a message of user %d to %s: %s", connection.user, self._path, reason
        )
        connection.reads, connection.refusal = False, reason
        if connection.reader:
            connection.reader.end()

    def _sweep(self) -> None:
        """End the messages that take too long, and the connections that never had one."""
        now = asyncio.get_running_loop().time()
        for each in [*self._connections, *self._refused]:
            is_due = each.reads and (each.held or not each.used or each.refusal)
            if is_due and now - each.since > self._limits.message_seconds:
                self._refuse(each, f"no complete message in {self._limits.message_seconds:g} s")
        self._sweep_timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    async def close(self) -> None:
        """Remove the socket, cancel the handlers and wait for them; a second call does nothing."""
        acceptor, self._acceptor = self._acceptor, None
        if acceptor is None:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        acceptor.close()
        if self._sweep_timer:
            self._sweep_timer.cancel()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
