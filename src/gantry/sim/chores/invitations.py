"""Machines are invited to join, and some invitations are revoked; a new master knows them all."""

import hashlib
from collections.abc import Mapping

from gantry.sim import cluster
from gantry.sim.chores import objects
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import settings, wish

NAMES = ("guest1", "guest2")


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    (node,) = await objects.nodes(stage, 1)
    for name in NAMES:
        await stage.insist(_invite(stage, name))
    for request in (
        {"node_name": node},
        {"node_name": NAMES[0], "primary_ip": stage.lab.address(node)},
        {"node_name": NAMES[0], "group": "nowhere"},
        {"node_name": "bad name"},
    ):
        await stage.succeeds(_invite(stage, "", request))
    await stage.succeeds(_invite(stage, "", {"node_name": node, "readd": True}))
    query = {"OP_ID": "OP_NODE_QUERY_INVITATIONS"}
    await stage.succeeds(wish.single("list invitations", query, settings.KEY, {}))
    name = stage.chance.choice(NAMES)
    op = {"OP_ID": "OP_NODE_REVOKE_INVITATION", "node_name": name}
    await stage.insist(wish.single(f"revoke the invitation of {name}", op, settings.KEY, {f"invited {name}": False}))
    await stage.succeeds(wish.single(f"revoke the invitation of {name} again", op, settings.KEY, {}))


def _invite(stage: stages.Stage, name: str, request: Mapping[str, object] | None = None) -> wish.Wish:
    secret = hashlib.sha256(stage.chance.randbytes(16)).hexdigest()
    fields: Mapping[str, object] = request or {"node_name": name, "group": "default", "ndparams": {"ssh_port": 2222}}
    op: cluster.Opcode = {"OP_ID": "OP_NODE_INVITE", "secret_hash": secret, **fields}
    return wish.single(f"invite {fields}", op, settings.KEY, {f"invited {name}": True} if name else {})
