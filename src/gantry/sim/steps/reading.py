"""What clients read: tables of all kinds with some fields, filters of several forms, and the volumes of nodes.

A reader relies on nothing; what it reads must be readable (``client.Clients.read``).
"""

import random

from gantry.sim import facts
from gantry.sim.steps import nodes, wish

FIELDS = {
    "instance": [
        "name",
        "pnode",
        "snodes",
        "status",
        "oper_state",
        "admin_state",
        "nic.ips",
        "disk.sizes",
        "tags",
        "be/maxmem",
        "hv/acpi",
        "nic.macs",
        "nic.networks",
        "oper_ram",
        "console",
        "nic.bridges",
        "hvparams",
    ],
    "node": ["name", "role", "mfree", "dfree", "group", "pinst_list", "sinst_cnt", "offline", "uuid"],
    "group": ["name", "node_list", "pinst_cnt", "alloc_policy"],
    "network": ["name", "free_count", "reserved_count", "group_list", "inst_list", "map", "subnets", "pools"],
    "job": ["id", "status", "summary"],
    "cluster": ["cluster_name", "master_node", "enabled_hypervisors"],
    "segmentrange": ["uuid", "minimum", "used_count", "available_count", "available", "used", "available_ranges"],
    "port": ["uuid", "network", "mac", "fixed", "instance"],
    "subnet": ["uuid", "cidr", "network", "gateway"],
    "subnetpool": ["uuid", "name", "prefixes"],
    "export": ["node", "export"],
}
FILTERS: list[object] = [
    None,
    None,
    ["|", ["=", "name", "vm1"], ["=", "name", "net1"]],
    ["=~", "name", "^[a-z]+[12]$"],
    ["!", ["=", "name", "node1"]],
    ["&", ["!=", "name", "x"], ["?", "name"]],
    ["=", "name"],
    ["=[]", "tags", "t1"],
    ["<", "uuid", 5],
    ["=", "uuid", "00000000-0000-4000-8800-000000000001"],
    ["=", "network", "net1"],
    ["|", ["=", "network_uuid", "x"], ["=", "mac", "aa:00:00:00:00:01"]],
    ["=", "device_id", "x"],
    ["=", "subnets", "10.1.0.0/28"],
]


def question(chance: random.Random) -> tuple[str, list[object]]:
    """Return a method of LUXI that reads, and its arguments."""
    kind = chance.choice(list(FIELDS))
    fields = chance.sample(FIELDS[kind], min(4, len(FIELDS[kind]))) + chance.choice([[], [], ["nonsense"]])
    if chance.random() < 0.15:
        return "QueryFields", [kind, None]
    return "Query", [kind, fields, chance.choice(FILTERS)]


def draw(chance: random.Random, known: facts.Facts) -> wish.Wish:
    """Return a job that only reads, of the storage of nodes or their operating systems."""
    names = known.known(nodes.KIND, there=True, free=False)
    some = chance.sample(names, min(len(names), chance.choice([0, 1])))
    unit = chance.choice(["file", "lvm-vg", "lvm-pv"])
    ops: list[dict[str, object]] = [
        {"OP_ID": "OP_NODE_QUERYVOLS", "nodes": some, "output_fields": ["node", "vg", "name", "size", "instance"]},
        {"OP_ID": "OP_NODE_QUERY_STORAGE", "nodes": some, "storage_type": unit, "output_fields": ["node", "free"]},
        {"OP_ID": "OP_OS_DIAGNOSE", "output_fields": ["name", "valid", "variants", "node_status"]},
        {"OP_ID": "OP_CLUSTER_REPAIR_STORAGE"},
    ]
    if some:
        change = {"changes": {"allocatable": True}, "name": "/dev/sdb"}
        ops.append({"OP_ID": "OP_NODE_MODIFY_STORAGE", "node_name": some[0], **change})
        ops.append({"OP_ID": "OP_REPAIR_NODE_STORAGE", "node_name": some[0], "name": "xenvg"})
    op = chance.choice(ops)
    return wish.Wish(f"look at {op['OP_ID']}", [op])
