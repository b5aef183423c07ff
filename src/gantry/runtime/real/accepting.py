"""The acceptance of connections on a listening socket, a few in each turn of the event loop.

The accept loop of asyncio accepts all that wait before it serves any, and logs a traceback for each connection that it
cannot accept for want of file descriptors. This one gives the others their turn, and waits a moment when the process
has no descriptor left; ``on_exhausted`` may close connections meanwhile.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from gantry.runtime import repeated_logs

PER_TURN = 32
"""Connections that are accepted in one turn of the event loop."""
BACK_OFF_SECONDS = 0.1
"""Back-off when the process or the machine has no file descriptor or memory for another connection."""

EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of ``accept`` when the process or the machine has nothing left for another connection."""


class Acceptor:
    """Accepts connections on a socket until ``close``; ``on_connection`` gets each of them, non-blocking."""

    def __init__(
        self,
        listener: socket.socket,
        on_connection: Callable[[socket.socket, object], None],
        *,
        on_exhausted: Callable[[], None],
        log: repeated_logs.RepeatedLog,
    ) -> None:
        self._listener = listener
        self._on_connection = on_connection
        self._on_exhausted = on_exhausted
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._back_off: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._resume()

    def _resume(self) -> None:
        self._back_off = None
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(PER_TURN):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._wait(error)
                    return
                continue  # the client has ended the connection before its acceptance
            connection.setblocking(False)
            self._on_connection(connection, address)

    def _wait(self, error: OSError) -> None:
        name = self._listener.getsockname()
        self._log.write(logging.ERROR, "connections not accepted", "no connection is accepted on %s: %s", name, error)
        self._loop.remove_reader(self._listener.fileno())
        self._back_off = self._loop.call_later(BACK_OFF_SECONDS, self._resume)
        self._on_exhausted()

    def close(self) -> None:
        """Stop accepting, and close the socket."""
        if self._back_off:
            self._back_off.cancel()
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()
