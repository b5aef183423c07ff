"""Small guests that only ping each other: who reaches whom says which segments their NICs are in.

They share one disk, which they read alone. A guest is typed to by its serial console (``ask``).
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tests.node import samples
from tests.real import machines

from gantry.rpc import calls

ASK = Path(__file__).parent / "ask.py"
DISK = "d15c0000-0000-4000-8000-000000000000"
TIMEOUT = 90

INIT = """#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
ip link set lo up
for word in $(cat /proc/cmdline); do
    case $word in eth?=*) ip link set ${word%=*} up; ip addr add ${word#*=}/24 dev ${word%=*} ;; esac
done
exec setsid cttyhack sh
"""


def card(number: int, *, link: str, segment: calls.Segment | None = None, vlan: str = "", index: int = 0) -> calls.Nic:
    """Return a NIC as a master sends it; ``number`` tells it from all others."""
    tunnelled = segment is not None and segment.network_type != "vlan"
    return calls.Nic(
        index=index,
        uuid=f"c1d2e3f4-0000-4000-8000-{number:012}",
        mac=f"aa:00:00:00:00:{number:02x}",
        mode="bridged",
        link=link,
        vlan=str(segment.segmentation_id) if segment and not tunnelled else vlan,
        network=calls.Network(name="net", uuid="net", segment=segment),
        mtu=1450 if tunnelled else 0,
    )


def guest(
    name: str, nics: Sequence[calls.Nic], addresses: Sequence[str], *, system: str, kernel: str, accel: str = "tcg"
) -> calls.Instance:
    """Return a guest whose cards have these addresses; ``system`` is its disk, as its node sees it."""
    disk = calls.Disk(index=0, uuid=DISK, dev_type="sharedfile", size=16, mode="ro", logical_id=("file", system))
    cards = " ".join(f"eth{index}={address}" for index, address in enumerate(addresses))
    vm = samples.instance(
        name=name,
        hvparams=samples.kvm(
            accel=accel,
            kernel_path=f"{kernel}/vmlinuz",
            initrd_path=f"{kernel}/initrd",
            root_path="/dev/vda",
            kernel_args=f"ro quiet {cards}",
        ),
        disks=(disk,),
        nics=tuple(nics),
        memory=96,
    )
    return msgspec.structs.replace(vm, uuid=f"7a0c5b9e-6a31-4a3c-9d45-{sum(name.encode()):012}")


def make_system(path: str) -> None:
    """Write the guests' disk."""
    machines.make_system(path, init=INIT)


def ask(command: str, *, until: str, socket: str, python: str, script: str, timeout: float = TIMEOUT) -> list[str]:
    """Return the command that types another one into a guest."""
    return [python, script, socket, command, until, str(timeout)]


def reaches(address: str, *, size: int = 56) -> tuple[str, str]:
    """Return a command that pings until it is answered, and what it prints then."""
    return f"ping -c1 -W1 -s {size} {shlex.quote(address)} >/dev/null && echo RE''ACHED", "REACHED"


def misses(address: str) -> tuple[str, str]:
    """Return a command that pings three times, and what it prints when nobody answered."""
    return f"ping -c3 -W1 {shlex.quote(address)} >/dev/null || echo LO''ST", "LOST"
