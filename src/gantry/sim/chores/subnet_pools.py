"""Subnets whose CIDRs are cut from a subnet pool in each way, until the pool or the project's quota is used up."""

import random

from gantry.sim import cluster, facts
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import networks, settings, wish

POOL = "cut"
UUID = "00000000-0000-4000-9000-000000000009"
KEY = (settings.POOL_KIND, POOL)
PREFIXES = ["10.80.0.0/25"]
MORE_PREFIXES = ["10.80.0.0/24"]
NAMES = ("cut1", "cut2")
CUTS = 12
INTERVAL_SECONDS = 2.0
"""Between two requests: invariants are checked after each step of the run, which takes up to 15 seconds."""


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    await stage.insist(_pool(stage.chance))
    for name in NAMES:
        op = {"OP_ID": "OP_NETWORK_ADD", "network_name": name, "mac_prefix": "aa:01:00"}
        known = {facts.THERE: True, "prefix": "aa:01:00"}
        await stage.insist(wish.single(f"add network {name}", op, (networks.KIND, name), known))
    for number in range(CUTS):
        # Many must be refused: the invariant is that no two subnets overlap (``invariants``).
        await stage.succeeds(_cut(stage.chance, stage.chance.choice(NAMES), number))
        await stage.sleep(INTERVAL_SECONDS)
        if number == CUTS // 2:
            await stage.succeeds(_change({"prefixes": MORE_PREFIXES}))
    await stage.succeeds(_change({"prefixes": PREFIXES}))
    await stage.succeeds(_change({"is_default": True, "name": POOL}))
    await stage.succeeds(_change({"default_quota": 300, "description": "text", "max_prefixlen": 29}))
    await stage.sleep(CUTS * INTERVAL_SECONDS)
    name = stage.chance.choice(NAMES)
    op = {"OP_ID": "OP_NETWORK_REMOVE", "network_name": name}
    await stage.insist(wish.single(f"remove network {name}", op, (networks.KIND, name), {facts.THERE: False}))


def _pool(chance: random.Random) -> wish.Wish:
    op: cluster.Opcode = {
        "OP_ID": "OP_SUBNET_POOL_ADD",
        "uuid": UUID,
        "name": POOL,
        "prefixes": PREFIXES,
        "min_prefixlen": 26,
        "max_prefixlen": 30,
        "default_prefixlen": 28,
        "default_quota": chance.choice([0, 0, 100]),
        "is_default": chance.random() < 0.7,
        "shared": True,
    }
    return wish.single(f"add subnet pool {POOL}", op, KEY, {facts.THERE: True, "length": 28})


def _change(changes: dict[str, object]) -> wish.Wish:
    op: cluster.Opcode = {"OP_ID": "OP_SUBNET_POOL_SET_PARAMS", "subnet_pool": UUID, **changes}
    return wish.single(f"subnet pool {POOL}: {changes}", op, KEY, {})


def _cut(chance: random.Random, name: str, number: int) -> wish.Wish:
    """Return the wish for a subnet from the pool, or for the end of one."""
    key = (networks.KIND, name)
    if number and chance.random() < 0.2:
        change: dict[str, object] = {"action": "remove", "ident": f"{name}s{chance.randrange(number)}"}
    else:
        host = 4 * chance.randint(0, 63)
        request: dict[str, object] = chance.choice(
            [
                {"subnetpool": UUID},
                {"subnetpool": UUID, "prefixlen": chance.choice([27, 28, 29, 31])},
                {"subnetpool": UUID, "cidr": f"10.80.0.{host // 16 * 16}/28"},
                {"subnetpool": POOL, "gateway": f"10.80.0.{host + 1}", "prefixlen": 29},
                {"default_subnetpool": 4, "ip_version": 4, "pool": True},
                {"subnetpool": UUID, "ip_version": chance.choice([4, 6]), "dhcp": True},
                {"default_subnetpool": chance.choice([4, 6])},
                {"subnetpool": UUID, "usual": True, "prefixlen": 28},
                {"cidr": f"10.81.0.{host // 16 * 16}/28", "usual": True, "gateway": f"10.81.0.{host // 16 * 16 + 2}"},
                {"cidr": f"2001:db8:81::{number:x}0/124", "usual": True},
                {"subnetpool": UUID, "cidr": "10.90.0.0/28"},
            ]
        )
        change = {"action": "add", "name": f"{name}s{number}", **request}
    op = {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": name, "subnets": [change]}
    return wish.single(f"network {name}: {change}", op, key, {})
