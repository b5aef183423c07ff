"""A webhook is added, changed, tested, read and removed; its secret and the position of its receiver are not lost."""

from collections.abc import Mapping

from gantry import errors
from gantry.sim import cluster, facts
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import wish

KIND = "webhook"
NAME = "tickets"
URL = "https://tickets.example/hooks"


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    await stage.insist(_wish("ADD", {"url": URL, "events": ["instance", "job.error"]}, {facts.THERE: True}))
    for request in (
        {"url": "http://elsewhere.example/hooks"},
        {"url": "https://169.254.169.254/"},
        {"events": ["weather"]},
        {"authorities": "no certificate"},
        {},
    ):
        await stage.succeeds(_wish("SET_PARAMS", request, {}))
    await stage.succeeds(_wish("ADD", {"url": URL}, {}))
    await stage.insist(_wish("TEST", {}, {}))
    await _store_position(stage)
    change = {"url": "https://[2001:db8::7]:8443/", "events": [], "new_secret": True, "authorities": ""}
    await stage.insist(_wish("SET_PARAMS", change, {}))
    await stage.insist(_wish("SET_PARAMS", {"enabled": False}, {"enabled": False}))
    await stage.succeeds(_wish("TEST", {}, {}))
    await _read(stage)
    if stage.chance.random() < 0.5:
        await stage.insist(_wish("SET_PARAMS", {"enabled": True}, {"enabled": True}))
    else:
        await stage.insist(_wish("REMOVE", {}, {facts.THERE: False}))
        await stage.succeeds(_wish("REMOVE", {}, {}))


def _wish(what: str, request: Mapping[str, object], effect: facts.Fields) -> wish.Wish:
    op: cluster.Opcode = {"OP_ID": f"OP_WEBHOOK_{what}", "name": NAME, **request}
    return wish.single(f"webhook {NAME}: {what} {request}", op, (KIND, NAME), effect)


async def _store_position(stage: stages.Stage) -> None:
    """Store that the receiver fails, as gantry-rapi does; an answer may be lost."""
    state = stage.state()
    uuid = state.names.get(("webhooks", NAME))
    if uuid is None:
        raise stages.Unplayable("there is no webhook")
    try:
        await stage.clients.ask(
            "StoreWebhookPositions",
            [[uuid, state.serial, "status 500", state.the_cluster.mtime]],
            on=stage.clients.master(),
        )
    except (OSError, errors.GantryError, TimeoutError):
        return


async def _read(stage: stages.Stage) -> None:
    """Read the webhooks as the list and the deliveries do."""
    try:
        fields = ["name", "status", "lag", "failure", "events"]
        await stage.clients.ask("Query", "webhook", fields, None, on=stage.clients.master())
        await stage.clients.ask("ReadWebhooks", on=stage.clients.master())
    except (OSError, errors.GantryError, TimeoutError):
        return
