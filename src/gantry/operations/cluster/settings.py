"""The settings of the cluster: what an opcode makes of them, their checks, and their differences; pure.

``applied`` is the only way to other settings. ``set_params`` calls it for a change, ``mastership.bootstrap`` for a new
cluster. It does not see instances and nodes: the unit checks whether they accept the new settings.

See contracts/cluster-design.md#object-parameters.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import structs

from gantry import errors
from gantry.model import allowed, cluster, opcodes, parameters, retention
from gantry.model import base as entities
from gantry.operations import parameter_levels
from gantry.operations.disk_planning import disk_spec
from gantry.operations.network import nics

LISTS = (
    "enabled_hypervisors",
    "enabled_disk_templates",
    "network_thresholds",
    "hidden_os",
    "blacklisted_os",
    "allowed",
)
NAMES = (
    *parameters.CLUSTER,
    *LISTS,
    "default_hypervisor",
    "hvparams",
    "beparams",
    "nicparams",
    "ndparams",
    "diskparams",
    "osparams",
    "osparams_private_cluster",
    "os_hvp",
    "ipolicy",
    "default_iallocator_params",
)

_FRESH = cluster.Cluster(uuid="", name="", master_node="")
_PROGRAM = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.+-]*)?")
_DEVICE = re.compile(r"[^\s/]{0,15}")


def applied(the_cluster: cluster.Cluster, op: opcodes.ClusterSetParams) -> cluster.Cluster:
    """Return the cluster with the settings of an opcode; raises InvalidError."""
    hypervisors = _chosen(the_cluster, op, "enabled_hypervisors", what="hypervisor", known=parameters.HYPERVISORS)
    backend = parameters.merge(the_cluster.beparams.get(parameters.RESET, {}), parameters.backend(op.beparams or {}))
    parameters.check_memory(parameters.fill(parameters.BACKEND, backend))
    nic = parameters.nic(op.nicparams or {})
    checked = {name: parameters.hypervisor(name, values) for name, values in (op.hvparams or {}).items()}
    changed = structs.replace(
        the_cluster,
        **_values(op),
        enabled_hypervisors=_with_first(hypervisors, op.default_hypervisor),
        enabled_disk_templates=_chosen(
            the_cluster, op, "enabled_disk_templates", what="disk template", known=parameters.DISK_TEMPLATES
        ),
        network_thresholds=_thresholds(op, the_cluster.network_thresholds),
        hvparams=parameter_levels.merged(the_cluster.hvparams, checked),
        beparams={parameters.RESET: backend} if backend else {},
        nicparams=parameter_levels.merged(the_cluster.nicparams, {parameters.RESET: nic}),
        ndparams=parameter_levels.node(the_cluster.ndparams, op.ndparams),
        diskparams=parameter_levels.disks(the_cluster.diskparams, op.diskparams),
        osparams=parameter_levels.merged(the_cluster.osparams, op.osparams or {}),
        osparams_private_cluster=parameter_levels.merged(
            the_cluster.osparams_private_cluster, op.osparams_private_cluster or {}
        ),
        os_hvp=parameter_levels.systems(the_cluster.os_hvp, op.os_hvp),
        allowed=allowed.applied(the_cluster, op),
        hidden_os=_listed(the_cluster.hidden_os, op.hidden_os or ()),
        blacklisted_os=_listed(the_cluster.blacklisted_os, op.blacklisted_os or ()),
        ipolicy=parameter_levels.limits(the_cluster.ipolicy, op.ipolicy),
        default_iallocator_params=parameters.merge(
            the_cluster.default_iallocator_params, op.default_iallocator_params or {}
        ),
    )
    allowed.check_change(changed, op)
    return changed


def _values(op: opcodes.ClusterSetParams) -> entities.Parameters:
    """Return the settings that have a single value, converted to their types."""
    requested = {name: getattr(op, name) for name in parameters.CLUSTER if getattr(op, name) is not None}
    size = requested.get("default_disk_size")
    if size is not None and size != parameters.RESET:
        requested["default_disk_size"] = parameters.size(size)
    checked = parameters.check(requested, parameters.CLUSTER, noun="cluster")
    values = {
        name: parameters.CLUSTER[name].default if value == parameters.RESET else value
        for name, value in checked.items()
    }
    return values | {name: form(str(values[name])) for name, form in _FORMS.items() if name in values}


def _device(name: str) -> str:
    if not _DEVICE.fullmatch(name):
        raise errors.InvalidError(f"{name!r} is not a network device name", hint="15 characters, no space, no slash")
    return name


def _group(name: str) -> str:
    if not disk_spec.is_volume_name(name):
        raise errors.InvalidError(f"{name!r} is not a valid volume group name")
    return name


def _program(name: str) -> str:
    if not _PROGRAM.fullmatch(name):
        raise errors.InvalidError(
            f"{name!r} is not a valid allocator name", hint="use the program's name without a folder"
        )
    return name


_FORMS: dict[str, Callable[[str], str]] = {
    "mac_prefix": nics.checked_prefix,
    "master_netdev": _device,
    "default_iallocator": _program,
    "vg_name": _group,
    "journal_retention": retention.checked,
    "archive_retention": retention.checked,
}


def _chosen(
    the_cluster: cluster.Cluster, op: opcodes.ClusterSetParams, field: str, *, what: str, known: Collection[str]
) -> tuple[str, ...]:
    """Return a list of known names, each once; ``default`` alone is the list of a new cluster."""
    requested: tuple[str, ...] | None = getattr(op, field)
    if requested is None:
        current: tuple[str, ...] = getattr(the_cluster, field)
        return current
    names: tuple[str, ...] = getattr(_FRESH, field) if requested == (parameters.RESET,) else requested
    if unknown := [name for name in names if name not in known]:
        raise parameters.unknown(what, unknown, known)
    if not names:
        raise errors.InvalidError(f"the list of {what}s is empty", hint=f"known: {', '.join(sorted(known))}")
    return tuple(dict.fromkeys(names))


def _listed(current: tuple[str, ...], changes: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return a list of names after additions and removals, by name; redundant changes are ignored."""
    names = {*current}
    for action, name in changes:
        names = names | {name} if action == "add" else names - {name}
    return tuple(sorted(names))


def _with_first(names: tuple[str, ...], first: str | None) -> tuple[str, ...]:
    if first is None:
        return names
    if first not in names:
        raise errors.InvalidError(
            f"hypervisor {first} is not enabled",
            hint=f"enabled: {', '.join(names)}; enable it by --enabled-hypervisors too",
        )
    return (first, *(name for name in names if name != first))


def _thresholds(op: opcodes.ClusterSetParams, current: tuple[int, int]) -> tuple[int, int]:
    requested = op.network_thresholds
    if requested is None:
        return current
    warning, critical = _FRESH.network_thresholds if isinstance(requested, str) else requested
    if not 0 < warning <= critical <= 100:
        raise errors.InvalidError(
            f"network thresholds {warning},{critical} are invalid",
            hint="use two percentages, the warning first, as in 80,95",
        )
    return warning, critical


def differences(old: cluster.Cluster, new: cluster.Cluster) -> list[str]:
    """Return the differences, a line each."""
    plain = [(name, getattr(old, name), getattr(new, name)) for name in (*parameters.CLUSTER, *LISTS)]
    text = parameter_levels.text
    lines = [f"{name}: {text(before)} becomes {text(after)}" for name, before, after in plain if before != after]
    lines += _private_differences(old.osparams_private_cluster, new.osparams_private_cluster)
    return [
        *lines,
        *parameter_levels.differences(_classes(old, new)),
        *parameter_levels.limit_differences(old.ipolicy, new.ipolicy),
    ]


def _private_differences(old: parameter_levels.ByName, new: parameter_levels.ByName) -> Iterator[str]:
    for system in sorted({*old, *new}):
        before, after = old.get(system, {}), new.get(system, {})
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                yield f"OS {system} {name}: its private value {'changes' if name in after else 'is removed'}"


def _classes(old: cluster.Cluster, new: cluster.Cluster) -> Iterator[parameter_levels.Class]:
    yield from parameter_levels.by_name("hypervisor", parameters.HYPERVISORS, old.hvparams, new.hvparams)
    reset = parameters.RESET
    yield "backend", parameters.BACKEND, old.beparams.get(reset, {}), new.beparams.get(reset, {})
    yield "NIC", parameters.NIC, old.nicparams.get(reset, {}), new.nicparams.get(reset, {})
    yield "node", parameters.NODE, old.ndparams, new.ndparams
    yield from parameter_levels.by_name("disk", parameters.DISK, old.diskparams, new.diskparams)
    yield from parameter_levels.by_name("OS", {}, old.osparams, new.osparams)
    for system in sorted({*old.os_hvp, *new.os_hvp}):
        before, after = old.os_hvp.get(system, {}), new.os_hvp.get(system, {})
        yield from parameter_levels.by_name(f"OS {system}: hypervisor", {}, before, after)
