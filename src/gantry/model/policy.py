"""The instance policy: how large an instance may be, for the cluster and for a node group. Pure.

A level stores only the values that are set there; empty means not set. ``filled`` overlays the levels on ``OPEN``,
which forbids only impossible sizes; ``violations`` returns how an instance violates a filled policy. The ratios are not
checked: capacity planning uses them. Sizes are in MiB.

See contracts/configuration.md#instance-policy.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from gantry import errors
from gantry.model import base, instance, parameters, templates
from gantry.model.cluster import NO_POLICY, Bounds, Policy
from gantry.model.declarations import LARGEST, Parameter

SPECS: dict[str, Parameter] = {
    "cpu-count": Parameter(1, "Virtual processors", minimum=0),
    "disk-count": Parameter(1, "Disks", minimum=0),
    "disk-size": Parameter(1024, "Size of each disk", minimum=0),
    "memory-size": Parameter(128, "Memory", minimum=0),
    "nic-count": Parameter(1, "NICs", minimum=0),
    "spindle-use": Parameter(1, "Disk spindles that the instance keeps busy", minimum=0),
}
"""The sizes that a policy limits; the default is the size of the standard instance."""


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="kebab"):
    """A change of a policy. Omitted settings stay unchanged; the word ``default`` resets a setting."""

    minmax: tuple[Bounds, ...] | Literal["default"] | None = None
    std: dict[str, int | str] | Literal["default"] | None = None
    disk_templates: tuple[str, ...] | Literal["default"] | None = None
    vcpu_ratio: float | Literal["default"] | None = None
    spindle_ratio: float | Literal["default"] | None = None


_MINIMUM = dict.fromkeys(SPECS, 0)
_MAXIMUM = dict.fromkeys(SPECS, LARGEST) | {"disk-count": 16, "nic-count": 8}

OPEN = Policy(
    minmax=(Bounds(min=_MINIMUM, max=_MAXIMUM),),
    std={name: int(spec.default) for name, spec in SPECS.items()},
    disk_templates=tuple(sorted(templates.PARAMETERS)),
    vcpu_ratio=4.0,
    spindle_ratio=32.0,
)
"""The policy if no level sets anything."""


def changed(stored: Policy, change: Change) -> Policy:
    """Return a level's policy after a change; raises InvalidError."""
    if change.minmax == () or change.disk_templates == ():
        raise errors.InvalidError("an empty list in a policy would forbid all instances", hint="default resets it")
    settings = {name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not None}
    values = {
        name: getattr(NO_POLICY, name) if value == parameters.RESET else value for name, value in settings.items()
    }
    if isinstance(change.std, dict):
        values["std"] = parameters.merge(stored.std, parameters.check(change.std, SPECS, noun="policy"))
    policy = msgspec.structs.replace(stored, **values)
    _check(policy)
    return NO_POLICY if policy == NO_POLICY else policy


def _check(policy: Policy) -> None:
    for bounds in policy.minmax:
        for specs in (bounds.min, bounds.max):
            parameters.check(specs, SPECS, noun="policy")
        for name in bounds.min:
            if bounds.min[name] > bounds.max.get(name, _MAXIMUM[name]):
                raise errors.InvalidError(
                    f"policy {name}: the minimum, {bounds.min[name]}, is above the maximum, {bounds.max[name]}"
                )
    if unknown := [name for name in policy.disk_templates if name not in templates.PARAMETERS]:
        raise parameters.unknown("disk template", unknown, templates.PARAMETERS)
    for name in ("vcpu_ratio", "spindle_ratio"):
        if getattr(policy, name) < 0:
            raise errors.InvalidError(f"policy {name}: {getattr(policy, name):g} is below 0")


def filled(*levels: Policy) -> Policy:
    """Return the effective policy: later levels take precedence, and values that no level sets are open."""
    effective = OPEN
    for level in levels:
        own_values = {name: value for name in level.__struct_fields__ if (value := getattr(level, name))}
        effective = msgspec.structs.replace(effective, **own_values)
    minmax = tuple(Bounds(min=_MINIMUM | bounds.min, max=_MAXIMUM | bounds.max) for bounds in effective.minmax)
    return msgspec.structs.replace(effective, minmax=minmax, std={**OPEN.std, **effective.std})


def shape(vm: instance.Instance, backend: Mapping[str, base.Value]) -> dict[str, Sequence[int]]:
    """Return the sizes of an instance that a policy limits; ``backend`` are its filled backend parameters."""
    return {
        "cpu-count": (int(backend["vcpus"]),),
        "disk-count": (len(vm.disks),),
        "disk-size": tuple(disk.size for disk in vm.disks),
        "memory-size": (int(backend["maxmem"]),),
        "nic-count": (len(vm.nics),),
        "spindle-use": (int(backend["spindle_use"]),),
    }


def violations(policy: Policy, vm: instance.Instance, backend: Mapping[str, base.Value]) -> list[str]:
    """Return how an instance violates a filled policy, a line each; of several ranges, that with fewest violations."""
    sizes = shape(vm, backend)
    fewest = min((list(_outside(bounds, sizes)) for bounds in policy.minmax), key=len)
    if vm.disk_template not in policy.disk_templates:
        fewest.append(f"disk template {vm.disk_template} is not one of {', '.join(policy.disk_templates)}")
    return fewest


def _outside(bounds: Bounds, sizes: Mapping[str, Sequence[int]]) -> Iterable[str]:
    for name, values in sizes.items():
        minimum, maximum = bounds.min[name], bounds.max[name]
        for value in dict.fromkeys(values):
            if not minimum <= value <= maximum:
                limit = f"below the minimum {minimum}" if value < minimum else f"above the maximum {maximum}"
                yield f"{name} {value} is {limit}"
