"""The wait of a stream's listener for the one sender that presents the token, beside any number of strangers.

Handshakes and tokens are read as they arrive, from all connections at once, so that nobody holds up the sender. A
connection with another token, or without TLS, is closed at once; one without a first byte after a second, which a
sender with a late first byte notices and repeats (``bulk``). If too many wait, the one that has been silent for longest
makes room.
"""

import hmac
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gantry.runtime.real import accepting

FIRST_BYTE_SECONDS = 1.0
"""A connection without a byte is closed after that time."""
TOKEN_TIMEOUT_SECONDS = 10.0
"""For a connected sender to present its token."""
WAITING = 100
"""Connections that have not presented a token; of more, one is closed that was silent for ``FIRST_BYTE_SECONDS``."""
CHECK_SECONDS = 0.2
"""Interval at which deadlines, and whether the stream was cancelled, are checked."""


@dataclass(eq=False)
class _Stranger:
    """A connection that has not presented the token; ``since`` is when it connected, ``heard`` when it sent last."""

    wire: socket.socket
    since: float
    heard: float
    is_silent: bool = True
    received: bytearray = field(default_factory=bytearray)

    def has_token(self, token: bytes) -> bool:
        """Read what has arrived; return whether it was the token. OSError: it was not, SSLWant...: it is incomplete."""
        if isinstance(self.wire, ssl.SSLSocket) and self.wire.version() is None:
            self.wire.do_handshake()
        # One byte at a time: what follows the token is the stream's.
        while len(self.received) < len(token) and not self.received.endswith(b"\n"):
            byte = self.wire.recv(1)
            if not byte:
                raise ConnectionResetError("the connection ended before the token")
            self.received += byte
        return hmac.compare_digest(bytes(self.received), token)

    def is_late(self, now: float) -> bool:
        """Return whether the time for the first byte or for the whole token is over."""
        is_too_silent = self.is_silent and now - self.since >= FIRST_BYTE_SECONDS
        return is_too_silent or now - self.since >= TOKEN_TIMEOUT_SECONDS


class Reception:
    """The connections to a listener until one of them has presented the token; for one thread."""

    def __init__(self, listener: socket.socket, token: str, tls: ssl.SSLContext | None) -> None:
        self._listener = listener
        self._token = token.encode() + b"\n"
        self._tls = tls
        self._strangers: dict[_Stranger, None] = {}

    def accept(self, *, timeout: float, check: Callable[[], None]) -> socket.socket:
        """Return the sender's connection, blocking; TimeoutError, or the error that ``check`` raises from time to time.

        All other connections are closed.
        """
        self._listener.setblocking(False)
        deadline = time.monotonic() + timeout
        try:
            with selectors.PollSelector() as selector:
                while (remaining_seconds := deadline - time.monotonic()) > 0:
                    check()
                    self._close_late(selector)
                    self._watch_listener(selector)
                    for key, _ in selector.select(min(remaining_seconds, CHECK_SECONDS)):
                        sender = self._serve(selector, key)
                        if sender:
                            sender.setblocking(True)
                            return sender
        finally:
            for stranger in self._strangers:
                stranger.wire.close()
        raise TimeoutError(f"no sender with the stream's token connected within {timeout:.0f} seconds")

    def _watch_listener(self, selector: selectors.BaseSelector) -> None:
        """Accept connections only while there is room."""
        is_watched, has_room = self._listener in selector.get_map(), len(self._strangers) < WAITING
        if has_room and not is_watched:
            selector.register(self._listener, selectors.EVENT_READ)
        elif is_watched and not has_room:
            selector.unregister(self._listener)

    def _close_late(self, selector: selectors.BaseSelector) -> None:
        now = time.monotonic()
        late = [stranger for stranger in self._strangers if stranger.is_late(now)]
        if not late and len(self._strangers) >= WAITING:
            longest_silent = min(self._strangers, key=lambda each: each.heard)
            late = [longest_silent] if now - longest_silent.heard >= FIRST_BYTE_SECONDS else []
        for stranger in late:
            self._close(selector, stranger)

    def _close(self, selector: selectors.BaseSelector, stranger: _Stranger) -> None:
        selector.unregister(stranger.wire)
        stranger.wire.close()
        del self._strangers[stranger]

    def _serve(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> socket.socket | None:
        """Continue with what is ready; return the sender's connection once it has presented the token."""
        stranger = key.data
        if not isinstance(stranger, _Stranger):
            self._accept_one(selector)
            return None
        stranger.heard, stranger.is_silent = time.monotonic(), False
        try:
            if stranger.has_token(self._token):
                selector.unregister(stranger.wire)
                del self._strangers[stranger]
                return stranger.wire
        except (ssl.SSLWantReadError, BlockingIOError):
            selector.modify(stranger.wire, selectors.EVENT_READ, stranger)
            return None
        except ssl.SSLWantWriteError:
            selector.modify(stranger.wire, selectors.EVENT_WRITE, stranger)
            return None
        except OSError:
            pass
        self._close(selector, stranger)
        return None

    def _accept_one(self, selector: selectors.BaseSelector) -> None:
        try:
            plain, _ = self._listener.accept()
        except OSError as error:
            if error.errno in accepting.EXHAUSTED:
                if self._strangers:
                    self._close(selector, min(self._strangers, key=lambda each: each.heard))
                time.sleep(accepting.BACK_OFF_SECONDS)
            return  # ``check`` finds out if the stream has been cancelled
        plain.setblocking(False)
        try:
            wire = self._tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False) if self._tls else plain
        except OSError:  # it has ended already
            plain.close()
            return
        now = time.monotonic()
        stranger = _Stranger(wire, now, now)
        self._strangers[stranger] = None
        selector.register(wire, selectors.EVENT_READ, stranger)
