"""The refusals of an HTTP server: which status has which text, in the form of the guard's protocol, and their log.

``http_server`` refuses requests for its limits; the guard decides about their content. A refusal ends the connection;
after 429 and 503 the client may try again.
"""

import logging
from http import HTTPStatus

from gantry.runtime import http_interface, limits, repeated_logs

_MESSAGES = {
    400: "the request is not valid HTTP",
    408: "the request took too long to arrive",
    413: "the body of the request is too long: the limit is {} bytes",
    429: "this address has too many connections or requests at a time; try again later",
    431: f"the headers of the request have more than {limits.HEADER_BYTES} bytes",
    503: "the server has too many connections or requests at a time; try again later",
}


class RefusedError(Exception):
    """A request is refused with this answer."""

    def __init__(self, answer: http_interface.Response) -> None:
        super().__init__(answer.status)
        self.answer = answer


class PlainGuard:
    """The guard of a server without its own: any body up to the limit, refusals as plain text."""

    def __init__(self, body_limit: int) -> None:
        self._body_limit = body_limit

    async def admit(self, request: http_interface.Request) -> limits.Admission | http_interface.Response:
        """Admit each request."""
        return limits.Admission(self._body_limit, known=request.peer_certificate is not None)

    def knows(self, certificate: bytes) -> bool:
        """Know each client whose certificate TLS has accepted."""
        return True

    def refuse(self, status: int, message: str) -> http_interface.Response:
        """Return the message as plain text."""
        return http_interface.Response(status, message.encode() + b"\n", "text/plain")


class Refusals:
    """The refusals of a server, in the form of its guard."""

    def __init__(self, guard: http_interface.Guard, log: repeated_logs.RepeatedLog) -> None:
        self._guard = guard
        self._log = log

    def answer(self, status: int, *arguments: object) -> http_interface.Response:
        """Return the answer to a request that is refused with this status."""
        message = _MESSAGES.get(status, HTTPStatus(status).phrase).format(*arguments)
        response = self._guard.refuse(status, message)
        headers = {**response.headers, "Connection": "close"}
        return http_interface.Response(status, response.body, response.content_type, headers)

    def encoded(self, status: int) -> bytes:
        """Return an answer as it goes on the wire, for a request that aiohttp does not know."""
        response = self.answer(status)
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in http_interface.wire_headers(response).items()]
        lines.append(f"Content-Length: {len(response.body)}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + response.body

    def error(self, request: http_interface.Request, status: int, *arguments: object) -> RefusedError:
        """Log the refusal of a request, and return it as an error."""
        self._log.write(
            logging.INFO,
            f"requests answered with status {status}",
            "a request from %s is answered with status %d: %s",
            request.peer,
            status,
            _MESSAGES[status].format(*arguments),
        )
        return RefusedError(self.answer(status, *arguments))
