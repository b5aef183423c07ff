"""The parameter classes: which names exist, what values they take, their defaults, and how they are filled.

A level stores only what was set there; filling lays the levels over the built-in defaults, the nearest last (seed
"Default value application"). The word ``default`` as a value takes a setting back. Hypervisors share names where they
share meaning (seed "Instance parameters"). The master checks names and types here; what only a node can tell
(whether a kernel file exists) its driver checks.
"""

import difflib
import math
from collections.abc import Collection, Mapping, Sequence

from gantry import errors
from gantry.model import base, cluster, instance, kvm
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
    "ipam_hold_time": Parameter(
        0, "Seconds that an address rests which an instance has given back", minimum=0, maximum=10 * 366 * 86400
    ),
}
"""The cluster's own settings that are one value each; its other settings are lists, and defaults of these classes."""

DISK_TEMPLATES = ("file", "diskless")
"""The kinds of disks that there are, in the order in which a new cluster has them."""

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

KVM = kvm.PARAMETERS

FAKE: dict[str, Parameter] = {
    "migration_mode": Parameter("live", "How migration is simulated", ("live", "non-live"), cluster_wide=True)
}

HYPERVISORS: dict[str, dict[str, Parameter]] = {"kvm": KVM, "fake": FAKE}

_UNITS = {"m": 1, "g": 1024, "t": 1024 * 1024}


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
    if parameter.minimum is not None and isinstance(converted, int) and converted < parameter.minimum:
        raise errors.InvalidError(f"parameter {name}: {value!r} is below {parameter.minimum}")
    if isinstance(converted, int) and converted > parameter.maximum:
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
    return value if isinstance(value, str) and kind is str else None


def check(given: Mapping[str, object], known: Mapping[str, Parameter], *, what: str) -> base.Parameters:
    """Check names and types of what somebody sets (the seed's CheckParamSyntax) and return it converted.

    Values that take a setting back stay as the word ``default``; ``merge`` acts on them.
    """
    if wrong := sorted(set(given) - set(known)):
        raise unknown(f"{what} parameter", wrong, known)
    return {name: RESET if value == RESET else convert(value, known[name], name=name) for name, value in given.items()}


def unknown(what: str, wrong: Sequence[str], known: Collection[str]) -> errors.InvalidError:
    """Return the error for names that are not known; it shows the nearest one that is, or all where none is near."""
    close = difflib.get_close_matches(wrong[0], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known)) or 'none'}"
    return errors.InvalidError(f"unknown {what} {', '.join(name or '(empty)' for name in wrong)}", hint=hint)


def size(value: int | str) -> int:
    """Return a disk size in MiB; text may end in m, g or t and is rounded up to 4 MiB (contract: value coercion)."""
    if isinstance(value, int):
        return value
    number, unit = (value[:-1], value[-1:].lower()) if value[-1:].isalpha() else (value, "m")
    try:
        return math.ceil(float(number) * _UNITS[unit] / 4) * 4
    except (KeyError, ValueError, OverflowError):
        raise errors.InvalidError(
            f"disk size {value!r:.40} is not valid", hint="write MiB, or a number with m, g or t"
        ) from None


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
        raise unknown("hypervisor", [name], HYPERVISORS)
    return check(given, HYPERVISORS[name], what=f"{name} hypervisor")


def instance_hypervisor(name: str, given: Mapping[str, object]) -> base.Parameters:
    """Check what is set for an instance; some parameters are the cluster's alone (contract: global-only)."""
    checked = hypervisor(name, given)
    for parameter in checked:
        if HYPERVISORS[name][parameter].cluster_wide:
            raise errors.InvalidError(
                f"parameter {parameter} cannot be set for an instance", hint="gnt-cluster modify sets it for all"
            )
    return checked


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
