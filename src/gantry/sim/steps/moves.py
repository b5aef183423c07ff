"""Wishes that move instances: failover, migration, copy to another node, and whole nodes and groups that are emptied.

The jobs that empty a node submit further jobs. Their client claims the instances that it knows to be there, waits for
all of these jobs, and knows afterwards that each instance has left the node, unless the result says that it stays.
"""

import functools
import random
from collections.abc import Callable

from gantry.sim import facts
from gantry.sim.steps import instances, nodes, wish

ANYWHERE = "diskless"
MIRRORED = "drbd"


HasPower = Callable[[str], bool]
"""Returns whether a machine has power. An administrator calls a node failed only if it has none."""


def draw(chance: random.Random, known: facts.Facts, *, has_power: HasPower) -> wish.Wish | None:
    """Return a wish that moves an instance, or all instances of a node."""
    if chance.random() < 0.25:
        return _empty(chance, known)
    there = [name for name in known.known(instances.KIND, there=True) if name in instances.NAMES]
    if not there:
        return None
    name = chance.choice(there)
    failover = functools.partial(_failover, has_power=has_power)
    kinds: list[Callable[[random.Random, facts.Facts, str], wish.Wish]]
    kinds = [failover, failover, _migrate, _migrate, _migrate, _move, _cleanup]
    return chance.choice(kinds)(chance, known, name)


def _target(chance: random.Random, known: facts.Facts, name: str) -> str | None:
    """Return a node to move to, perhaps an unsuitable one; None to let the cluster choose."""
    if chance.random() < 0.3:
        return None
    names = known.known(nodes.KIND, there=True, free=False)
    own = known.get((instances.KIND, name), "node")
    other_nodes = [node for node in names if node != own or chance.random() < 0.05]
    return chance.choice(other_nodes) if other_nodes else None


def _relocated(name: str, target: str | None) -> facts.Fields:
    return instances.anywhere() | {"node": target, "copied": None}


def _failover(chance: random.Random, known: facts.Facts, name: str, *, has_power: HasPower) -> wish.Wish:
    target = _target(chance, known, name)
    node = known.get((instances.KIND, name), "node")
    failed = isinstance(node, str) and not has_power(node)
    op = {
        "OP_ID": "OP_INSTANCE_FAILOVER",
        "instance_name": name,
        "target_node": target,
        "shutdown_timeout": 0,
        "ignore_consistency": chance.random() < 0.5 and failed,
        "wait_for_sync": chance.random() < 0.3,
        "keep": chance.choice([None, None, None, "primary", "secondary"]),
    }
    text = f"fail {name} over to {target or 'any node'}"
    return wish.single(text, op, (instances.KIND, name), _relocated(name, target))


def leave_failed_node(name: str, target: str) -> wish.Wish:
    """Return the wish that fails an instance over although nothing is known of its node."""
    op = {
        "OP_ID": "OP_INSTANCE_FAILOVER",
        "instance_name": name,
        "target_node": target,
        "shutdown_timeout": 0,
        "ignore_consistency": True,
    }
    return wish.single(f"fail {name} over to {target}", op, (instances.KIND, name), _relocated(name, target))


def migrate(name: str, target: str) -> wish.Wish:
    """Return the wish that moves an instance to a node, while it runs if it does."""
    op = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": name, "target_node": target}
    return wish.single(f"migrate {name} to {target}", op, (instances.KIND, name), _relocated(name, target))


def _migrate(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    target = _target(chance, known, name)
    op = {
        "OP_ID": "OP_INSTANCE_MIGRATE",
        "instance_name": name,
        "target_node": target,
        "mode": chance.choice([None, "live", "non-live"]),
        "allow_failover": chance.random() < 0.5,
    }
    text = f"migrate {name} to {target or 'any node'}"
    return wish.single(text, op, (instances.KIND, name), _relocated(name, target))


def _move(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    """Copy an instance that has disks to another node."""
    target = _target(chance, known, name) or chance.choice(["node1", "node2"])
    op = {
        "OP_ID": "OP_INSTANCE_MOVE",
        "instance_name": name,
        "target_node": target,
        "shutdown_timeout": 0,
        "compress": chance.choice(["none", "gzip"]),
    }
    text = f"move {name} to {target}"
    return wish.single(text, op, (instances.KIND, name), _relocated(name, target))


def _cleanup(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    op_id = chance.choice(["OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER"])
    op = {"OP_ID": op_id, "instance_name": name, "cleanup": True}
    return wish.single(f"clean up after a move of {name}", op, (instances.KIND, name), _relocated(name, None))


def tempt(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return a wish that moves the copies of disks off a node, one that may have some by what is known."""
    mirrored = [
        (instances.KIND, name)
        for name in known.known(instances.KIND, there=True, free=False)
        if known.get((instances.KIND, name), "template") == MIRRORED
    ]
    if not mirrored:
        return None
    own = known.get(chance.choice(mirrored), "node")
    other_nodes = [name for name in known.known(nodes.KIND, there=True) if name != own]
    return _emptied(chance, known, chance.choice(other_nodes), "secondary-only") if other_nodes else None


def _empty(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    names = known.known(nodes.KIND, there=True)
    if not names:
        return None
    node = chance.choice(names)
    mode = chance.choice(["primary-only", "primary-only", "secondary-only", "all"])
    return _emptied(chance, known, node, mode)


def _emptied(chance: random.Random, known: facts.Facts, node: str, mode: str) -> wish.Wish:
    op = {"OP_ID": "OP_NODE_EVACUATE", "node_name": node, "mode": mode, "early_release": chance.random() < 0.3}
    text = f"evacuate {node} ({mode})"
    if chance.random() < 0.3:
        op, text = {"OP_ID": "OP_NODE_MIGRATE", "node_name": node}, f"migrate all instances off {node}"
        mode = "up"
    there = [
        name
        for name in known.known(instances.KIND, there=True, free=False)
        if known.get((instances.KIND, name), "node") == node
    ]
    keys = [(instances.KIND, name) for name in there]
    leaving = [key for key in keys if mode != "secondary-only" and (mode != "up" or known.get(key, "up"))]

    def judge(result: object) -> wish.Effects:
        stays = result.get("stay", {}) if isinstance(result, dict) else {}
        return {key: instances.anywhere() | {f"on {node}": False} for key in leaving if key[1] not in stays}

    return wish.Wish(text, [op], [(nodes.KIND, node), *keys], moves=True, judge=judge)
