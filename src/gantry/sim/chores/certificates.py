"""Certificates and keys are renewed: of a node, of all nodes with their keys, and those of the whole cluster.

The key that a node has must be recorded: masters and nodes obey no other (explanation/security.md).
"""

from gantry import security
from gantry.sim import cluster, story
from gantry.sim.chores import objects
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import settings, wish

KEYS = "the key of a node is recorded in the state"


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    (node,) = await objects.nodes(stage, 1)
    requests: list[dict[str, object]] = [
        {"nodes": [node]},
        {"node_certificates": True, "keep_keys": True},
        {"rapi_certificate": True},
        {"cluster_certificate": True},
        {"node_certificates": True, "rapi_certificate": True},
    ]
    for request in stage.chance.sample(requests, 3):
        op = {"OP_ID": "OP_CLUSTER_RENEW_CRYPTO", **request}
        await stage.insist(wish.single(f"renew certificates: {request}", op, settings.KEY, {}))
        _check_keys(stage)


def _check_keys(stage: stages.Stage) -> None:
    for node in stage.state().nodes.values():
        disk, path = stage.lab.world.machine(node.name).disk, f"{cluster.FOLDERS.certificates}/node.pem"
        if node.name not in stage.up() or not node.takes_part or not disk.exists(path):
            continue
        key = security.key_of(security.der_of(disk.read(path)))
        if node.certificate.keys and key not in node.certificate.keys:
            raise story.Violation(KEYS, f"the key of {node.name} among {node.certificate.keys}", key)
