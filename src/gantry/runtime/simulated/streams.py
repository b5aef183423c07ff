"""Byte streams in memory, for the UNIX sockets inside one simulated machine.

Written data reaches the peer's reader at once; if the peer does not read, ``drain`` blocks the writer, as the kernel's
buffers do. After either side has closed, the other reads the remaining data and then the end, and its next ``drain``
raises ConnectionResetError.
"""

import asyncio
from collections.abc import Callable

from gantry.runtime import bytestream, serving
from gantry.runtime.simulated import boot


class _Gate(asyncio.Transport):
    """A StreamReader's transport, which the reader pauses while its buffer is full."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()
        self.opened.set()

    def pause_reading(self) -> None:
        self.opened.clear()

    def resume_reading(self) -> None:
        self.opened.set()


class Writer:
    """The sending end of a stream; fits ``bytestream.Writer``."""

    def __init__(self, own: asyncio.StreamReader, peer: asyncio.StreamReader) -> None:
        self._own = own
        self._peer = peer
        self._gate = _Gate()
        peer.set_transport(self._gate)
        self._closed = False
        self.other: Writer | None = None

    def write(self, data: bytes, /) -> None:
        """Pass ``data`` to the peer; after the end of the stream, drop it."""
        boot.check()
        if not self._closed and data:
            self._peer.feed_data(data)

    async def drain(self) -> None:
        """Wait until the peer's reader accepts more data."""
        boot.check()
        await asyncio.sleep(0)
        await self._gate.opened.wait()
        if self._closed:
            raise ConnectionResetError("the stream has ended")

    def close(self) -> None:
        """End the stream in both directions."""
        for end in (self, self.other):
            if end is not None and not end._closed:
                end._closed = True
                end._peer.feed_eof()
                end._gate.opened.set()

    def is_closing(self) -> bool:
        """Return whether the stream has ended."""
        return self._closed


End = tuple[asyncio.StreamReader, Writer]


def pair(limit: int, other_limit: int) -> tuple[End, End]:
    """Return both ends of a new stream; ``limit`` is of the first end's reader, ``other_limit`` of the second's."""
    reader, other_reader = asyncio.StreamReader(limit=limit), asyncio.StreamReader(limit=other_limit)
    writer, other_writer = Writer(reader, other_reader), Writer(other_reader, reader)
    writer.other, other_writer.other = other_writer, writer
    return (reader, writer), (other_reader, other_writer)


class Server:
    """A listening UNIX socket of a simulated machine; ``forget`` removes its directory entry."""

    def __init__(
        self, handler: bytestream.Handler, limit: int, *, owner: boot.Boot, forget: Callable[[], None]
    ) -> None:
        self._handler = handler
        self._limit = limit
        self._owner = owner
        self._forget = forget
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._open = True

    @property
    def open(self) -> bool:
        """Return whether the socket is listening; this ends with its process."""
        return self._open and not self._owner.ended

    def accept(self, client_limit: int) -> End:
        """Start the handler for a new connection; return the client's end."""
        end, (reader, writer) = pair(client_limit, self._limit)
        task = self._owner.spawn(serving.serve(self._handler, reader, writer))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        # A task that is cancelled before its first step does not run its ``finally`` block.
        task.add_done_callback(lambda _: writer.close())
        return end

    async def close(self) -> None:
        """Stop listening, cancel the handlers and wait for them."""
        if self._open:
            self._forget()
        self._open = False
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
