"""Wishes about node groups: few groups, so that nodes and instances move between them.

Known fields of a group: whether it exists, and its ``policy`` of allocation; of a node, its ``group``.
"""

import random

from gantry.sim import cluster, facts
from gantry.sim.steps import instances, networks, nodes, wish

KIND = "nodegroup"
NAMES = ("g1", "g2")
FIRST = networks.GROUP
SMALL = instances.MEMORY // 2
"""MiB: a group with this limit of memory takes no instance."""
POLICIES = ("preferred", "last_resort", "unallocable")


def draw(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return a wish about a group."""
    free = [name for name in NAMES if not known.thing((KIND, name)).claimed]
    if not free:
        return None
    name = chance.choice(free)
    if not known.get((KIND, name), facts.THERE) and chance.random() < 0.9:
        return _add(chance, name)
    kinds = [_assign, _assign, _assign, _assign, _policy, _rename, _remove, _connect, _connect, _verify]
    kinds += [_change_group, _change_group, _evacuate, *[_fail_over] * 6]
    return chance.choice(kinds)(chance, known, name)


def _limits(maximum: int) -> dict[str, object]:
    """Return an instance policy that allows that many MiB of memory at most."""
    return {"minmax": [{"max": {"memory-size": maximum}, "min": {"memory-size": 128}}]}


def _add(chance: random.Random, name: str, *, small: bool = False) -> wish.Wish:
    policy = chance.choice(POLICIES)
    op: cluster.Opcode = {"OP_ID": "OP_GROUP_ADD", "group_name": name, "alloc_policy": policy, "tags": ["new"]}
    if small or chance.random() < 0.6:
        op = {**op, "ipolicy": _limits(SMALL)}
    return wish.single(f"add group {name}", op, (KIND, name), {facts.THERE: True, "policy": policy})


def _remove(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    _forget(known, name)
    op = {"OP_ID": "OP_GROUP_REMOVE", "group_name": name}
    return wish.single(f"remove group {name}", op, (KIND, name), {facts.THERE: False})


def _forget(known: facts.Facts, *groups: str) -> None:
    """Forget which nodes and networks belong to groups that may get another name, or be removed."""
    for (kind, _), thing in known.things.items():
        fields = ["group"] if kind == nodes.KIND else [f"in {group}" for group in groups]
        for field in fields:
            thing.fields.pop(field, None)


def _rename(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    (new,) = [other for other in NAMES if other != name]
    _forget(known, name, new)
    op = {"OP_ID": "OP_GROUP_RENAME", "group_name": name, "new_name": new}
    effects = {(KIND, name): {facts.THERE: False}, (KIND, new): {facts.THERE: True}}
    return wish.Wish(f"rename group {name} to {new}", [op], [*effects], effects)


def _policy(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    policy = chance.choice(POLICIES)
    changes: dict[str, object] = {"alloc_policy": policy}
    if chance.random() < 0.5:
        changes["ipolicy"] = _limits(chance.choice([SMALL, 4096, 32768]))
    if chance.random() < 0.3:
        changes["diskparams"] = {"drbd": {"resync-rate": chance.choice([1000, 2000])}}
    op = {"OP_ID": "OP_GROUP_SET_PARAMS", "group_name": name, **changes}
    return wish.single(f"group {name}: {', '.join(changes)}", op, (KIND, name), {"policy": policy})


def _assign(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish | None:
    members = known.known(nodes.KIND, there=True)
    if not members:
        return None
    node = chance.choice(members)
    group = chance.choice([name, name, FIRST])
    return _assign_to(group, node, force=chance.random() < 0.3, near=name)


def _assign_to(group: str, node: str, *, force: bool, near: str = "") -> wish.Wish:
    op = {"OP_ID": "OP_GROUP_ASSIGN_NODES", "group_name": group, "nodes": [node], "force": force}
    key = (nodes.KIND, node)
    # A client that has a node assigned must know that nobody renames the group at the same time.
    return wish.Wish(f"assign {node} to group {group}", [op], [key, (KIND, near or group)], {key: {"group": group}})


def _connect(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish | None:
    there = [net for net in known.known(networks.KIND, there=True) if net in networks.NAMES]
    if not there:
        return None
    net = chance.choice(there)
    key, field = (networks.KIND, net), f"in {name}"
    text = "disconnect" if known.get(key, field) else "connect"
    op: cluster.Opcode = {"OP_ID": f"OP_NETWORK_{text.upper()}", "network_name": net, "group_name": name}
    if text == "connect":
        op = {**op, "network_mode": "routed", "network_link": "main"}
    effects = {key: {field: text == "connect"}}
    return wish.Wish(f"{text} network {net} and group {name}", [op], [key, (KIND, name)], effects)


def _verify(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    op_id = chance.choice(["OP_GROUP_VERIFY_DISKS", "OP_CLUSTER_VERIFY_DISKS"])
    group = chance.choice([FIRST, name])
    return wish.Wish(f"verify the disks of group {group}", [{"OP_ID": op_id, "group_name": group}])


def _change_group(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish | None:
    there = [vm for vm in known.known(instances.KIND, there=True) if vm in instances.NAMES]
    if not there:
        return None
    vm = chance.choice(there)
    op = {
        "OP_ID": "OP_INSTANCE_CHANGE_GROUP",
        "instance_name": vm,
        "target_groups": chance.choice([[], [name], [FIRST]]),
    }
    key = (instances.KIND, vm)
    return wish.Wish(
        f"move {vm} to another group", [op], [key], moves=True, judge=lambda _: {key: instances.anywhere()}
    )


def _fail_over(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish | None:
    """Move an instance to a node of the group; without disks and NICs it may, if the policy allows it."""
    members = [
        node
        for node in known.known(nodes.KIND, there=True, free=False)
        if known.get((nodes.KIND, node), "group") == name
    ]
    there = [vm for vm in known.known(instances.KIND, there=True) if vm in instances.NAMES]
    if chance.random() < 0.2:
        return _remove(chance, known, name)
    bare = [
        vm
        for vm in there
        if not known.get((instances.KIND, vm), "disks") and not known.get((instances.KIND, vm), "nics")
    ]
    if not there or not members:
        return None
    vm, node = chance.choice(bare or there), chance.choice(members)
    op = {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": vm, "target_node": node, "shutdown_timeout": 0}
    effect = instances.anywhere() | {"node": node, "copied": None}
    return wish.single(f"fail {vm} over to {node} in group {name}", op, (instances.KIND, vm), effect)


def _evacuate(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    group = chance.choice([name, FIRST])
    op = {"OP_ID": "OP_GROUP_EVACUATE", "group_name": group, "sequential": chance.random() < 0.5}
    return wish.Wish(f"evacuate group {group}", [op], [(KIND, name)], moves=True, judge=lambda _: {})


def tempt(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return the next step to what must be refused: a move that a policy forbids, or the end of a group with nodes."""
    name = NAMES[0]
    if known.thing((KIND, name)).claimed:
        return None
    if not known.get((KIND, name), facts.THERE):
        return _add(chance, name, small=True)
    groups = {node: known.get((nodes.KIND, node), "group") for node in known.known(nodes.KIND, there=True, free=False)}
    if not any(group == name for group in groups.values()):
        return _assign_to(name, chance.choice([*groups]), force=True) if groups else None
    bare = [
        vm
        for vm in known.known(instances.KIND, there=True)
        if known.get((instances.KIND, vm), "disks") == known.get((instances.KIND, vm), "nics") == 0
    ]
    other_nodes = [node for node, group in groups.items() if group == FIRST]
    free = [vm for vm in known.known(instances.KIND, there=False) if vm in instances.NAMES]
    if not bare and other_nodes and free:
        return instances.create_bare(chance.choice(free), node=chance.choice(other_nodes))
    return _fail_over(chance, known, name)
