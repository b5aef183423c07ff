"""Wishes about networks: small networks, so that pools run full and ranges collide.

Known fields of a network: whether it exists, ``connected``, its MAC prefix, each ``subnet``, ``pool`` and ``reserved``
range by name, and each ``port`` in it by its UUID, which the client chooses.
"""

import random

from gantry.sim import cluster, facts
from gantry.sim.steps import wish

KIND = "network"
NAMES = ("net1", "net2", "net3")
SUBNETS = ("10.{}.0.0/28", "10.{}.1.0/27", "2001:db8:{}::/64")
POOLS = {
    "10.{}.0.0/28": ("10.{}.0.2-10.{}.0.5", "10.{}.0.6-10.{}.0.9"),
    "10.{}.1.0/27": ("10.{}.1.0/28",),
    "2001:db8:{}::/64": ("2001:db8:{}::10-2001:db8:{}::14",),
}
GROUP = "default"
PORTS = 3
"""Number of UUIDs for the ports of a network: few, so that some are requested twice."""


def _of(name: str, text: str) -> str:
    return text.replace("{}", name.removeprefix("net"))


def pools(known: facts.Facts, name: str) -> list[str]:
    """Return the names of the pools that a network is known to have."""
    fields = known.thing((KIND, name)).fields
    return sorted(field.removeprefix("pool ") for field, there in fields.items() if field.startswith("pool ") and there)


def draw(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return a wish about a network."""
    free = [name for name in NAMES if not known.thing((KIND, name)).claimed]
    if not free:
        return None
    name = chance.choice(free)
    if not known.get((KIND, name), facts.THERE):
        return _add(chance, name)
    if not known.get((KIND, name), "connected") and chance.random() < 0.8:
        return _connect(name, known)
    kinds = [_subnet, _subnet, _pool, _pool, _reserve, _reserve, _port, _port, _prefix]
    kinds += [_disconnect, _remove, _nonsense, _detail, _detail, _from_pool, _change_port]
    return chance.choice(kinds)(chance, known, name)


def _add(chance: random.Random, name: str, *, count: int | None = None) -> wish.Wish:
    subnets = chance.sample(SUBNETS, chance.randint(0, 3) if count is None else count)
    ranges = [(text, f"p{index}") for index, text in enumerate(text for cidr in subnets for text in POOLS[cidr])]
    op: cluster.Opcode = {
        "OP_ID": "OP_NETWORK_ADD",
        "network_name": name,
        "subnets": [{"cidr": _of(name, cidr)} for cidr in subnets],
        "pools": [{"range": _of(name, text), "name": f"{name}{pool}"} for text, pool in ranges],
    }
    fields: dict[str, object] = {facts.THERE: True, "connected": False}
    fields |= {f"subnet {_of(name, cidr)}": True for cidr in subnets}
    fields |= {f"pool {name}{pool}": True for _, pool in ranges}
    return wish.single(f"add network {name} with {len(subnets)} subnets", op, (KIND, name), fields)


def _connect(name: str, known: facts.Facts) -> wish.Wish:
    op = {
        "OP_ID": "OP_NETWORK_CONNECT",
        "network_name": name,
        "group_name": GROUP,
        "network_mode": "routed",
        "network_link": "main",
    }
    return wish.single(f"connect network {name}", op, (KIND, name), {"connected": True})


def _disconnect(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    op = {"OP_ID": "OP_NETWORK_DISCONNECT", "network_name": name, "group_name": GROUP}
    return wish.single(f"disconnect network {name}", op, (KIND, name), {"connected": False})


def _remove(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    op = {"OP_ID": "OP_NETWORK_REMOVE", "network_name": name}
    return wish.single(f"remove network {name}", op, (KIND, name), {facts.THERE: False})


def _change(name: str, text: str, fields: facts.Fields, **arguments: object) -> wish.Wish:
    op = {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": name, **arguments}
    return wish.single(f"network {name}: {text}", op, (KIND, name), fields)


def _subnet(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    cidr = _of(name, chance.choice(SUBNETS))
    if known.get((KIND, name), f"subnet {cidr}"):
        # A subnet's pools and reservations are removed with it.
        parts = [field for field in known.thing((KIND, name)).fields if field.startswith(("pool ", "reserved "))]
        fields = {f"subnet {cidr}": False} | dict.fromkeys(parts)
        return _change(name, f"remove subnet {cidr}", fields, subnets=[{"action": "remove", "ident": cidr}])
    return _change(name, f"add subnet {cidr}", {f"subnet {cidr}": True}, subnets=[{"action": "add", "cidr": cidr}])


def _pool(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    there = pools(known, name)
    if there and chance.random() < 0.5:
        pool = chance.choice(there)
        return _change(
            name, f"remove pool {pool}", {f"pool {pool}": False}, pools=[{"action": "remove", "ident": pool}]
        )
    run = _of(name, chance.choice([text for texts in POOLS.values() for text in texts]))
    pool = f"{name}q{chance.randint(0, 9)}"
    change = {"action": "add", "range": run, "name": pool}
    return _change(name, f"add pool {pool} {run}", {f"pool {pool}": True}, pools=[change])


def _reserve(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    address = _of(name, f"10.{{}}.0.{chance.randint(1, 14)}")
    if known.get((KIND, name), f"reserved {address}"):
        return _change(name, f"release {address}", {f"reserved {address}": False}, remove_reserved_ips=[address])
    return _change(name, f"reserve {address}", {f"reserved {address}": True}, add_reserved_ips=[address])


def draw_port(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return a wish about a port, which the Neutron API can remove; about a network if there is none."""
    free = [name for name in NAMES if not known.thing((KIND, name)).claimed]
    there = [name for name in free if known.get((KIND, name), facts.THERE)]
    if there:
        return _port(chance, known, chance.choice(there))
    return _add(chance, chance.choice(free)) if free else None


def draw_address(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return a wish for a port with any address of a pool, or for the end of such a port; a network first of all."""
    free = [name for name in NAMES if not known.thing((KIND, name)).claimed]
    there = [name for name in free if pools(known, name)]
    if there:
        return _port(chance, known, chance.choice(there), any_address=True)
    new = [name for name in free if not known.get((KIND, name), facts.THERE)]
    return _add(chance, new[0], count=len(SUBNETS)) if new else None


def _port(chance: random.Random, known: facts.Facts, name: str, *, any_address: bool = False) -> wish.Wish:
    uuid = f"{name.removeprefix('net'):0>8}-0000-4000-8000-{chance.randrange(PORTS):012}"
    if known.get((KIND, name), f"port {uuid}"):
        op: cluster.Opcode = {"OP_ID": "OP_PORT_REMOVE", "port": uuid}
        return wish.single(f"network {name}: remove port {uuid}", op, (KIND, name), {f"port {uuid}": False})
    fixed_ips: object = None
    if not any_address:
        fixed_ips = chance.choice([None, None, [], [{"ip": _of(name, f"10.{{}}.0.{chance.randint(1, 14)}")}]])
    op = {"OP_ID": "OP_PORT_ADD", "ports": [{"network": name, "uuid": uuid, "fixed": fixed_ips}]}
    return wish.single(f"network {name}: add port {uuid}", op, (KIND, name), {f"port {uuid}": True})


def _prefix(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    prefix = f"aa:00:{chance.randint(1, 9):02x}"
    return _change(name, f"MAC prefix {prefix}", {"prefix": prefix}, mac_prefix=prefix)


def _detail(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    """Change a property of a subnet, a pool or the network that no other wish relies on."""
    cidr = _of(name, chance.choice(SUBNETS))
    gateway = _of(name, "2001:db8:{}::1" if ":" in cidr else f"10.{{}}.{1 if '.1.' in cidr else 0}.1")
    change: dict[str, object] = chance.choice(
        [
            {"name": f"s{chance.randint(0, 3)}"},
            {"gateway": gateway},
            {"gateway": "none"},
            {"dhcp": True, "description": "text"},
            {"dns_nameservers": ["192.0.2.53"], "host_routes": [{"destination": "0.0.0.0/0", "nexthop": gateway}]},
            {"label": "a label"},
            {"tags": ["blue"]},
            {"cidr": cidr},
        ]
    )
    arguments: dict[str, object] = chance.choice(
        [
            {"subnets": [{"action": "modify", "ident": cidr, **change}]},
            {"subnets": [{"action": "modify", "ident": cidr, **change}]},
            {"label": "a network", "description": "text", "admin_state_up": False},
            {"pools": [{"action": "modify", "ident": f"{name}p0", "name": f"{name}p0"}]},
            {"shared": True, "tags": ["red"]},
        ]
    )
    return _change(name, f"change {arguments}", {}, **arguments)


def _from_pool(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    """Add a subnet whose CIDR is allocated from a subnet pool, or remove it."""
    pool = f"00000000-0000-4000-9000-{chance.randint(1, 2):012}"
    subnet = {"action": "add", "subnetpool": pool, "prefixlen": 28, "usual": True, "name": f"{name}pooled"}
    if chance.random() < 0.4:
        subnet = {"action": "remove", "ident": f"{name}pooled"}
    return _change(name, f"{subnet['action']} a subnet of pool {pool[-1]}", {}, subnets=[subnet])


def _change_port(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    uuid = f"{name.removeprefix('net'):0>8}-0000-4000-8000-{chance.randrange(PORTS):012}"
    change: dict[str, object] = chance.choice(
        [
            {"name": "a port", "device_id": "vm9"},
            {"fixed": [{"ip": _of(name, f"10.{{}}.0.{chance.randint(1, 14)}")}]},
            {"fixed": []},
            {"mac": f"aa:00:00:00:00:{chance.randint(1, 9):02x}"},
        ]
    )
    op: cluster.Opcode = {"OP_ID": "OP_PORT_SET_PARAMS", "port": uuid, **change}
    return wish.single(f"network {name}: change port {uuid}: {[*change]}", op, (KIND, name), {})


def _nonsense(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    bad = chance.choice(["300.1.0.0/16", "10.9.0.1/24", "2001:db8::/200", ""])
    return _change(name, f"add the bad subnet {bad!r}", {"bad": True}, subnets=[{"action": "add", "cidr": bad}])
