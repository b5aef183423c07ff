"""Two nodes as network namespaces on one switch, and a small Linux guest that writes its disk and answers pings.

The nodes are drivers in this process whose programs run in the namespaces. The guest's second disk gets the numbers
1, 2, 3 ... as fast as it can write them, each into a sector of its own, so that a lost write is a gap. A guest that
boots again continues where the numbers end.
"""

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests import leftovers
from tests.node import samples
from tests.real import demonstration

from gantry.node.daemon import wiring
from gantry.node.hypervisors.kvm import accelerator_probe, guest_records
from gantry.rpc import calls
from gantry.runtime import paths

CHECKOUT = Path(__file__).parents[2]
GUEST = CHECKOUT / "build/guest"
ADDRESS, SWITCH = "192.0.2.50", "192.0.2.254"
KIND = "gm"
SECTOR = 512
TIMEOUT = 120.0

NEEDS = [
    pytest.mark.real,
    demonstration.MINUTES,
    pytest.mark.skipif(not samples.HAS_NAMESPACES, reason="network namespaces need root and the ip command"),
    pytest.mark.skipif(not shutil.which(accelerator_probe.QEMU), reason="QEMU is not installed"),
]

INIT = f"""#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
ip link set lo up; ip link set eth0 up; ip addr add {ADDRESS}/24 dev eth0
for event in /sys/class/input/event*; do
    grep -q 'Power Button' $event/device/name &&
    ( head -c 24 /dev/input/${{event##*/}} >/dev/null; echo GUEST-OFF >/dev/console; sync; poweroff -f ) &
done
( i=$(tr -d '\\0 ' </dev/vdb | wc -l); while [ -b /dev/vdb ]; do i=$((i+1))
    printf '%-511s\\n' $i | dd of=/dev/vdb bs={SECTOR} count=1 seek=$i conv=fsync,notrunc 2>/dev/null || echo LOST $i
    usleep 20000
done ) &
echo GUEST-UP
exec setsid cttyhack sh
"""


@functools.cache
def kernel() -> None:
    """Have the guest's kernel, as the demonstration makes it."""
    subprocess.run([str(CHECKOUT / "demo/kernel.sh"), str(GUEST)], check=True, capture_output=True)


def make_system(path: str, *, init: str = INIT) -> None:
    """Write a file system with busybox and the guest's own first program."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    with tempfile.TemporaryDirectory() as tree:
        for folder in ("bin", "sbin", "dev", "proc", "sys", "tmp"):
            os.mkdir(f"{tree}/{folder}")
        shutil.copy(busybox, f"{tree}/bin/busybox")
        applets = subprocess.run([busybox, "--list"], capture_output=True, check=True, text=True).stdout.split()
        for applet in {*applets} - {"busybox"}:
            os.symlink("busybox", f"{tree}/bin/{applet}")
        samples.write(f"{tree}/sbin/init", init, mode=0o755)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-d", tree, path, "16m"], check=True, capture_output=True)


def without_gap(read: Callable[[], list[int]]) -> list[int]:
    """Return the numbers that a reading of a disk finds, up to the highest one; a lost write is a gap.

    The guest may write while the disk is read, and what was read first then lacks what it wrote there. All that is
    below a number that was found had been written, so another reading has it.
    """
    highest = max(read(), default=0)
    numbers = read()[:highest]
    assert numbers == list(range(1, highest + 1)), "a write was lost"
    return numbers


async def until(true: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < limit, f"{what} did not come"
        await asyncio.sleep(0.02)


class Node:
    """A node: its drivers, and what they have left behind."""

    def __init__(self, name: str, address: str, *, namespace: str, folders: paths.Paths) -> None:
        self.name = name
        self.address = address
        self.namespace = namespace
        self.folders = folders
        self.restart()

    def restart(self) -> None:
        """Start the drivers again, as a restarted node daemon does."""
        self.runtime = samples.runtime(self.name, namespace=self.namespace)
        accelerators = accelerator_probe.Accelerators(self.runtime, self.folders, bootid="")
        self.registry = wiring.registry(self.runtime, self.folders, accelerators=accelerators)
        self.kvm = self.registry.hypervisor("kvm")
        self.guests = guest_records.Guests(self.runtime, self.folders.instances)

    @property
    def pid(self) -> int:
        pid = self.guests.pid("vm1")
        assert pid is not None
        return pid

    def taps(self) -> list[str]:
        done = subprocess.run(["ip", "-n", self.namespace, "-o", "link"], capture_output=True, check=True, text=True)
        return [line.split()[1].rstrip(":") for line in done.stdout.splitlines() if ": gnt" in line]

    def remains(self) -> list[str]:
        folder = Path(self.folders.instances)
        return [str(path) for path in folder.rglob("*") if path.is_file()] + self.taps() if folder.exists() else []

    async def console(self, command: str, *, until: str) -> str:
        """Type a command into the guest's serial console again and again until it prints a text."""
        reader, writer = await asyncio.open_unix_connection(self.guests.files("vm1").serial)
        output = ""
        try:
            async with asyncio.timeout(TIMEOUT):
                while until not in output:
                    writer.write(f"\n{command}\n".encode())
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(1):
                            while until not in output:
                                part = await reader.read(4096)
                                assert part, f"the guest ended and had not said {until!r}: {output}"
                                output += part.decode(errors="replace")
        finally:
            writer.close()
        return output


class Lab:
    """Two nodes, a switch, and one guest."""

    def __init__(self, root: str, *, shared: bool) -> None:
        self.prefix = leftovers.name(KIND)
        self.switch = f"{self.prefix}-sw"
        self.shared = shared
        self._root = root
        self.nodes = [self._node(index) for index in (1, 2)]

    def _node(self, index: int) -> Node:
        folders = paths.Paths.below(f"{self._root}/{index}")
        if self.shared:
            folders = dataclasses.replace(folders, srv=f"{self._root}/srv")
        for folder in dataclasses.astuple(folders):
            os.makedirs(folder, exist_ok=True)
        return Node(f"node{index}", f"192.0.2.{index}", namespace=f"{self.prefix}-{index}", folders=folders)

    def disks(self, node: Node) -> tuple[calls.Disk, ...]:
        disks = []
        for index, size in enumerate((16, 8)):
            number = f"d15c0000-0000-4000-8000-00000000000{index}"
            where = f"{node.folders.shared_file_storage}/vm1/{number}"
            disks.append(
                calls.Disk(index=index, uuid=number, dev_type="sharedfile", size=size, logical_id=("file", where))
            )
        return tuple(disks)

    def instance(self, node: Node, **hvparams: calls.Value) -> calls.Instance:
        defaults: dict[str, calls.Value] = {
            "kernel_path": f"{GUEST}/vmlinuz",
            "initrd_path": f"{GUEST}/initrd",
            "root_path": "/dev/vda",
            "kernel_args": "ro quiet",
            "migration_downtime": 100,
        }
        vm = samples.instance(disks=self.disks(node), nics=(samples.nic(addresses=()),))
        beparams: dict[str, calls.Value] = {"maxmem": 128, "minmem": 64, "vcpus": 1}
        return msgspec.structs.replace(vm, hvparams=samples.kvm(**{**defaults, **hvparams}), beparams=beparams)

    def make_disks(self, node: Node, *, empty: bool = False) -> None:
        system, numbers = (disk.logical_id[-1] for disk in self.disks(node))
        os.makedirs(os.path.dirname(system), exist_ok=True)
        if empty:
            Path(system).touch()
        else:
            make_system(system)
        Path(numbers).touch()
        os.truncate(system, 16 << 20)
        os.truncate(numbers, 8 << 20)

    def extra_disk(self, node: Node) -> calls.Disk:
        """Return a disk that the guest does not have at its start."""
        first = self.disks(node)[0]
        folder = os.path.dirname(first.logical_id[-1])
        number = "d15c0000-0000-4000-8000-000000000002"
        return msgspec.structs.replace(first, index=2, uuid=number, size=4, logical_id=("file", f"{folder}/{number}"))

    def make_extra_disk(self, node: Node) -> None:
        path = self.extra_disk(node).logical_id[-1]
        Path(path).touch()
        os.truncate(path, 4 << 20)

    def written(self, node: Node) -> list[int]:
        """Return the numbers on the guest's disk, checked to be without a gap."""
        return without_gap(lambda: self._numbers(node))

    def _numbers(self, node: Node) -> list[int]:
        content = Path(self.disks(node)[1].logical_id[-1]).read_bytes()[SECTOR:]
        sectors = [content[at : at + SECTOR].strip() for at in range(0, len(content), SECTOR)]
        return [int(sector) for sector in sectors if sector.strip(b"\0")]

    async def up(self, **hvparams: calls.Value) -> Node:
        """Start the guest on the first node, and return that when the guest answers and writes."""
        node = self.nodes[0]
        self.make_disks(node)
        if not self.shared:
            self.make_disks(self.nodes[1], empty=True)
        await node.kvm.start(self.instance(node, **hvparams), paused=False)
        await self.answers()
        await self.writes(node)
        return node

    async def joined(self) -> None:
        """Wait until the nodes reach each other."""
        source, target = self.nodes
        await until(lambda: _pings(source.namespace, target.address), "the nodes' way to each other")

    async def answers(self) -> None:
        """Wait until the guest answers a ping."""
        await until(lambda: _pings(self.switch, ADDRESS), "a ping's answer")

    async def writes(self, node: Node) -> None:
        """Wait until the guest has written several times from now on."""
        before = len(self.written(node))
        await until(lambda: len(self.written(node)) >= before + 5, "writes of the guest")

    async def send(
        self, source: Node, target: Node, *, live: bool = True, mirror: bool = False, bandwidth: int = 32
    ) -> None:
        """Begin a migration that sends ``bandwidth`` MiB a second."""
        vm, there = (self.instance(node, migration_bandwidth=bandwidth) for node in (source, target))
        info = await source.kvm.migration_info(vm)
        reception = await target.kvm.accept(there, info, address=target.address, mirror=mirror)
        await source.kvm.migrate(vm, reception, live=live)

    def cut(self, node: Node) -> None:
        """Pull a node's cable, which no other node sees: to them it is dead."""
        _ip("-n", self.switch, "link", "set", node.name, "nomaster")

    async def hurry(self, source: Node) -> None:
        """Let a migration that has begun slowly send as much as it can."""
        async with source.guests.control("vm1") as control:
            await control.execute("migrate-set-parameters", {"max-bandwidth": 1 << 30})

    async def ended(self, source: Node) -> calls.MigrationStatus:
        """Wait for the end of a migration, as a master does."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                status = await source.kvm.migration_status(self.instance(source), wait=10)
                if status.final:
                    return status
                await asyncio.sleep(0.05)

    async def finish(self, source: Node, target: Node) -> calls.MigrationStatus:
        """Wait for the end of a migration, and finish it at both ends."""
        status = await self.ended(source)
        assert status.status == "completed", status
        await target.kvm.finalize_target(self.instance(target), success=True)
        await source.kvm.finalize_source(self.instance(source), success=True)
        return status

    @contextlib.contextmanager
    def pinged(self) -> Iterator[Callable[[], float]]:
        """Ping the guest each 10 ms; the function returns the longest gap between answers in milliseconds."""
        log = Path(f"{self._root}/ping")
        with log.open("wb") as file:
            ping = subprocess.Popen(
                ["ip", "netns", "exec", self.switch, "ping", "-i", "0.01", "-D", ADDRESS], stdout=file
            )

        def gap() -> float:
            ping.terminate()
            ping.wait()
            times = [float(seconds) for seconds in re.findall(r"\[([\d.]+)\].*icmp_seq", log.read_text())]
            return 1000 * max(later - before for before, later in itertools.pairwise(times))

        try:
            yield gap
        finally:
            ping.kill()
            ping.wait()


def with_secret(reception: calls.Reception, secret: str) -> calls.Reception:
    return msgspec.structs.replace(reception, secret=secret)


def second_nic() -> calls.Nic:
    return samples.nic(index=1, addresses=())


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _pings(space: str, address: str) -> bool:
    ping = ["ip", "netns", "exec", space, "ping", "-c1", "-W1", address]
    return subprocess.run(ping, capture_output=True, check=False).returncode == 0


def _plug(lab: Lab) -> None:
    _ip("netns", "add", lab.switch)
    _ip("-n", lab.switch, "link", "add", "br0", "type", "bridge")
    _ip("-n", lab.switch, "link", "set", "br0", "up")
    _ip("-n", lab.switch, "addr", "add", f"{SWITCH}/24", "dev", "br0")
    for number, node in enumerate(lab.nodes, 1):
        space = node.namespace
        _ip("netns", "add", space)
        _ip("link", "add", "up0", "netns", space, "type", "veth", "peer", "name", node.name, "netns", lab.switch)
        _ip("-n", lab.switch, "link", "set", node.name, "master", "br0", "up")
        _ip("-n", space, "link", "set", "lo", "up")
        # By itself a bridge has the lowest address of its ports, and that of the guest's tap is the same on both nodes.
        _ip("-n", space, "link", "add", "br0", "address", f"02:98:00:00:00:0{number}", "type", "bridge")
        _ip("-n", space, "link", "set", "up0", "master", "br0", "up")
        _ip("-n", space, "link", "set", "br0", "up")
        _ip("-n", space, "addr", "add", f"{node.address}/24", "dev", "br0")


@contextlib.asynccontextmanager
async def lab(*, shared: bool = True) -> AsyncIterator[Lab]:
    """Make the nodes and take all of it away afterwards."""
    kernel()
    leftovers.clear(KIND)
    with leftovers.folder(KIND) as root:
        new_lab = Lab(root, shared=shared)
        try:
            _plug(new_lab)
            await new_lab.joined()
            yield new_lab
        finally:
            for name in (new_lab.switch, *(node.namespace for node in new_lab.nodes)):
                leftovers.end_space(name)
