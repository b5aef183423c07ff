"""Accepted connections that have not begun: the wait for the first message of each, without TLS or HTTP.

A first message is a TLS record, which has the ClientHello, or the headers of a request. Until it is complete, its bytes
stay in the kernel (MSG_PEEK), so that a silent or half-sent connection costs a file descriptor and little else, and
takes the room of no client that has sent something. SO_RCVLOWAT lets the kernel report only what may complete it.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from gantry.runtime.real import connections

PEEK_BYTES = 8 << 10
"""A longer first message begins when that much of it has arrived."""

_TLS_HANDSHAKE = b"\x16"
_TLS_HEADER_BYTES = 5


def missing(data: bytes, *, encrypted: bool) -> int:
    """Return how many bytes of a first message are missing at least; 0 if it is complete, or no valid message.

    >>> missing(b"GET / HTTP/1.1", encrypted=False), missing(b"GET / HTTP/1.1" + b"\\r\\n" * 2, encrypted=False)
    (1, 0)
    >>> missing(bytes([22, 3, 1, 1, 0, 1]), encrypted=True), missing(b"GET /", encrypted=True)
    (255, 0)
    """
    if not data:
        return 1
    if not encrypted:
        is_complete = b"\r\n\r\n" in data or b"\n\n" in data or len(data) >= PEEK_BYTES
        return 0 if is_complete else 1
    if not data.startswith(_TLS_HANDSHAKE):
        return 0
    if len(data) < _TLS_HEADER_BYTES:
        return _TLS_HEADER_BYTES - len(data)
    length = _TLS_HEADER_BYTES + int.from_bytes(data[3:_TLS_HEADER_BYTES])
    return max(0, min(length, PEEK_BYTES) - len(data))


class Arrivals:
    """The sockets of the connections that have not begun; ``encrypted`` says whether TLS comes first.

    ``on_complete`` gets each connection once, when its first message is complete; ``on_end`` when its client has
    disconnected before.
    """

    def __init__(
        self,
        on_complete: Callable[[connections.Connection], None],
        on_end: Callable[[connections.Connection], None],
        *,
        encrypted: bool,
    ) -> None:
        self._on_complete = on_complete
        self._on_end = on_end
        self.encrypted = encrypted
        self._sockets: dict[connections.Connection, socket.socket] = {}
        self._seen: dict[connections.Connection, int] = {}
        """Bytes of the first message when it was looked at last, of the connections that are watched."""

    def add(self, connection: connections.Connection, accepted: socket.socket) -> None:
        """Wait for the first message of a connection; it may be complete at once."""
        self._sockets[connection] = accepted
        if not self._look(connection):
            asyncio.get_running_loop().add_reader(accepted.fileno(), self._look, connection)

    def _look(self, connection: connections.Connection) -> bool:
        """Look at what has arrived of a first message; return whether the wait for it is over."""
        accepted, seen = self._sockets[connection], self._seen.get(connection)
        try:
            data = accepted.recv(PEEK_BYTES, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            self._seen[connection] = 0
            return False
        except OSError:
            data = b""
        if not data:
            self._on_end(connection)
            return True
        remaining = missing(data, encrypted=self.encrypted)
        # The kernel reports nothing more until there is more, except for the end of the stream.
        if not remaining or len(data) == seen:
            self._unwatch(connection)
            self._on_complete(connection)
            return True
        self._seen[connection] = len(data)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, len(data) + remaining)
        return False

    def _unwatch(self, connection: connections.Connection) -> None:
        if self._seen.pop(connection, None) is not None:
            accepted = self._sockets[connection]
            asyncio.get_running_loop().remove_reader(accepted.fileno())
            with contextlib.suppress(OSError):
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    def take(self, connection: connections.Connection) -> socket.socket:
        """Return the socket of a connection that begins."""
        self._unwatch(connection)
        return self._sockets.pop(connection)

    def drop(self, connection: connections.Connection, answer: bytes = b"") -> None:
        """Close a connection; without TLS, its client gets an answer if it has sent something."""
        accepted = self.take(connection)
        with contextlib.suppress(OSError):
            # Bytes that nobody has read would turn the end of the connection into a reset.
            if answer and not self.encrypted and accepted.recv(PEEK_BYTES):
                accepted.send(answer)
        accepted.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._sockets):
            self.drop(connection)
