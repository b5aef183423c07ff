"""HTTP: requests and answers, what answers them on a server, and a client.

A part of ``interface``, whose ``Network`` has servers and clients; errors are as described there. Doors work on
requests and answers alone: only ``runtime.real`` knows the protocol.
"""

import errno
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gantry.runtime import limits


@dataclass(frozen=True)
class Request:
    """A request as a handler receives it; ``peer_certificate`` is the client's, in DER, if TLS requested one.

    ``peer`` is the client's address, empty on a network without addresses.
    """

    method: str
    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    peer_certificate: bytes | None = None
    peer: str = ""


class WebSocket(Protocol):
    """The server's end of a WebSocket (RFC 6455): messages in both directions, texts or bytes."""

    async def receive(self) -> bytes | str | None:
        """Return the next message; None if the client has closed the connection, or it broke."""
        ...

    async def send(self, message: bytes | str) -> None:
        """Send a message; wait while the client does not read. ConnectionError if the connection has ended."""
        ...


SOCKET_MESSAGE_BYTES = 64 << 10
"""The longest message of a client of a WebSocket; the server ends the connection at a longer one."""

Conversation = Callable[[WebSocket], Awaitable[None]]
"""Serves a WebSocket; the connection is closed when it returns."""


@dataclass(frozen=True)
class Response:
    """Status, body and content type of an answer; ``headers`` are the other headers, in lower case at a client.

    ``pieces`` yields more of the body, after ``body``: a server sends each piece at once, and closes the generator when
    the client has disconnected; a client gets it from ``Client.stream``, and closes it to end the connection.
    With ``conversation``, the connection becomes a WebSocket of the protocol ``subprotocol`` instead, and the status
    is 101: the handler has checked that the client asks for that.
    """

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: AsyncGenerator[bytes, None] | None = None
    conversation: Conversation | None = None
    subprotocol: str = ""
    known: bool = False
    """Set by the handler for a client that has proven who it is (``limits``); not sent."""


Handler = Callable[[Request], Awaitable[Response]]


class Guard(Protocol):
    """What decides about a request before its body is read, and words the refusals of a server."""

    async def admit(self, request: Request) -> limits.Admission | Response:
        """Decide about a request by its headers; it has no body yet. An answer is a refusal."""
        ...

    def knows(self, certificate: bytes) -> bool:
        """Return whether a client certificate, in DER, which TLS has accepted proves who the client is (``limits``)."""
        ...

    def refuse(self, status: int, message: str) -> Response:
        """Return the answer for a request that the server refuses, in the form of the protocol."""
        ...


RETRIED = (429, 503)
"""Statuses after which the client may try again: their answers say when (the header Retry-After)."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def header_text(text: str) -> str:
    """Return a text as the value of a header: control characters, which it may not have, are escaped.

    >>> print(header_text("a\\x00\\r\\nb"))
    a\\x00\\x0d\\x0ab
    """
    visible = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    return visible.encode(errors="backslashreplace").decode()


def wire_headers(response: Response) -> dict[str, str]:
    """Return the headers of an answer as a server sends them, whatever texts of clients are in them."""
    values = {"Content-Type": response.content_type, **response.headers}
    if response.status in RETRIED and "retry-after" not in map(str.lower, values):
        values["Retry-After"] = str(limits.RETRY_SECONDS)
    return {name: header_text(value) for name, value in values.items()}


ANSWER_LIMIT = 64 << 20
"""The longest body of an answer that ``Client.request`` receives, in bytes."""


class AnswerTooLongError(OSError):
    """An answer whose body is longer than a client reads; ``status`` is that of the answer."""

    status: int


def answer_too_long(limit: int, status: int) -> AnswerTooLongError:
    """Return the error for an answer with more than ``limit`` bytes."""
    size = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"
    error = AnswerTooLongError(errno.EMSGSIZE, f"the answer has more than {size}")
    error.status = status
    return error


class UncheckedContext(ssl.SSLContext):
    """A TLS context for a simulated network, which passes ``certificate`` (DER) to a server without any check."""

    certificate: bytes | None = None

    def present(self, certificate: bytes) -> None:
        """Pass a certificate, in PEM, to servers from the next connection on."""
        self.certificate = ssl.PEM_cert_to_DER_cert(certificate.decode())


class Client(Protocol):
    """Pooled connections to any number of servers, all with one TLS context."""

    async def post(
        self, host: str, port: int, path: str, body: bytes, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send one POST request; TimeoutError after ``timeout`` seconds, OSError if the connection fails.

        ``headers`` are sent besides those of HTTP itself; their names are in lower case.
        """
        return await self.request("POST", host, port, path, body=body, timeout=timeout, headers=headers)

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
    ) -> Response:
        """Send one request of any method; arguments and errors are those of ``post``.

        Raises AnswerTooLongError (EMSGSIZE) for an answer with more than ``answer_limit`` bytes, by default
        ``ANSWER_LIMIT``, and reads no more of it.
        """
        ...

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send one GET request; return when its answer begins, within ``timeout`` seconds. The body is in ``pieces``.

        A piece is the data that has arrived, however the server divided it. The pieces end with the answer, and raise
        OSError if the connection breaks. The wait for a piece has no timeout: the caller sets one.
        """
        ...

    async def close(self) -> None:
        """End the connections."""
        ...

    async def retire(self) -> None:
        """End the connections when the requests under way have ended, or at once; the caller makes no other."""
        await self.close()
