"""/2/webhooks: the receivers of events, and the secrets of their signatures, for administrators of the cluster.

    GET                      all webhooks, without their URLs and secrets
    POST                     {"name": NAME, "url": URL, "events": [...], ...} adds a webhook
    POST /NAME/secret        makes a new secret; the previous one counts for a day too

The answers of POST have the secret, as the receiver needs it; no other resource has it. The master makes the secret.
When the job has ended, this process reads it in the name of the user, so the audit says who has read it. The other
changes of webhooks answer with the number of their job (``changes``).
"""

from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.doors.http import representation
from gantry.doors.rapi import routes, wire
from gantry.rpc import jobs, luxi
from gantry.runtime import http_interface

_PATH = "/2/webhooks"
_SECRET_PATH = _PATH + "/{name}/secret"
_FIELDS = (
    *("name", "origin", "events", "enabled", "status", "lag", "pruned", "waiting_since", "failure", "position"),
    *("uuid", "ctime"),
)
_TIMEOUT_SECONDS = 30.0
"""How long an answer waits for its job."""

_NO_STORE = {"Cache-Control": "no-store"}


class NewWebhook(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The body of POST; the opcode checks the values."""

    name: str
    url: str
    events: list[str] = []
    authorities: str = ""
    without_tls: bool = False
    begin: int | None = None


async def read(master: luxi.Caller) -> list[jobs.Row]:
    """Return all webhooks, as GET does; ForbiddenError if the user does not administer the cluster."""
    rows = await jobs.rows(master, "webhook", _FIELDS, None)
    return [{field: row.get(field) for field in _FIELDS} for row in rows]


async def _get(master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> wire.Answer:
    return wire.Answer(await read(master.caller))


async def _add(master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> http_interface.Response:
    try:
        body = msgspec.convert(request.body, NewWebhook)
    except msgspec.ValidationError as error:
        raise errors.InvalidError(f"the body is not valid: {errors.readable(str(error))}") from None
    op: jobs.Op = {**msgspec.to_builtins(body), "OP_ID": "OP_WEBHOOK_ADD"}
    return await _with_secret(master, request, op, name=body.name)


async def _renew(master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> http_interface.Response:
    op: jobs.Op = {"OP_ID": "OP_WEBHOOK_SET_PARAMS", **names, "new_secret": True}
    return await _with_secret(master, request, op, name=names["name"])


async def _with_secret(
    master: routes.Master, request: wire.Request, op: jobs.Op, *, name: str
) -> http_interface.Response:
    """Carry out a change that makes a secret, and answer with the secret."""
    await jobs.run(master.caller, [{**op, "reason": master.trail(request)}], timeout_seconds=_TIMEOUT_SECONDS)
    answer = {"name": name, "secret": await master.caller.call(str, "ReadWebhookSecret", name)}
    return http_interface.Response(200, representation.encode(answer, representation.JSON), headers=_NO_STORE)


ROUTES = (
    routes.Route("GET", _PATH, wire.Access.READ, _get, "all webhooks, for administrators"),
    routes.Route("POST", _PATH, wire.Access.WRITE, _add, "a new webhook, with its secret", ("reason",)),
    routes.Route(
        "POST", _SECRET_PATH, wire.Access.WRITE, _renew, "a new secret of a webhook; both count for a day", ("reason",)
    ),
)
