"""The instance policy: how large an instance may be, for the cluster and for a node group. Pure.

A level stores only what was set there: what is empty is not set. ``filled`` lays the levels over ``OPEN``, which
forbids nothing but what no instance can have; ``violations`` says what of an instance a filled policy forbids. The
ratios are not checked: they are for those who plan capacity. Sizes are MiB.

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
    "spindle-use": Parameter(1, "Disk spindles it keeps busy", minimum=0),
}
"""What a policy bounds; the default is that of the standard instance."""


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="kebab"):
    """A change of a policy: what is left out stays, the word ``default`` takes a setting back."""

    minmax: tuple[Bounds, ...] | Literal["default"] | None = None
    std: dict[str, int | str] | Literal["default"] | None = None
    disk_templates: tuple[str, ...] | Literal["default"] | None = None
    vcpu_ratio: float | Literal["default"] | None = None
    spindle_ratio: float | Literal["default"] | None = None


_LEAST = dict.fromkeys(SPECS, 0)
_MOST = dict.fromkeys(SPECS, LARGEST) | {"disk-count": 16, "nic-count": 8}

OPEN = Policy(
    minmax=(Bounds(min=_LEAST, max=_MOST),),
    std={name: int(one.default) for name, one in SPECS.items()},
    disk_templates=tuple(sorted(templates.PARAMETERS)),
    vcpu_ratio=4.0,
    spindle_ratio=32.0,
)
"""The policy where nothing is set."""


def changed(stored: Policy, change: Change) -> Policy:
    """Return a level's policy with a change laid over it; raises InvalidError."""
    if change.minmax == () or change.disk_templates == ():
        raise errors.InvalidError("an empty list of a policy would allow no instance", hint="default takes it back")
    given = {name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not None}
    fresh = {name: getattr(NO_POLICY, name) if value == parameters.RESET else value for name, value in given.items()}
    if isinstance(change.std, dict):
        fresh["std"] = parameters.merge(stored.std, parameters.check(change.std, SPECS, what="policy"))
    wanted = msgspec.structs.replace(stored, **fresh)
    _check(wanted)
    return NO_POLICY if wanted == NO_POLICY else wanted


def _check(wanted: Policy) -> None:
    for bounds in wanted.minmax:
        for specs in (bounds.min, bounds.max):
            parameters.check(specs, SPECS, what="policy")
        for name in bounds.min:
            if bounds.min[name] > bounds.max.get(name, _MOST[name]):
                raise errors.InvalidError(
                    f"policy {name}: the least, {bounds.min[name]}, is above the most, {bounds.max[name]}"
                )
    if wrong := [name for name in wanted.disk_templates if name not in templates.PARAMETERS]:
        raise parameters.unknown("disk template", wrong, templates.PARAMETERS)
    for name in ("vcpu_ratio", "spindle_ratio"):
        if getattr(wanted, name) < 0:
            raise errors.InvalidError(f"policy {name}: {getattr(wanted, name):g} is below 0")


def filled(*levels: Policy) -> Policy:
    """Return the policy that holds: what nothing bounds is open, the nearest level comes last."""
    found = OPEN
    for level in levels:
        set_here = {name: value for name in level.__struct_fields__ if (value := getattr(level, name))}
        found = msgspec.structs.replace(found, **set_here)
    minmax = tuple(Bounds(min=_LEAST | one.min, max=_MOST | one.max) for one in found.minmax)
    return msgspec.structs.replace(found, minmax=minmax, std={**OPEN.std, **found.std})


def shape(vm: instance.Instance, backend: Mapping[str, base.Value]) -> dict[str, Sequence[int]]:
    """Return what a policy looks at of an instance, whose backend parameters are filled."""
    return {
        "cpu-count": (int(backend["vcpus"]),),
        "disk-count": (len(vm.disks),),
        "disk-size": tuple(disk.size for disk in vm.disks),
        "memory-size": (int(backend["maxmem"]),),
        "nic-count": (len(vm.nics),),
        "spindle-use": (int(backend["spindle_use"]),),
    }


def violations(holds: Policy, vm: instance.Instance, backend: Mapping[str, base.Value]) -> list[str]:
    """Return what a filled policy forbids of an instance, a line each; of several bounds the nearest is told of."""
    sizes = shape(vm, backend)
    best = min((list(_outside(bounds, sizes)) for bounds in holds.minmax), key=len)
    if vm.disk_template not in holds.disk_templates:
        best.append(f"disk template {vm.disk_template} is not one of {', '.join(holds.disk_templates)}")
    return best


def _outside(bounds: Bounds, sizes: Mapping[str, Sequence[int]]) -> Iterable[str]:
    for name, values in sizes.items():
        least, most = bounds.min[name], bounds.max[name]
        for value in dict.fromkeys(values):
            if not least <= value <= most:
                side, limit = ("below", least) if value < least else ("above", most)
                yield f"{name} {value} is {side} {limit}"
