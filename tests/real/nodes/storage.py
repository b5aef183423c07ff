"""Disks of the storage tests, filled as the master fills them, and what is done to them beside the daemon's calls."""

from collections.abc import Mapping

from tests.real.nodes import lab
from tests.real.nodes.lab import Lab, Node

from gantry.rpc import calls

OWNER = "vm1.example.com"
GROUP, LOST = "xenvg", "lostvg"
SECRET = "the-secret-of-one-disk"
DRBD: Mapping[str, calls.Value] = {
    "resync-rate": 61440,
    "protocol": "C",
    "disk-barriers": "n",
    "meta-barriers": False,
    "dynamic-resync": False,
    "c-plan-ahead": 20,
    "c-fill-target": 0,
    "c-delay-target": 1,
    "c-max-rate": 61440,
    "c-min-rate": 4096,
    "disk-custom": "",
    # A loaded machine must not look like a dead peer, and a dead peer must be noticed in seconds.
    "net-custom": "--ping-timeout=30 --timeout=60 --ping-int=7 --connect-int=7",
}


def volume(name: str, *, size: int = 16, group: str = GROUP, mode: str = "rw", stripes: int = 1) -> calls.Disk:
    return calls.Disk(
        index=0,
        uuid=f"uuid-{name}",
        dev_type="plain",
        size=size,
        mode=mode,
        logical_id=(group, name),
        params={"stripes": stripes},
    )


def mirror(
    minor: int, node: Node, peer: Node | None, *,
    size: int = 16, secret: str = SECRET, mode: str = "rw", suffix: str = "", **params: calls.Value,
) -> calls.Disk:  # fmt: skip
    """Return a mirrored disk as ``node`` receives it; keyword arguments are parameters, with underscores."""
    return calls.Disk(
        index=0,
        uuid=f"uuid-{minor}",
        dev_type="drbd",
        size=size,
        mode=mode,
        params={**DRBD, **{name.replace("_", "-"): value for name, value in params.items()}},
        children=(
            volume(f"m{minor}{suffix}.disk0_data", size=size),
            volume(f"m{minor}{suffix}.disk0_meta", size=4),
        ),
        mirror=calls.Mirror(
            minor=minor,
            local=node.address,
            remote=peer.address if peer else "",
            port=11000 + minor,
            secret=secret,
        ),
    )


def state(nodes: Lab, node: Node, disk: calls.Disk) -> calls.DiskState:
    disk_state = nodes.call(node, calls.BlockdevFind(disk=disk))
    assert disk_state is not None
    return disk_state


def checksum(node: Node, path: str) -> str:
    return node.sh(f"md5sum {path}").split()[0]


def scribble(node: Node, path: str, *, megabytes: int, offset: int = 0) -> None:
    node.sh(f"dd if=/dev/urandom of={path} bs=1M count={megabytes} seek={offset} oflag=direct conv=notrunc 2>&1")


def hold(node: Node, path: str) -> None:
    """Keep a device open."""
    node.sh(f"sleep 1000 <{path} >/dev/null 2>&1 & echo $! >/root/holder")


def release(node: Node) -> None:
    node.sh("kill $(cat /root/holder)")
    lab.until(lambda: node.run("sh", "-c", "kill -0 $(cat /root/holder)")[0], "the end of who holds it")
