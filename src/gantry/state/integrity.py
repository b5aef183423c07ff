"""The references that must lead somewhere: what ``Snapshot.apply`` checks over the whole state after a change.

Called with the snapshots before and after; looks only at what a changed object touches, so the cost of a change does
not grow with the cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from gantry import errors
from gantry.address import ranges, segments
from gantry.model import cluster as clusters
from gantry.model import instance, network
from gantry.state import content, kinds


def check(before: content.Content, after: content.Content, value: kinds.Stored) -> None:
    """Check the references from and to an object that was put; raises PrerequisiteError."""
    match value:
        case clusters.Node() as node if node.group and node.group not in after.nodegroups:
            raise errors.NotFoundError(f"node {node.name}: no such node group: {node.group}")
        case clusters.NodeGroup() as group:
            for uuid in group.networks:
                if uuid not in after.networks:
                    raise errors.NotFoundError(f"node group {group.name}: no such network: {uuid}")
        case instance.Instance() as vm:
            _check_instance(after, vm)
        case instance.DetachedDisk() as disk:
            _check_detached(after, disk)
        case network.Network() as cable:
            _check_network(before, after, cable)
        case network.SegmentRange() as one:
            segments.check_scope(one.network_type, one.physical_network)
            segments.checked_run(one.network_type, one.minimum, maximum=one.maximum)
        case network.Port() as port:
            if port.network not in after.networks:
                raise errors.NotFoundError(f"port {port.uuid}: no such network: {port.network}")
            _check_addresses(after.networks[port.network], port.ip)
        case _:
            pass


def check_unused(after: content.Content, kind: str, *, key: str) -> None:
    """Check that nothing refers to an object that was deleted; raises WrongStateError that names who does."""
    users = {"nodes": after.on_node, "networks": after.in_network, "nodegroups": after.nodes_in}.get(kind)
    held_by = users.get(key) if users is not None else None
    if kind == "nodes":
        held_by = held_by or after.copies_on.get(key)
    if held_by:
        noun = "node" if kind == "nodegroups" else "instance"
        names = sorted(_entity_name(after, uuid) for uuid in held_by)
        raise errors.WrongStateError(f"{kinds.KINDS[kind].noun} is in use by {noun} {', '.join(names[:5])}")
    if kind == "nodes" and (disks := after.disks_on.get(key)):
        raise errors.WrongStateError(
            f"node keeps disk {', '.join(sorted(disks)[:5])} without an instance",
            hint="gnt-instance modify --disk attach:uuid=UUID gives it to one; remove it there if nobody needs it",
        )
    if kind == "subnetpools" and (subnets := after.subnets_from.get(key)):
        raise errors.WrongStateError(f"subnet pool is in use by {_several('subnet', subnets)}")
    if kind == "networks" and (ports := after.ports_in.get(key)):
        raise errors.WrongStateError(f"network is in use by {_several('port', ports)}", hint="remove the ports first")
    if kind == "networks":
        groups = [group.name for group in after.nodegroups.values() if key in group.networks]
        if groups:
            raise errors.WrongStateError(
                f"network is connected to node group {', '.join(sorted(groups))}", hint="disconnect it first"
            )


def number_in_use(number: instance.Number, nodes: Mapping[str, clusters.Node], *, holder: str) -> errors.NotUniqueError:
    """Return the error for a minor or port that a disk has."""
    where = f"minor {number.number} of node {nodes[number.space].name}" if number.space else f"port {number.number}"
    return errors.NotUniqueError(f"{where} is in use by {holder}")


def segment_in_use(segment: network.Segment, *, holder: network.Network) -> errors.NotUniqueError:
    """Return the error for a segment that a network has."""
    where = f" of physical network {segment.physical_network}" if segment.physical_network else ""
    return errors.NotUniqueError(
        f"{segment.network_type} segment {segment.segmentation_id}{where} is in use by network {holder.name}",
        hint="choose another, or none, so that a free one is picked",
    )


def mac_in_use(mac: str, *, holder: kinds.Holder) -> errors.NotUniqueError:
    """Return the error for a MAC address that somebody has."""
    return errors.NotUniqueError(f"MAC address {mac} is in use by {called(holder)}")


def called(holder: kinds.Holder) -> str:
    """Return what to call an instance or a port in a message."""
    if isinstance(holder, instance.Instance):
        return f"instance {holder.name}"
    return f"port {holder.name} ({holder.uuid})" if holder.name else f"port {holder.uuid}"


def address_in_use(cable: network.Network | None, ip: str, *, holder: kinds.Holder) -> errors.NotUniqueError:
    """Return the error for an address that somebody uses."""
    where = f" in network {cable.name}" if cable else ""
    lingering = holder.lingering if isinstance(holder, instance.Instance) else ()
    if any(one.ip == ip and one.network == (cable.uuid if cable else "") for one in lingering):
        return errors.NotUniqueError(
            f"address {ip}{where} was taken from instance {holder.name}, whose guest still uses it",
            hint=f"stop that instance, or gnt-instance reboot -t full {holder.name}; or choose another address",
        )
    return errors.NotUniqueError(f"address {ip}{where} is in use by {called(holder)}", hint="choose another, or a pool")


def _check_detached(after: content.Content, one: instance.DetachedDisk) -> None:
    for node in one.nodes:
        if node not in after.nodes:
            raise errors.NotFoundError(f"disk {one.uuid} without an instance: no such node: {node}")
    if one.disk.mirror and {*one.disk.mirror.minors} != {*one.nodes}:
        raise errors.InternalError(f"disk {one.uuid} without an instance is not kept on the nodes that mirror it")


def _check_instance(after: content.Content, vm: instance.Instance) -> None:
    for node in vm.nodes:
        if node not in after.nodes:
            raise errors.NotFoundError(f"instance {vm.name}: no such node: {node}")
    for index, disk in enumerate(vm.disks):
        if disk.mirror and vm.primary_node not in disk.mirror.minors:
            raise errors.InternalError(f"instance {vm.name}: disk {index} is not kept on its primary node")
        if disk.uuid in after.disks:
            raise errors.InternalError(f"disk {disk.uuid} is instance {vm.name}'s, and without an instance too")
    for nic in vm.nics:
        if nic.network and nic.network not in after.networks:
            raise errors.NotFoundError(f"instance {vm.name}: no such network: {nic.network}")
        if nic.network:
            _check_addresses(after.networks[nic.network], nic.ip)
    for one in vm.lingering:
        if one.network in after.networks:
            _check_addresses(after.networks[one.network], (one.ip,))


def _check_network(before: content.Content, after: content.Content, cable: network.Network) -> None:
    if cable.segment:
        kind, physical, number = cable.segment.key
        segments.check_scope(kind, physical)
        segments.checked_run(kind, number, maximum=number)
    for subnet in cable.subnets:
        if subnet.subnetpool and subnet.subnetpool not in after.subnetpools:
            raise errors.NotFoundError(f"subnet {subnet.cidr}: no such subnet pool: {subnet.subnetpool}")
    old = before.networks.get(cable.uuid)
    gone = list(_lost(old, cable)) if old else []
    if not gone:
        return
    instances, ports = after.in_network.get(cable.uuid) or (), after.ports_in.get(cable.uuid) or ()
    if sum(run.size for _, run in gone) < len(instances) + len(ports):
        lost = (ranges.format_address(of, number) for of, run in gone for number in range(run.first, run.last + 1))
        _check_addresses(cable, tuple(ip for ip in lost if (cable.uuid, ip) in after.addresses))
        return
    for uuid in instances:
        _check_addresses(
            cable, tuple(one.ip for one in after.instances[uuid].allocations() if one.network == cable.uuid)
        )
    for uuid in ports:
        _check_addresses(cable, after.ports[uuid].ip)


def _lost(old: network.Network, new: network.Network) -> Iterator[tuple[ranges.Family, ranges.Range]]:
    """Yield what the subnets of a network no longer have."""
    then, now = ({subnet.cidr for subnet in one.subnets} for one in (old, new))
    for family in ranges.Family if then - now else ():
        parts = ([cidr.range for cidr in map(ranges.known_cidr, of) if cidr.family is family] for of in (then, now))
        yield from ((family, run) for run in ranges.difference(*parts))


def _check_addresses(cable: network.Network, addresses: tuple[str, ...]) -> None:
    subnets = [ranges.known_cidr(subnet.cidr) for subnet in cable.subnets] if addresses else []
    for text in addresses:
        address = ranges.known_address(text)
        if str(address) != text:
            raise errors.InternalError(f"address {text} is not stored in its canonical spelling {address}")
        if not any(one.family is address.family and address.value in one.range for one in subnets):
            listed = ", ".join(map(str, subnets)) or "none"
            raise errors.InvalidError(f"address {text} is outside every subnet of network {cable.name} ({listed})")


def _several(noun: str, uuids: Iterable[str]) -> str:
    """Name some of those that use a thing; at most as many as a message holds are looked at."""
    shown = list(itertools.islice(uuids, 6))
    return f"{noun} {', '.join(sorted(shown[:5]))}{' and others' if shown[5:] else ''}"


def _entity_name(state: content.Content, uuid: str) -> str:
    found = state.instances.get(uuid) or state.nodes.get(uuid)
    return found.name if found else uuid
