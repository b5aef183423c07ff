"""Referential integrity: the checks of ``Snapshot.apply`` over the whole state after a change.

The checks compare the snapshots before and after. They read only objects that a changed object refers to or that refer
to it, so the cost of a change does not grow with the cluster.
"""

import itertools
from collections.abc import Iterator, Sequence

from immutables import Map

from gantry import errors
from gantry.address import ranges, segments
from gantry.model import access, base, instance, network
from gantry.state.objects import access_rules, content, indexes, kinds

_LISTED = 5
"""How many users of an object an error names."""


def check(before: content.Content, after: content.Content, value: kinds.Stored) -> None:
    """Check the references from and to an object that was put; raises PrerequisiteError."""
    kind = kinds.kind_of(value)
    for reference in kind.references:
        targets = after.collection(reference.to)
        for uuid in reference.uuids(value):
            if uuid not in targets:
                target = kinds.KINDS[reference.to].noun
                raise errors.NotFoundError(f"{_title(kind, value)}: no such {target}: {uuid}")
    # These rules are not references: they compare several fields, or the states before and after.
    match value:
        case instance.Instance() as vm:
            _check_instance(after, vm)
        case instance.DetachedDisk() as disk:
            _check_detached(disk)
        case network.Network() as net:
            _check_network(before, after, net)
        case network.SegmentRange() as ids:
            segments.check_scope(ids.network_type, ids.physical_network)
            segments.checked_run(ids.network_type, ids.minimum, maximum=ids.maximum)
        case network.Port() as port:
            _check_addresses(after.networks[port.network], port.ip)
        case access.Rule() | access.Token():
            access_rules.check(after, value)
        case _:
            pass


def check_unused(before: content.Content, after: content.Content, change: kinds.Delete) -> None:
    """Check that nothing refers to an object that was deleted; raises WrongStateError that names the users."""
    for kind, reference in kinds.REFERENCES_TO[change.kind]:
        users = _users(after, kind, reference, key=change.key)
        if users:
            old = before.get(change.kind, change.key)
            raise errors.WrongStateError(
                f"{_title(kinds.KINDS[change.kind], old) if old else change.key} {reference.relation} "
                f"{reference.noun or kind.noun} {_titles(after, kind, users)}",
                hint=reference.hint,
            )


def _users(
    after: content.Content, kind: kinds.Kind[kinds.Stored], reference: indexes.Reference[kinds.Stored], *, key: str
) -> list[str]:
    """Return some objects of a kind that refer to a key, at least one more than an error lists."""
    if not reference.users:
        return [user for user, value in after.collection(kind.collection).items() if key in reference.uuids(value)]
    users: list[str] = []
    for name in reference.users:
        index: Map[str, indexes.Uuids] = getattr(after, name)
        users += itertools.islice(index.get(key) or (), _LISTED + 1)
    return users


def _title(kind: kinds.Kind[kinds.Stored], value: kinds.Stored) -> str:
    """Return the text that names an object in a message, by its name if that is unique, or by its key."""
    return f"{kind.noun} {_label(kind, value)}"


def _label(kind: kinds.Kind[kinds.Stored], value: kinds.Stored) -> str:
    return value.name if kind.unique_names and isinstance(value, base.Entity) else kind.key(value)


def _titles(after: content.Content, kind: kinds.Kind[kinds.Stored], keys: Sequence[str]) -> str:
    """Name the first users; ``keys`` may also be those of parts of objects, as of a network's subnets."""
    objects = [(key, after.get(kind.collection, key)) for key in keys[:_LISTED]]
    labels = sorted(_label(kind, value) if value else key for key, value in objects)
    return f"{', '.join(labels)}{' and others' if keys[_LISTED:] else ''}"


def _check_detached(detached: instance.DetachedDisk) -> None:
    if detached.disk.mirror and {*detached.disk.mirror.minors} != {*detached.nodes}:
        raise errors.InternalError(f"detached disk {detached.uuid} is not kept on the nodes that mirror it")


def _check_instance(after: content.Content, vm: instance.Instance) -> None:
    for index, disk in enumerate(vm.disks):
        if disk.mirror and vm.primary_node not in disk.mirror.minors:
            raise errors.InternalError(f"instance {vm.name}: disk {index} is not kept on its primary node")
        if disk.uuid in after.disks:
            raise errors.InternalError(f"disk {disk.uuid} is instance {vm.name}'s, and without an instance too")
    for nic in vm.nics:
        if nic.network:
            _check_addresses(after.networks[nic.network], nic.ip)
    for allocation in vm.lingering:
        if allocation.network in after.networks:
            _check_addresses(after.networks[allocation.network], (allocation.ip,))


def _check_network(before: content.Content, after: content.Content, net: network.Network) -> None:
    if net.segment:
        kind, physical, number = net.segment.key
        segments.check_scope(kind, physical)
        segments.checked_run(kind, number, maximum=number)
    if net.segment and net.unsegmented:
        raise errors.InternalError(f"network {net.name} has a segment and is {net.unsegmented.network_type}")
    old = before.networks.get(net.uuid)
    lost_ranges = list(_lost(old, net)) if old else []
    if not lost_ranges:
        return
    instances, ports = after.in_network.get(net.uuid) or (), after.ports_in.get(net.uuid) or ()
    if sum(run.size for _, run in lost_ranges) < len(instances) + len(ports):
        lost_addresses = (
            ranges.format_address(of, number) for of, run in lost_ranges for number in range(run.first, run.last + 1)
        )
        _check_addresses(net, tuple(ip for ip in lost_addresses if (net.uuid, ip) in after.addresses))
        return
    for uuid in instances:
        _check_addresses(
            net,
            tuple(
                allocation.ip for allocation in after.instances[uuid].allocations() if allocation.network == net.uuid
            ),
        )
    for uuid in ports:
        _check_addresses(net, after.ports[uuid].ip)


def _lost(old: network.Network, new: network.Network) -> Iterator[tuple[ranges.Family, ranges.Range]]:
    """Yield the ranges that the subnets of a network no longer contain."""
    then, now = ({subnet.cidr for subnet in net.subnets} for net in (old, new))
    for family in ranges.Family if then - now else ():
        parts = ([cidr.range for cidr in map(ranges.known_cidr, of) if cidr.family is family] for of in (then, now))
        yield from ((family, run) for run in ranges.difference(*parts))


def _check_addresses(net: network.Network, addresses: tuple[str, ...]) -> None:
    for text in addresses:
        address = ranges.canonical_address(text)
        for subnet in net.subnets:
            if address in ranges.known_cidr(subnet.cidr):
                break
        else:
            listed = ", ".join(subnet.cidr for subnet in net.subnets) or "none"
            raise errors.InvalidError(f"address {text} is outside every subnet of network {net.name} ({listed})")
