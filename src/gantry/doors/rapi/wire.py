"""Requests and answers of the remote API: users, permissions, bodies, versions, failures.

``Application`` processes a request in this order: content type of the answer, endpoint, user, permission, body, call of
the endpoint, representation. A failure has ``code``, ``message`` and ``explain`` (contracts/remote-api.md#errors).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

from gantry import errors
from gantry.doors import http
from gantry.doors.http import representation, users
from gantry.runtime import bounded_json, http_interface


class Access(Enum):
    """The required permission for an endpoint: none, to read, or to write."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Request:
    """A request: the path without empty parts, the query, the decoded body (None without a body).

    ``if_match`` has the header If-Match: the object must have one of these ETags, any if it is empty.
    """

    method: str
    path: tuple[str, ...]
    query: Mapping[str, Sequence[str]]
    body: object = None
    user: str = ""
    if_match: str = ""

    def flag(self, name: str) -> bool:
        """Return whether a query argument is a number other than 0; InvalidError if it is not a number."""
        text = (self.query.get(name) or ["0"])[-1]
        try:
            return bounded_json.number(text) != 0
        except bounded_json.UnreadableError as error:
            raise errors.InvalidError(f"the query argument {name} is {error}", hint="write 0 or 1") from None


@dataclass(frozen=True)
class Answer:
    """The answer of an endpoint; ``version`` is the serial number of the object in it, if it is a single object."""

    value: object
    version: object = None


@dataclass(frozen=True)
class Endpoint:
    """The function for a request, and the required permission."""

    access: Access
    call: Callable[[Request], Awaitable[Answer]]


@dataclass(frozen=True)
class Gate:
    """The authentication: the users, and whether OPEN endpoints are available without a user."""

    known: users.Users
    anonymous: bool = False

    async def user(self, raw: http_interface.Request) -> users.User | None:
        """Return the user of a request, None without a login; RefusedError 401 if the password is wrong, or 429."""
        header = raw.headers.get("authorization", "")
        if not header:
            return None
        login = users.login(header)
        user = await self.known.check(*login, peer=raw.peer) if login else None
        if user is None:
            raise _unauthorized()
        return user

    def check(self, access: Access, user: users.User | None) -> None:
        """Raise RefusedError 401 or 403 if the user, or a request without a user, does not have this permission."""
        if user is None:
            if access is Access.OPEN and self.anonymous:
                return
            raise _unauthorized()
        if (access is Access.WRITE and not user.may_write) or (access is Access.READ and not user.may_read):
            raise http.RefusedError(
                403, f"user {user.name} does not have the option {access.value}, which this request requires"
            )


def _unauthorized() -> http.RefusedError:
    challenge = {"WWW-Authenticate": f'Basic realm="{users.REALM}"'}
    return http.RefusedError(401, "wrong or missing user name or password", headers=challenge)


def decode_body(raw: http_interface.Request) -> object:
    """Return the decoded body of a request, None without a body; RefusedError if the body is not JSON."""
    if not raw.body:
        return None
    if raw.headers.get("content-type", "").partition(";")[0].strip().lower() != representation.JSON:
        raise http.RefusedError(415, f"the content type of the body is not {representation.JSON}")
    try:
        return bounded_json.decode(raw.body)
    except bounded_json.UnreadableError as error:
        raise http.RefusedError(400, f"the body is not valid JSON: {error}") from None


def response(raw: http_interface.Request, answer: Answer, kind: str) -> http_interface.Response:
    """Return an answer in a content type, with its ETag; status 304 if the client already has this version."""
    body = representation.encode(answer.value, kind)
    if raw.method != "GET":
        return http_interface.Response(200, body, kind)
    headers = {"ETag": representation.tag(body, answer.version), "Vary": "Accept"}
    if representation.is_known(headers["ETag"], [raw.headers.get("if-none-match", "")]):
        return http_interface.Response(304, b"", kind, headers)
    return http_interface.Response(200, body, kind, headers)


def failure(error: http.Failure) -> http_interface.Response:
    """Return the answer for a failure, in the format of the remote API."""
    content = {"code": error.status, "message": HTTPStatus(error.status).phrase, "explain": str(error) or None}
    return http_interface.Response(error.status, representation.encode(content, representation.JSON))
