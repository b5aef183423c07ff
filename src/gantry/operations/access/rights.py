"""The needs of rights on objects, and what the rows of all opcodes share: fields, parameters, tags, node groups."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

import msgspec

from gantry.model import access, allowed, cluster, instance, network, opcodes, parameters
from gantry.operations.access import scopes
from gantry.state.objects import snapshot as states

Needs = Iterator[access.Need]
Finder = Callable[[states.Snapshot, opcodes.Opcode], Needs]
"""Returns the needs of an opcode."""
Right = access.Right

_COMMON = opcodes.Opcode.__struct_fields__

FREE_PARAMETERS = frozenset(
    {
        *("acpi", "boot_order", "cdrom_disk_type", "cpu_cores", "cpu_sockets", "cpu_threads", "cpu_type", "disk_cache"),
        *("disk_discard", "disk_type", "kernel_args", "keymap", "nic_type", "reboot_behavior", "root_path"),
        *("serial_console", "serial_speed", "soundhw", "usb_mouse", "use_guest_agent", "use_localtime"),
        *("user_shutdown", "vga"),
    }
)
"""The hypervisor parameters that ``manage`` includes: they shape the guest, and name nothing of its node."""


def administer(what: str) -> access.Need:
    """Return the need of a request that only the cluster's administrators may make."""
    return access.Need(Right.ADMINISTER, what, (access.CLUSTER_KEY,), "admin cluster")


def tokens_of(user: str, what: str) -> access.Need:
    """Return the need of a request about the API tokens of a user: its user's, and the cluster's administrators'."""
    return access.Need(Right.ADMINISTER, what, (access.CLUSTER_KEY,), "admin cluster", owner=user)


def wire(what: str) -> access.Need:
    """Return the need of a request about the cluster's networks as a whole."""
    return access.Need(Right.WIRE, what, (access.CLUSTER_KEY,), "network-admin cluster")


_LEAST = {Right.VIEW: "viewer", Right.VIEW_NETWORK: "viewer", Right.OPERATE: "operator", Right.CONNECT: "operator"}
"""The role with the fewest rights that gives a right on an object; for the rights that several roles have."""


VERBS = {Right.VIEW_NETWORK: "view", Right.CONNECT: "connect NICs to"}
"""The verbs of the rights whose own words are no verbs."""


def on_instance(snapshot: states.Snapshot, vm: instance.Instance, right: Right) -> access.Need:
    """Return the need of a right on an instance; a guest that can leave its hypervisor is the administrators'."""
    if vm.hypervisor in allowed.ROOT_HYPERVISORS and right is Right.MANAGE:
        need = administer(f"change instance {vm.name}, whose guest is not apart from its node ({vm.hypervisor})")
        return dataclasses.replace(need, object=vm.uuid)
    role = _LEAST.get(right, "admin")
    return access.Need(
        right,
        f"{right} instance {vm.name}",
        scopes.of_instance(snapshot, vm),
        f"{role} instance:{vm.name}",
        object=vm.uuid,
    )


def on_network(net: network.Network, right: Right) -> access.Need:
    """Return the need of a right on a network."""
    role = _LEAST.get(right, "network-admin")
    verb = VERBS.get(right, right.value)
    return access.Need(
        right, f"{verb} network {net.name}", scopes.of_network(net), f"{role} network:{net.name}", object=net.uuid
    )


def on_group(group: cluster.NodeGroup) -> access.Need:
    """Return the need of the right to populate a node group."""
    return access.Need(
        Right.POPULATE,
        f"populate node group {group.name}",
        scopes.of_group(group),
        f"admin group:{group.name}",
        object=group.uuid,
    )


@functools.cache
def _defaults(kind: type[msgspec.Struct]) -> tuple[tuple[str, object], ...]:
    """Return the names and defaults of the fields of a struct."""
    return tuple(
        (
            field.name,
            field.default
            if field.default_factory is msgspec.NODEFAULT
            else cast("Callable[[], object]", field.default_factory)(),
        )
        for field in msgspec.structs.fields(kind)
    )


def set_fields(value: msgspec.Struct) -> Iterator[str]:
    """Yield the names of the fields that differ from their defaults; those without a default always do."""
    return (name for name, default in _defaults(type(value)) if getattr(value, name) != default)


def beyond(op: opcodes.Opcode, *plain: str, need: Callable[[str], access.Need] = administer) -> Needs:
    """Yield the need of each set field that a right on the object does not include."""
    for name in set_fields(op):
        if name not in plain and name not in _COMMON:
            yield need(f"set {name} of {op.op_id}")


def of_parameters(values: Mapping[str, object]) -> Needs:
    """Yield the need of each hypervisor parameter that does more than shape the guest."""
    for name, value in values.items():
        if name not in FREE_PARAMETERS and value != parameters.RESET:
            yield administer(f"set the hypervisor parameter {name}")


def of_tags(snapshot: states.Snapshot, tags: Iterable[str]) -> Needs:
    """Yield the needs of setting or removing tags: those that have rules give and take rights."""
    for tag in tags:
        if access.tag_key(tag) in snapshot.rules_on:
            yield administer(f"set or remove tag {tag}, which has access rules")


def of_project(snapshot: states.Snapshot, project: str) -> Needs:
    """Yield the need of giving an instance to a project: with rules, that gives rights on the instance."""
    key = access.project_key(project)
    if project and key in snapshot.rules_on:
        yield access.Need(
            Right.MANAGE,
            f"give an instance to project {project}, which has access rules",
            (access.CLUSTER_KEY, key),
            f"admin {key}",
        )


def of_nodes(snapshot: states.Snapshot, names: Iterable[str | None], *, own: str = "") -> Needs:
    """Yield the need of each node group, other than ``own``, of the named nodes."""
    groups = dict.fromkeys(snapshot.node(name).group for name in names if name)
    yield from (on_group(snapshot.nodegroups[uuid]) for uuid in groups if uuid != own)


def of_groups(snapshot: states.Snapshot, names: Iterable[str]) -> Needs:
    """Yield the need of each named node group; of all if none is named, because any may be chosen."""
    groups = [snapshot.group(name) for name in names] or list(snapshot.nodegroups.values())
    yield from map(on_group, groups)
