"""The shared part of the HTTP front ends: a listening port, request ids, the access log, the handling of failures.

A front end creates a ``Server`` with an ``Application``, which alone decides about its protocol: authentication, the
format of bodies, answers and failures. The server assigns an id to each request, passes each error to the application,
which formats the answer, and writes one line into the access log, in the combined format that tools for web servers
read. Neither log contains passwords or bodies.
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
from gantry.rpc import luxi
from gantry.runtime import interface

log = logging.getLogger(__name__)
access_log = logging.getLogger("gantry.access")

BODY_LIMIT = 10 << 20


class RefusedError(Exception):
    """A request is refused by a rule of HTTP, with this status; front ends handle it, so it is not a GantryError."""

    def __init__(self, status: int, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


Failure = RefusedError | errors.GantryError
"""The errors with which a request may fail."""


@dataclass
class Trace:
    """Data of a request besides its content: its id, the user, and headers to add to the answer."""

    id: str
    user: str = "-"
    headers: dict[str, str] = field(default_factory=dict)


class Application(Protocol):
    """A front end: it answers the requests of its protocol."""

    @property
    def id_header(self) -> tuple[str, str]:
        """Return the name of the answer header with the id of the request, and the prefix of the id."""
        ...

    async def answer(self, raw: interface.HttpRequest, trace: Trace) -> interface.HttpResponse:
        """Answer a request; raises RefusedError and GantryError."""
        ...

    def failure(self, error: Failure, trace: Trace) -> interface.HttpResponse:
        """Return the answer for a failure, in the format of this protocol."""
        ...


class Server:
    """A listening port of an application, from ``open`` to ``close``."""

    def __init__(self, runtime: interface.Runtime, application: Application) -> None:
        self._runtime = runtime
        self._application = application
        self._server: interface.Server | None = None

    async def open(self, host: str, port: int, *, tls: ssl.SSLContext | None) -> None:
        """Listen on an address; OSError if the port is in use."""
        network = self._runtime.network
        self._server = await network.serve_http(host, port, self.answer, tls=tls, body_limit=BODY_LIMIT)

    async def close(self) -> None:
        """Stop listening and end the running requests."""
        if self._server:
            await self._server.close()

    async def answer(self, raw: interface.HttpRequest) -> interface.HttpResponse:
        """Answer any request, and write a line into the access log."""
        name, prefix = self._application.id_header
        trace = Trace(prefix + self._runtime.random.uuid())
        notices: list[str] = []
        luxi.NOTICES.set(notices)
        try:
            response = await self._application.answer(raw, trace)
        except (RefusedError, errors.GantryError) as error:
            response = self._failure(error, trace)
        except Exception:  # a bug in one request must not end the daemon
            log.exception("request %s failed", trace.id)
            refused = RefusedError(500, f"request {trace.id} failed; see the log of the remote API")
            response = self._application.failure(refused, trace)
        headers = {**response.headers, **trace.headers, name: trace.id}
        if notices:
            # RFC 7234, section 5.5.7: a miscellaneous persistent warning.
            headers["Warning"] = f'299 gantry "{notices[-1]}"'
        response = interface.HttpResponse(
            response.status, response.body, response.content_type, headers, response.pieces
        )
        if access_log.isEnabledFor(logging.INFO):
            access_log.info("%s", log_line(raw, response, user=trace.user, now=self._runtime.clock.now()))
        return response

    def _failure(self, error: Failure, trace: Trace) -> interface.HttpResponse:
        if isinstance(error, RefusedError):
            trace.headers |= error.headers
        elif error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.warning("request %s: %.1000s", trace.id, error)
        return self._application.failure(error, trace)


def split(target: str) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Return the non-empty parts of a request's path, and its query; InvalidError."""
    path, _, query = target.partition("?")
    parts = [part for part in path.split("/") if part]
    names = tuple(map(parse.unquote, parts) if "%" in path else parts)
    try:
        return names, parse.parse_qs(query, keep_blank_values=True, max_num_fields=2000) if query else {}
    except ValueError as error:
        raise errors.InvalidError(f"the query of the URL is invalid: {error}") from None


def _quoted(text: str) -> str:
    """Return text for a log line, with quotes and control characters escaped, so that clients cannot forge lines."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text or "-"
    return "".join(char if char.isprintable() and char not in '"\\' else f"\\x{ord(char):02x}" for char in text)


@functools.lru_cache(maxsize=2)
def _log_time(now: int) -> str:
    return datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%d/%b/%Y:%H:%M:%S %z")


def log_line(raw: interface.HttpRequest, response: interface.HttpResponse, *, user: str, now: float) -> str:
    """Return the access log line of a request, in the combined format of web servers, with times in UTC."""
    request = f"{_quoted(raw.method)} {_quoted(raw.path)} HTTP/1.1"
    referer, agent = (_quoted(raw.headers.get(name, "")) for name in ("referer", "user-agent"))
    who = _quoted(user).replace(" ", "\\x20")
    size = len(response.body) or "-"
    return (
        f'{raw.peer or "-"} - {who} [{_log_time(int(now))}] "{request}" {response.status} {size} "{referer}" "{agent}"'
    )
