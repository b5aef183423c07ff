"""/2/session/...: how people may log in, and the log-in by OpenID Connect (``oidc``), whose requests are navigations.

    GET /2/session/methods          {"provider": {"name", "login"} or null, "failure"}
    GET /2/session/oidc             leads the browser to the provider; ``to`` is the page of the console to come back to
    GET /2/session/oidc/callback    begins the session, and leads the browser to that page

A log-in that fails leads to the console too. There ``failure`` says why, once, to the browser in which it failed.
"""

from collections.abc import Mapping

from gantry import errors
from gantry.doors import http
from gantry.doors.http import representation
from gantry.doors.rapi import routes, wire
from gantry.doors.rapi.oidc import login
from gantry.runtime import http_interface

_METHODS, _BEGIN, _CALLBACK = "/2/session/methods", "/2/session/oidc", "/2/session/oidc/callback"
_CONSOLE = "/console/"
FORM = "text/plain"
"""The content type of answers that lead a browser on."""
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}

ROUTES = (
    routes.Route(
        "GET", _METHODS, wire.Access.EVERYBODY, None, "the OpenID provider, and why the last log-in by it failed"
    ),
    routes.Route(
        "GET", _BEGIN, wire.Access.EVERYBODY, None, "leads a browser to the OpenID provider", ("to",), form=FORM
    ),
    routes.Route(
        "GET",
        _CALLBACK,
        wire.Access.EVERYBODY,
        None,
        "begins the session of a log-in by OpenID Connect",
        ("code", "state", "iss", "error"),
        form=FORM,
    ),
)


def logged_path(path: tuple[str, ...]) -> str:
    """Return what the access log has instead of the path of a request, empty for the path itself.

    The query of the callback contains the code of a log-in.
    """
    return _CALLBACK if path == ROUTES[-1].parts else ""


def calls(gate: wire.Gate) -> Mapping[tuple[str, str], routes.Call]:
    """Return the functions of the routes."""

    async def methods(_: routes.Master, request: wire.Request, names: Mapping[str, str]) -> http_interface.Response:
        sign_on, headers = gate.sign_on, dict(_HEADERS)
        provider = {"name": sign_on.name, "login": sign_on.address} if sign_on else None
        failure = sign_on.failure(request.raw) if sign_on else ""
        if sign_on and failure:
            headers["Set-Cookie"] = sign_on.forget_failure()
        body = representation.encode({"provider": provider, "failure": failure}, representation.JSON)
        return http_interface.Response(200, body, headers=headers)

    async def begin(_: routes.Master, request: wire.Request, names: Mapping[str, str]) -> http_interface.Response:
        sign_on = _configured(gate)
        page = (request.query.get("to") or [""])[-1]
        try:
            return _lead(*await sign_on.begin(page, peer=request.raw.peer))
        except errors.GantryError as error:
            return _lead(_CONSOLE, sign_on.failed(error))

    async def callback(_: routes.Master, request: wire.Request, names: Mapping[str, str]) -> http_interface.Response:
        sign_on = _configured(gate)
        try:
            page, cookie = await sign_on.finish(request.raw, request.query)
        except errors.GantryError as error:
            return _lead(_CONSOLE, sign_on.failed(error))
        return _lead(_CONSOLE + page, cookie)

    return {("GET", _METHODS): methods, ("GET", _BEGIN): begin, ("GET", _CALLBACK): callback}


def _configured(gate: wire.Gate) -> login.SignOn:
    if gate.sign_on is None:
        raise http.RefusedError(404, "the log-in by OpenID Connect is not configured; see --oidc-issuer")
    return gate.sign_on


def _lead(address: str, cookie: str) -> http_interface.Response:
    return http_interface.Response(303, b"", FORM, {**_HEADERS, "Location": address, "Set-Cookie": cookie})
