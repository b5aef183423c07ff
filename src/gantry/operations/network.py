"""Networks: create, change, rename, remove (networks seed, "Proposed changes"); ``connection`` plugs them in.

What is in a network is edited by ``subnets`` and ``pools``, edit by edit on a copy, so that an opcode is carried out
as one change or refused as a whole.
"""

from collections.abc import Iterable, Iterator

from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.model import network, opcodes
from gantry.operations import base, hooks, nics, occupancy, pools, subnets
from gantry.state import snapshot as states


class NetworkAdd(base.Unit[opcodes.NetworkAdd, None]):
    """Creates a network with its subnets, pools and external reservations."""

    OPCODE = opcodes.NetworkAdd

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Take the name, so that two of the same name do not race."""
        return {(base.Level.NETWORK, self.op.network_name): base.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the network."""
        del facts
        op, inputs = self.op, self.environment.inputs
        empty = new = network.Network(
            uuid=inputs.uuid(),
            name=op.network_name,
            ctime=inputs.now,
            mtime=inputs.now,
            tags=op.tags,
            mac_prefix=_mac_prefix(op.mac_prefix),
        )
        for spec in (*_older_subnets(op), *op.subnets):
            new = subnets.add(new, spec, uuid=inputs.uuid())
        for pool in op.pools:
            new = pools.add(new, pool, force=op.force)
        new = _reserve(snapshot, empty, new, op=op)
        first = f"create network {new.name}" + ("" if new.subnets else ", layer 2 only")
        return base.Plan(
            lines=[first, *subnets.describe(empty, new)],
            changes=[states.Put(new)],
            hooks=hooks.of_network(snapshot, new, path="network-add"),
        )


def _older_subnets(op: opcodes.NetworkAdd) -> Iterable[opcodes.SubnetSpec]:
    older = ((op.network, op.gateway, ranges.Family.IPV4), (op.network6, op.gateway6, ranges.Family.IPV6))
    for cidr, gateway, family in older:
        if cidr:
            yield _older_subnet(cidr, gateway or "", family)
        elif gateway:
            raise errors.InvalidError(f"gateway {gateway} is given without its IPv{family.value} subnet")


def _older_subnet(cidr: str, gateway: str, family: ranges.Family) -> opcodes.SubnetSpec:
    """Return a subnet with one pool over all of it (networks seed "Backwards Compatibility")."""
    if ranges.parse_cidr(cidr).family is not family:
        raise errors.InvalidError(f"{cidr} is no IPv{family.value} subnet")
    return opcodes.SubnetSpec(cidr=cidr, gateway=gateway, pool=True)


def _mac_prefix(text: str | None) -> str:
    return nics.checked_prefix(text) if text and text != subnets.NONE else ""


def _reserve(
    snapshot: states.Snapshot,
    before: network.Network,
    after: network.Network,
    *,
    op: opcodes.NetworkAdd | opcodes.NetworkSetParams,
) -> network.Network:
    """Return a network with what the opcode reserves, and the nodes' own addresses in what its subnets gained."""
    after = pools.reserve(after, op.add_reserved_ips or (), force=op.force)
    if not op.conflicts_check:
        return after
    reserved = pools.reserved(after)
    nodes = occupancy.node_addresses(snapshot, subnets.gained(before, after))
    return pools.reserve(after, (str(one) for one in nodes if not subnets.covers(reserved, one)), force=op.force)


class NetworkSetParams(base.Unit[opcodes.NetworkSetParams, None]):
    """Changes what is in a network."""

    OPCODE = opcodes.NetworkSetParams

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Take the network: nobody takes addresses meanwhile."""
        return {(base.Level.NETWORK, snapshot.network(self.op.network_name).uuid): base.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the network as it is after all edits, in the order that the opcode states."""
        del facts
        op, net = self.op, snapshot.network(self.op.network_name)
        if not opcodes.encode(op).keys() - _WITHOUT_EFFECT:
            raise errors.InvalidError(f"nothing is asked to be changed in network {net.name}", hint="give an option")
        new = net if op.mac_prefix is None else structs.replace(net, mac_prefix=_mac_prefix(op.mac_prefix))
        new = pools.release(new, op.remove_reserved_ips or ())
        held = occupancy.holders(snapshot, net)
        for mod in (*_older_changes(op, net), *op.subnets):
            new = subnets.change(new, mod, uuid=self.environment.inputs.uuid, holders=held)
        for pool in op.pools:
            new = pools.change(new, pool, force=op.force)
        new = _reserve(snapshot, net, new, op=op)
        if op.conflicts_check:
            _check_strangers(snapshot, net, new)
        if new == net:
            return base.Plan(lines=[f"network {net.name} is like this already"])
        lines = [f"MAC prefix becomes {new.mac_prefix or subnets.NONE}"] if new.mac_prefix != net.mac_prefix else []
        changed = base.changed(net, self.environment.inputs.now, mac_prefix=new.mac_prefix, subnets=new.subnets)
        lines = [f"change network {net.name}", *lines, *subnets.describe(net, new)]
        around = hooks.of_network(snapshot, net, path="network-modify", wanted=changed)
        return base.Plan(lines=lines, changes=[states.Put(changed)], hooks=around)


_WITHOUT_EFFECT = {"OP_ID", "network_name", "conflicts_check", "force", *opcodes.Opcode.__struct_fields__}


def _older_changes(op: opcodes.NetworkSetParams, net: network.Network) -> Iterator[opcodes.SubnetMod]:
    """Return the older form as changes of the first subnet of each family."""
    older = ((None, op.gateway, ranges.Family.IPV4), (op.network6, op.gateway6, ranges.Family.IPV6))
    for cidr, gateway, family in older:
        if cidr is None and gateway is None:
            continue
        gone = cidr in ("", subnets.NONE)
        ident = next((one.uuid for one in net.subnets if subnets.place_of(one)[0] is family), "")
        if not ident and (cidr is None or gone):
            raise errors.InvalidError(
                f"network {net.name} has no IPv{family.value} subnet", hint="add one with --subnet"
            )
        if not ident:
            spec = _older_subnet(str(cidr), gateway or "", family)
            yield opcodes.SubnetMod(action="add", cidr=spec.cidr, gateway=spec.gateway, pool=spec.pool)
        elif gone:
            yield opcodes.SubnetMod(action="remove", ident=ident)
        else:
            yield opcodes.SubnetMod(action="modify", ident=ident, cidr=cidr, gateway=gateway)


def _check_strangers(snapshot: states.Snapshot, before: network.Network, after: network.Network) -> None:
    """Refuse addresses, in what the subnets gained, of instances outside of the network where it is connected."""
    places = subnets.gained(before, after)
    for group in snapshot.nodegroups.values() if places else ():
        if before.uuid in group.networks:
            occupancy.check_strangers(snapshot, after, group, places=places)


class NetworkRename(base.Unit[opcodes.NetworkRename, None]):
    """Gives a network another name."""

    OPCODE = opcodes.NetworkRename

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Take the network and its new name."""
        uuid = snapshot.network(self.op.network_name).uuid
        return {(base.Level.NETWORK, name): base.Mode.EXCLUSIVE for name in (uuid, self.op.new_name)}

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the network under its new name, which is the result (contract: OP_NETWORK_RENAME)."""
        del facts
        net, name = snapshot.network(self.op.network_name), self.op.new_name
        if name == net.name:
            raise errors.ExistsError(f"network {name} has that name already")
        return base.Plan(
            lines=[f"rename network {net.name} to {name}"],
            changes=[states.Put(base.changed(net, self.environment.inputs.now, name=name))],
            result=lambda: name,
            hooks=hooks.of_network_rename(snapshot, net, new_name=name),
        )


class NetworkRemove(base.Unit[opcodes.NetworkRemove, None]):
    """Removes a network that is neither connected nor in use."""

    OPCODE = opcodes.NetworkRemove

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Take the network."""
        return {(base.Level.NETWORK, snapshot.network(self.op.network_name).uuid): base.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the network."""
        del facts
        net = snapshot.network(self.op.network_name)
        groups = sorted(group.name for group in snapshot.nodegroups.values() if net.uuid in group.networks)
        if groups:
            raise errors.WrongStateError(
                f"network {net.name} is connected to node group {', '.join(groups)}",
                hint=f"gnt-network disconnect {net.name} {groups[0]}",
            )
        return base.Plan(
            lines=[f"remove network {net.name}"],
            changes=[states.Delete("networks", net.uuid)],
            hooks=hooks.of_network(snapshot, net, path="network-remove"),
        )
