"""How the remote API reads a request and writes an answer: users, rights, bodies, versions, failures.

``Application`` lets a request through in this order: content type of the answer, endpoint, user, right, body, the
endpoint's own work, representation. A failure is ``code``, ``message`` and ``explain``
(contracts/remote-api.md#errors).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

import msgspec

from gantry import errors
from gantry.doors import http
from gantry.doors.http import representation, users
from gantry.runtime import interface


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


@dataclass(frozen=True)
class Gate:
    """Who is let in: the users, and whether everybody may use what is open."""

    known: users.Users
    anonymous: bool = True

    async def user(self, header: str) -> users.User | None:
        """Return who asks, None for nobody; RefusedError 401 when the password is wrong."""
        if not header:
            return None
        login = users.login(header)
        user = await self.known.check(*login) if login else None
        if user is None:
            raise _unauthorized()
        return user

    def check(self, access: Access, user: users.User | None) -> None:
        """Raise RefusedError 401 or 403 when a user, or nobody, has not this right."""
        if user is None:
            if access is Access.OPEN and self.anonymous:
                return
            raise _unauthorized()
        if (access is Access.WRITE and not user.may_write) or (access is Access.READ and not user.may_read):
            raise http.RefusedError(403, f"user {user.name} may not do that; it needs the option {access.value}")


def _unauthorized() -> http.RefusedError:
    challenge = {"WWW-Authenticate": f'Basic realm="{users.REALM}"'}
    return http.RefusedError(401, "no user with this password", headers=challenge)


def decoded(raw: interface.HttpRequest) -> object:
    """Return the body of a request, None when it has none; RefusedError for what is no JSON."""
    if not raw.body:
        return None
    if raw.headers.get("content-type", "").partition(";")[0].strip().lower() != representation.JSON:
        raise http.RefusedError(415, f"a body has to be {representation.JSON}")
    try:
        value: object = msgspec.json.decode(raw.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise http.RefusedError(400, f"the body is no JSON: {error}") from None
    return value


def response(raw: interface.HttpRequest, answer: Answer, kind: str) -> interface.HttpResponse:
    """Return an answer in a content type, with its tag; 304 when the client has it already."""
    body = representation.written(answer.value, kind)
    if raw.method != "GET":
        return interface.HttpResponse(200, body, kind)
    headers = {"ETag": representation.tag(body, answer.version), "Vary": "Accept"}
    if representation.is_known(headers["ETag"], [raw.headers.get("if-none-match", "")]):
        return interface.HttpResponse(304, b"", kind, headers)
    return interface.HttpResponse(200, body, kind, headers)


def failure(error: http.Failure) -> interface.HttpResponse:
    """Return a failure as clients of the remote API read it."""
    content = {"code": error.status, "message": HTTPStatus(error.status).phrase, "explain": str(error) or None}
    return interface.HttpResponse(error.status, representation.written(content, representation.JSON))
