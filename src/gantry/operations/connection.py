"""Connections: a network is plugged in at a node group, with mode, link and VLAN, and unplugged (networks seed, L2)."""

from gantry import errors
from gantry.model import cluster, opcodes
from gantry.operations import base, hooks, occupancy, subnets
from gantry.state import snapshot as states


def _locks(snapshot: states.Snapshot, op: opcodes.NetworkConnect | opcodes.NetworkDisconnect) -> base.LockSet:
    return {
        (base.Level.GROUP, snapshot.group(op.group_name).uuid): base.Mode.EXCLUSIVE,
        (base.Level.NETWORK, snapshot.network(op.network_name).uuid): base.Mode.SHARED,
    }


def _checked_vlan(text: str) -> str:
    """Return a VLAN, or several as ``ID:ID``; ``.ID`` is the same as ``ID`` (contract: value coercion)."""
    plain = text.removeprefix(".")
    ids = plain.removeprefix(":").split(":") if text else []
    if not all(one.isascii() and one.isdecimal() and len(one) <= 4 and 1 <= int(one) <= 4094 for one in ids):
        raise errors.InvalidError(f"VLAN {text} is not valid", hint="write a number from 1 to 4094, as in vlan=5")
    return plain


class NetworkConnect(base.Unit[opcodes.NetworkConnect, None]):
    """Plugs a network in at a node group."""

    OPCODE = opcodes.NetworkConnect

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Change the group, keep the network."""
        return _locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the group with the connection."""
        del facts
        net, group = snapshot.network(self.op.network_name), snapshot.group(self.op.group_name)
        if net.uuid in group.networks:
            raise errors.ExistsError(f"network {net.name} is connected to node group {group.name} already")
        if self.op.conflicts_check:
            places = [subnets.place_of(subnet) for subnet in net.subnets]
            occupancy.check_strangers(snapshot, net, group, places=places)
        plug = cluster.Connection(
            mode=self.op.network_mode, link=self.op.network_link, vlan=_checked_vlan(self.op.network_vlan)
        )
        new = base.changed(group, self.environment.inputs.now, networks={**group.networks, net.uuid: plug})
        line = f"connect network {net.name} to node group {group.name}: {plug.mode} to {plug.link}"
        around = hooks.of_connection(snapshot, net, path="network-connect", group=group, plug=plug)
        return base.Plan(lines=[line], changes=[states.Put(new)], hooks=around)


class NetworkDisconnect(base.Unit[opcodes.NetworkDisconnect, None]):
    """Unplugs a network from a node group."""

    OPCODE = opcodes.NetworkDisconnect

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Change the group, keep the network."""
        return _locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the group without the connection."""
        del facts
        net, group = snapshot.network(self.op.network_name), snapshot.group(self.op.group_name)
        if net.uuid not in group.networks:
            raise errors.WrongStateError(f"network {net.name} is not connected to node group {group.name}")
        users = sorted({vm for vm, nic in occupancy.nics_of(snapshot, group) if nic.network == net.uuid})
        if users:
            raise errors.WrongStateError(
                f"network {net.name} is in use in node group {group.name} by instance {', '.join(users[:5])}",
                hint="remove these instances or take their NICs off the network first",
            )
        rest = {uuid: plug for uuid, plug in group.networks.items() if uuid != net.uuid}
        new = base.changed(group, self.environment.inputs.now, networks=rest)
        plug = group.networks[net.uuid]
        return base.Plan(
            lines=[f"disconnect network {net.name} from node group {group.name}"],
            changes=[states.Put(new)],
            hooks=hooks.of_connection(snapshot, net, path="network-disconnect", group=group, plug=plug),
        )
