"""The methods of LUXI about webhooks: for gantry-rapi, which sends the events, and for who sets a receiver up.

They have secrets. What gantry-rapi needs for itself, only root and the group ``gantry-admin`` may read and store, on
the master's machine: a request that gantry-rapi makes for one of its users is refused. An administrator of the cluster
may read the secret of one webhook. gantry-rapi asks for it only if its user has just made it (``doors.rapi.webhooks``).
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from gantry import errors
from gantry.doors.luxi.services import SUBJECT, Moment, Services, cause
from gantry.model import webhook
from gantry.operations.access import check
from gantry.operations.webhook import webhook as units

FAILURE_CHARACTERS = 300
"""The longest text that says why a receiver fails."""


class Progress(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``[uuid, serial, failure, time of the waiting event]`` of a webhook, as ``model.webhook.Position`` has them."""

    uuid: str
    serial: Annotated[int, msgspec.Meta(ge=0)]
    failure: Annotated[str, msgspec.Meta(max_length=FAILURE_CHARACTERS)]
    waiting_since: Moment | None


class Webhooks(msgspec.Struct, frozen=True):
    """The UUID of the cluster, the newest serial, and all webhooks with their secrets and positions."""

    cluster: str
    serial: int
    webhooks: list[webhook.Webhook]
    positions: list[webhook.Position]


async def read(services: Services) -> Webhooks:
    """Return all webhooks, with their secrets (not in Ganeti)."""
    _check("read the secrets of webhooks")
    state = services.snapshot()
    return Webhooks(
        state.the_cluster.uuid,
        services.events.serial,
        list(state.webhooks.values()),
        list(state.webhookpositions.values()),
    )


async def read_secret(services: Services, name: str) -> str:
    """Return the secret of a webhook as its receiver needs it, and record who has read it (not in Ganeti)."""
    right = check.check_administrator(services.snapshot(), SUBJECT.get(), "read the secret of a webhook")
    hook = units.find(services.snapshot(), name)
    await services.note(cause(f"secret of webhook {hook.name} read", right))
    return f"whsec_{hook.secret}"


def check_listing(services: Services) -> None:
    """Raise ForbiddenError if a user of the remote API who is not an administrator of the cluster lists webhooks.

    Lists have no secrets, but they say where receivers are and why they fail. Who may read on the master sees them.
    """
    if SUBJECT.get().door == "rapi":
        check.check_administrator(services.snapshot(), SUBJECT.get(), "read the webhooks")


async def store_positions(services: Services, moved: Sequence[Progress]) -> None:
    """Store how far receivers are; webhooks that were removed meanwhile are skipped (not in Ganeti)."""
    _check("store the positions of webhooks")
    state, now = services.snapshot(), services.now()
    positions = [
        webhook.Position(
            uuid=hook.uuid,
            name=hook.name,
            serial=each.serial,
            failure=each.failure,
            waiting_since=each.waiting_since,
            ctime=hook.ctime,
            mtime=now,
        )
        for each in moved
        if (hook := state.webhooks.get(each.uuid)) is not None
    ]
    if positions:
        await services.store_positions(positions)


def _check(what: str) -> None:
    """Raise ForbiddenError for a user of the remote API. Who has no right on the master is refused before."""
    if SUBJECT.get().door != "luxi":
        raise errors.ForbiddenError(
            f"a user of the remote API may not {what}", hint="do it with a command on the master"
        )
