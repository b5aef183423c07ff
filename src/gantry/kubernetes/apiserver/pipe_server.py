"""Pipe server: the server end of a ``pipe``, for controllers that ``gantry-kube serve`` starts.

``daemons.apiserver`` calls it. Each request is a task of its own, answered by the handler of HTTP requests. The handler
also rejects bodies that are too large: a limit of the pipe itself would close the connection, and with it the server.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping

import msgspec

from gantry.kubernetes.api import pipe
from gantry.runtime import bytestream, http_interface

log = logging.getLogger(__name__)

_REQUEST = msgspec.msgpack.Decoder(pipe.Request)


class Server:
    """Answers the requests of pipes; ``headers``, for authentication, are added to each."""

    def __init__(self, handler: http_interface.Handler, *, headers: Mapping[str, str]) -> None:
        self._handler = handler
        self._headers = headers

    async def serve(self, reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        """Answer until the connection ends, then cancel the requests in progress; ProtocolError for an invalid one.

        While the client does not read answers, no more requests are read.
        """
        end = _Connection(self._handler, writer, self._headers)
        try:
            async for batch in pipe.messages(reader, _REQUEST):
                for request in batch:
                    end.take(request)
                await writer.drain()
        finally:
            await end.close()


class _Connection:
    """A connection with its requests."""

    def __init__(self, handler: http_interface.Handler, writer: bytestream.Writer, headers: Mapping[str, str]) -> None:
        self._handler = handler
        self._writer = writer
        self._headers = headers
        self._messages = pipe.MessageWriter(writer)
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def take(self, request: pipe.Request) -> None:
        """Start a request, or cancel it."""
        if request.method != pipe.CANCEL:
            self._tasks[request.number] = asyncio.create_task(self._answer(request))
        elif task := self._tasks.pop(request.number, None):
            task.cancel()

    async def close(self) -> None:
        """Cancel the requests in progress."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, request: pipe.Request) -> None:
        number, headers = request.number, {**request.headers, **self._headers}
        try:
            answer = await self._handler(http_interface.Request(request.method, request.path, request.body, headers))
            answer_headers = {name.lower(): value for name, value in answer.headers.items()}
            if request.is_stream:
                self._messages.send(pipe.Answer(number, answer.status, b"", False, answer.content_type, answer_headers))
                await self._send(number, answer)
            else:
                self._messages.send(
                    pipe.Answer(number, answer.status, answer.body, True, answer.content_type, answer_headers)
                )
        except Exception:  # a bug in one request must not affect the others
            log.exception("%s %s failed", request.method, request.path)
            self._messages.send(pipe.Answer(number, 500, b""))
        finally:
            self._tasks.pop(number, None)

    async def _send(self, number: int, answer: http_interface.Response) -> None:
        """Send the body of an answer in pieces, as fast as the client reads them."""
        self._send_piece(number, answer.body)
        if answer.pieces:
            async with contextlib.aclosing(answer.pieces) as pieces:
                async for piece in pieces:
                    self._send_piece(number, piece)
                    await self._writer.drain()
        self._messages.send(pipe.Answer(number, 0, b""))

    def _send_piece(self, number: int, piece: bytes) -> None:
        for start in range(0, len(piece), pipe.MAX_PIECE_BYTES):
            part = piece[start : start + pipe.MAX_PIECE_BYTES]
            self._messages.send(pipe.Answer(number, 0, part, is_last=False))
