"""What is set for the cluster, a node group or a node: checked, laid over what is stored, and told. Pure.

Shared by the units that change those levels. A level stores only what was set there; the word ``default`` takes it
back.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import to_builtins

from gantry import errors
from gantry.model import base as entities
from gantry.model import cluster, instance, parameters, policy
from gantry.state import snapshot as states

ByName = dict[str, entities.Parameters]
Class = tuple[str, Mapping[str, parameters.Parameter], entities.Parameters, entities.Parameters]
"""A class of parameters: what it is called, what is known of it, what is set before and after."""


def merged(stored: Mapping[str, entities.Parameters], given: Mapping[str, entities.Parameters]) -> ByName:
    """Return parameters by name with what is given laid over; what has none left is left out."""
    laid = {name: parameters.merge(stored.get(name, {}), given.get(name, {})) for name in {**stored, **given}}
    return {name: values for name, values in laid.items() if values}


def node(stored: entities.Parameters, given: Mapping[str, object] | None) -> entities.Parameters:
    """Return node parameters after a change; raises InvalidError."""
    return parameters.merge(stored, parameters.check(given or {}, parameters.NODE, what="node"))


def disks(stored: ByName, given: Mapping[str, Mapping[str, object]] | None) -> ByName:
    """Return disk parameters by template after a change; raises InvalidError."""
    wanted = given or {}
    if wrong := [template for template in wanted if template not in parameters.DISK]:
        raise parameters.unknown("disk template", wrong, parameters.DISK)
    return merged(
        stored,
        {
            template: parameters.check(values, parameters.DISK[template], what=f"{template} disk")
            for template, values in wanted.items()
        },
    )


def systems(
    stored: Mapping[str, ByName], given: Mapping[str, Mapping[str, Mapping[str, object]]] | None
) -> dict[str, ByName]:
    """Return hypervisor parameters by operating system after a change; raises InvalidError."""
    wanted = {
        system: {name: parameters.hypervisor(name, values) for name, values in by_name.items()}
        for system, by_name in (given or {}).items()
    }
    for by_name in wanted.values():
        for name, values in by_name.items():
            parameters.refuse_cluster_wide(name, values, whom="an operating system")
    laid = {system: merged(stored.get(system, {}), wanted.get(system, {})) for system in {**stored, **wanted}}
    return {system: by_name for system, by_name in laid.items() if by_name}


def limits(stored: cluster.Policy, change: policy.Change | None) -> cluster.Policy:
    """Return a level's instance policy after a change; raises InvalidError."""
    return stored if change is None else policy.changed(stored, change)


def differences(classes: Iterator[Class]) -> Iterator[str]:
    """Yield what is different, a line for each parameter."""
    for what, known, before, after in classes:
        shown = {name: f"default ({text(one.default)})" for name, one in known.items()}
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                first, then = (
                    text(level[name]) if name in level else shown.get(name, "not set") for level in (before, after)
                )
                yield f"{what} {name}: {first} becomes {then}"


def by_name(
    what: str, known: Mapping[str, Mapping[str, parameters.Parameter]], old: ByName, new: ByName
) -> Iterator[Class]:
    """Yield the classes of what is set by name: by hypervisor, by kind of disk."""
    for name in sorted({*old, *new}):
        yield f"{what} {name}", known.get(name, {}), old.get(name, {}), new.get(name, {})


def limit_differences(old: cluster.Policy, new: cluster.Policy) -> Iterator[str]:
    """Yield what is different of a policy."""
    for name in old.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            first, then = (_limits(value) if value else "default" for value in (before, after))
            yield f"policy {name.replace('_', '-')}: {first} becomes {then}"


def _limits(value: object) -> str:
    """Show a part of a policy as the command takes it."""
    match to_builtins(value):
        case dict() as specs:
            return ",".join(f"{name}={size}" for name, size in specs.items()) or "open"
        case list() | tuple() as several if all(isinstance(one, dict) for one in several):
            return "//".join(
                "/".join(f"{side}:{_limits(one[side])}" for side in ("min", "max") if one.get(side)) or "open"
                for one in several
            )
        case list() | tuple() as names:
            return ",".join(names)
        case number:
            return f"{number:g}"


def text(value: object) -> str:
    """Show a value in a line."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value) or "empty"


def violations(snapshot: states.Snapshot, vm: instance.Instance, *, group: str = "") -> list[str]:
    """Return what the policy of an instance's node group, or of another one (a UUID), forbids of it."""
    owner = snapshot.the_cluster
    found = snapshot.nodegroups[group or snapshot.nodes[vm.primary_node].group]
    return policy.violations(policy.filled(owner.ipolicy, found.ipolicy), vm, parameters.fill_backend(owner, vm))


def check_policy(snapshot: states.Snapshot, vm: instance.Instance, *, before: instance.Instance | None = None) -> None:
    """Refuse an instance that its group's policy forbids, unless it was so ``before``; raises InvalidError."""
    known = violations(snapshot, before) if before else []
    if broken := [line for line in violations(snapshot, vm) if line not in known]:
        group = snapshot.nodegroups[snapshot.nodes[vm.primary_node].group]
        raise errors.InvalidError(
            f"instance {vm.name} does not fit the policy of node group {group.name}: {'; '.join(broken)}",
            hint="--ignore-ipolicy lets it be; gnt-group info shows the policy",
        )


def misfits(before: states.Snapshot, after: states.Snapshot, *, groups: Iterable[str]) -> list[str]:
    """Say which instances in node groups fitted the policy and do not any more; nothing where there is none."""
    vms = (
        after.instances[uuid]
        for group in groups
        for machine in after.nodes_in.get(group) or ()
        for uuid in after.on_node.get(machine) or ()
    )
    names = sorted(vm.name for vm in vms if violations(after, vm) and not violations(before, vm))
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    note = f"instance {', '.join(names[:5])}{more} does not fit the policy any more; what exists stays as it is"
    return [note] if names else []


def with_changes(snapshot: states.Snapshot, *new: states.Stored) -> states.Snapshot:
    """Return the snapshot with objects in the place of what they replace."""
    return snapshot.apply([states.Put(one) for one in new], serial=snapshot.serial)
