"""Parameters of the cluster, a node group or a node: check and merge changes, and describe them. Pure.

Shared by the units that change those levels. A level stores only what was set for it; the value ``default`` removes
a parameter from the level.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import to_builtins

from gantry import errors
from gantry.model import base as entities
from gantry.model import cluster, instance, parameters, policy
from gantry.state.objects import snapshot as states

ByName = dict[str, entities.Parameters]
Class = tuple[str, Mapping[str, parameters.Parameter], entities.Parameters, entities.Parameters]
"""A class of parameters: its name, the known parameters, the values before and after."""


def merged(stored: Mapping[str, entities.Parameters], changes: Mapping[str, entities.Parameters]) -> ByName:
    """Return parameters by name, merged with the changes; names without any parameters are omitted."""
    combined = {name: parameters.merge(stored.get(name, {}), changes.get(name, {})) for name in {**stored, **changes}}
    return {name: values for name, values in combined.items() if values}


def node(stored: entities.Parameters, changes: Mapping[str, object] | None) -> entities.Parameters:
    """Return node parameters after a change; raises InvalidError."""
    checked = parameters.check(changes or {}, parameters.NODE, noun="node")
    for name, feature in parameters.UNSUPPORTED_NODE.items():
        if checked.get(name, parameters.RESET) not in (parameters.RESET, parameters.NODE[name].default):
            raise errors.InvalidError(
                f"node parameter {name} cannot be {checked[name]}: Gantry does not support {feature}",
                hint=f"omit {name}",
            )
    return parameters.merge(stored, checked)


def disks(stored: ByName, changes: Mapping[str, Mapping[str, object]] | None) -> ByName:
    """Return disk parameters by template after a change; raises InvalidError."""
    requested = changes or {}
    if unknown := [template for template in requested if template not in parameters.DISK]:
        raise parameters.unknown("disk template", unknown, parameters.DISK)
    return merged(
        stored,
        {
            template: parameters.check(values, parameters.DISK[template], noun=f"{template} disk")
            for template, values in requested.items()
        },
    )


def systems(
    stored: Mapping[str, ByName], changes: Mapping[str, Mapping[str, Mapping[str, object]]] | None
) -> dict[str, ByName]:
    """Return hypervisor parameters by operating system after a change; raises InvalidError."""
    requested = {
        system: {name: parameters.hypervisor(name, values) for name, values in by_name.items()}
        for system, by_name in (changes or {}).items()
    }
    for by_name in requested.values():
        for name, values in by_name.items():
            parameters.refuse_cluster_wide(name, values, level="an operating system")
    combined = {system: merged(stored.get(system, {}), requested.get(system, {})) for system in {**stored, **requested}}
    return {system: by_name for system, by_name in combined.items() if by_name}


def limits(
    stored: cluster.Policy, change: policy.Change | None, *, above: cluster.Policy | None = None
) -> cluster.Policy:
    """Return a level's instance policy after a change; ``above`` is the cluster's, for a group. Raises InvalidError."""
    return stored if change is None else policy.changed(stored, change, above=above)


def check_groups(the_cluster: cluster.Cluster, groups: Iterable[cluster.NodeGroup]) -> None:
    """Refuse a policy of the cluster that leaves a node group, with its own limits, no possible size."""
    for group in groups:
        try:
            policy.check_levels(the_cluster.ipolicy, group.ipolicy)
        except errors.InvalidError as error:
            raise errors.InvalidError(
                f"node group {group.name}, with its own limits: {error.message}",
                hint="change or reset the limits of the group first",
            ) from error


def differences(classes: Iterator[Class]) -> Iterator[str]:
    """Yield the differences, a line for each parameter."""
    for what, known, before, after in classes:
        defaults = {name: f"default ({text(parameter.default)})" for name, parameter in known.items()}
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                first, then = (
                    text(level[name]) if name in level else defaults.get(name, "not set") for level in (before, after)
                )
                yield f"{what} {name}: {first} becomes {then}"


def by_name(
    what: str, known: Mapping[str, Mapping[str, parameters.Parameter]], old: ByName, new: ByName
) -> Iterator[Class]:
    """Yield the classes of parameters that are set by name: by hypervisor, by disk template."""
    for name in sorted({*old, *new}):
        yield f"{what} {name}", known.get(name, {}), old.get(name, {}), new.get(name, {})


def limit_differences(old: cluster.Policy, new: cluster.Policy) -> Iterator[str]:
    """Yield the differences of a policy."""
    for name in old.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            first, then = (_limits(value) if value else "default" for value in (before, after))
            yield f"policy {name.replace('_', '-')}: {first} becomes {then}"


def _limits(value: object) -> str:
    """Return a part of a policy in the syntax of the command."""
    match to_builtins(value):
        case dict() as specs:
            return ",".join(f"{name}={size}" for name, size in specs.items()) or "open"
        case list() | tuple() as ranges if all(isinstance(spec, dict) for spec in ranges):
            return "//".join(
                "/".join(f"{side}:{_limits(spec[side])}" for side in ("min", "max") if spec.get(side)) or "open"
                for spec in ranges
            )
        case list() | tuple() as names:
            return ",".join(names)
        case number:
            return f"{number:g}"


def text(value: object) -> str:
    """Return a value as text for a line."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value) or "empty"


def violations(snapshot: states.Snapshot, vm: instance.Instance, *, group: str = "") -> list[str]:
    """Return the violations of the policy of the instance's node group, or of the group with the UUID ``group``."""
    the_cluster = snapshot.the_cluster
    node_group = snapshot.nodegroups[group or snapshot.nodes[vm.primary_node].group]
    return policy.violations(
        policy.filled(the_cluster.ipolicy, node_group.ipolicy), vm, parameters.fill_backend(the_cluster, vm)
    )


def check_policy(snapshot: states.Snapshot, vm: instance.Instance, *, before: instance.Instance | None = None) -> None:
    """Refuse an instance that violates its group's policy, except for violations ``before``; raises InvalidError."""
    known = violations(snapshot, before) if before else []
    if new_violations := [line for line in violations(snapshot, vm) if line not in known]:
        group = snapshot.nodegroups[snapshot.nodes[vm.primary_node].group]
        raise errors.InvalidError(
            f"instance {vm.name} violates the instance policy of node group {group.name}: {'; '.join(new_violations)}",
            hint="gnt-group info shows the policy; --ignore-ipolicy ignores it",
        )


def misfits(before: states.Snapshot, after: states.Snapshot, *, groups: Iterable[str]) -> list[str]:
    """Return a note about instances in node groups that the policy allowed before, but not after; may be empty."""
    vms = (
        after.instances[uuid]
        for group in groups
        for node_uuid in after.nodes_in.get(group) or ()
        for uuid in after.on_node.get(node_uuid) or ()
    )
    names = sorted(vm.name for vm in vms if violations(after, vm) and not violations(before, vm))
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    note = f"instance {', '.join(names[:5])}{more} violates the instance policy now; existing instances stay unchanged"
    return [note] if names else []


def with_changes(snapshot: states.Snapshot, *new: states.Stored) -> states.Snapshot:
    """Return the snapshot with new or replaced objects."""
    return snapshot.apply([states.Put(entity) for entity in new], serial=snapshot.serial)
