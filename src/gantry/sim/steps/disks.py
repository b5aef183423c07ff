"""Wishes about the disks of instances: grown, replaced, recreated, converted, added, removed, detached and attached.

Known fields of an instance with disks: its ``template``, the number of ``disks``, and the ``size`` of the first in MiB.
"""

import random

from gantry.sim import facts
from gantry.sim.steps import instances, nodes, wish

GROW = (4, 32, 128)
MAX_DISKS = 3


def draw(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return a wish about an instance's disks; most are about instances that have some."""
    there = [name for name in known.known(instances.KIND, there=True) if name in instances.NAMES]
    with_disks = [name for name in there if known.get((instances.KIND, name), "disks")]
    if not there:
        return None
    name = chance.choice(with_disks if with_disks and chance.random() < 0.95 else there)
    kinds = [_grow, _grow, _add, _drop, _activate, _recreate, _convert]
    if known.get((instances.KIND, name), "template") in ("drbd", None):
        kinds += [_replace] * 4
    return chance.choice(kinds)(chance, known, name)


def _wish(name: str, op_id: str, text: str, effect: facts.Fields, **arguments: object) -> wish.Wish:
    op = {"OP_ID": op_id, "instance_name": name, **arguments}
    return wish.single(f"{text} {name}", op, (instances.KIND, name), effect)


def _grow(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    size, amount = known.get((instances.KIND, name), "size"), chance.choice(GROW)
    absolute = isinstance(size, int) and chance.random() < 0.4
    new = size + amount if isinstance(size, int) else None
    if absolute and chance.random() < 0.1:
        return _wish(name, "OP_INSTANCE_GROW_DISK", "shrink the disk of", {}, disk=0, amount=4, absolute=True)
    text = f"grow the disk by {amount} MiB of"
    arguments = {"disk": 0, "amount": new if absolute else amount, "absolute": absolute}
    wait = chance.random() < 0.7
    return _wish(name, "OP_INSTANCE_GROW_DISK", text, {"size": new}, **arguments, wait_for_sync=wait)


def _replace(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    modes = ["replace_on_primary", "replace_on_secondary", "replace_auto", *["replace_new_secondary"] * 3]
    mode = chance.choice(modes)
    arguments: dict[str, object] = {"mode": mode}
    if mode == "replace_new_secondary" and chance.random() < 0.3:
        arguments["remote_node"] = chance.choice(known.known(nodes.KIND, there=True, free=False) or ["node9"])
    early = chance.random() < 0.3
    effect = {"copied": None if early else True}
    text = f"{mode.replace('_', ' ')}{' with early release' if early else ''}: disks of"
    return _wish(name, "OP_INSTANCE_REPLACE_DISKS", text, effect, **arguments, early_release=early)


def _activate(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    if chance.random() < 0.5:
        return _wish(name, "OP_INSTANCE_DEACTIVATE_DISKS", "deactivate the disks of", {})
    wait = chance.random() < 0.5
    return _wish(name, "OP_INSTANCE_ACTIVATE_DISKS", "activate the disks of", {}, wait_for_sync=wait)


def _recreate(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    """Ask for lost disks again, which must be refused as long as they exist."""
    node = known.known(nodes.KIND, there=True, free=False)
    new = chance.sample(node, min(len(node), chance.choice([0, 1, 2])))
    return _wish(
        name,
        "OP_INSTANCE_RECREATE_DISKS",
        "recreate the disks of",
        instances.anywhere() | {"node": None, "content": None},
        nodes=new,
    )


def _convert(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    template = chance.choice(["plain", "drbd", "drbd", "file"])
    arguments: dict[str, object] = {"disk_template": template}
    if template == "drbd" and chance.random() < 0.7:
        arguments["remote_node"] = chance.choice(known.known(nodes.KIND, there=True, free=False) or ["node9"])
    text = f"convert to {template} the disks of"
    return _wish(
        name, "OP_INSTANCE_SET_PARAMS", text, {"template": template, "copied": template == "drbd" or None}, **arguments
    )


def _add(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    count = known.get((instances.KIND, name), "disks")
    if isinstance(count, int) and count >= MAX_DISKS:
        return _drop(chance, known, name)
    effect = {"disks": count + 1} if isinstance(count, int) else {}
    change = ["add", -1, {"size": chance.choice([8, 64]), "mode": chance.choice(["rw", "ro"])}]
    return _wish(name, "OP_INSTANCE_SET_PARAMS", "add a disk to", effect, disks=[change])


def _drop(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    count = known.get((instances.KIND, name), "disks")
    if not isinstance(count, int) or count < 2:
        mode = chance.choice(["ro", "rw"])
        change: list[object] = ["modify", 0, {"mode": mode, "name": f"{name}d{chance.randint(0, 3)}"}]
        return _wish(name, "OP_INSTANCE_SET_PARAMS", "change the disk of", {}, disks=[change])
    action = chance.choice(["remove", "detach"])
    return _wish(
        name, "OP_INSTANCE_SET_PARAMS", f"{action} a disk of", {"disks": count - 1}, disks=[[action, count - 1, {}]]
    )
