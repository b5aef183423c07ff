"""Wishes about instances: few names, so that instances come and go; NICs in networks with few addresses.

Known fields of an instance: whether it exists, ``up``, its ``node``, the number of ``nics`` and ``disks``, its
``template``, the ``size`` and the ``content`` of its first disk, whether both copies of its disks were ``copied``, its
tags, and the nodes that it has left.
"""

import random

from gantry.sim import cluster, facts
from gantry.sim.hardware import copying
from gantry.sim.steps import networks, wish

KIND = "instance"
NAMES = tuple(f"vm{number}" for number in range(1, 8))
MEMORY = 2048
MOST_NODES = 5


def anywhere() -> dict[str, object]:
    """Return the fields of an instance that has moved: nothing is known of the nodes that it left before."""
    return {f"on node{number}": None for number in range(1, MOST_NODES + 1)}


def draw(chance: random.Random, known: facts.Facts, *, storage: bool = False) -> wish.Wish | None:
    """Return a wish about an instance; with ``storage`` new instances have all kinds of disks."""
    free = [name for name in NAMES if not known.thing((KIND, name)).claimed]
    if not free:
        return None
    name = chance.choice(free)
    there = known.get((KIND, name), facts.THERE)
    if not there and (there is False or chance.random() < 0.5) and chance.random() < 0.95:
        return _create(chance, known, name, storage=storage)
    if there and chance.random() < (0.3 if storage else 0.1):
        return chance.choice([_rename, _reinstall, _describe, _console, _parameters])(chance, known, name)
    kinds = [_remove, _remove, _start, _stop, _stop, _reboot, _nic, _nic, _nic, _create, _tag]
    return chance.choice(kinds)(chance, known, name)


def _create(chance: random.Random, known: facts.Facts, name: str, *, storage: bool = False) -> wish.Wish:
    nics = [_nic_spec(chance, known) for _ in range(chance.choice([0, 1, 1, 2]))]
    start = chance.random() < 0.8
    disks = [{"size": 64}] if chance.random() < (0.85 if storage else 0.4) else []
    template = chance.choice(["file", "plain", "drbd", "drbd", "drbd"]) if storage else "file"
    op: dict[str, object] = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "disk_template": template if disks else "diskless",
        "disks": disks,
        "no_install": True,
        "nics": nics,
        "start": start,
        "beparams": {"maxmem": MEMORY, "minmem": MEMORY},
    }
    nodes = known.known("node", there=True, free=False)
    if nodes and chance.random() < 0.8:
        op["pnode"] = chance.choice(nodes)
        if disks and template == "drbd" and chance.random() < 0.95:
            op["snode"] = chance.choice(nodes)
    content = None
    if storage and chance.random() < 0.6:
        op |= {"no_install": False, "os_type": copying.OS_NAME}
        content = name if disks else None
    where = f" on {op['pnode']}" if "pnode" in op else ""
    text = f"create {name}{where}{'' if start else ', not started'}, NICs {[nic.get('ip') for nic in nics]}"
    fields: dict[str, object] = {facts.THERE: True, "up": start, "nics": len(nics), "disks": len(disks)}
    fields |= {"template": op["disk_template"], "size": 64 if disks else None, "content": content}
    fields["copied"] = template == "drbd" or None
    if "pnode" in op:
        fields["node"] = str(op["pnode"])
    return wish.single(text, op, (KIND, name), fields)


def create_bare(name: str, *, node: str) -> wish.Wish:
    """Return the wish for an instance that any node can take: without disks and NICs."""
    op = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "disk_template": "diskless",
        "no_install": True,
        "nics": [],
        "disks": [],
        "start": False,
        "pnode": node,
        "beparams": {"maxmem": MEMORY, "minmem": MEMORY},
    }
    fields = {facts.THERE: True, "up": False, "node": node, "nics": 0, "disks": 0, "template": "diskless"}
    return wish.single(f"create {name} on {node}, without disks and NICs", op, (KIND, name), fields)


def start(name: str) -> wish.Wish:
    """Return the wish that starts an instance."""
    return _simple(name, "OP_INSTANCE_STARTUP", "start", {"up": True})


def _nic_spec(chance: random.Random, known: facts.Facts) -> dict[str, object]:
    there = [name for name in networks.NAMES if known.get((networks.KIND, name), "connected")]
    if not there or chance.random() < 0.1:
        return {"mode": "routed", "link": "main"}
    name = chance.choice(there)
    return {"network": name, "ip": _address(chance, known, name)}


def _address(chance: random.Random, known: facts.Facts, name: str) -> list[str] | str:
    pools = networks.pools(known, name)
    if not pools or chance.random() < 0.2:
        return f"10.{name.removeprefix('net')}.0.{chance.randint(1, 9)}"
    return chance.sample(pools, min(len(pools), chance.choice([1, 1, 2])))


def _simple(name: str, op_id: str, text: str, effect: facts.Fields, **arguments: object) -> wish.Wish:
    op: cluster.Opcode = {"OP_ID": op_id, "instance_name": name, **arguments}
    return wish.single(f"{text} {name}", op, (KIND, name), effect)


def _remove(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    return _simple(name, "OP_INSTANCE_REMOVE", "remove", {facts.THERE: False}, shutdown_timeout=0)


def _start(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    return start(name)


def _stop(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    return _simple(name, "OP_INSTANCE_SHUTDOWN", "stop", {"up": False}, timeout=0)


def _reboot(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    kind = chance.choice(["soft", "hard", "full"])
    arguments = {"reboot_type": kind, "shutdown_timeout": 0}
    return _simple(name, "OP_INSTANCE_REBOOT", f"reboot ({kind})", {"up": True}, **arguments)


def _nic(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    count = known.get((KIND, name), "nics")
    if not isinstance(count, int) or chance.random() < 0.3:
        effect = {"nics": count + 1} if isinstance(count, int) else {}
        change: list[object] = ["add", -1, _nic_spec(chance, known)]
    elif count == 0 or chance.random() < 0.3:
        effect, change = {"nics": count - 1}, ["remove", -1, {}]
    else:
        effect, change = {"nics": count}, ["modify", chance.randrange(count), _nic_spec(chance, known)]
    hotplug = chance.random() < 0.8
    text = f"change NICs ({change[0]}{'' if hotplug else ', not while it runs'}) of"
    return _simple(name, "OP_INSTANCE_SET_PARAMS", text, effect, nics=[change], hotplug=hotplug)


def _rename(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    new = chance.choice(NAMES)
    op = {"OP_ID": "OP_INSTANCE_RENAME", "instance_name": name, "new_name": new}
    effects = {(KIND, name): {facts.THERE: False}, (KIND, new): {facts.THERE: True}}
    if new == name:
        return wish.single(f"rename {name} to itself", op, (KIND, name), {})
    return wish.Wish(f"rename {name} to {new}", [op], [*effects], effects)


def _reinstall(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    system = chance.choice([copying.OS_NAME, copying.OS_NAME, "unknown"])
    effect = {"content": name}
    return _simple(name, "OP_INSTANCE_REINSTALL", f"install {system} on", effect, os_type=system)


def _describe(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    names: list[str] = chance.choice([[], [name]])
    op = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": names, "static": chance.random() < 0.3}
    return wish.Wish(f"describe {', '.join(names) or 'all instances'}", [op])


def _console(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    return wish.Wish(f"console of {name}", [{"OP_ID": "OP_INSTANCE_CONSOLE", "instance_name": name}])


def _parameters(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    """Change parameters of an instance, its memory, or whether it is marked offline."""
    changes: dict[str, object] = chance.choice(
        [
            {"beparams": {"maxmem": 3072, "minmem": 1024}},
            {"beparams": {"vcpus": 2}},
            {"runtime_mem": 2048},
            {"hvparams": {"nonsense": "1"}},
            {"osparams": {"flavour": "small"}},
            {"offline": True},
            {"offline": False},
            {"disks": [["modify", 0, {"mode": "ro"}]]},
        ]
    )
    # An instance that is marked offline is not up, and is not offline afterwards: it is down.
    effect = {"up": None} if "offline" in changes else {}
    return _simple(name, "OP_INSTANCE_SET_PARAMS", f"change {[*changes]} of", effect, **changes)


def _tag(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    tag = f"t{chance.randint(0, 5)}"
    there = known.get((KIND, name), f"tag {tag}")
    op = {"OP_ID": "OP_TAGS_DEL" if there else "OP_TAGS_SET", "kind": KIND, "name": name, "tags": [tag]}
    return wish.single(f"{'un' if there else ''}tag {name} {tag}", op, (KIND, name), {f"tag {tag}": not there})
