"""/2/tokens: the API tokens of the user, for programs and for pages.

    GET                      the user's tokens; all to who may administer the cluster
    POST                     {"name": NAME, "extent": ..., "roles": [{"role": ROLE, "on": OBJECT}], "until": ...}
    DELETE /USER/NAME        revokes a token

The answer of POST has the text of the token, once: this process generates the secret, and the master gets its hash.
Both changes are answered when their job has ended. Of such jobs the queue keeps a limited number, so a user who may do
nothing else cannot fill it (``jobs.queue.Queue.run``).
A token is always of the user who asks; root creates those of other users on the master. A request with a token may
not create or revoke tokens, whatever it allows.
"""

from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.doors.http import representation, users
from gantry.doors.rapi import routes, wire
from gantry.model import token_text
from gantry.rpc import jobs
from gantry.runtime import http_interface, interface

_PATH = "/2/tokens"
_TOKEN_PATH = _PATH + "/{user}/{name}"
_FIELDS = ("user", "label", "allows", "ctime", "end", "id", "uuid")
_TIMEOUT_SECONDS = 30.0
"""How long an answer waits for its job."""

ROUTES = (
    routes.Route("GET", _PATH, wire.Access.READ, None, "the API tokens of the user; all to an administrator"),
    routes.Route("POST", _PATH, wire.Access.READ, None, "a new API token of the user, with its text"),
    routes.Route("DELETE", _TOKEN_PATH, wire.Access.READ, None, "null; the API token is revoked"),
)

_NO_STORE = {"Cache-Control": "no-store"}


class NewToken(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The body of POST; the opcode checks the values."""

    name: str
    extent: str = "everything"
    roles: list[dict[str, str]] = []
    until: float | str | None = None


def calls(runtime: interface.Runtime) -> Mapping[tuple[str, str], routes.Call]:
    """Return the functions of the routes."""

    async def get(master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> wire.Answer:
        rows = await jobs.rows(master.caller, "token", _FIELDS, None)
        return wire.Answer([_described(row) for row in rows])

    async def post(master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> http_interface.Response:
        if request.user.startswith(users.OIDC):
            raise errors.ForbiddenError(
                f"user {request.user} is one of the OpenID provider, and cannot have API tokens: only the provider "
                "says whether such a user is still there",
                hint="create a user for the program in the users file, and access rules for it",
            )
        try:
            body = msgspec.convert(request.body, NewToken)
        except msgspec.ValidationError as error:
            raise errors.InvalidError(f"the body is not valid: {errors.readable(str(error))}") from None
        random = runtime.random
        text = token_text.make(
            request.user, number=random.token(token_text.ID_BYTES), secret=random.token(token_text.SECRET_BYTES)
        )
        public = {"user": request.user, "name": body.name, "id": token_text.identifier(text)}
        op = {
            **msgspec.to_builtins(body),
            **public,
            "OP_ID": "OP_TOKEN_ADD",
            "secret_hash": token_text.secret_hash(text),
            "reason": master.trail(request),
        }
        done = await jobs.run(master.caller, [op], timeout_seconds=_TIMEOUT_SECONDS)
        answer = {"token": text, **public, "end": done.results[0]}
        return http_interface.Response(200, representation.encode(answer, representation.JSON), headers=_NO_STORE)

    async def delete(master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> wire.Answer:
        op: jobs.Op = {"OP_ID": "OP_TOKEN_REVOKE", **names, "reason": master.trail(request)}
        await jobs.run(master.caller, [op], timeout_seconds=_TIMEOUT_SECONDS)
        return wire.Answer(None)

    return {("GET", _PATH): get, ("POST", _PATH): post, ("DELETE", _TOKEN_PATH): delete}


def _described(row: jobs.Row) -> Mapping[str, object]:
    """Return a token as clients see it: ``name`` is unique for its user, ``end`` is null if it has no end."""
    return {"name": row["label"], **{field: row.get(field) for field in _FIELDS if field != "label"}}
