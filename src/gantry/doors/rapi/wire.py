"""Requests and answers of the remote API: users, permissions, bodies, versions, failures.

``Application`` processes a request in this order: endpoint, content type of the answer, user, permission, body, call of
the endpoint, representation. A failure has ``code``, ``message`` and ``explain`` (contracts/remote-api.md#errors).
"""

import dataclasses
import gzip
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

from gantry import errors
from gantry.doors import http
from gantry.doors.http import representation, sessions, tokens, users
from gantry.doors.rapi.oidc import login
from gantry.runtime import bounded_json, http_interface

PACKED_BYTES = 2000
"""The shortest body that is compressed."""
_LEVEL = 4
_NOT_ACCEPTED = ("q=0", "q=0.0", "q=0.00", "q=0.000")


class Access(Enum):
    """The required permission for an endpoint: none, none where the daemon demands no user, to read, or to write."""

    EVERYBODY = "everybody"
    OPEN = "open"
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Request:
    """A request: the path without empty parts, the query, the decoded body (None without a body), and the whole of it.

    ``if_match`` has the header If-Match: the object must have one of these ETags, any if it is empty.
    """

    raw: http_interface.Request
    path: tuple[str, ...]
    query: Mapping[str, Sequence[str]]
    body: object = None
    user: str = ""
    if_match: str = ""

    @property
    def method(self) -> str:
        """Return the method."""
        return self.raw.method

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
    """The function for a request, the required permission, and the content type of an answer that has no other."""

    access: Access
    call: Callable[[Request], Awaitable[Answer | http_interface.Response]]
    form: str = ""


@dataclass(frozen=True)
class Gate:
    """The authentication: users with their sessions and API tokens, and whether OPEN endpoints need no user.

    ``sign_on`` is the log-in by OpenID Connect, if there is one.
    """

    known: users.Users
    sessions: sessions.Sessions
    tokens: tokens.Tokens
    anonymous: bool = False
    sign_on: login.SignOn | None = None

    async def user(self, raw: http_interface.Request) -> users.User | None:
        """Return the user of a request, None without a login and a session.

        Raises RefusedError: 401 if the password or token is wrong, 429, 403 for a change that a page of another site
        sends; and the errors of the master, which decides about tokens.
        """
        sessions.check_origin(raw)
        header = raw.headers.get("authorization", "")
        if not header:
            session = self.sessions.find(raw)
            return session.user if session else None
        login = users.login(header)
        if text := tokens.text_in(header, login):
            user = await self.tokens.check(text, peer=raw.peer, name=login[0] if login else None)
        else:
            user = await self.known.check(*login, peer=raw.peer) if login else None
        if user is None:
            raise unauthorized(raw)
        return user

    def watch(self, raw: http_interface.Request, user: str) -> Callable[[], Awaitable[bool]]:
        """Return the function that says whether what proved the user of a request is still valid, for a long answer."""
        header = raw.headers.get("authorization", "")
        session = None if header else self.sessions.find(raw)
        text = tokens.text_in(header, users.login(header))
        known = self.known.get(user)

        async def is_valid() -> bool:
            if session:
                return self.sessions.is_used(session)
            return self.known.get(user) == known and not (text and await self._is_refused(text))

        return is_valid

    async def _is_refused(self, text: str) -> bool:
        """Return whether a token is not valid, or the master does not answer whether it is."""
        try:
            return await self.tokens.user(text) is None
        except errors.GantryError:
            return True

    def check(self, access: Access, user: users.User | None, raw: http_interface.Request) -> None:
        """Raise RefusedError 401 or 403 if the user, or a request without a user, does not have this permission."""
        if access is Access.EVERYBODY:
            return
        if user is None:
            if access is Access.OPEN and self.anonymous:
                return
            raise unauthorized(raw)
        if (access is Access.WRITE and not user.may_write) or (access is Access.READ and not user.may_read):
            if user.token and "write" in user.options:
                raise http.RefusedError(
                    403, f"API token {user.token.name} of user {user.name} does not allow this request"
                )
            raise http.RefusedError(
                403, f"user {user.name} does not have the option {access.value}, which this request requires"
            )


def unauthorized(raw: http_interface.Request) -> http.RefusedError:
    """Return the refusal of a request without a right password; only for a program of a page it has no challenge."""
    challenge = {} if sessions.is_of_page(raw) else {"WWW-Authenticate": f'Basic realm="{users.REALM}"'}
    if raw.headers.get("authorization", "").partition(" ")[0].lower() == tokens.SCHEME:
        challenge = {"WWW-Authenticate": f'Bearer realm="{users.REALM}", error="invalid_token"'}
        return http.RefusedError(401, "the token is wrong, was revoked or has ended", headers=challenge)
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
    headers = {"ETag": representation.tag(body, answer.version), "Vary": "Accept, Accept-Encoding"}
    if representation.is_known(headers["ETag"], [raw.headers.get("if-none-match", "")]):
        return http_interface.Response(304, b"", kind, headers)
    return http_interface.Response(200, body, kind, headers)


def accepts_packed(raw: http_interface.Request, response: http_interface.Response) -> bool:
    """Return whether an answer is to be compressed: it is long, and the client accepts gzip (RFC 9110, 12.5.3)."""
    if len(response.body) < PACKED_BYTES:
        return False
    codings = [coding.partition(";") for coding in raw.headers.get("accept-encoding", "").lower().split(",")]
    return any(name.strip() == "gzip" and weight.strip() not in _NOT_ACCEPTED for name, _, weight in codings)


def pack(body: bytes) -> bytes:
    """Return a body compressed; the same body is always the same bytes."""
    return gzip.compress(body, _LEVEL, mtime=0)


def packed(response: http_interface.Response, body: bytes) -> http_interface.Response:
    """Return an answer with its compressed body."""
    return dataclasses.replace(response, body=body, headers={**response.headers, "Content-Encoding": "gzip"})


def failure(error: http.Failure) -> http_interface.Response:
    """Return the answer for a failure, in the format of the remote API."""
    content = {"code": error.status, "message": HTTPStatus(error.status).phrase, "explain": str(error) or None}
    return http_interface.Response(error.status, representation.encode(content, representation.JSON))
