"""Units that connect a network to a node group, with mode, link and VLAN, and disconnect it.

See contracts/networks.md#terms.
"""

from typing import TypeVar

from gantry import errors
from gantry.model import cluster, lock, network, opcodes, parameters
from gantry.operations import base, hook_environment
from gantry.operations.network import address_users, connections, subnets
from gantry.state.objects import snapshot as states

Op = TypeVar("Op", opcodes.NetworkConnect, opcodes.NetworkDisconnect)


def _check_segment(net: network.Network, op: opcodes.NetworkConnect) -> None:
    """Refuse a connection that does not reach the network's segment, or a flat network's untagged frames."""
    if net.unsegmented and net.unsegmented.network_type == network.FLAT:
        if op.network_mode != "bridged" or op.network_vlan:
            raise errors.InvalidError(
                f"network {net.name} is flat, so its NICs must be bridged, without a VLAN",
                hint=f"use mode=bridged and as link a bridge on physical network {net.unsegmented.physical_network}",
            )
        return
    segment = net.segment
    if segment is None:
        return
    if segment.network_type not in connections.LINKS:
        raise errors.InvalidError(
            f"network {net.name} has a segment of type {segment.network_type}, which nodes cannot create",
            hint=f"nodes create segments of type {' and '.join(connections.LINKS)}",
        )
    if op.network_mode != "bridged" or op.network_vlan:
        raise errors.InvalidError(
            f"network {net.name} has {segment.network_type} segment {segment.segmentation_id}, "
            "so its NICs must be bridged, without another VLAN",
            hint=connections.LINKS[segment.network_type],
        )


class _OfConnection(base.Planned[Op]):
    """Base of the units that connect or disconnect a network."""

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the group exclusively, the network shared."""
        return {
            (lock.Level.GROUP, snapshot.group(self.op.group_name).uuid): lock.Mode.EXCLUSIVE,
            (lock.Level.NETWORK, snapshot.network(self.op.network_name).uuid): lock.Mode.SHARED,
        }


class NetworkConnect(_OfConnection[opcodes.NetworkConnect]):
    """Connects a network to a node group."""

    OPCODE = opcodes.NetworkConnect

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the group with the connection."""
        del facts
        net, group = snapshot.network(self.op.network_name), snapshot.group(self.op.group_name)
        if net.uuid in group.networks:
            raise errors.ExistsError(f"network {net.name} is already connected to node group {group.name}")
        _check_segment(net, self.op)
        if self.op.conflicts_check:
            address_ranges = [subnets.address_range(subnet) for subnet in net.subnets]
            address_users.check_strangers(snapshot, net, group, address_ranges=address_ranges)
        plug = cluster.Connection(
            mode=self.op.network_mode, link=self.op.network_link, vlan=parameters.vlan(self.op.network_vlan)
        )
        connections.check_vlans(snapshot, net, group, plug)
        new = base.changed(group, self.environment.inputs.now, networks={**group.networks, net.uuid: plug})
        line = f"connect network {net.name} to node group {group.name}: {plug.mode} to {plug.link}"
        around = hook_environment.of_connection(snapshot, net, path="network-connect", group=group, plug=plug)
        return base.Plan(lines=[line], changes=[states.Put(new)], hooks=around)


class NetworkDisconnect(_OfConnection[opcodes.NetworkDisconnect]):
    """Disconnects a network from a node group."""

    OPCODE = opcodes.NetworkDisconnect

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the group without the connection."""
        del facts
        net, group = snapshot.network(self.op.network_name), snapshot.group(self.op.group_name)
        if net.uuid not in group.networks:
            raise errors.WrongStateError(f"network {net.name} is not connected to node group {group.name}")
        users = sorted({vm for vm, nic in address_users.nics_of(snapshot, group) if nic.network == net.uuid})
        if users:
            raise errors.WrongStateError(
                f"network {net.name} is in use in node group {group.name} by instance {', '.join(users[:5])}",
                hint="remove these instances, or remove their NICs from the network first",
            )
        remaining = {uuid: plug for uuid, plug in group.networks.items() if uuid != net.uuid}
        new = base.changed(group, self.environment.inputs.now, networks=remaining)
        plug = group.networks[net.uuid]
        return base.Plan(
            lines=[f"disconnect network {net.name} from node group {group.name}"],
            changes=[states.Put(new)],
            hooks=hook_environment.of_connection(snapshot, net, path="network-disconnect", group=group, plug=plug),
        )
