"""Wishes about the cluster's own settings, and about objects that belong to the whole cluster: tags, subnet pools.

Known fields of the cluster: each setting that a client has changed, by its name, and its tags.
"""

import random
from collections.abc import Callable, Mapping

from gantry.sim import cluster, facts
from gantry.sim.hardware import copying
from gantry.sim.steps import wish

KIND = "cluster"
KEY = (KIND, "lab")
POOL_KIND = "subnetpool"
POOLS = {f"sp{number}": f"00000000-0000-4000-9000-{number:012}" for number in (1, 2)}
"""The subnet pools with the UUIDs that clients choose."""
PREFIXES = {"prefixes": ["10.64.0.0/16"]}

VALUES: Mapping[str, tuple[object, ...]] = {
    "max_running_jobs": (5, 20),
    "mac_prefix": ("aa:bb:00", "aa:bb:01"),
    "network_thresholds": ([50, 90], [80, 95], "default"),
    "ipam_hold_time": (0, 30),
    "default_disk_size": (64, "128m"),
    "prealloc_wipe_disks": (True, False),
    "candidate_pool_size": (2, 3, 10),
    "segment_ranges": (True, True, False),
    "segment_fallback": (True, False, "default"),
    "stray_guests": ("stop", "report"),
    "enabled_disk_templates": (["file", "diskless"], ["file", "plain", "drbd", "diskless"], ["default"]),
    "master_netdev": ("eth0", "br0"),
}
"""Settings with values that clients try."""

NESTED: Mapping[str, tuple[object, ...]] = {
    "beparams": ({"vcpus": 1}, {"vcpus": 2}, {"maxmem": 1024, "minmem": 4096}),
    "nicparams": ({"mode": "routed", "link": "main"}, {"mode": "bridged", "link": "br0"}),
    "ndparams": ({"oob_program": ""}, {"unknown": 1}),
    "hvparams": ({"fake": {"migration_mode": "live"}}, {"fake": {"nonsense": "1"}}),
    "diskparams": ({"drbd": {"resync-rate": 1000}}, {"drbd": {"resync-rate": "default"}}, {"plain": {"stripes": 1}}),
    "osparams": ({copying.OS_NAME: {"flavour": "small"}}, {"unknown": {"flavour": "x"}}),
    "os_hvp": ({copying.OS_NAME: {"fake": {}}},),
    "hidden_os": ([["add", copying.OS_NAME]], [["remove", copying.OS_NAME]]),
    "ipolicy": (
        {"vcpu-ratio": 8.0},
        {"minmax": [{"min": {"memory-size": 128}, "max": {"memory-size": 4096}}]},
        {"disk-templates": ["file", "diskless", "plain", "drbd"]},
    ),
    "default_iallocator_params": ({"trace": "yes"},),
}
"""Settings with parts, of which a client only knows whether they were accepted."""


def draw(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return a wish about the cluster."""
    kinds: list[Callable[[random.Random, facts.Facts], wish.Wish]] = [
        _set,
        _set,
        _set,
        _nested,
        _nested,
        _tag,
        _pool,
        _pool,
    ]
    if chance.random() < 0.04:
        return wish.Wish("renew certificates", [{"OP_ID": "OP_CLUSTER_RENEW_CRYPTO"}])
    if chance.random() < 0.04:
        return wish.Wish("look for stray guests", [{"OP_ID": "OP_CLUSTER_REPAIR_STRAY_GUESTS"}])
    return chance.choice(kinds)(chance, known)


def _modify(changes: Mapping[str, object], fields: facts.Fields) -> wish.Wish:
    op: cluster.Opcode = {"OP_ID": "OP_CLUSTER_SET_PARAMS", **changes}
    return wish.single(f"the cluster's {', '.join(changes)}: {[*changes.values()]}", op, KEY, fields)


def _set(chance: random.Random, known: facts.Facts) -> wish.Wish:
    name = chance.choice(list(VALUES))
    value = chance.choice(VALUES[name])
    plain = value != "default" and not isinstance(value, list | str)
    return _modify({name: value}, {name: value if plain else None})


def hold(seconds: int) -> wish.Wish:
    """Return a wish to set the hold time of released addresses."""
    return _modify({"ipam_hold_time": seconds}, {"ipam_hold_time": seconds})


def _nested(chance: random.Random, known: facts.Facts) -> wish.Wish:
    name = chance.choice(list(NESTED))
    return _modify({name: chance.choice(NESTED[name])}, {})


def tag_cluster(tag: str) -> wish.Wish:
    """Return the wish that adds a tag to the cluster."""
    op = {"OP_ID": "OP_TAGS_SET", "kind": KIND, "tags": [tag]}
    return wish.single(f"tag the cluster {tag}", op, KEY, {f"tag {tag}": True})


def _tag(chance: random.Random, known: facts.Facts) -> wish.Wish:
    tag = f"c{chance.randint(0, 4)}"
    if chance.random() < 0.2:
        return wish.Wish("search tags", [{"OP_ID": "OP_TAGS_SEARCH", "pattern": "^[ct]"}])
    there = known.get(KEY, f"tag {tag}")
    op = {"OP_ID": "OP_TAGS_DEL" if there else "OP_TAGS_SET", "kind": KIND, "tags": [tag]}
    return wish.single(f"{'un' if there else ''}tag the cluster {tag}", op, KEY, {f"tag {tag}": not there})


def _pool(chance: random.Random, known: facts.Facts) -> wish.Wish:
    name = chance.choice(list(POOLS))
    key = (POOL_KIND, name)
    there = known.get(key, facts.THERE)
    if not there and chance.random() < 0.9:
        op: cluster.Opcode = {"OP_ID": "OP_SUBNET_POOL_ADD", "uuid": POOLS[name], "name": name, **PREFIXES}
        return wish.single(f"add subnet pool {name}", op, key, {facts.THERE: True})
    if chance.random() < 0.4:
        op = {"OP_ID": "OP_SUBNET_POOL_REMOVE", "subnet_pool": POOLS[name]}
        return wish.single(f"remove subnet pool {name}", op, key, {facts.THERE: False})
    length = chance.choice([24, 26])
    op = {"OP_ID": "OP_SUBNET_POOL_SET_PARAMS", "subnet_pool": POOLS[name], "default_prefixlen": length}
    return wish.single(f"subnet pool {name}: length {length}", op, key, {"length": length})
