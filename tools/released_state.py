"""Keeps what a version writes, so that each later one can be tested to read it.

    python -m tools.released_state tests/released        writes VERSION.json.xz

A simulated cluster of three nodes gets objects of each kind, jobs in each state and a change of master, and loses its
power. The file has the disks of its machines, with keys that protect nothing, and the answers that clients got before.
``tests/released`` starts the present version on each of these files. ``make release`` writes that of the released one.
"""

import argparse
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

import gantry
from gantry.model import token_text
from gantry.sim import cluster
from gantry.sim.hardware import copying, volumes

SEED = 1
NODES = 3
SETTLE_SECONDS = 60.0
SUFFIX = ".json.xz"
MASTER = "node2"
"""The master at the end, after a change."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "access": ("who", "role", "on", "uuid", "ctime"),
    "group": ("name", "alloc_policy", "custom_ndparams", "custom_ipolicy", "node_list", "pinst_list", "uuid", "tags"),
    "instance": (
        *("name", "uuid", "serial_no", "ctime", "mtime", "tags", "admin_state", "hypervisor", "os", "pnode", "snodes"),
        *("disk_template", "disk.sizes", "disk.names", "disk.uuids", "custom_beparams", "custom_osparams"),
        *("custom_hvparams", "nic.macs", "nic.ips", "nic.names", "nic.uuids", "nic.modes", "nic.links", "nic.networks"),
        "project",
    ),
    "job": ("id", "status", "priority", "summary", "opstatus", "user", "received_ts", "end_ts"),
    "network": (
        *("name", "uuid", "serial_no", "ctime", "mtime", "tags", "subnets", "pools", "mac_prefix", "used_count"),
        *("quarantined_count", "external_reservations", "address_list", "network_type", "physical_network", "segment"),
        *("project", "shared", "label", "description", "admin_state_up", "group_list"),
    ),
    "node": ("name", "uuid", "pip", "sip", "group", "master", "master_candidate", "drained", "vm_capable", "tags"),
    "port": ("name", "uuid", "network", "mac", "fixed", "device_id", "device_owner", "instance", "project", "tags"),
    "segmentrange": ("name", "default", "shared", "project", "network_type", "minimum", "maximum", "used", "tags"),
    "subnet": ("name", "uuid", "network", "cidr", "gateway", "dhcp", "dns_nameservers", "host_routes", "subnetpool"),
    "subnetpool": ("name", "uuid", "prefixes", "default_prefixlen", "min_prefixlen", "shared", "default_quota"),
    "token": ("name", "user", "label", "allows", "end", "id", "uuid", "ctime"),
    "webhook": ("name", "uuid", "origin", "events", "enabled", "failure", "position", "ctime"),
}
"""The fields of each resource that a restart, or time, does not change."""

TOKEN = token_text.make("reader", number=bytes(token_text.ID_BYTES), secret=bytes(token_text.SECRET_BYTES))
PORT = "00000000-0000-4000-8000-000000000001"
NETWORK: cluster.Opcode = {
    "OP_ID": "OP_NETWORK_ADD",
    "network_name": "prod",
    "subnets": [
        {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "dns_nameservers": ["192.0.2.2"]},
        {"cidr": "2001:db8::/64"},
    ],
    "pools": [{"range": "192.0.2.10-192.0.2.19", "name": "web"}, {"range": "2001:db8::100-2001:db8::1ff"}],
    "add_reserved_ips": ["192.0.2.12"],
    "mac_prefix": "aa:01:00",
    "project": "shop",
    "label": "Production",
    "tags": ["blue"],
}


def _instance(name: str, node: str, **more: object) -> cluster.Opcode:
    return {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "pnode": node,
        "disk_template": "diskless",
        "disks": [],
        "no_install": True,
        "nics": [],
        "start": False,
        **more,
    }


OPS: tuple[cluster.Opcode, ...] = (
    {
        "OP_ID": "OP_CLUSTER_SET_PARAMS",
        "segment_ranges": True,
        "ipam_hold_time": 1e6,
        "beparams": {"maxmem": 256, "minmem": 256},
    },
    {"OP_ID": "OP_GROUP_ADD", "group_name": "spare", "alloc_policy": "last_resort", "tags": ["rack2"]},
    NETWORK,
    {"OP_ID": "OP_NETWORK_ADD", "network_name": "tunnel", "network_type": "gre", "project": "shop"},
    {"OP_ID": "OP_SUBNET_POOL_ADD", "name": "blocks", "prefixes": ["10.0.0.0/16"], "default_prefixlen": 24},
    {
        "OP_ID": "OP_NETWORK_ADD",
        "network_name": "cut",
        "subnets": [{"subnetpool": "blocks", "prefixlen": 26}],
    },
    {
        "OP_ID": "OP_NETWORK_CONNECT",
        "network_name": "prod",
        "group_name": "default",
        "network_mode": "routed",
        "network_link": "main",
    },
    {
        "OP_ID": "OP_SEGMENT_RANGE_ADD",
        "ranges": [
            {
                "name": "mine",
                "shared": False,
                "project": "shop",
                "network_type": "vxlan",
                "minimum": 100,
                "maximum": 199,
            }
        ],
    },
    {
        "OP_ID": "OP_PORT_ADD",
        "ports": [
            {"network": "prod", "uuid": PORT, "name": "door", "fixed": [{"ip": "192.0.2.15"}], "project": "shop"},
            {"network": "prod", "name": "router", "fixed": [{"ip": "192.0.2.16"}], "tags": ["virtual"]},
        ],
    },
    _instance(
        "web",
        "node1",
        os_type=copying.OS_NAME,
        no_install=False,
        disk_template="file",
        disks=[{"size": 64, "name": "root"}],
        nics=[{"network": "prod", "ip": "pool"}],
        start=True,
        tags=["tier:front"],
    ),
    _instance("db", "node2", disk_template="plain", disks=[{"size": 64}, {"size": 64, "name": "data"}]),
    _instance("pair", "node1", disk_template="drbd", disks=[{"size": 64}], snode="node3"),
    _instance("by-port", "node3", nics=[{"port": PORT}]),
    _instance("gone", "node3", nics=[{"network": "prod", "ip": "pool"}]),
    {"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "gone", "shutdown_timeout": 0},
    {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "db", "disks": [["detach", 1, {}]]},
    {"OP_ID": "OP_ACCESS_ADD", "who": "user:reader", "role": "viewer", "on": "project:shop"},
    {
        "OP_ID": "OP_TOKEN_ADD",
        "user": "reader",
        "name": "monitoring",
        "id": token_text.identifier(TOKEN),
        "secret_hash": token_text.secret_hash(TOKEN),
        "until": "never",
    },
    {"OP_ID": "OP_WEBHOOK_ADD", "name": "tickets", "url": "https://tickets.example/hooks", "events": ["instance"]},
    {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["released"]},
    {"OP_ID": "OP_TAGS_SET", "kind": "node", "name": "node3", "tags": ["slow"]},
    {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node3", "drained": True},
)
"""Jobs that succeed, and make an object of each kind."""

REFUSED: cluster.Opcode = {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "nobody"}
ENDLESS: cluster.Opcode = {"OP_ID": "OP_TEST_DELAY", "duration": 86400}
"""Runs when the power is cut."""


class Answers(msgspec.Struct):
    """What clients got: rows by resource and field, the past of a network's addresses, and the newest serial."""

    rows: dict[str, list[dict[str, object]]]
    history: object
    serial: int


class Kept(msgspec.Struct):
    """The machines of a cluster that lost their power at a ``time`` of their clocks; ``answers`` were given before.

    ``disks`` has mode and content of each path by machine; None is the content of a folder.
    """

    form: Literal[1]
    version: str
    time: float
    disks: dict[str, dict[str, tuple[int, bytes | None]]]
    answers: Answers

    def encode(self) -> bytes:
        """Return the content of the file."""
        return lzma.compress(msgspec.json.encode(self), preset=9)


def read(path: Path) -> Kept:
    """Return what a file keeps."""
    return msgspec.json.decode(lzma.decompress(path.read_bytes()), type=Kept)


def make() -> Kept:
    """Return what the present version writes."""
    with cluster.SimulatedCluster(SEED, nodes=NODES) as lab:
        lab.run(_build(lab))
        answers = lab.run(ask(lab, FIELDS))
        for name in lab.names:
            lab.crash(name)
        disks = {name: lab.world.machine(name).disk.image() for name in lab.names}
        return Kept(1, gantry.__version__, lab.world.clock.monotonic(), disks, answers)


async def _build(lab: cluster.SimulatedCluster) -> None:
    await lab.build(vg_name=volumes.GROUP, enabled_disk_templates=["file", "plain", "drbd", "diskless"])
    for op in OPS:
        await lab.done(op)
    await lab.wait(await lab.submit(REFUSED))
    await lab.luxi("ArchiveJob", 2)
    state = lab.daemons[lab.leader].store.snapshot
    for uuid in state.webhooks:
        failing = [uuid, state.serial, "status 500", lab.world.clock.now()]
        await lab.luxi("StoreWebhookPositions", [failing])
    await lab.world.clock.sleep(SETTLE_SECONDS)
    await lab.failover(MASTER)
    running = await lab.submit(ENDLESS)
    await lab.luxi("WaitForJobChange", running, ["status"], ["queued"], cluster.NO_LOG, SETTLE_SECONDS)
    await lab.luxi("SubmitJob", [{**ENDLESS, "depends": [[running, ["success"]]], "comment": "waits"}])
    await lab.world.clock.sleep(SETTLE_SECONDS)


async def ask(lab: cluster.SimulatedCluster, fields: Mapping[str, tuple[str, ...]]) -> Answers:
    """Ask the master what clients ask."""
    rows: dict[str, list[dict[str, object]]] = {}
    for resource, names in fields.items():
        answer = await lab.luxi("Query", resource, names, None)
        data = msgspec.convert(answer, _Table).data
        rows[resource] = [{name: value for name, (_, value) in zip(names, row, strict=True)} for row in data]
    history = await lab.luxi("QueryNetworkHistory", "prod", None, None, 1000)
    return Answers(rows, history, lab.daemons[lab.leader].store.snapshot.serial)


class _Table(msgspec.Struct):
    data: list[list[tuple[int, object]]]


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Keep what this version writes.")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    path = folder / f"{gantry.__version__}{SUFFIX}"
    path.write_bytes(make().encode())
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
