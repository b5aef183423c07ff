"""What the doors that speak HTTP share: a listening port, request ids, the access log, what is done about failures.

A door makes a ``Server`` with an ``Application``, which has the whole word on its wire: whom it lets in, what a body
may be, how an answer and a failure are written. The server gives each request an id, hands whatever fails to the
application as a failure to write, and writes one line into the access log, in the combined format that tools for web
servers read. Neither log has passwords or bodies.
"""

import datetime
import functools
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol
from urllib import parse

from gantry import errors
from gantry.runtime import interface

log = logging.getLogger(__name__)
access_log = logging.getLogger("gantry.access")

BODY_LIMIT = 10 << 20


class RefusedError(Exception):
    """A request is refused by a rule of HTTP, with this status; it ends here, so it is none of the tree of errors."""

    def __init__(self, status: int, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


Failure = RefusedError | errors.GantryError
"""What a request may fail of."""


@dataclass
class Trace:
    """What is known of a request beyond the wire: its id, who asks, and headers that its answer has to have."""

    id: str
    user: str = "-"
    headers: dict[str, str] = field(default_factory=dict)


class Application(Protocol):
    """What one door says to the requests of its wire."""

    @property
    def id_header(self) -> tuple[str, str]:
        """Return the header that carries the id of a request in its answer, and what stands before the id."""
        ...

    async def answer(self, raw: interface.HttpRequest, trace: Trace) -> interface.HttpResponse:
        """Answer a request; raises RefusedError and the errors of the tree."""
        ...

    def failure(self, error: Failure, trace: Trace) -> interface.HttpResponse:
        """Return a failure as the clients of this wire read it."""
        ...


class Server:
    """One listening port of an application; ``open`` and ``close`` are its life."""

    def __init__(self, runtime: interface.Runtime, application: Application) -> None:
        self._runtime = runtime
        self._application = application
        self._server: interface.Server | None = None

    async def open(self, host: str, port: int, *, tls: ssl.SSLContext | None) -> None:
        """Listen; OSError when the port is taken."""
        network = self._runtime.network
        self._server = await network.serve_http(host, port, self.answer, tls=tls, body_limit=BODY_LIMIT)

    async def close(self) -> None:
        """Stop listening and end the requests that are under way."""
        if self._server:
            await self._server.close()

    async def answer(self, raw: interface.HttpRequest) -> interface.HttpResponse:
        """Answer a request, whatever it is, and write it down."""
        name, prefix = self._application.id_header
        trace = Trace(prefix + self._runtime.random.uuid())
        try:
            response = await self._application.answer(raw, trace)
        except (RefusedError, errors.GantryError) as error:
            response = self._failure(error, trace)
        except Exception:  # the wall between one request's bug and the daemon
            log.exception("request %s failed", trace.id)
            told = RefusedError(500, f"request {trace.id} failed; see the log of the remote API")
            response = self._application.failure(told, trace)
        more = {**response.headers, **trace.headers, name: trace.id}
        response = interface.HttpResponse(response.status, response.body, response.content_type, more, response.pieces)
        if access_log.isEnabledFor(logging.INFO):
            access_log.info("%s", log_line(raw, response, user=trace.user, now=self._runtime.clock.now()))
        return response

    def _failure(self, error: Failure, trace: Trace) -> interface.HttpResponse:
        if isinstance(error, RefusedError):
            trace.headers |= error.headers
        elif error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.warning("request %s: %s", trace.id, error)
        return self._application.failure(error, trace)


def split(target: str) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Return the parts of a request's path, without empty ones, and its query; InvalidError."""
    path, _, query = target.partition("?")
    parts = [part for part in path.split("/") if part]
    names = tuple(map(parse.unquote, parts) if "%" in path else parts)
    try:
        return names, parse.parse_qs(query, keep_blank_values=True, max_num_fields=2000) if query else {}
    except ValueError as error:
        raise errors.InvalidError(f"the query cannot be read: {error}") from None


def _quoted(text: str) -> str:
    """Return text for a line of the log: nobody outside writes a quote or an end of line into it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text or "-"
    return "".join(one if one.isprintable() and one not in '"\\' else f"\\x{ord(one):02x}" for one in text)


@functools.lru_cache(maxsize=2)
def _moment(now: int) -> str:
    return datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%d/%b/%Y:%H:%M:%S %z")


def log_line(raw: interface.HttpRequest, response: interface.HttpResponse, *, user: str, now: float) -> str:
    """Return the line of a request in the combined log format of web servers, times in UTC."""
    request = f"{_quoted(raw.method)} {_quoted(raw.path)} HTTP/1.1"
    referer, agent = (_quoted(raw.headers.get(name, "")) for name in ("referer", "user-agent"))
    who = _quoted(user).replace(" ", "\\x20")
    size = len(response.body) or "-"
    return f'{raw.peer or "-"} - {who} [{_moment(int(now))}] "{request}" {response.status} {size} "{referer}" "{agent}"'
