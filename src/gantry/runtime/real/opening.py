"""The way of a connection of an HTTP server from its acceptance to the beginning of its HTTP.

An accepted socket waits for its first message (``arrivals``), then for its turn (``connections``). Then its TLS begins,
if the server has any, and after the handshake its HTTP. Few begin in each turn of the event loop, so that requests in
work continue meanwhile.
"""

import asyncio
import functools
import gc
import logging
import socket
import ssl
from collections.abc import Callable, Sequence

from gantry.runtime import limits, repeated_logs
from gantry.runtime.real import arrivals, connections, open_files

BEGUN_PER_TURN = 4
"""Connections whose TLS or HTTP begins in one turn of the event loop: that costs much more than their acceptance."""
CHECK_SECONDS = 0.05
"""Interval at which connections that wait for their turn are checked: some get room because time passes."""
UNCOLLECTED = 400
"""Connections that did not begin, whose memory may wait for the garbage collector; a daemon may run it seldom."""


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


class Opening:
    """Opens the connections of a server; ``protocol`` makes the protocol of each.

    ``tls`` may be replaced by another context. ``refusal`` returns the answer with a status as it goes on the wire.
    """

    def __init__(
        self,
        site: connections.Connections,
        protocol: Callable[[connections.Connection], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None,
        handshake_seconds: float,
        refusal: Callable[[int], bytes],
        log: repeated_logs.RepeatedLog,
    ) -> None:
        self.tls = tls
        self._connections = site
        self._protocol = protocol
        self._timeout = handshake_seconds if tls else None
        self._state = connections.State.HANDSHAKE if tls else connections.State.HEADERS
        self._refusal = refusal
        self._log = log
        self._arrivals = arrivals.Arrivals(self._complete, self._drop, encrypted=tls is not None)
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Handle | None = None
        self._begins_soon = False
        self._not_begun = 0
        self._closed = False

    def accept(self, accepted: socket.socket, address: object) -> None:
        """Take a socket that has been accepted."""
        peer = limits.peer_of(str(address[0])) if isinstance(address, tuple) else ""
        connection = self._connections.arrive(peer, self._state)
        connection.close = functools.partial(self._drop, connection)
        connection.end = functools.partial(self._drop, connection, 408)
        connection.has_unread = functools.partial(open_files.has_unread, accepted)
        self._arrivals.add(connection, accepted)

    def _drop(self, connection: connections.Connection, status: int = 503) -> None:
        """Close a connection that has not begun; its client gets an answer if it has sent something without TLS."""
        self._connections.remove(connection)
        self._arrivals.drop(connection, self._refusal(status))

    def _complete(self, connection: connections.Connection) -> None:
        self._connections.complete(connection)
        self.begin_soon()

    def begin_soon(self) -> None:
        """In the next turn of the event loop, begin the connections that wait for their turn, if there is room."""
        if not self._begins_soon and not self._closed and self._connections.has_waiting():
            if self._timer:
                self._timer.cancel()
            self._begins_soon = True
            self._timer = asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin some of the connections that wait for their turn, and come back for the others."""
        self._timer, self._begins_soon = None, False
        loop = asyncio.get_running_loop()
        for _ in range(BEGUN_PER_TURN):
            connection = self._connections.begin(self._state)
            if connection is None:
                if self._connections.has_waiting():
                    self._timer = loop.call_later(CHECK_SECONDS, self._begin)
                return
            task = loop.create_task(self._open(self._arrivals.take(connection), connection))
            connection.close, connection.end = functools.partial(_cancel, task), None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self.begin_soon()

    async def _open(self, accepted: socket.socket, connection: connections.Connection) -> None:
        """Begin the TLS of a connection, and then its HTTP."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                functools.partial(self._protocol, connection),
                accepted,
                ssl=self.tls,
                ssl_handshake_timeout=self._timeout,
                ssl_shutdown_timeout=self._timeout,
            )
        except OSError as error:
            self._forget(connection)
            self._log.write(
                logging.INFO,
                "connections that did not begin",
                "a connection of %s did not begin: %s",
                connection.peer,
                str(error) or type(error).__name__,
            )
        except asyncio.CancelledError:
            self._forget(connection)
            accepted.close()
            raise

    def _forget(self, connection: connections.Connection) -> None:
        """Forget a connection that did not begin; each leaves a TLS buffer in a circle of references."""
        self._connections.remove(connection)
        self.begin_soon()
        self._not_begun += 1
        if not self._not_begun % UNCOLLECTED:
            # Connections that live are moved to the next generation, so that is collected less often.
            gc.collect(0 if self._not_begun % (8 * UNCOLLECTED) else 1)

    def close(self) -> Sequence[asyncio.Task[None]]:
        """Open no more connections; return the tasks of those that are under way, for the caller to end."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        self._arrivals.close()
        return list(self._tasks)
