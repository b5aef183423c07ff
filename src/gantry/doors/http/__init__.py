"""What the doors that speak HTTP share: authentication, request ids, errors to statuses, the access log.

A door makes a ``Server`` with an ``Application``, which finds the endpoint for a method and a path. A request goes
through: endpoint, user, right, body, the endpoint's own work, representation; whatever fails becomes an answer with
``code``, ``message`` and ``explain`` (contract: remote API errors). Each request leaves one line in the access log, in
the combined format that tools for web servers read. Neither log has passwords or bodies.
"""

import base64
import binascii
import datetime
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Protocol
from urllib import parse

import msgspec

from gantry import errors
from gantry.doors.http import representation, users
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


class Access(Enum):
    """Who may use an endpoint: everybody, users with any right, users who may write."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Request:
    """What an endpoint gets: the path without its empty ends, the query, the decoded body (None: there is none).

    ``if_match`` are the tags of which the object has to have one (header If-Match), empty when any will do.
    """

    method: str
    path: tuple[str, ...]
    query: Mapping[str, Sequence[str]]
    body: object = None
    user: str = ""
    if_match: str = ""

    def flag(self, name: str) -> bool:
        """Return a number of the query as a truth value; InvalidError when it is none."""
        text = (self.query.get(name) or ["0"])[-1]
        if not text.isdecimal():
            raise errors.InvalidError(f"the query argument {name} is not a number: {text}", hint="it is 0 or 1")
        return int(text) != 0


@dataclass(frozen=True)
class Answer:
    """What an endpoint says; ``version`` is that of the one object it shows."""

    value: object
    version: object = None


@dataclass(frozen=True)
class Endpoint:
    """What answers a request."""

    access: Access
    call: Callable[[Request], Awaitable[Answer]]


class Application(Protocol):
    """What one door says to the requests of its wire."""

    async def find(self, method: str, path: tuple[str, ...]) -> Endpoint:
        """Return what answers; RefusedError 404 for a path that is none, 501 for a method it has not."""
        ...


@dataclass
class _Trace:
    """What the access log says of a request beyond the wire."""

    id: str
    user: str = "-"
    headers: dict[str, str] = field(default_factory=dict)


class Server:
    """One listening port of an application; ``open`` and ``close`` are its life."""

    def __init__(
        self, runtime: interface.Runtime, application: Application, *, known: users.Users, anonymous: bool
    ) -> None:
        self._runtime = runtime
        self._application = application
        self._users = known
        self._anonymous = anonymous
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
        trace = _Trace(self._runtime.random.uuid())
        try:
            kind = representation.chosen(raw.headers.get("accept", ""))
            if kind is None:
                raise RefusedError(406, f"answers are {representation.JSON} or {representation.YAML}")
            response = _response(raw, await self._result(raw, trace), kind)
        except RefusedError as error:
            trace.headers |= error.headers
            response = _failure(error.status, str(error))
        except errors.GantryError as error:
            if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                log.warning("request %s: %s", trace.id, error)
            response = _failure(error.status, str(error))
        except Exception:
            log.exception("request %s failed", trace.id)
            response = _failure(500, f"request {trace.id} failed; see the log of the remote API")
        more = {**response.headers, **trace.headers, "X-Request-Id": trace.id}
        response = interface.HttpResponse(response.status, response.body, response.content_type, more)
        access_log.info("%s", log_line(raw, response, user=trace.user, now=self._runtime.clock.now()))
        return response

    async def _result(self, raw: interface.HttpRequest, trace: _Trace) -> Answer:
        path, query = _split(raw.path)
        endpoint = await self._application.find(raw.method, path)
        user = await self._user(raw.headers.get("authorization", ""))
        trace.user = user.name if user else "-"
        self._check_access(endpoint.access, user)
        tags, name = raw.headers.get("if-match", ""), user.name if user else ""
        request = Request(raw.method, path, query, body=_decoded(raw), user=name, if_match=tags)
        return await endpoint.call(request)

    async def _user(self, header: str) -> users.User | None:
        """Return who asks, None for nobody; RefusedError 401 when the password is wrong."""
        if not header:
            return None
        scheme, _, encoded = header.partition(" ")
        try:
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise _unauthorized() from None
        user = await self._users.check(name, password) if scheme.lower() == "basic" else None
        if user is None:
            raise _unauthorized()
        return user

    def _check_access(self, access: Access, user: users.User | None) -> None:
        if user is None:
            if access is Access.OPEN and self._anonymous:
                return
            raise _unauthorized()
        if (access is Access.WRITE and not user.may_write) or (access is Access.READ and not user.may_read):
            raise RefusedError(403, f"user {user.name} may not do that; it needs the option {access.value}")


def _unauthorized() -> RefusedError:
    challenge = {"WWW-Authenticate": f'Basic realm="{users.REALM}"'}
    return RefusedError(401, "no user with this password", headers=challenge)


def _split(target: str) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    path, _, query = target.partition("?")
    names = tuple(parse.unquote(part) for part in path.split("/") if part)
    try:
        return names, parse.parse_qs(query, keep_blank_values=True, max_num_fields=2000)
    except ValueError as error:
        raise errors.InvalidError(f"the query cannot be read: {error}") from None


def _decoded(raw: interface.HttpRequest) -> object:
    if not raw.body:
        return None
    if raw.headers.get("content-type", "").partition(";")[0].strip().lower() != representation.JSON:
        raise RefusedError(415, f"a body has to be {representation.JSON}")
    try:
        value: object = msgspec.json.decode(raw.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, f"the body is no JSON: {error}") from None
    return value


def _response(raw: interface.HttpRequest, answer: Answer, kind: str) -> interface.HttpResponse:
    body = representation.written(answer.value, kind)
    if raw.method != "GET":
        return interface.HttpResponse(200, body, kind)
    headers = {"ETag": representation.tag(body, answer.version), "Vary": "Accept"}
    if representation.is_known(headers["ETag"], [raw.headers.get("if-none-match", "")]):
        return interface.HttpResponse(304, b"", kind, headers)
    return interface.HttpResponse(200, body, kind, headers)


def _failure(status: int, explain: str) -> interface.HttpResponse:
    content = {"code": status, "message": HTTPStatus(status).phrase, "explain": explain or None}
    return interface.HttpResponse(status, representation.written(content, representation.JSON))


def _quoted(text: str) -> str:
    """Return text for a line of the log: nobody outside writes a quote or an end of line into it."""
    return "".join(one if one.isprintable() and one not in '"\\' else f"\\x{ord(one):02x}" for one in text) or "-"


def log_line(raw: interface.HttpRequest, response: interface.HttpResponse, *, user: str, now: float) -> str:
    """Return the line of a request in the combined log format of web servers, times in UTC."""
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%d/%b/%Y:%H:%M:%S %z")
    request = f"{_quoted(raw.method)} {_quoted(raw.path)} HTTP/1.1"
    referer, agent = (_quoted(raw.headers.get(name, "")) for name in ("referer", "user-agent"))
    who = _quoted(user).replace(" ", "\\x20")
    size = len(response.body) or "-"
    return f'{raw.peer or "-"} - {who} [{moment}] "{request}" {response.status} {size} "{referer}" "{agent}"'
