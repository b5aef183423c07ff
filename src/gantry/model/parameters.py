"""The parameter classes: names, types, limits and defaults of parameters, and the functions that check and fill them.

A level stores only the values that are set there; filling overlays the levels on the built-in defaults, the nearest
level last (contracts/cluster-design.md#filling-of-defaults). The value ``default`` resets a parameter. Parameters of
several hypervisors with the same meaning have the same name (contracts/cluster-design.md#object-parameters). The master
checks names and types here; a node's driver checks what only the node knows, such as whether a kernel file exists.
"""

import difflib
import math
import re
import string
from collections.abc import Collection, Mapping, Sequence

from gantry import errors
from gantry.model import base, cluster, cluster_settings, instance, kvm, templates, xen
from gantry.model.declarations import LARGEST
from gantry.model.declarations import Parameter as Parameter

RESET = "default"

CLUSTER: dict[str, Parameter] = {
    name: Parameter(
        setting.default,
        setting.text,
        choices=setting.choices,
        minimum=setting.minimum,
        maximum=LARGEST if setting.maximum is None else setting.maximum,
    )
    for name, setting in cluster_settings.ALL.items()
    if isinstance(setting.default, base.Value)
}
"""The cluster's settings with a single value; its other settings are lists, or defaults of the classes below."""

DISK_TEMPLATES = templates.NAMES

BACKEND: dict[str, Parameter] = {
    "maxmem": Parameter(128, "Maximum memory of the instance, in MiB", minimum=1),
    "minmem": Parameter(128, "Minimum memory of the instance, in MiB", minimum=1),
    "vcpus": Parameter(1, "Virtual processors", minimum=1),
    "auto_balance": Parameter(True, "Include the instance in the planning of spare memory"),
    "always_failover": Parameter(False, "Fail over instead of migrating"),
    "spindle_use": Parameter(1, "Disk spindles that the instance keeps busy, for capacity planning", minimum=0),
}

MEMORY = ("memory", "minmem", "maxmem")
"""Backend parameters that are sizes; ``memory`` sets both ``minmem`` and ``maxmem``."""

NIC: dict[str, Parameter] = {
    "mode": Parameter("bridged", "How the NIC is connected to the node's network", choices=("bridged", "routed")),
    "link": Parameter("br0", "Bridge, or routing table of a routed NIC"),
    "vlan": Parameter(
        "", "VLAN of the NIC on its bridge, as in 5; :6:7 for tagged frames of VLANs 6 and 7; 5:6:7 for both"
    ),
}

NODE: dict[str, Parameter] = {
    "oob_program": Parameter("", "Not supported, except for the default: program that switches the node's power"),
    "spindle_count": Parameter(1, "Disk spindles of the node, for capacity planning", minimum=0),
    "exclusive_storage": Parameter(False, "Not supported, except for the default: exclusive use of physical volumes"),
    "ovs": Parameter(False, "Not supported, except for the default: whether the node has Open vSwitch"),
    "ovs_name": Parameter("switch1", "Not supported, except for the default: name of the Open vSwitch switch"),
    "ovs_link": Parameter("", "Not supported, except for the default: device that connects the Open vSwitch switch"),
    "ssh_port": Parameter(22, "Port of the node's SSH server", minimum=1, maximum=65535),
    "cpu_speed": Parameter(1.0, "Processor speed relative to other nodes, for capacity planning", minimum=0),
}

UNSUPPORTED_NODE: Mapping[str, str] = {
    "oob_program": "programs that switch the power of nodes",
    "exclusive_storage": "the exclusive use of physical volumes",
    "ovs": "Open vSwitch",
    "ovs_name": "Open vSwitch",
    "ovs_link": "Open vSwitch",
}
"""Node parameters that only have their default here, as older tools send it; each with the feature that is missing."""

DISK = templates.PARAMETERS

KVM = kvm.PARAMETERS

FAKE: dict[str, Parameter] = {
    "migration_mode": Parameter("live", "Mode of the simulated migration", ("live", "non-live"))
}

CDROM = "cdrom_image_path"

HYPERVISORS: dict[str, dict[str, Parameter]] = {"kvm": KVM, **xen.PARAMETERS, "fake": FAKE}

_KIND_NAMES = {bool: "a boolean", int: "an integer", float: "a number", str: "text"}
_UNITS = {"m": 1, "g": 1024, "t": 1024 * 1024}
_ALPHANUMERIC = string.ascii_letters + string.digits
_WITH_UNIT = re.compile(r"\d+(\.\d+)?[mgtMGT]")


def convert(value: object, parameter: Parameter, *, name: str) -> base.Value:
    """Return ``value`` in the parameter's type; numbers and booleans may be text. Raises InvalidError."""
    kind = type(parameter.default)
    converted = _to_kind(value, kind)
    if converted is None:
        raise errors.InvalidError(f"parameter {name}: {value!r} is not {_KIND_NAMES[kind]}")
    parts = str(converted).split(":") if parameter.several else [converted]
    if parameter.choices and not set(parts) <= set(parameter.choices):
        raise errors.InvalidError(f"parameter {name}: {value!r} is not one of {', '.join(parameter.choices)}")
    if parameter.letters and not set(str(converted)) <= set(parameter.letters):
        raise errors.InvalidError(f"parameter {name}: {value!r} may only have the letters {parameter.letters}")
    if parameter.punctuation and not set(str(converted)) <= {*_ALPHANUMERIC, *parameter.punctuation}:
        raise errors.InvalidError(
            f"parameter {name}: {value!r} may only have ASCII letters, digits and {' '.join(parameter.punctuation)}"
        )
    if parameter.minimum is not None and isinstance(converted, int | float) and converted < parameter.minimum:
        raise errors.InvalidError(f"parameter {name}: {value!r} is below the minimum {parameter.minimum}")
    if isinstance(converted, int | float) and converted > parameter.maximum:
        raise errors.InvalidError(f"parameter {name}: the number is above the maximum {parameter.maximum}")
    # Values become lines of files and arguments of programs.
    if isinstance(converted, str) and not converted.isprintable():
        raise errors.InvalidError(f"parameter {name}: {value!r} has characters that are not printable")
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
            return number if math.isfinite(number := float(value)) else None
        except (ValueError, OverflowError):
            return None
    return value if isinstance(value, str) and kind is str else None


def check(values: Mapping[str, object], known: Mapping[str, Parameter], *, noun: str) -> base.Parameters:
    """Check the names of parameters and return their values converted; raises InvalidError.

    The value ``default`` is kept; ``merge`` then resets the parameter. ``noun`` names the class in errors.

    See contracts/cluster-design.md#parameter-checks.
    """
    if names := sorted(set(values) - set(known)):
        raise unknown(f"{noun} parameter", names, known)
    return {name: RESET if value == RESET else convert(value, known[name], name=name) for name, value in values.items()}


def nic(values: Mapping[str, object]) -> base.Parameters:
    """Check the parameters of a NIC."""
    checked = check(values, NIC, noun="NIC")
    return checked | {name: vlan(str(value)) for name, value in checked.items() if name == "vlan" and value != RESET}


def vlan(text: str) -> str:
    """Return a NIC's VLAN in its canonical form; raises InvalidError. The input may be ``.ID`` for ``ID``.

    The form is ``ID`` for untagged frames, ``:ID:ID`` for tagged frames, ``ID:ID:ID`` for both
    (contracts/opcodes.md#value-coercion).
    """
    plain = text.removeprefix(".")
    ids = plain.removeprefix(":").split(":") if text else []
    if not all(id_.isascii() and id_.isdecimal() and len(id_) <= 4 and 1 <= int(id_) <= 4094 for id_ in ids):
        raise errors.InvalidError(f"VLAN {text} is not valid", hint="write a number from 1 to 4094, as in vlan=5")
    return plain


def unknown(noun: str, names: Sequence[str], known: Collection[str]) -> errors.InvalidError:
    """Return the error for unknown names, with the most similar known name as hint, or all known names."""
    close = difflib.get_close_matches(names[0], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known names: {', '.join(sorted(known)) or 'none'}"
    return errors.InvalidError(f"unknown {noun} {', '.join(name or '(empty)' for name in names)}", hint=hint)


def size(value: int | str, *, noun: str = "disk size") -> int:
    """Return a size in MiB; text may have the unit m, g or t and is rounded up to a multiple of 4 MiB.

    See contracts/opcodes.md#value-coercion.
    """
    if isinstance(value, int):
        return value
    number, unit = (value[:-1], value[-1:].lower()) if value[-1:].isalpha() else (value, "m")
    try:
        return math.ceil(float(number) * _UNITS[unit] / 4) * 4
    except (KeyError, ValueError, OverflowError):
        raise errors.InvalidError(
            f"{noun} {value!r:.40} is not valid", hint="write a number of MiB, or a number with the unit m, g or t"
        ) from None


def backend(values: Mapping[str, object]) -> base.Parameters:
    """Check backend parameters; ``memory`` sets minmem and maxmem (contracts/opcodes.md#value-coercion)."""
    plain = {name: _in_mebibytes(value) if name in MEMORY else value for name, value in values.items()}
    if "memory" in plain:
        if "minmem" in plain or "maxmem" in plain:
            raise errors.InvalidError("backend parameter memory cannot be given together with minmem or maxmem")
        plain["minmem"] = plain["maxmem"] = plain.pop("memory")
    if names := sorted(set(plain) - set(BACKEND)):
        raise unknown("backend parameter", names, [*BACKEND, "memory"])
    return check(plain, BACKEND, noun="backend")


def _in_mebibytes(value: object) -> object:
    return size(value, noun="memory") if isinstance(value, str) and _WITH_UNIT.fullmatch(value) else value


def check_memory(filled: Mapping[str, base.Value]) -> None:
    """Check that minmem is not above maxmem in filled backend parameters; raises InvalidError."""
    minimum, maximum = int(filled["minmem"]), int(filled["maxmem"])
    if minimum > maximum:
        raise errors.InvalidError(
            f"backend parameter minmem would be {minimum}, which is above maxmem, {maximum}",
            hint="memory sets both",
        )


def hypervisor(name: str, values: Mapping[str, object]) -> base.Parameters:
    """Check the parameters of a hypervisor; raises InvalidError."""
    if name not in HYPERVISORS:
        raise unknown("hypervisor", [name], HYPERVISORS)
    known = HYPERVISORS[name]
    if CDROM in known and "cdrom" in values and CDROM not in values:
        # An example in the 2.0 design uses this name (contracts/commands.md#letters-of-options).
        values = {CDROM if key == "cdrom" else key: value for key, value in values.items()}
    return check(values, known, noun=f"{name} hypervisor")


def instance_hypervisor(name: str, values: Mapping[str, object]) -> base.Parameters:
    """Check the hypervisor parameters of an instance, which must not be cluster-wide; raises InvalidError.

    See contracts/hypervisor-parameters.md#parameters-of-the-cluster-alone.
    """
    checked = hypervisor(name, values)
    refuse_cluster_wide(name, checked, level="an instance")
    return checked


def refuse_cluster_wide(name: str, parameters: Collection[str], *, level: str) -> None:
    """Raise InvalidError if any of a hypervisor's parameters can only be set for the whole cluster."""
    if cluster_wide := [parameter for parameter in parameters if HYPERVISORS[name][parameter].cluster_wide]:
        raise errors.InvalidError(
            f"parameter {cluster_wide[0]} cannot be set for {level}",
            hint="set it for the cluster with gnt-cluster modify",
        )


def merge(stored: Mapping[str, base.Value], changes: Mapping[str, base.Value]) -> base.Parameters:
    """Return stored parameters with changes applied; the value ``default`` removes a parameter."""
    merged = {**stored, **changes}
    return {name: value for name, value in merged.items() if changes.get(name) != RESET}


def fill(known: Mapping[str, Parameter], *levels: Mapping[str, base.Value]) -> base.Parameters:
    """Return every parameter of a class with its value: the built-in default, overridden by the levels in order."""
    filled = {name: parameter.default for name, parameter in known.items()}
    for level in levels:
        filled.update(level)
    return filled


def fill_hypervisor(the_cluster: cluster.Cluster, vm: instance.Instance) -> base.Parameters:
    """Return an instance's filled hypervisor parameters (contracts/cluster-design.md#filling-of-defaults)."""
    return fill_system(the_cluster, vm.hypervisor, vm.os) | vm.hvparams


def fill_system(the_cluster: cluster.Cluster, hypervisor: str, system: str) -> base.Parameters:
    """Return the filled hypervisor parameters of an operating system; values of its variant take precedence."""
    levels = [
        the_cluster.os_hvp.get(name, {}).get(hypervisor, {}) for name in dict.fromkeys((system.split("+")[0], system))
    ]
    return fill(HYPERVISORS[hypervisor], the_cluster.hvparams.get(hypervisor, {}), *levels)


def fill_backend(the_cluster: cluster.Cluster, vm: instance.Instance) -> base.Parameters:
    """Return an instance's filled backend parameters (contracts/cluster-design.md#filling-of-defaults)."""
    return fill(BACKEND, the_cluster.beparams.get(RESET, {}), vm.beparams)


def fill_nic(the_cluster: cluster.Cluster, nic: instance.Nic) -> base.Parameters:
    """Return a NIC's filled parameters."""
    return fill(NIC, the_cluster.nicparams.get(RESET, {}), nic.nicparams)


def fill_node(the_cluster: cluster.Cluster, group: cluster.NodeGroup | None, node: cluster.Node) -> base.Parameters:
    """Return a node's filled parameters."""
    return fill(NODE, the_cluster.ndparams, group.ndparams if group else {}, node.ndparams)


def fill_disk(the_cluster: cluster.Cluster, group: cluster.NodeGroup | None, template: str) -> base.Parameters:
    """Return the filled parameters of a disk template in a node group; an unknown template has none."""
    levels = (the_cluster.diskparams.get(template, {}), group.diskparams.get(template, {}) if group else {})
    return fill(DISK.get(template, {}), *levels)
