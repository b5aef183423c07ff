"""Checks of what the enabled hypervisors and disk templates need: programs with their Debian packages, and KVM.

Without a cluster everything that could be enabled is only a warning, except what each node needs.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gantry.daemons.doctor.result import FOLDERS, Level, Machine, Result

KVM_DEVICE = "/dev/kvm"


class Requirement(NamedTuple):
    """A program, its Debian package, and the hypervisor or disk template that needs it; empty: each node."""

    program: str
    package: str
    owner: str = ""


PROGRAMS = (
    Requirement("ip", "iproute2"),
    Requirement("bridge", "iproute2"),
    Requirement("blockdev", "util-linux"),
    Requirement("qemu-system-x86_64", "qemu-system-x86", "kvm"),
    Requirement("qemu-img", "qemu-utils", "kvm"),
    Requirement("socat", "socat", "kvm"),
    Requirement("xl", "xen-utils-common", "xen-pvm"),
    Requirement("xl", "xen-utils-common", "xen-hvm"),
    Requirement("chroot", "coreutils", "chroot"),
    Requirement("lvs", "lvm2", "plain"),
    Requirement("lvs", "lvm2", "drbd"),
    Requirement("drbdsetup", "drbd-utils", "drbd"),
)
"""The programs that a node's drivers run; a test compares them with the drivers."""

USUAL = frozenset({"", "kvm"})
"""What a machine without a cluster is examined for."""


def _enabled(machine: Machine) -> frozenset[str]:
    enabled = machine.ssconf("hypervisor_list") + machine.ssconf("disk_templates")
    return frozenset({"", *enabled}) if machine.member else USUAL


def _installed(machine: Machine, program: str) -> bool:
    return any(machine.disk.exists(f"{folder}/{program}") for folder in FOLDERS)


async def programs(machine: Machine) -> Sequence[Result]:
    """Report the programs that are missing, with their packages."""
    enabled = _enabled(machine)
    required = [each for each in PROGRAMS if each.owner in enabled]
    missing = [each for each in required if not _installed(machine, each.program)]
    if not missing:
        owners = ", ".join(sorted(enabled - {""})) or "nothing else"
        return [Result("programs", Level.OK, f"all programs that a node, {owners} need are installed")]
    return [
        Result(
            "programs",
            Level.ERROR,
            f"the program {each.program} is missing" + (f", which {each.owner} needs" if each.owner else ""),
            f"install it: apt install {each.package}",
        )
        for each in missing
    ]


async def accelerator(machine: Machine) -> Sequence[Result]:
    """Report whether guests of ``kvm`` can use the processor's virtualization."""
    if "kvm" not in _enabled(machine):
        return []
    if machine.disk.exists(KVM_DEVICE):
        return [Result("kvm", Level.OK, f"{KVM_DEVICE} exists")]
    remedy = (
        "enable virtualization in the firmware (in a virtual machine: nested virtualization), then modprobe kvm_intel"
    )
    return [
        Result(
            "kvm",
            Level.WARNING,
            f"there is no {KVM_DEVICE}: guests run in QEMU's own emulation, many times slower",
            f"{remedy} or kvm_amd",
        )
    ]
