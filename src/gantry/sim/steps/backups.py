"""Wishes about exports: an instance is exported to a node, imported under another name, and exports are removed."""

import random

from gantry.sim import cluster, facts
from gantry.sim.hardware import copying
from gantry.sim.steps import instances, nodes, wish


def draw(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return a wish about an export."""
    targets = known.known(nodes.KIND, there=True, free=False)
    name = chance.choice(instances.NAMES)
    if not targets or known.thing((instances.KIND, name)).claimed:
        return None
    if known.get((instances.KIND, name), facts.THERE):
        return _export(chance, name, chance.choice(targets))
    if chance.random() < 0.3:
        return wish.Wish(f"remove exports of {name}", [{"OP_ID": "OP_BACKUP_REMOVE", "instance_name": name}])
    return _import(chance, name, chance.choice(targets))


def _export(chance: random.Random, name: str, target: str) -> wish.Wish:
    op: cluster.Opcode = {
        "OP_ID": "OP_BACKUP_EXPORT",
        "instance_name": name,
        "target_node": target,
        "shutdown": chance.random() < 0.8,
        "shutdown_timeout": 0,
        "compress": chance.choice(["none", "gzip"]),
        "remove_instance": chance.random() < 0.2,
    }
    effect = {facts.THERE: False} if op["remove_instance"] else {}
    return wish.single(f"export {name} to {target}", op, (instances.KIND, name), effect)


def _import(chance: random.Random, name: str, node: str) -> wish.Wish:
    """Import the newest export of any instance under a name that is free."""
    source = chance.choice(instances.NAMES)
    template = chance.choice(["file", "plain"])
    op: cluster.Opcode = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "mode": "import",
        "instance_name": name,
        "src_path": source,
        "pnode": node,
        "disk_template": template,
        "os_type": copying.OS_NAME,
        "start": chance.random() < 0.5,
        "nics": [],
    }
    text = f"import {source} as {name} on {node}"
    return wish.single(text, op, (instances.KIND, name), {facts.THERE: True, "node": node, "template": template})
