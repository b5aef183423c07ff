"""How much of its next request an HTTP connection has sent, beyond the requests that are complete; pure.

A client may send the next request before it has the answer to the last one (RFC 9112, section 9.3.2). The parser keeps
the bytes of a request whose headers are not complete, and does not say how many; ``http_server`` limits their time.
"""

END_OF_HEADERS = b"\r\n\r\n"


class Progress:
    """The bytes of a connection since it was last idle, compared with the length of a request.

    The headers of a request end with the first empty line.
    """

    def __init__(self) -> None:
        self._received = 0
        self._headers = 0
        self._requests = 0
        self._unanswered = 0
        self._last = b""

    def receive(self, data: bytes, *, requests: int) -> None:
        """Note bytes that have arrived, and the number of requests whose headers they have completed."""
        if not self._headers:
            position = (self._last + data).find(END_OF_HEADERS)
            if position >= 0:
                self._headers = self._received - len(self._last) + position + len(END_OF_HEADERS)
        self._received += len(data)
        self._last = (self._last + data[-len(END_OF_HEADERS) :])[-len(END_OF_HEADERS) :]
        self._requests += requests
        self._unanswered += requests

    def end_request(self, body_bytes: int | None) -> int:
        """Note that a request is answered; return how many bytes of the next one have arrived.

        The result is 0 while another complete request waits. ``body_bytes`` is None for a body in chunks. Its length,
        and those of several requests that arrived together, are not known: then the last bytes decide, and the result
        is 1 unless they can be the end of a request.
        """
        self._unanswered -= 1
        if self._unanswered > 0:
            return 0
        if self._last == END_OF_HEADERS:
            begun, self._last = 0, b""
        elif body_bytes is None or self._requests > 1:
            begun = 1
        else:
            begun = self._received - self._headers - body_bytes
            self._last = self._last[-begun:] if begun else b""
        self._received, self._headers, self._requests, self._unanswered = begun, 0, 0, 0
        return begun
