"""Pipe: requests to the embedded API server over one local connection, multiplexed.

``daemons.kube`` uses it for controllers that ``gantry-kube serve`` starts; ``pipe_server`` is the other end. It
implements ``http_interface.Client``, so controllers send the same requests, and get the same answers and watches, as
from any API server, without the overhead of HTTP: all messages of one turn of the event loop are sent in one write.

A message is its length in four bytes, big-endian, and an array in MessagePack. An answer has the number of its request.
A streamed answer (a watch) begins with a message with its status; each piece follows in a message with status 0, the
last with ``is_last``; another status in the last message means that the server failed.

Invariant: requests reach the server in the order in which they were sent; each is answered, or fails with the
connection.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import TypeVar

import msgspec

from gantry import errors
from gantry.runtime import bytestream, http_interface

CANCEL = "CANCEL"
"""Method of a message that cancels the request of this number."""
MAX_PIECE_BYTES = 1 << 20
"""Maximum bytes of one read, and of a piece of an answer."""
MAX_BATCH = 64
"""Maximum messages in one write, so that the other side can begin with them meanwhile."""
_LENGTH_BYTES = 4


class Request(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A request; ``is_stream`` if the answer may be streamed."""

    number: int
    method: str
    path: str = ""
    body: bytes = b""
    headers: dict[str, str] = {}
    is_stream: bool = False


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An answer, or a piece of one."""

    number: int
    status: int
    body: bytes
    is_last: bool = True
    content_type: str = ""
    headers: dict[str, str] = {}


_ENCODE = msgspec.msgpack.Encoder().encode
_ANSWER = msgspec.msgpack.Decoder(Answer)

Message = TypeVar("Message", Request, Answer)


class MessageWriter:
    """Sends messages, batched per turn of the event loop."""

    def __init__(self, writer: bytestream.Writer) -> None:
        self._writer = writer
        self._waiting: list[bytes] = []

    def send(self, message: Request | Answer) -> None:
        """Send a message, by the end of this turn of the event loop."""
        content = _ENCODE(message)
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting += (len(content).to_bytes(_LENGTH_BYTES, "big"), content)
        if len(self._waiting) >= 2 * MAX_BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write(b"".join(self._waiting))
            self._waiting.clear()


async def messages(
    reader: bytestream.Reader, decoder: msgspec.msgpack.Decoder[Message]
) -> AsyncGenerator[list[Message], None]:
    """Yield received messages, in lists, until the connection ends; ProtocolError for an invalid one."""
    buffer = bytearray()
    while piece := await reader.read(MAX_PIECE_BYTES):
        buffer += piece
        batch, start = list[Message](), 0
        while start + _LENGTH_BYTES <= len(buffer):
            end = start + _LENGTH_BYTES + int.from_bytes(buffer[start : start + _LENGTH_BYTES], "big")
            if end > len(buffer):
                break
            try:
                batch.append(decoder.decode(buffer[start + _LENGTH_BYTES : end]))
            except msgspec.DecodeError as error:
                raise errors.ProtocolError(f"a message cannot be read: {error}") from None
            start = end
        del buffer[:start]
        yield batch


class Pipe(http_interface.Client):
    """The client end; hosts, ports, timeouts and limits are ignored.

    There are no timeouts, because the server is on the same machine and answers each request when it is done. Pieces
    are buffered until they are read.
    """

    def __init__(self, reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        self._writer = writer
        self._messages = MessageWriter(writer)
        self._last_number = 0
        self._pending: dict[int, asyncio.Future[Answer]] = {}
        self._streams: dict[int, asyncio.Queue[Answer | None]] = {}
        self._reading = asyncio.ensure_future(self._read(reader))

    async def request(
        self,
        method: str,
        host: str,
        port: int,
        path: str,
        *,
        body: bytes = b"",
        timeout: float,
        headers: Mapping[str, str] | None = None,
        answer_limit: int | None = None,
    ) -> http_interface.Response:
        """Send a request; ConnectionResetError."""
        number = self._next_number()
        pending = self._pending[number] = asyncio.get_running_loop().create_future()
        self._messages.send(Request(number, method, path, body, dict(headers or {})))
        answer = await pending
        return http_interface.Response(answer.status, answer.body, answer.content_type, answer.headers)

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> http_interface.Response:
        """Send a GET and return when its answer begins; ConnectionResetError."""
        number = self._next_number()
        stream = self._streams[number] = asyncio.Queue()
        self._messages.send(Request(number, "GET", path, b"", dict(headers or {}), is_stream=True))
        try:
            first = await _next_answer(stream)
        except BaseException:
            self._forget(number)
            raise
        pieces = self._pieces(number, stream)
        return http_interface.Response(first.status, b"", first.content_type, first.headers, pieces)

    async def _pieces(self, number: int, stream: asyncio.Queue[Answer | None]) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                answer = await _next_answer(stream)
                if answer.status:
                    raise _closed_error()
                if answer.body:
                    yield answer.body
                if answer.is_last:
                    return
        finally:
            self._forget(number)

    def _forget(self, number: int) -> None:
        del self._streams[number]
        if not self._reading.done():
            self._messages.send(Request(number, CANCEL))

    def _next_number(self) -> int:
        if self._reading.done():
            raise _closed_error()
        self._last_number += 1
        return self._last_number

    async def ended(self) -> None:
        """Return when the server has closed the connection; ProtocolError if it sent an invalid message."""
        await asyncio.shield(self._reading)

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        self._reading.cancel()
        await asyncio.wait([self._reading])

    async def _read(self, reader: bytestream.Reader) -> None:
        try:
            async for batch in messages(reader, _ANSWER):
                for answer in batch:
                    self._deliver(answer)
        finally:
            for pending in self._pending.values():
                if not pending.done():
                    pending.set_exception(_closed_error())
            for stream in self._streams.values():
                stream.put_nowait(None)

    def _deliver(self, answer: Answer) -> None:
        if pending := self._pending.pop(answer.number, None):
            if not pending.done():
                pending.set_result(answer)
        elif stream := self._streams.get(answer.number):
            stream.put_nowait(answer)


async def _next_answer(stream: asyncio.Queue[Answer | None]) -> Answer:
    answer = await stream.get()
    if answer is None:
        raise _closed_error()
    return answer


def _closed_error() -> ConnectionResetError:
    return ConnectionResetError("the connection to the API server is closed")
