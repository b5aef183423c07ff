"""The references that must lead somewhere: what ``Snapshot.apply`` checks over the whole state after a change.

Called with the snapshots before and after; looks only at what a changed object touches, so the cost of a change does
not grow with the cluster.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gantry import errors
from gantry.model import cluster as clusters
from gantry.model import instance, network

if TYPE_CHECKING:
    from gantry.state.snapshot import Snapshot, Stored

NOUNS = {"nodegroups": "node group", "nodes": "node", "networks": "network", "instances": "instance"}
"""What the objects of a collection are called in messages."""


def check(before: Snapshot, after: Snapshot, value: Stored) -> None:
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
        case _:
            pass


def check_unused(after: Snapshot, kind: str, *, key: str) -> None:
    """Check that nothing refers to an object that was deleted; raises WrongStateError that names who does."""
    users = {"nodes": after.on_node, "networks": after.in_network, "nodegroups": after.nodes_in}.get(kind)
    held_by = users.get(key) if users is not None else None
    if kind == "nodes":
        held_by = held_by or after.copies_on.get(key)
    if held_by:
        noun = "node" if kind == "nodegroups" else "instance"
        names = sorted(_entity_name(after, uuid) for uuid in held_by)
        raise errors.WrongStateError(f"{NOUNS[kind]} is in use by {noun} {', '.join(names[:5])}")
    if kind == "nodes" and (disks := after.disks_on.get(key)):
        raise errors.WrongStateError(
            f"node keeps disk {', '.join(sorted(disks)[:5])} without an instance",
            hint="gnt-instance modify --disk attach:uuid=UUID gives it to one; remove it there if nobody needs it",
        )
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


def address_in_use(cable: network.Network | None, ip: str, *, holder: instance.Instance) -> errors.NotUniqueError:
    """Return the error for an address that somebody uses."""
    where = f" in network {cable.name}" if cable else ""
    if any(one.ip == ip and one.network == (cable.uuid if cable else "") for one in holder.lingering):
        return errors.NotUniqueError(
            f"address {ip}{where} was taken from instance {holder.name}, whose guest still uses it",
            hint=f"stop that instance, or gnt-instance reboot -t full {holder.name}; or choose another address",
        )
    return errors.NotUniqueError(
        f"address {ip}{where} is in use by instance {holder.name}", hint="choose another, or a pool"
    )


def _check_detached(after: Snapshot, one: instance.DetachedDisk) -> None:
    for node in one.nodes:
        if node not in after.nodes:
            raise errors.NotFoundError(f"disk {one.uuid} without an instance: no such node: {node}")
    if one.disk.mirror and {*one.disk.mirror.minors} != {*one.nodes}:
        raise errors.InternalError(f"disk {one.uuid} without an instance is not kept on the nodes that mirror it")


def _check_instance(after: Snapshot, vm: instance.Instance) -> None:
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


def _check_network(before: Snapshot, after: Snapshot, cable: network.Network) -> None:
    old = before.networks.get(cable.uuid)
    if old is None or old.subnets == cable.subnets:
        return
    for uuid in after.in_network.get(cable.uuid) or ():
        _check_addresses(cable, tuple(one.ip for one in after.instances[uuid].places() if one.network == cable.uuid))


def _check_addresses(cable: network.Network, addresses: tuple[str, ...]) -> None:
    subnets = [_parse(subnet.cidr) for subnet in cable.subnets] if addresses else []
    for text in addresses:
        address = (ipaddress.IPv6Address if ":" in text else ipaddress.IPv4Address)(text)
        if str(address) != text:
            raise errors.InternalError(f"address {text} is not stored in its canonical spelling {address}")
        if not any(address in subnet for subnet in subnets):
            listed = ", ".join(map(str, subnets)) or "none"
            raise errors.InvalidError(f"address {text} is outside every subnet of network {cable.name} ({listed})")


# A handful of subnets is asked about again and again: parsing them would be most of the cost of loading instances.
_parse = functools.lru_cache(maxsize=1024)(ipaddress.ip_network)


def _entity_name(state: Snapshot, uuid: str) -> str:
    found = state.instances.get(uuid) or state.nodes.get(uuid)
    return found.name if found else uuid
