"""The two ends of a byte stream between processes, and the function that serves such a stream."""

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


Handler = Callable[[Reader, Writer], Awaitable[None]]
"""Serves one stream; the stream is closed when the handler returns."""
