"""A whole cluster with disks as they are: a master daemon and the real commands, and three nodes with LVM and DRBD.

The master is a process beside the nodes, on a machine without a volume group that takes no instances; so it outlives
every node. Guests are those of the ``fake`` hypervisor: what they would write, the tests write to the devices. Real
ones are in ``guests``.
"""

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tests.cluster import lab as commands
from tests.real.nodes import lab, storage
from tests.real.nodes.lab import Node

Answer = TypeVar("Answer")
MASTER = "192.0.2.254"
DISKS = (1024, 1024)
NET = "--ping-timeout=30 --timeout=60 --ping-int=7 --connect-int=2"
"""A loaded machine must not look like a dead peer, and a dead peer must be noticed in seconds."""

PATIENT = lab.HERE / "patient"
"""Where the master finds what lets its queries wait longer for nodes."""
ANSWER_SECONDS = 180.0
"""How long a query is repeated: it leaves out a node that does not answer, as one is after its boot."""

KERNEL_LOG = "tail -n +3 /proc/drbd; dmesg | tail -n 25; ip -s link show dev eth0; ip neighbour"

CREATE = """#!/bin/sh
set -eu
i=0
while [ "$i" -lt "$DISK_COUNT" ]; do
    eval "path=\\$DISK_${i}_PATH access=\\$DISK_${i}_ACCESS"
    [ "$access" = ro ] || echo "$INSTANCE_NAME installed on disk $i" >"$path"
    i=$((i + 1))
done
"""


class Cluster(commands.Lab):
    """The commands as on the master, and the nodes."""

    def __init__(self, folder: Path, machines: lab.Lab, hypervisor: str) -> None:
        super().__init__(folder)
        self.machines = machines
        self.hypervisor = hypervisor

    def begin(self) -> None:
        """Make the cluster, and take the nodes in."""
        first = commands.Node("master", self.folder / "master", lab.PORT, address=MASTER)
        first.root.mkdir()
        self.nodes.append(first)
        first.start()
        self.run(
            "gnt-cluster", "init", "--enabled-hypervisors", self.hypervisor, "--enabled-disk-templates", "drbd,plain",
            "--vg-name", storage.GROUP, "-D", f"drbd:metavg={storage.GROUP},net-custom={NET}", "-B", "memory=16",
            "--primary-ip", MASTER, "--port", lab.PORT, "--node-name", first.name, "lab.example",
            PYTHONPATH=str(PATIENT),
        )  # fmt: skip
        self.run("gnt-node", "modify", "--vm-capable", "no", "-f", first.name)
        for node in self.machines.nodes:
            node.sh(f"vgcreate -qq {storage.GROUP} {' '.join(map(node.device, range(len(DISKS))))}")
            install(node, "plain", CREATE)
            where = ("--primary-ip", node.address, "--port", lab.PORT)
            self.run("gnt-node", "add", "--join-token", node.token(), *where, node.name)

    def run(
        self, *arguments: object, check: bool = True, on: commands.Node | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as ``Lab`` does; a failure says too what the nodes' kernels know of their mirrored disks."""
        try:
            return super().run(*arguments, check=check, on=on, **more)
        except AssertionError as error:
            kernels = [f"{node.name}:\n{node.run('sh', '-c', KERNEL_LOG)[1]}" for node in self.machines.nodes]
            raise AssertionError("\n".join([str(error), *kernels])) from None

    def node(self, name: str) -> Node:
        """Return a node by its name."""
        return next(node for node in self.machines.nodes if node.name == name)


def install(node: Node, name: str, create: str) -> None:
    """Write an OS definition with this script that fills its disks."""
    folder = f"{lab.ROOT}/srv/os/{name}"
    files = {"ganeti_api_version": "20\n", "variants.list": "", "parameters.list": "", "create": create}
    node.sh(f"mkdir -p {folder}")
    for file, text in files.items():
        node.sh(f"cat >{folder}/{file} <<'END'\n{text}END")
    node.sh(f"chmod +x {folder}/create")


@contextlib.contextmanager
def up(*, kind: type[Node] = Node, hypervisor: str = "fake") -> Iterator[Cluster]:
    """Make the cluster; the calling thread is in its network meanwhile."""
    with lab.up(3, disks=DISKS, kind=kind, joined=False) as machines, machines.entered():
        cluster = Cluster(machines.folder / "cluster", machines, hypervisor)
        cluster.folder.mkdir()
        try:
            cluster.begin()
            yield cluster
        finally:
            cluster.close_daemons()


class Guest:
    """An instance with mirrored disks, which the cluster calls ``name``."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name

    def add(self, primary: str, secondary: str, *more: object) -> "Guest":
        """Make it, with one disk unless others are given, and start it."""
        where = ("-t", "drbd", "-n", f"{primary}:{secondary}", "--no-nics", "-o", "plain")
        self.cluster.run("gnt-instance", "add", *where, *(more or ("--disk", "0:size=16m")), self.name)
        return self

    def gnt(self, command: str, *options: object) -> str:
        """Run a command of gnt-instance on it; return what it said."""
        return self.cluster.run("gnt-instance", command, *options, self.name).stdout

    def refused(self, command: str, *options: object) -> str:
        """Run a command that is refused; return what it said in one line."""
        return " ".join(self.cluster.refused("gnt-instance", command, *options, self.name).split())

    def field(self, name: str) -> str:
        """Return a field of gnt-instance list."""
        ((value,),) = self.cluster.rows("gnt-instance", name, self.name)
        return value

    def _answered(self, read: Callable[[], Answer], is_complete: Callable[[Answer], bool]) -> Answer:
        """Return what a query reads as soon as no node is missing in it, or what it reads after ``ANSWER_SECONDS``."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while not is_complete(answer := read()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return answer

    @property
    def placement(self) -> tuple[str, str, str]:
        """Return its primary and its secondary node, and its status."""

        def read() -> tuple[str, str, str]:
            primary, secondary, status = (self.field(name) for name in ("pnode", "snodes", "status"))
            return primary, secondary, status

        return self._answered(read, lambda placement: placement[2] != "ERROR_nodedown")

    @property
    def primary(self) -> Node:
        return self.cluster.node(self.field("pnode"))

    @property
    def secondary(self) -> Node:
        return self.cluster.node(self.field("snodes"))

    def sides(self, disk: int = 0) -> list[str]:
        """Return what gnt-instance info says of a disk on its primary and on its secondary node."""

        def read() -> tuple[int, list[str]]:
            info = self.gnt("info")
            mirrored = re.findall(r"\bnode A: ", info)
            return 2 * len(mirrored), re.findall(r'on (?:primary|secondary): "?(.*?)"?$', info, re.MULTILINE)

        _, sides = self._answered(read, lambda answer: answer[0] == len(answer[1]))
        return sides[2 * disk : 2 * disk + 2]

    def is_whole(self, disk: int = 0) -> bool:
        """Return whether both copies of a disk have everything that was written to it."""
        return [side.partition(", ")[2] for side in self.sides(disk)] == ["UpToDate", "UpToDate"]

    def until_whole(self, disk: int = 0) -> None:
        """Wait until both sides of a disk have all that was written to it."""
        lab.until(
            lambda: self.is_whole(disk),
            lambda: f"disk {disk} of {self.name} is not whole: {self.sides(disk)}",
            timeout=commands.TIMEOUT,
        )

    def device(self, disk: int = 0) -> str:
        """Return where a disk is on its primary node, as soon as the node says so: a query leaves out a silent one."""
        paths: list[str] = []

        def is_known() -> bool:
            paths[:] = re.findall(r'on primary: "?(/dev/[^,"]+)', self.gnt("info"))
            return len(paths) > disk

        lab.until(is_known, f"{self.primary} does not say where disk {disk} of {self.name} is")
        return paths[disk]

    def write(self, *, megabytes: int = 8) -> str:
        """Write to the first disk as the guest would; return the checksum of all of it."""
        storage.scribble(self.primary, self.device(), megabytes=megabytes)
        return self.checksum()

    def checksum(self) -> str:
        """Return the checksum of the first disk, as the guest would read it."""
        return storage.checksum(self.primary, self.device())
