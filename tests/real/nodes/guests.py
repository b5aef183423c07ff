"""A real virtual machine on the mirrored disks of a cluster: QEMU runs in its nodes.

The nodes have no QEMU of their own; they run this machine's, with its libraries, by their view of its files. It
emulates in nodes of User-Mode Linux. Those that are QEMU's have a KVM, as emulation within emulation takes minutes for
what KVM does in seconds. Their network card is on a bridge, so that the guest is reached from beside the nodes. It is
the guest of ``machines``: its first disk holds a busybox system, and to the second it writes numbers.
"""

import contextlib
import itertools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import lab as commands
from tests.real import machines
from tests.real.nodes import cluster as clusters
from tests.real.nodes.cluster import Cluster
from tests.real.nodes.lab import HERE, ROOT, Node

HOST = "/host"
TIMEOUT = 600.0
OS = "numbers"
LOADER = os.path.realpath("/lib64/ld-linux-x86-64.so.2")
LIBRARIES = os.path.dirname(LOADER)
DATA = ("/usr/share/qemu", "/usr/share/seabios", "/usr/lib/ipxe/qemu")
QEMU = f"""#!/bin/sh
export QEMU_MODULE_DIR={HOST}{LIBRARIES}/qemu
exec {HOST}{LOADER} --library-path {HOST}{LIBRARIES} {HOST}/usr/bin/qemu-system-x86_64 \\
    {" ".join(f"-L {HOST}{folder}" for folder in DATA)} "$@"
"""
CREATE = f"""#!/bin/sh
set -eu
dd if={HOST}%s of="$DISK_0_PATH" bs=1M
dd if=/dev/zero of="$DISK_1_PATH" bs=1M count=8
"""
BRIDGE = """
modprobe -a tun bridge
[ -e /dev/net/tun ] || { mkdir -p /dev/net; mknod /dev/net/tun c 10 200; }
ip link add br0 type bridge
ip link set br0 up
ip address flush dev eth0
ip link set eth0 master br0
"""

KVM = """
modprobe -a kvm_amd kvm_intel 2>/dev/null || true
# The daemon tests KVM for a few seconds, in which a first start of QEMU would still be read from the host.
[ ! -e /dev/kvm ] || echo quit | qemu-system-x86_64 -S -nodefaults -display none -monitor stdio >/dev/null
"""


class Host(Node):
    """A node that guests run on."""

    MEMORY = 640

    @classmethod
    def prepare(cls) -> None:
        """Have the guest's kernel too."""
        super().prepare()
        machines.kernel()

    def start_daemon(self) -> None:
        """Make the bridge, the way to QEMU and /dev/kvm first."""
        self.sh(f"{BRIDGE}ip address add {self.address}/24 dev br0")
        self.sh(f"cat >/usr/bin/qemu-system-x86_64 <<'END'\n{QEMU}END\nchmod +x /usr/bin/qemu-system-x86_64{KVM}")
        super().start_daemon()


@contextlib.contextmanager
def up() -> Iterator[Cluster]:
    """Make a cluster whose nodes run guests."""
    with clusters.up(kind=Host, hypervisor="kvm") as cluster:
        system = f"{cluster.folder}/system"
        machines.make_system(system)
        for node in cluster.machines.nodes:
            clusters.install(node, OS, CREATE % system)
        yield cluster


@dataclass
class Watch:
    """When a guest was seen running on two nodes, in seconds since the epoch."""

    source: list[tuple[float, float]] = field(default_factory=list)
    target: list[tuple[float, float]] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """Return the seconds between its last sign of life at the source and its first at the target.

        Below zero it ran on both at once: that it ran at the source was asked after the target had said the same.
        """
        return min(answered for _, answered in self.target) - max(sent for sent, _ in self.source)


class Guest(clusters.Guest):
    """An instance that writes numbers to its second disk, and answers pings."""

    def add(self, primary: str, secondary: str, *more: object) -> "Guest":
        """Make it, start it, and wait until it answers and writes."""
        kernel = f"{HOST}{machines.GUEST}"
        hypervisor = f"kernel_path={kernel}/vmlinuz,initrd_path={kernel}/initrd,root_path=/dev/vda,kernel_args=ro quiet"
        self.cluster.run("gnt-cluster", "modify", "--allow", f"images={kernel}")
        self.cluster.run(
            "gnt-instance", "add", "-t", "drbd", "-n", f"{primary}:{secondary}", "-o", OS, "-B", "memory=128",
            "-H", f"kvm:{hypervisor},migration_downtime=500", "--net", "0:mode=bridged,link=br0",
            "--disk", "0:size=16m", "--disk", "1:size=8m", *more, self.name,
        )  # fmt: skip
        self.until_up()
        return self

    def until_up(self) -> None:
        """Wait until it answers a ping, and writes."""
        commands.wait_until(self.answers, "a ping's answer", timeout=TIMEOUT)
        self.until_written(5)

    def answers(self) -> bool:
        """Return whether the guest answers a ping."""
        ping = ["ping", "-c1", "-W1", machines.ADDRESS]
        return subprocess.run(ping, capture_output=True, check=False).returncode == 0

    def written(self) -> int:
        """Return how many numbers are on its disk, checked to be without a gap."""
        return _numbers(self.primary, self.device(1))

    def until_written(self, more: int) -> None:
        """Wait until the guest has written ``more`` numbers from now on."""
        node, device = self.primary, self.device(1)
        before = _numbers(node, device)
        commands.wait_until(lambda: _numbers(node, device) >= before + more, f"writes of {self.name}", timeout=TIMEOUT)

    def hosts(self) -> list[str]:
        """Return the nodes that have a QEMU for it."""
        nodes = self.cluster.machines.nodes
        return [node.name for node in nodes if not node.run("pgrep", "-f", f"qemu-system.*{self.name}")[0]]

    @contextlib.contextmanager
    def watched(self) -> Iterator[Watch]:
        """Look all the time on which of its nodes it runs; the result is there afterwards."""
        watch = Watch()
        nodes = (self.primary, self.secondary)
        socket = f"{ROOT}/run/instances/{self.name}/monitor"
        for node in nodes:
            node.sh(f"timeout 170 python3 {HOST}{HERE}/watch.py {socket} >/root/seen 2>&1 & echo $! >/root/watcher")
        try:
            yield watch
        finally:
            for node in nodes:
                node.sh("kill $(cat /root/watcher)")
        for node, seen in zip(nodes, (watch.source, watch.target), strict=True):
            lines = [line.split() for line in node.sh("cat /root/seen").splitlines()]
            seen += [(float(sent), float(answered)) for sent, answered, status in lines if status == "running"]


def _numbers(node: Node, device: str) -> int:
    def read() -> list[int]:
        return [int(line) for line in node.sh(f"dd if={device} bs=1M iflag=direct 2>/dev/null | tr -d '\\0 '").split()]

    return len(machines.without_gap(read))


@contextlib.contextmanager
def pinged(folder: Path) -> Iterator[list[float]]:
    """Ping the guest ten times a second; afterwards the list has the seconds between one answer and the next."""
    log = folder / "ping"
    gaps: list[float] = []
    with log.open("wb") as file:
        ping = subprocess.Popen(["ping", "-i", "0.1", "-D", machines.ADDRESS], stdout=file)
        try:
            yield gaps
        finally:
            ping.terminate()
            ping.wait()
    times = [
        float(line[1:].split("]")[0]) for line in log.read_text().splitlines() if "icmp_seq" in line and "time=" in line
    ]
    gaps += [later - before for before, later in itertools.pairwise(times)]
