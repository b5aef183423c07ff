"""/2/session: log-in and log-out of people in a browser, and what a page has to know about its user.

    POST      {"user": NAME, "password": PASSWORD} begins a session: the answer sets its cookie
    GET       answers the same body; 401 without a session
    DELETE    ends the session; {"logout": ADDRESS} if the session at an OpenID provider can be ended there too

The body of the answers has the name of the ``user``, what the user ``may`` do, the access ``rules`` of a user who may
not do everything, and the token ``csrf`` that changes have to repeat (``http.sessions``). While the master does not
answer, there are no rules.
"""

import contextlib
from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.doors import http
from gantry.doors.http import representation, sessions, users
from gantry.doors.rapi import rights, routes, wire
from gantry.rpc import luxi
from gantry.runtime import http_interface

_PATH = "/2/session"

ROUTES = (
    routes.Route("GET", _PATH, wire.Access.EVERYBODY, None, "user, permission and token of the session"),
    routes.Route("POST", _PATH, wire.Access.EVERYBODY, None, "the same, of a session that begins"),
    routes.Route(
        "DELETE",
        _PATH,
        wire.Access.EVERYBODY,
        None,
        "null, or where to log out of the OpenID provider; the session has ended",
    ),
)

_NO_STORE = {"Cache-Control": "no-store"}


class Login(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a log-in."""

    user: str
    password: str


def calls(gate: wire.Gate) -> Mapping[tuple[str, str], routes.Call]:
    """Return the functions of the routes."""
    known = gate.sessions

    async def get(master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> http_interface.Response:
        session = known.find(request.raw)
        if session is None:
            raise http.RefusedError(401, "nobody is logged in")
        return _answer(await _about(master.caller, session, request.raw.peer))

    async def post(master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> http_interface.Response:
        try:
            login = msgspec.convert(request.body, Login)
        except msgspec.ValidationError as error:
            raise errors.InvalidError(f"the body is not valid: {errors.readable(str(error))}") from None
        begun = await known.begin(login.user, login.password, peer=request.raw.peer)
        if begun is None:
            raise http.RefusedError(401, "wrong user name or password")
        session, cookie = begun
        return _answer(await _about(master.caller, session, request.raw.peer), cookie)

    async def delete(_: routes.Master, request: wire.Request, names: Mapping[str, str]) -> http_interface.Response:
        session, ended = known.find(request.raw), known.end(request.raw)
        address = gate.sign_on.log_out_address(session) if gate.sign_on and session else ""
        return _answer({"logout": address} if address else None, ended)

    return {("GET", _PATH): get, ("POST", _PATH): post, ("DELETE", _PATH): delete}


async def _about(master: luxi.Caller, session: sessions.Session, peer: str) -> Mapping[str, object]:
    user, rules = session.user, list[rights.Rule]()
    if user.may_read and not user.may_write:
        with contextlib.suppress(errors.GantryError):
            rules = [*await rights.rules(master, user, peer)]
    return {"user": user.name, "may": _permission(user), "rules": rules, "csrf": session.token}


def _permission(user: users.User) -> str:
    return "write" if user.may_write else "read" if user.may_read else ""


def _answer(value: object, cookie: str = "") -> http_interface.Response:
    headers = {**_NO_STORE, "Set-Cookie": cookie} if cookie else _NO_STORE
    return http_interface.Response(200, representation.encode(value, representation.JSON), headers=headers)
