"""The parameter classes: which names exist, what values they take, their defaults, and how they are filled.

A level stores only what was set there; filling lays the levels over the built-in defaults, the nearest last (seed
"Default value application"). The word ``default`` as a value takes a setting back. Hypervisors share names where they
share meaning (seed "Instance parameters"). The master checks names and types here; what only a node can tell
(whether a kernel file exists) its driver checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gantry import errors
from gantry.model import base, cluster, instance

RESET = "default"

LARGEST = 1 << 40
"""No number is larger: an exbibyte, where it is memory in MiB."""


@dataclass(frozen=True)
class Parameter:
    """A parameter: its default fixes its type; ``choices`` and ``minimum`` bound it where that makes sense."""

    default: base.Value
    text: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None


BACKEND: dict[str, Parameter] = {
    "maxmem": Parameter(128, "Memory the instance may have at most, in MiB", minimum=1),
    "minmem": Parameter(128, "Memory the instance has at least, in MiB", minimum=1),
    "vcpus": Parameter(1, "Virtual processors", minimum=1),
    "auto_balance": Parameter(True, "Count the instance when spare memory is planned"),
    "always_failover": Parameter(False, "Fail over instead of migrating"),
}

NIC: dict[str, Parameter] = {
    "mode": Parameter("bridged", "How the NIC is plugged in", choices=("bridged", "routed")),
    "link": Parameter("br0", "Bridge, or routing table of a routed NIC"),
    "vlan": Parameter("", "VLAN of the NIC on its bridge"),
}

NODE: dict[str, Parameter] = {}

KVM: dict[str, Parameter] = {
    "accel": Parameter(
        "auto", "Accelerator; auto uses KVM only where a guest really runs with it", ("auto", "kvm", "tcg")
    ),
    "acpi": Parameter(True, "Give the guest ACPI"),
    "boot_order": Parameter("disk", "Device to boot from", ("disk", "cdrom", "network")),
    "cdrom_image_path": Parameter("", "ISO image of a CD-ROM drive"),
    "cpu_type": Parameter("", "Processor model"),
    "disk_cache": Parameter("default", "Cache mode of the disks", ("default", "none", "writethrough", "writeback")),
    "disk_type": Parameter("paravirtual", "How disks are presented", ("paravirtual", "ide", "scsi")),
    "initrd_path": Parameter("", "Initial RAM disk that goes with kernel_path"),
    "kernel_args": Parameter("ro", "Arguments of the kernel"),
    "kernel_path": Parameter("", "Kernel to boot; empty boots from the disk"),
    "kvm_path": Parameter("/usr/bin/qemu-system-x86_64", "The QEMU program"),
    "machine_version": Parameter("pc", "Machine type"),
    "nic_type": Parameter("paravirtual", "Model of the NICs", ("paravirtual", "e1000", "rtl8139")),
    "reboot_behavior": Parameter("reboot", "What a reboot inside the guest does", ("reboot", "exit")),
    "root_path": Parameter("/dev/vda1", "Root device that the kernel is told"),
    "serial_console": Parameter(True, "Give the guest a serial console"),
    "serial_speed": Parameter(38400, "Speed of the serial console", minimum=1),
    "use_localtime": Parameter(False, "The guest's clock shows local time"),
    "vnc_bind_address": Parameter("", "Address or socket of the VNC server; empty for none"),
}

FAKE: dict[str, Parameter] = {"migration_mode": Parameter("live", "How migration is simulated", ("live", "non-live"))}

HYPERVISORS: dict[str, dict[str, Parameter]] = {"kvm": KVM, "fake": FAKE}


def convert(value: object, parameter: Parameter, *, name: str) -> base.Value:
    """Return ``value`` in the parameter's type; text is taken for numbers and truth values as clients send it.

    Raises InvalidError.
    """
    kind = type(parameter.default)
    converted = _to_kind(value, kind)
    if converted is None:
        raise errors.InvalidError(f"parameter {name}: {value!r} is no {kind.__name__}")
    if parameter.choices and converted not in parameter.choices:
        raise errors.InvalidError(f"parameter {name}: {value!r} is not one of {', '.join(parameter.choices)}")
    if parameter.minimum is not None and isinstance(converted, int) and converted < parameter.minimum:
        raise errors.InvalidError(f"parameter {name}: {value!r} is below {parameter.minimum}")
    if isinstance(converted, int) and converted > LARGEST:
        raise errors.InvalidError(f"parameter {name}: the number is above {LARGEST}")
    return converted


def _to_kind(value: object, kind: type) -> base.Value | None:
    if kind is bool:
        words: dict[object, bool] = {
            True: True,
            False: False,
            "true": True,
            "yes": True,
            "false": False,
            "no": False,
        }
        return words.get(value.lower() if isinstance(value, str) else value) if isinstance(value, str | bool) else None
    if kind is int and not isinstance(value, bool):
        try:
            return int(value) if isinstance(value, int | str) else None
        except ValueError:
            return None
    return value if isinstance(value, str) and kind is str else None


def check(given: Mapping[str, object], known: Mapping[str, Parameter], *, what: str) -> base.Parameters:
    """Check names and types of what somebody sets (the seed's CheckParamSyntax) and return it converted.

    Values that take a setting back stay as the word ``default``; ``merge`` acts on them.
    """
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise errors.InvalidError(
            f"unknown {what} parameter {', '.join(unknown)}",
            hint=f"known are {', '.join(sorted(known)) or 'none'}",
        )
    return {name: RESET if value == RESET else convert(value, known[name], name=name) for name, value in given.items()}


def backend(given: Mapping[str, object]) -> base.Parameters:
    """Check backend parameters; ``memory`` sets both bounds (contract: value coercion)."""
    plain = dict(given)
    if "memory" in plain:
        if "minmem" in plain or "maxmem" in plain:
            raise errors.InvalidError("backend parameter memory cannot be given together with minmem or maxmem")
        plain["minmem"] = plain["maxmem"] = plain.pop("memory")
    return check(plain, BACKEND, what="backend")


def hypervisor(name: str, given: Mapping[str, object]) -> base.Parameters:
    """Check the parameters of a hypervisor."""
    if name not in HYPERVISORS:
        raise errors.InvalidError(f"unknown hypervisor {name}", hint=f"known are {', '.join(sorted(HYPERVISORS))}")
    return check(given, HYPERVISORS[name], what=f"{name} hypervisor")


def merge(stored: Mapping[str, base.Value], given: Mapping[str, base.Value]) -> base.Parameters:
    """Lay what is given over what is stored; ``default`` removes the setting."""
    merged = {**stored, **given}
    return {name: value for name, value in merged.items() if given.get(name) != RESET}


def fill(known: Mapping[str, Parameter], *levels: Mapping[str, base.Value]) -> base.Parameters:
    """Return every parameter of a class with its value: built-in defaults, then the levels in order."""
    filled = {name: parameter.default for name, parameter in known.items()}
    for level in levels:
        filled.update(level)
    return filled


def fill_hypervisor(owner: cluster.Cluster, vm: instance.Instance) -> base.Parameters:
    """Return an instance's filled hypervisor parameters (the seed's Cluster.FillHV)."""
    return fill(HYPERVISORS[vm.hypervisor], owner.hvparams.get(vm.hypervisor, {}), vm.hvparams)


def fill_backend(owner: cluster.Cluster, vm: instance.Instance) -> base.Parameters:
    """Return an instance's filled backend parameters (the seed's Cluster.FillBE)."""
    return fill(BACKEND, owner.beparams.get(RESET, {}), vm.beparams)


def fill_nic(owner: cluster.Cluster, nic: instance.Nic) -> base.Parameters:
    """Return a NIC's filled parameters."""
    return fill(NIC, owner.nicparams.get(RESET, {}), nic.nicparams)
