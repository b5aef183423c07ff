"""The parameter classes: which names exist, what values they take, their defaults, and how they are filled.

A level stores only what was set there; filling lays the levels over the built-in defaults, the nearest last
(contracts/cluster-design.md#filling-of-defaults). The word ``default`` as a value takes a setting back. Hypervisors
share names where they share meaning (contracts/cluster-design.md#object-parameters). The master checks names and types
here; what only a node can tell (whether a kernel file exists) its driver checks.
"""

import difflib
import math
import re
from collections.abc import Collection, Mapping, Sequence

from gantry import errors
from gantry.model import base, cluster, instance, kvm, templates, xen
from gantry.model.declarations import Parameter as Parameter

RESET = "default"

CLUSTER: dict[str, Parameter] = {
    "candidate_pool_size": Parameter(
        10, "How many nodes keep a copy of the state, the master among them", minimum=1, maximum=1000
    ),
    "max_running_jobs": Parameter(1000, "How many jobs run at once; the others wait", minimum=1, maximum=20_000),
    "mac_prefix": Parameter("aa:00:00", "First half of the MAC addresses that are made"),
    "master_netdev": Parameter("", "Network device of the master's own address"),
    "default_disk_size": Parameter(0, "MiB of a disk whose size is not said; 0 for none", minimum=0),
    "vg_name": Parameter("xenvg", "Volume group of logical volumes for which none is named"),
    "default_iallocator": Parameter("", "Program that places instances; empty for the built-in allocator"),
    "prealloc_wipe_disks": Parameter(False, "Overwrite new disks with zeros before they are used"),
    "ipam_hold_time": Parameter(
        0, "Seconds that an address rests which an instance has given back", minimum=0, maximum=10 * 366 * 86400
    ),
    "segment_ranges": Parameter(False, "Let segment ranges be made besides those of segments.ini"),
    "segment_fallback": Parameter(
        False, "Let a project that has used up its own segment ranges take from the shared ones"
    ),
}
"""The cluster's own settings that are one value each; its other settings are lists, and defaults of these classes."""

DISK_TEMPLATES = templates.NAMES

BACKEND: dict[str, Parameter] = {
    "maxmem": Parameter(128, "Memory the instance may have at most, in MiB", minimum=1),
    "minmem": Parameter(128, "Memory the instance has at least, in MiB", minimum=1),
    "vcpus": Parameter(1, "Virtual processors", minimum=1),
    "auto_balance": Parameter(True, "Count the instance when spare memory is planned"),
    "always_failover": Parameter(False, "Fail over instead of migrating"),
    "spindle_use": Parameter(1, "Disk spindles that the instance keeps busy, for planning", minimum=0),
}

MEMORY = ("memory", "minmem", "maxmem")
"""Backend parameters that are sizes; ``memory`` is another name for both bounds."""

NIC: dict[str, Parameter] = {
    "mode": Parameter("bridged", "How the NIC is plugged in", choices=("bridged", "routed")),
    "link": Parameter("br0", "Bridge, or routing table of a routed NIC"),
    "vlan": Parameter("", "VLAN of the NIC on its bridge, as in 5; :6:7 for tagged frames of two, 5:6:7 for both"),
}

NODE: dict[str, Parameter] = {
    "oob_program": Parameter("", "Program that switches the node's power; kept for tools, nothing here runs it"),
    "spindle_count": Parameter(1, "Disk spindles of the node, for planning", minimum=0),
    "exclusive_storage": Parameter(False, "Kept for tools: a disk is never spread over physical volumes by this"),
    "ovs": Parameter(False, "Kept for tools: whether the node has Open vSwitch"),
    "ovs_name": Parameter("switch1", "Kept for tools: its switch"),
    "ovs_link": Parameter("", "Kept for tools: the device that connects it"),
    "ssh_port": Parameter(22, "Port of the node's SSH server", minimum=1, maximum=65535),
    "cpu_speed": Parameter(1.0, "Speed of its processors beside other nodes', for planning", minimum=0),
}

DISK = templates.PARAMETERS

KVM = kvm.PARAMETERS

FAKE: dict[str, Parameter] = {"migration_mode": Parameter("live", "How migration is simulated", ("live", "non-live"))}

CDROM = "cdrom_image_path"

HYPERVISORS: dict[str, dict[str, Parameter]] = {"kvm": KVM, **xen.PARAMETERS, "fake": FAKE}

_UNITS = {"m": 1, "g": 1024, "t": 1024 * 1024}
_WITH_UNIT = re.compile(r"\d+(\.\d+)?[mgtMGT]")


def convert(value: object, parameter: Parameter, *, name: str) -> base.Value:
    """Return ``value`` in the parameter's type; text is taken for numbers and truth values as clients send it.

    Raises InvalidError.
    """
    kind = type(parameter.default)
    converted = _to_kind(value, kind)
    if converted is None:
        raise errors.InvalidError(f"parameter {name}: {value!r} is no {kind.__name__}")
    parts = str(converted).split(":") if parameter.several else [converted]
    if parameter.choices and not set(parts) <= set(parameter.choices):
        raise errors.InvalidError(f"parameter {name}: {value!r} is not one of {', '.join(parameter.choices)}")
    if parameter.letters and not set(str(converted)) <= set(parameter.letters):
        raise errors.InvalidError(f"parameter {name}: {value!r} has other letters than {parameter.letters}")
    if parameter.minimum is not None and isinstance(converted, int | float) and converted < parameter.minimum:
        raise errors.InvalidError(f"parameter {name}: {value!r} is below {parameter.minimum}")
    if isinstance(converted, int | float) and converted > parameter.maximum:
        raise errors.InvalidError(f"parameter {name}: the number is above {parameter.maximum}")
    # Values stand in lines of files that programs read, and in the arguments of programs.
    if isinstance(converted, str) and not converted.isprintable():
        raise errors.InvalidError(f"parameter {name}: {value!r} has characters that cannot be printed")
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
    if kind is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return found if math.isfinite(found := float(value)) else None
        except (ValueError, OverflowError):
            return None
    return value if isinstance(value, str) and kind is str else None


def check(given: Mapping[str, object], known: Mapping[str, Parameter], *, what: str) -> base.Parameters:
    """Check names and types of what somebody sets and return it converted.

    Values that take a setting back stay as the word ``default``; ``merge`` acts on them.

    See contracts/cluster-design.md#parameter-checks.
    """
    if wrong := sorted(set(given) - set(known)):
        raise unknown(f"{what} parameter", wrong, known)
    return {name: RESET if value == RESET else convert(value, known[name], name=name) for name, value in given.items()}


def nic(given: Mapping[str, object]) -> base.Parameters:
    """Check what is set for a NIC."""
    checked = check(given, NIC, what="NIC")
    return checked | {name: vlan(str(value)) for name, value in checked.items() if name == "vlan" and value != RESET}


def vlan(text: str) -> str:
    """Return a NIC's VLAN; InvalidError. ``.ID`` is the same as ``ID`` (contracts/opcodes.md#value-coercion).

    It is ``ID`` for frames without a tag, ``:ID:ID`` for tagged ones, ``ID:ID:ID`` for both.
    """
    plain = text.removeprefix(".")
    ids = plain.removeprefix(":").split(":") if text else []
    if not all(one.isascii() and one.isdecimal() and len(one) <= 4 and 1 <= int(one) <= 4094 for one in ids):
        raise errors.InvalidError(f"VLAN {text} is not valid", hint="write a number from 1 to 4094, as in vlan=5")
    return plain


def unknown(what: str, wrong: Sequence[str], known: Collection[str]) -> errors.InvalidError:
    """Return the error for names that are not known; it shows the nearest one that is, or all where none is near."""
    close = difflib.get_close_matches(wrong[0], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known)) or 'none'}"
    return errors.InvalidError(f"unknown {what} {', '.join(name or '(empty)' for name in wrong)}", hint=hint)


def size(value: int | str, *, what: str = "disk size") -> int:
    """Return a size in MiB; text may end in m, g or t and is rounded up to 4 MiB.

    See contracts/opcodes.md#value-coercion.
    """
    if isinstance(value, int):
        return value
    number, unit = (value[:-1], value[-1:].lower()) if value[-1:].isalpha() else (value, "m")
    try:
        return math.ceil(float(number) * _UNITS[unit] / 4) * 4
    except (KeyError, ValueError, OverflowError):
        raise errors.InvalidError(
            f"{what} {value!r:.40} is not valid", hint="write MiB, or a number with m, g or t"
        ) from None


def backend(given: Mapping[str, object]) -> base.Parameters:
    """Check backend parameters; ``memory`` sets both bounds (contracts/opcodes.md#value-coercion)."""
    plain = {name: _in_mebibytes(value) if name in MEMORY else value for name, value in given.items()}
    if "memory" in plain:
        if "minmem" in plain or "maxmem" in plain:
            raise errors.InvalidError("backend parameter memory cannot be given together with minmem or maxmem")
        plain["minmem"] = plain["maxmem"] = plain.pop("memory")
    if wrong := sorted(set(plain) - set(BACKEND)):
        raise unknown("backend parameter", wrong, [*BACKEND, "memory"])
    return check(plain, BACKEND, what="backend")


def _in_mebibytes(value: object) -> object:
    return size(value, what="memory") if isinstance(value, str) and _WITH_UNIT.fullmatch(value) else value


def check_memory(filled: Mapping[str, base.Value]) -> None:
    """Refuse filled backend parameters that leave an instance no memory to have; raises InvalidError."""
    least, most = int(filled["minmem"]), int(filled["maxmem"])
    if least > most:
        raise errors.InvalidError(
            f"backend parameter minmem would be {least}, which is above maxmem, {most}", hint="memory sets both"
        )


def hypervisor(name: str, given: Mapping[str, object]) -> base.Parameters:
    """Check the parameters of a hypervisor."""
    if name not in HYPERVISORS:
        raise unknown("hypervisor", [name], HYPERVISORS)
    known = HYPERVISORS[name]
    if CDROM in known and "cdrom" in given and CDROM not in given:
        # The word of an example in the 2.0 design (contracts/commands.md#letters-of-options).
        given = {CDROM if key == "cdrom" else key: value for key, value in given.items()}
    return check(given, known, what=f"{name} hypervisor")


def instance_hypervisor(name: str, given: Mapping[str, object]) -> base.Parameters:
    """Check what is set for an instance; some parameters are the cluster's alone.

    See contracts/hypervisor-parameters.md#parameters-of-the-cluster-alone.
    """
    checked = hypervisor(name, given)
    refuse_cluster_wide(name, checked, whom="an instance")
    return checked


def refuse_cluster_wide(name: str, given: Collection[str], *, whom: str) -> None:
    """Refuse parameters of a hypervisor that only the cluster can set; raises InvalidError."""
    if wrong := [parameter for parameter in given if HYPERVISORS[name][parameter].cluster_wide]:
        raise errors.InvalidError(
            f"parameter {wrong[0]} cannot be set for {whom}", hint="gnt-cluster modify sets it for all"
        )


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
    """Return an instance's filled hypervisor parameters (contracts/cluster-design.md#filling-of-defaults)."""
    return fill_system(owner, vm.hypervisor, vm.os) | vm.hvparams


def fill_system(owner: cluster.Cluster, hypervisor: str, system: str) -> base.Parameters:
    """Return what a hypervisor's instances with an operating system get: what is set for its variant comes last."""
    levels = [owner.os_hvp.get(name, {}).get(hypervisor, {}) for name in dict.fromkeys((system.split("+")[0], system))]
    return fill(HYPERVISORS[hypervisor], owner.hvparams.get(hypervisor, {}), *levels)


def fill_backend(owner: cluster.Cluster, vm: instance.Instance) -> base.Parameters:
    """Return an instance's filled backend parameters (contracts/cluster-design.md#filling-of-defaults)."""
    return fill(BACKEND, owner.beparams.get(RESET, {}), vm.beparams)


def fill_nic(owner: cluster.Cluster, nic: instance.Nic) -> base.Parameters:
    """Return a NIC's filled parameters."""
    return fill(NIC, owner.nicparams.get(RESET, {}), nic.nicparams)


def fill_node(owner: cluster.Cluster, group: cluster.NodeGroup | None, node: cluster.Node) -> base.Parameters:
    """Return a node's filled parameters."""
    return fill(NODE, owner.ndparams, group.ndparams if group else {}, node.ndparams)


def fill_disk(owner: cluster.Cluster, group: cluster.NodeGroup | None, template: str) -> base.Parameters:
    """Return the filled parameters of a kind of disk in a node group; one that is not known has none."""
    levels = (owner.diskparams.get(template, {}), group.diskparams.get(template, {}) if group else {})
    return fill(DISK.get(template, {}), *levels)
