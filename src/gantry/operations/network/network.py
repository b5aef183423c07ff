"""Units that create, change, rename and remove networks (contracts/networks.md#scope-of-the-change).

``subnets`` and ``pools`` edit the contents of a network, one edit after the other on a copy, so that an opcode is
applied as one change or refused completely. ``connect`` connects networks to node groups.
"""

from collections.abc import Iterable, Iterator

from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.model import lock, network, opcodes
from gantry.operations import base, hook_environment
from gantry.operations.network import (
    address_users,
    connections,
    neutron_names,
    nics,
    pools,
    prefix_allocator,
    subnet_differences,
    subnets,
    views,
)
from gantry.operations.segment import choice
from gantry.state.objects import snapshot as states


class NetworkAdd(base.Planned[opcodes.NetworkAdd]):
    """Creates a network with its subnets, pools and external reservations."""

    OPCODE = opcodes.NetworkAdd
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the names, so that two networks with one name do not race, and the subnet pools that it uses."""
        names = (self.op.network_name, self.op.label, self.op.uuid)
        names_of_pools = prefix_allocator.lock_names(snapshot, *self.op.subnets)
        groups = _every_group(snapshot) if self.op.connect else {}
        return {**_exclusive(*filter(None, names), *names_of_pools), **groups}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the network."""
        del facts
        op, inputs = self.op, self.environment.inputs
        uuid = op.uuid or inputs.uuid()
        if uuid in snapshot.networks:
            raise errors.ExistsError(f"network {uuid} exists already")
        name, label = _name_and_label(snapshot, op, uuid)
        new = network.Network(
            uuid=uuid,
            name=name,
            label=label,
            ctime=inputs.now,
            mtime=inputs.now,
            tags=op.tags,
            mac_prefix=_mac_prefix(op.mac_prefix),
            project=op.project,
            shared=op.shared,
            description=op.description,
            admin_state_up=op.admin_state_up,
        )
        empty = new = choice.wired(new, choice.chosen(self.environment, snapshot, op, project=op.project))
        for spec in (*_older_subnets(op), *op.subnets):
            new = subnets.add(new, prefix_allocator.cut(snapshot, new, spec), uuid=inputs.uuid())
        for pool in op.pools:
            new = pools.add(new, pool, force=op.force)
        new = subnet_differences.dated(empty, _reserve(snapshot, empty, new, op=op), now=inputs.now)
        first = f"create network {new.name}" + ("" if new.subnets else ", layer 2 only")
        if new.wire:
            first += f", {'segment ' if new.segment else ''}{choice.text(new.wire)}"
        groups = connections.connected(snapshot, new, inputs.now) if self.op.connect else []
        lines = [
            *subnet_differences.describe(empty, new),
            *(f"connect it to node group {group.name}: {group.networks[new.uuid].link}" for group in groups),
        ]
        return base.Plan(
            lines=[first, *lines],
            changes=[states.Put(new), *map(states.Put, groups)],
            hooks=hook_environment.of_network(snapshot, new, path="network-add"),
            result=lambda: views.with_subnets(snapshot, new) | {"lines": [first, *lines]},
        )


def _every_group(snapshot: states.Snapshot) -> lock.LockSet:
    """Lock the node groups exclusively: their connections change."""
    return {(lock.Level.GROUP, uuid): lock.Mode.EXCLUSIVE for uuid in snapshot.nodegroups}


def _exclusive(*names: str) -> lock.LockSet:
    return {(lock.Level.NETWORK, name): lock.Mode.EXCLUSIVE for name in names}


def _name_and_label(snapshot: states.Snapshot, op: opcodes.NetworkAdd, uuid: str) -> tuple[str, str | None]:
    """Return name and label of a new network."""
    if op.network_name:
        return op.network_name, op.label if op.label != op.network_name else None
    if op.label is None:
        raise errors.InvalidError("a network needs a name")
    return neutron_names.name_and_label(snapshot, op.label, uuid=uuid)


def _older_subnets(op: opcodes.NetworkAdd) -> Iterable[opcodes.SubnetSpec]:
    older = ((op.network, op.gateway, ranges.Family.IPV4), (op.network6, op.gateway6, ranges.Family.IPV6))
    for cidr, gateway, family in older:
        if cidr:
            yield _older_subnet(cidr, gateway or "", family)
        elif gateway:
            raise errors.InvalidError(f"gateway {gateway} needs an IPv{family.value} subnet")


def _older_subnet(cidr: str, gateway: str, family: ranges.Family) -> opcodes.SubnetSpec:
    """Return a subnet with one pool over the whole CIDR (contracts/networks.md#backwards-compatibility)."""
    if ranges.parse_cidr(cidr).family is not family:
        raise errors.InvalidError(f"{cidr} is not an IPv{family.value} subnet")
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
    """Return a network with the requested reservations, and the nodes' own addresses in newly covered ranges."""
    after = pools.reserve(after, op.add_reserved_ips or (), force=op.force)
    if not op.conflicts_check:
        return after
    reserved = pools.reserved(after)
    nodes = address_users.node_addresses(snapshot, subnets.gained(before, after))
    return pools.reserve(
        after, (str(address) for address in nodes if not subnets.covers(reserved, address)), force=op.force
    )


class NetworkSetParams(base.Planned[opcodes.NetworkSetParams]):
    """Changes a network."""

    OPCODE = opcodes.NetworkSetParams
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the network, so that no other job allocates its addresses, its new name, and subnet pools."""
        net = snapshot.network(self.op.network_name)
        return _exclusive(
            net.uuid, *filter(None, [self.op.label]), *prefix_allocator.lock_names(snapshot, *self.op.subnets)
        )

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the network after all edits, in the order of the opcode."""
        del facts
        op, net = self.op, snapshot.network(self.op.network_name)
        if not opcodes.encode(op).keys() - _WITHOUT_EFFECT:
            raise errors.InvalidError(f"no change of network {net.name} was requested", hint="specify an option")
        inputs = self.environment.inputs
        new = pools.release(_with_own_fields(snapshot, net, op), op.remove_reserved_ips or ())
        owners = address_users.owners(snapshot, self.environment.ledger, net)
        for mod in (*_older_changes(op, net), *op.subnets):
            edit = prefix_allocator.cut(snapshot, new, mod) if mod.action == "add" else mod
            new = subnets.change(new, edit, uuid=inputs.uuid, owners=owners)
        for pool in op.pools:
            new = pools.change(new, pool, force=op.force)
        new = _reserve(snapshot, net, new, op=op)
        if op.conflicts_check:
            _check_strangers(snapshot, net, new)
        if net.shared and not new.shared:
            _check_unshared(snapshot, net)
        new = choice.wired(new, choice.changed(self.environment, snapshot, net, op))
        if new == net:
            lines = [f"nothing changes: network {net.name} already has these settings"]
            return base.Plan(lines=lines, result=lambda: views.with_subnets(snapshot, net) | {"lines": lines})
        changed = base.changed(subnet_differences.dated(net, new, now=inputs.now), inputs.now)
        ports = list(address_users.ports_after(snapshot, net, new))
        released = [f"port {port.name or port.uuid} loses its address in a removed subnet" for port in ports]
        lines = [
            f"change network {net.name}",
            *_differences(net, new),
            *subnet_differences.describe(net, new),
            *released,
        ]
        return base.Plan(
            lines=lines,
            changes=[states.Put(changed), *(states.Put(base.changed(port, inputs.now)) for port in ports)],
            hooks=hook_environment.of_network(snapshot, net, path="network-modify", planned=changed),
            result=lambda: views.with_subnets(snapshot, changed) | {"lines": lines},
        )


def _with_own_fields(snapshot: states.Snapshot, net: network.Network, op: opcodes.NetworkSetParams) -> network.Network:
    """Return a network with the requested fields of the network itself."""
    names = ("shared", "description", "admin_state_up", "tags")
    fields = {name: value for name in names if (value := getattr(op, name)) is not None}
    if op.mac_prefix is not None:
        fields["mac_prefix"] = _mac_prefix(op.mac_prefix)
    if op.label is not None:
        name, label = neutron_names.name_and_label(snapshot, op.label, uuid=net.uuid, current=net.name)
        fields |= {"name": name, "label": label}
    return structs.replace(net, **fields)


def _differences(net: network.Network, new: network.Network) -> list[str]:
    """Return the differences between two states of a network itself, a line for each."""
    titles = {"mac_prefix": "MAC prefix", "name": "name", "label": "label", "description": "description"}
    lines = [
        f"{title} becomes {getattr(new, name) or subnets.NONE}"
        for name, title in titles.items()
        if getattr(new, name) != getattr(net, name)
    ]
    for name, words in (("shared", ("shared", "not shared")), ("admin_state_up", ("up", "down"))):
        if getattr(new, name) != getattr(net, name):
            lines.append(f"the network becomes {words[not getattr(new, name)]}")
    if new.tags != net.tags:
        lines.append(f"tags become {', '.join(new.tags) or subnets.NONE}")
    return lines + ([f"segment becomes {choice.text(new.wire)}"] if new.wire != net.wire else [])


_WITHOUT_EFFECT = {"OP_ID", "network_name", "conflicts_check", "force", *opcodes.Opcode.__struct_fields__}


def _older_changes(op: opcodes.NetworkSetParams, net: network.Network) -> Iterator[opcodes.SubnetMod]:
    """Return the older form of an opcode as changes of the first subnet of each family."""
    older = ((None, op.gateway, ranges.Family.IPV4), (op.network6, op.gateway6, ranges.Family.IPV6))
    for cidr, gateway, family in older:
        if cidr is None and gateway is None:
            continue
        removes = cidr in ("", subnets.NONE)
        ident = next((subnet.uuid for subnet in net.subnets if subnets.address_range(subnet)[0] is family), "")
        if not ident and (cidr is None or removes):
            raise errors.InvalidError(
                f"network {net.name} has no IPv{family.value} subnet", hint="add a subnet with --subnet"
            )
        if not ident:
            spec = _older_subnet(str(cidr), gateway or "", family)
            yield opcodes.SubnetMod(action="add", cidr=spec.cidr, gateway=spec.gateway, pool=spec.pool)
        elif removes:
            yield opcodes.SubnetMod(action="remove", ident=ident)
        else:
            yield opcodes.SubnetMod(action="modify", ident=ident, cidr=cidr, gateway=gateway)


def _check_strangers(snapshot: states.Snapshot, before: network.Network, after: network.Network) -> None:
    """Refuse addresses of instances outside of the network, in newly covered ranges, where it is connected."""
    address_ranges = subnets.gained(before, after)
    for group in snapshot.nodegroups.values() if address_ranges else ():
        if before.uuid in group.networks:
            address_users.check_strangers(snapshot, after, group, address_ranges=address_ranges)


def _check_unshared(snapshot: states.Snapshot, net: network.Network) -> None:
    """Refuse to unshare a network while another project has a port in it."""
    for uuid in snapshot.ports_in.get(net.uuid) or ():
        port = snapshot.ports[uuid]
        if port.project not in ("", net.project):
            raise errors.WrongStateError(
                f"network {net.name} cannot be for its own project alone: port {port.name or uuid} of project "
                f"{port.project} is in it",
                hint="remove that port first",
            )


class NetworkRename(base.Planned[opcodes.NetworkRename]):
    """Renames a network."""

    OPCODE = opcodes.NetworkRename

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the network and its new name exclusively."""
        uuid = snapshot.network(self.op.network_name).uuid
        return {(lock.Level.NETWORK, name): lock.Mode.EXCLUSIVE for name in (uuid, self.op.new_name)}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the network under its new name, which is the result (contracts/opcodes.md#results)."""
        del facts
        net, name = snapshot.network(self.op.network_name), self.op.new_name
        if name == net.name:
            raise errors.ExistsError(f"network {name} already has that name")
        return base.Plan(
            lines=[f"rename network {net.name} to {name}"],
            changes=[states.Put(base.changed(net, self.environment.inputs.now, name=name, label=None))],
            result=lambda: name,
            hooks=hook_environment.of_network_rename(snapshot, net, new_name=name),
        )


class NetworkRemove(base.Planned[opcodes.NetworkRemove]):
    """Removes a network that is neither connected nor in use."""

    OPCODE = opcodes.NetworkRemove
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the network exclusively, and the node groups if it is to be disconnected."""
        groups = _every_group(snapshot) if self.op.disconnect else {}
        return {**_exclusive(snapshot.network(self.op.network_name).uuid), **groups}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the network."""
        del facts
        net = snapshot.network(self.op.network_name)
        inputs = self.environment.inputs
        disconnected = connections.disconnected(snapshot, net, inputs.now) if self.op.disconnect else []
        names = {group.name for group in disconnected}
        connected = {group.name for group in snapshot.nodegroups.values() if net.uuid in group.networks}
        groups = sorted(connected - names)
        if groups:
            raise errors.WrongStateError(
                f"network {net.name} is connected to node group {', '.join(groups)}",
                hint=f"gnt-network disconnect {net.name} {groups[0]}",
            )
        return base.Plan(
            lines=[*(f"disconnect it from node group {name}" for name in sorted(names)), f"remove network {net.name}"],
            changes=[*map(states.Put, disconnected), states.Delete("networks", net.uuid)],
            hooks=hook_environment.of_network(snapshot, net, path="network-remove"),
        )
