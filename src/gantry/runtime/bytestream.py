"""The two ends of a byte stream between processes or machines, and the function that serves such a stream."""

from collections.abc import Awaitable, Callable
from typing import Protocol


class RefusedError(Exception):
    """The server refuses the next message of a stream, with a reason for the client; then it ends the stream."""


class Reader(Protocol):
    """The receiving end of a byte stream (asyncio.StreamReader fits)."""

    async def readuntil(self, separator: bytes = b"\n", /) -> bytes:
        """Read up to ``separator``, included; IncompleteReadError at the end, LimitOverrunError beyond the limit.

        RefusedError if the server that accepted the stream refuses the message.
        """
        ...

    async def read(self, n: int = -1, /) -> bytes:
        """Read up to ``n`` bytes; empty at the end."""
        ...

    def at_eof(self) -> bool:
        """Return whether the peer has ended the stream and all of it has been read."""
        ...


class Writer(Protocol):
    """The sending end of a byte stream (asyncio.StreamWriter fits)."""

    def write(self, data: bytes, /) -> None:
        """Queue ``data`` for sending."""
        ...

    async def drain(self) -> None:
        """Wait until the peer has read enough for more to be written."""
        ...

    def close(self) -> None:
        """End the stream."""
        ...

    def is_closing(self) -> bool:
        """Return whether the stream has ended or is ending."""
        ...


class Entrance(Protocol):
    """A port that waits for the one client that presents a token."""

    @property
    def port(self) -> int:
        """Return the TCP port that the client has to connect to."""
        ...

    async def accept(self, *, timeout: float) -> tuple[Reader, Writer]:
        """Return the stream of the client and stop listening; TimeoutError if no client presents the token in time."""
        ...

    async def close(self) -> None:
        """Stop listening; a second call does nothing."""
        ...


Handler = Callable[[Reader, Writer], Awaitable[None]]
"""Serves one stream; the stream is closed when the handler returns."""
