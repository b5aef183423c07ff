"""The shared part of the HTTP front ends: a listening port, request ids, the access log, the handling of failures.

A front end creates a ``Server`` with an ``Application``, which alone decides about its protocol: authentication, the
format of bodies, answers and failures. The server assigns an id to each request, passes each error to the application,
which formats the answer, and writes one line into the access log, in the combined format that tools for web servers
read. Neither log contains passwords or bodies.
"""

import dataclasses
import datetime
import functools
import logging
import ssl
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol, TypeVar
from urllib import parse

from gantry import errors
from gantry.doors.http import warnings
from gantry.rpc import luxi
from gantry.runtime import http_interface, interface, limits, measures, repeated_logs, request_ids, traces

T = TypeVar("T")

log = logging.getLogger(__name__)
access_log = logging.getLogger("gantry.access")

BODY_LIMIT = 10 << 20
STRANGER_LINES = 100
"""Lines of the access log for the requests of strangers from one peer in ``repeated_logs.WINDOW_SECONDS``."""
LOGGED_CHARACTERS = 1000
"""Characters of each text of a client in a line of the access log."""


REQUESTS = measures.Measure(
    "gantry_http_request_duration_seconds",
    measures.Kind.DURATION,
    ("api", "method", "status"),
    "Requests that were answered, by the API of this daemon, method and status; until the answer begins.",
)
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
"""The methods that a request is counted by; any other is ``other``."""


class RefusedError(Exception):
    """A request is refused by a rule of HTTP, with this status; front ends handle it, so it is not a GantryError."""

    def __init__(self, status: int, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


def too_many_attempts() -> RefusedError:
    """Return the refusal of a password that is not checked, as too many others of the client wait to be."""
    return RefusedError(429, "too many wrong passwords from this address; try again later")


Failure = RefusedError | errors.GantryError
"""The errors with which a request may fail."""


@dataclass
class Trace:
    """Data of a request besides its content: its id, the user, and headers to add to the answer.

    ``known`` says that the client has proven who it is, as far as the front end asks for that. ``path`` replaces the
    path and the query in the access log, if the query contains a secret.
    """

    id: str
    user: str = "-"
    known: bool = False
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class Application(Protocol):
    """A front end: it answers the requests of its protocol."""

    @property
    def id_header(self) -> tuple[str, str]:
        """Return the name of the answer header with the id of the request, and the prefix of the id."""
        ...

    async def admit(self, raw: http_interface.Request, trace: Trace) -> int:
        """Return the longest body in bytes of a request, by its headers; raises RefusedError and GantryError.

        ``answer`` follows for the whole request, and checks it again.
        """
        ...

    async def answer(self, raw: http_interface.Request, trace: Trace) -> http_interface.Response:
        """Answer a request; raises RefusedError and GantryError."""
        ...

    def failure(self, error: Failure, trace: Trace) -> http_interface.Response:
        """Return the answer for a failure, in the format of this protocol."""
        ...


class Server:
    """A listening port of an application, from ``open`` to ``close``."""

    def __init__(
        self,
        runtime: interface.Runtime,
        application: Application,
        *,
        allowed: limits.HttpLimits | None = None,
        counts: measures.Measures | None = None,
        api: str = "",
    ) -> None:
        """Serve an application; ``counts`` gets what is measured, under the name ``api``."""
        self._counts = counts or measures.Measures()
        self._api = api
        self._runtime = runtime
        self._application = application
        self._allowed = allowed
        self._server: interface.Server | None = None
        self._failures = repeated_logs.RepeatedLog(log)
        self._strangers = repeated_logs.RepeatedLog(log, burst=STRANGER_LINES)

    async def open(self, host: str, port: int, *, tls: ssl.SSLContext | None) -> None:
        """Listen on an address; OSError if the port is in use."""
        self._server = await self._runtime.network.serve_http(
            host, port, self.answer, tls=tls, body_limit=BODY_LIMIT, allowed=self._allowed, guard=self
        )

    async def close(self) -> None:
        """Stop listening and end the running requests."""
        if self._server:
            await self._server.close()

    async def admit(self, raw: http_interface.Request) -> limits.Admission | http_interface.Response:
        """Decide about a request with a body by its headers; a refusal has its line in the access log."""
        trace = self._trace()
        outcome = await self._outcome(self._application.admit(raw, trace), trace)
        if isinstance(outcome, int):
            return limits.Admission(outcome, known=trace.known)
        return self._finished(raw, outcome, trace)

    def knows(self, certificate: bytes) -> bool:
        """Know nobody by a certificate: clients prove who they are by a password or a token."""
        return False

    def refuse(self, status: int, message: str) -> http_interface.Response:
        """Return the answer for a request that is refused before the application has it."""
        trace = self._trace()
        response = self._application.failure(RefusedError(status, message), trace)
        return self._with_headers(response, trace)

    async def answer(self, raw: http_interface.Request) -> http_interface.Response:
        """Answer any request, and write a line into the access log."""
        trace = self._trace()
        request_ids.CURRENT.set(trace.id)
        notices: list[str] = []
        luxi.NOTICES.set(notices)
        begin = self._runtime.clock.monotonic()
        with traces.entry(f"{self._api} {_counted(raw.method)}", request=trace.id, first=True) as span:
            response = await self._outcome(self._application.answer(raw, trace), trace)
            span.note(_attributes(raw, response, trace))
            if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                span.fail(HTTPStatus(response.status).phrase)
        if notices:
            trace.headers["Warning"] = warnings.header("gantry", notices[-1:])
        seconds = self._runtime.clock.monotonic() - begin
        self._counts.took(REQUESTS, seconds, self._api, _counted(raw.method), str(response.status))
        return self._finished(raw, response, trace)

    def _trace(self) -> Trace:
        return Trace(self._application.id_header[1] + self._runtime.random.uuid())

    def _with_headers(self, response: http_interface.Response, trace: Trace) -> http_interface.Response:
        headers = {**response.headers, **trace.headers, self._application.id_header[0]: trace.id}
        return dataclasses.replace(response, headers=headers, known=trace.known)

    def _finished(
        self, raw: http_interface.Request, response: http_interface.Response, trace: Trace
    ) -> http_interface.Response:
        response = self._with_headers(response, trace)
        if access_log.isEnabledFor(logging.INFO) and self._is_logged(raw, trace):
            logged = dataclasses.replace(raw, path=trace.path) if trace.path else raw
            access_log.info("%s", log_line(logged, response, user=trace.user, now=self._runtime.clock.now()))
        return response

    def _is_logged(self, raw: http_interface.Request, trace: Trace) -> bool:
        """Return whether a request has a line in the access log; the log says how many of a stranger have none."""
        return trace.known or self._strangers.is_due(
            f"requests of strangers from {limits.peer_of(raw.peer) or 'unknown addresses'}"
        )

    async def _outcome(self, work: Awaitable[T], trace: Trace) -> T | http_interface.Response:
        """Return the result of the application's work, or the answer for its failure."""
        try:
            return await work
        except (RefusedError, errors.GantryError) as error:
            return self._failure(error, trace)
        except Exception as error:  # a bug in one request must not end the daemon
            if self._failures.is_due(f"requests that failed with {type(error).__name__}", logging.ERROR):
                log.exception("request %s failed", trace.id)
            refused = RefusedError(500, f"request {trace.id} failed; see the log of the remote API")
            return self._application.failure(refused, trace)

    def _failure(self, error: Failure, trace: Trace) -> http_interface.Response:
        if isinstance(error, RefusedError):
            trace.headers |= error.headers
        elif error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            cause = f"requests answered with status {error.status}"
            self._failures.write(logging.WARNING, cause, "request %s: %.1000s", trace.id, error)
        return self._application.failure(error, trace)


def _counted(method: str) -> str:
    """Return the method that a request is counted by: of others a client may have any number."""
    return method if method in METHODS else "other"


def _attributes(raw: http_interface.Request, response: http_interface.Response, trace: Trace) -> traces.Attributes:
    """Return what the span of a request tells of it; the query of its URL may contain a secret."""
    return {
        "http.request.method": _counted(raw.method),
        "url.path": raw.path.partition("?")[0][:LOGGED_CHARACTERS],
        "http.response.status_code": response.status,
        "client.address": raw.peer,
        "enduser.id": trace.user,
    }


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
    text = text[:LOGGED_CHARACTERS]
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text or "-"
    return "".join(char if char.isprintable() and char not in '"\\' else f"\\x{ord(char):02x}" for char in text)


@functools.lru_cache(maxsize=2)
def _log_time(now: int) -> str:
    return datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%d/%b/%Y:%H:%M:%S %z")


def log_line(raw: http_interface.Request, response: http_interface.Response, *, user: str, now: float) -> str:
    """Return the access log line of a request, in the combined format of web servers, with times in UTC."""
    request = f"{_quoted(raw.method)} {_quoted(raw.path)} HTTP/1.1"
    referer, agent = (_quoted(raw.headers.get(name, "")) for name in ("referer", "user-agent"))
    who = _quoted(user).replace(" ", "\\x20")
    size = len(response.body) or "-"
    return (
        f'{raw.peer or "-"} - {who} [{_log_time(int(now))}] "{request}" {response.status} {size} "{referer}" "{agent}"'
    )
