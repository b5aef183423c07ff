"""The instance policy: how large an instance may be, for the cluster and for a node group. Pure.

A level stores only the values that are set there; empty means not set. ``filled`` overlays the levels on ``OPEN``,
which forbids only impossible sizes; ``violations`` returns how an instance violates a filled policy. The ratios are not
checked: capacity planning uses them. Sizes are in MiB.

See contracts/configuration.md#instance-policy.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

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


_RATIO = 1_000_000
"""The largest ratio; a number may be text, and ``inf`` is such a text."""


class BoundsChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change of a range of sizes. Omitted names stay unchanged; the word ``default`` resets a limit."""

    min: Annotated[dict[str, int | str], Meta(description="The minimum of each size")] = {}
    max: Annotated[dict[str, int | str], Meta(description="The maximum of each size")] = {}


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="kebab"):
    """A change of a policy. Omitted settings stay unchanged; the word ``default`` resets a setting.

    For a node group, null, an empty list and a list of the word ``default`` reset a setting too.
    """

    minmax: Annotated[
        tuple[BoundsChange | Literal["default"], ...] | Literal["default"] | msgspec.UnsetType | None,
        Meta(description="Size ranges; an instance must fit one of them"),
    ] = msgspec.UNSET
    std: Annotated[
        dict[str, int | str] | Literal["default"] | msgspec.UnsetType | None,
        Meta(description="Sizes of the standard instance, for capacity planning; only for the cluster"),
    ] = msgspec.UNSET
    disk_templates: Annotated[
        tuple[str, ...] | Literal["default"] | msgspec.UnsetType | None, Meta(description="Allowed disk templates")
    ] = msgspec.UNSET
    vcpu_ratio: Annotated[
        Annotated[float, Meta(ge=0, le=_RATIO)] | Literal["default"] | msgspec.UnsetType | None,
        Meta(description="Number of virtual processors for each processor"),
    ] = msgspec.UNSET
    spindle_ratio: Annotated[
        Annotated[float, Meta(ge=0, le=_RATIO)] | Literal["default"] | msgspec.UnsetType | None,
        Meta(description="Spindle use for each spindle"),
    ] = msgspec.UNSET


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


def changed(stored: Policy, change: Change, *, above: Policy | None = None) -> Policy:
    """Return a level's policy after a change; raises InvalidError.

    ``above`` is the cluster's policy if the level is a node group. Only the named limits of a range change: a single
    range is the base of each new range, several ranges are changed one by one.
    """
    values: dict[str, object] = {}
    for name in change.__struct_fields__:
        value = getattr(change, name)
        if value is msgspec.UNSET:
            continue
        empty = value in (None, ()) or value == (parameters.RESET,)
        if empty and above is None:
            raise errors.InvalidError(
                f"policy {name}: an empty setting of the cluster would forbid all instances", hint="default resets it"
            )
        values[name] = getattr(NO_POLICY, name) if empty or value == parameters.RESET else value
    if values.get("minmax"):
        values["minmax"] = _changed_ranges(stored.minmax, change.minmax, inherited=(above or NO_POLICY).minmax)
    if isinstance(change.std, dict):
        values["std"] = parameters.merge(stored.std, parameters.check(change.std, SPECS, noun="policy"))
    policy = msgspec.structs.replace(stored, **values)
    _check(policy)
    check_levels(above or NO_POLICY, policy)
    return NO_POLICY if policy == NO_POLICY else policy


def _changed_ranges(stored: Sequence[Bounds], change: object, *, inherited: Sequence[Bounds]) -> tuple[Bounds, ...]:
    """Return the ranges of a level after a change; raises InvalidError if it is not clear which range changes."""
    assert isinstance(change, tuple)
    ranges = [each if isinstance(each, BoundsChange) else BoundsChange() for each in change]
    requested = [
        (parameters.check(each.min, SPECS, noun="policy"), parameters.check(each.max, SPECS, noun="policy"))
        for each in ranges
    ]
    complete = all(
        len(side) == len(SPECS) and parameters.RESET not in side.values() for each in requested for side in each
    )
    own = [*stored] or [Bounds()]
    bases = own * len(requested) if len(own) == 1 else own
    if complete:
        bases = [Bounds()] * len(requested)
    elif len(bases) != len(requested) or (not stored and len(inherited) not in (0, 1, len(requested))):
        raise errors.InvalidError(
            f"the policy has {len(stored or inherited)} ranges, and the change has {len(requested)}",
            hint="write all limits of all ranges, or reset the ranges with default first",
        )
    merged = tuple(
        msgspec.convert({"min": parameters.merge(base.min, low), "max": parameters.merge(base.max, high)}, Bounds)
        for base, (low, high) in zip(bases, requested, strict=True)
    )
    return () if all(bounds == Bounds() for bounds in merged) else merged


def _check(policy: Policy) -> None:
    if unknown := [name for name in policy.disk_templates if name not in templates.PARAMETERS]:
        raise parameters.unknown("disk template", unknown, templates.PARAMETERS)


def check_levels(*levels: Policy) -> None:
    """Refuse levels of which no instance could fit a range; raises InvalidError."""
    for bounds in filled(*levels).minmax:
        for name in bounds.min:
            if bounds.min[name] > bounds.max[name]:
                raise errors.InvalidError(
                    f"policy {name}: the minimum, {bounds.min[name]}, is above the maximum, {bounds.max[name]}"
                )


def filled(*levels: Policy) -> Policy:
    """Return the effective policy: later levels take precedence, and values that no level sets are open.

    If a range of a level has no limit for a value, the limit of the level above counts: of its only range, or of the
    range at the same place if it has as many ranges.
    """
    effective = OPEN
    for level in levels:
        own_values = {name: value for name in level.__struct_fields__ if (value := getattr(level, name))}
        own_values["minmax"] = _overlaid(effective.minmax, level.minmax) if level.minmax else effective.minmax
        effective = msgspec.structs.replace(effective, **own_values)
    return msgspec.structs.replace(effective, std={**OPEN.std, **effective.std})


def _overlaid(above: Sequence[Bounds], own: Sequence[Bounds]) -> tuple[Bounds, ...]:
    bases = (
        [*above] * len(own) if len(above) == 1 else [*above] if len(above) == len(own) else [*OPEN.minmax] * len(own)
    )
    return tuple(
        Bounds(min={**base.min, **bounds.min}, max={**base.max, **bounds.max})
        for base, bounds in zip(bases, own, strict=True)
    )


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
