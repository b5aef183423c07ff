"""Networks: create, remove, connect to a node group and disconnect (networks seed, "Proposed changes")."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from gantry import errors
from gantry.address import pools, ranges
from gantry.model import cluster, instance, network, opcodes
from gantry.operations import base
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
        inputs = self.environment.inputs
        subnets = _subnets(self.op, inputs)
        subnets = _with_pools(subnets, self.op.pools)
        reserved = list(self.op.add_reserved_ips or ())
        if self.op.conflicts_check:
            reserved += _node_addresses(snapshot, subnets, reserved)
        subnets = _with_external(subnets, reserved)
        new = network.Network(
            uuid=inputs.uuid(),
            name=self.op.network_name,
            ctime=inputs.now,
            mtime=inputs.now,
            tags=self.op.tags,
            mac_prefix=_mac_prefix(self.op.mac_prefix),
            subnets=tuple(subnets),
        )
        return base.Plan(lines=_describe(new), changes=[states.Put(new)])


def _describe(net: network.Network) -> list[str]:
    lines = [f"create network {net.name}" + ("" if net.subnets else ", layer 2 only")]
    for subnet in net.subnets:
        lines.append(f"add subnet {subnet.cidr}" + (f" with gateway {subnet.gateway}" if subnet.gateway else ""))
        lines += [f"add pool {pool.range} {pool.name}".rstrip() for pool in subnet.pools]
        lines += [f"reserve {run} externally" for run in subnet.external]
    return lines


def _mac_prefix(given: str | None) -> str:
    if not given:
        return ""
    parts = given.lower().split(":")
    if len(parts) != 3 or not all(len(part) == 2 and set(part) <= set("0123456789abcdef") for part in parts):
        raise errors.InvalidError(f"MAC prefix {given} is not valid", hint="write three bytes, such as aa:00:01")
    if int(parts[0], 16) & 1:
        raise errors.InvalidError(f"MAC prefix {given} is one of multicast addresses", hint="make its first byte even")
    return ":".join(parts)


def _subnets(op: opcodes.NetworkAdd, inputs: base.Inputs) -> list[network.Subnet]:
    """Return the subnets of both forms of the opcode, checked against each other."""
    specs = [*_older_form(op), *op.subnets]
    subnets = [_subnet(spec, inputs.uuid()) for spec in specs]
    for index, subnet in enumerate(subnets):
        for other in subnets[:index]:
            _check_pair(subnet, other)
    return subnets


def _older_form(op: opcodes.NetworkAdd) -> Iterable[opcodes.SubnetSpec]:
    for cidr, gateway, family in ((op.network, op.gateway, "IPv4"), (op.network6, op.gateway6, "IPv6")):
        if cidr:
            if str(ranges.parse_cidr(cidr).family.value) != family[-1]:
                raise errors.InvalidError(f"{cidr} is no {family} subnet")
            yield opcodes.SubnetSpec(cidr=cidr, gateway=gateway or "", pool=True)
        elif gateway:
            raise errors.InvalidError(f"gateway {gateway} is given without its {family} subnet")


def _subnet(spec: opcodes.SubnetSpec, uuid: str) -> network.Subnet:
    cidr = ranges.parse_cidr(spec.cidr)
    gateway = ""
    if spec.gateway:
        address = ranges.parse_address(spec.gateway)
        if address.family != cidr.family or address.value not in cidr.range:
            raise errors.InvalidError(f"gateway {spec.gateway} is outside its subnet {cidr}")
        gateway = str(address)
    whole = ranges.format_range(cidr.family, cidr.range)
    return network.Subnet(
        uuid=uuid,
        cidr=str(cidr),
        name=spec.name,
        gateway=gateway,
        dhcp=spec.dhcp,
        pools=(network.Pool(range=whole),) if spec.pool else (),
    )


def _check_pair(subnet: network.Subnet, other: network.Subnet) -> None:
    one, two = ranges.parse_cidr(subnet.cidr), ranges.parse_cidr(other.cidr)
    if one.family == two.family and one.range.overlaps(two.range):
        raise errors.InvalidError(f"subnets {two} and {one} overlap", hint="subnets of one network must not")
    if one.family == two.family and subnet.dhcp and other.dhcp:
        raise errors.InvalidError(f"subnets {two} and {one} both have dhcp", hint="one of each IP version may have it")
    if subnet.name and subnet.name == other.name:
        raise errors.InvalidError(f"two subnets are named {subnet.name}")


def _with_pools(subnets: Sequence[network.Subnet], specs: Sequence[opcodes.PoolSpec]) -> list[network.Subnet]:
    """Add each pool to the subnet that contains it (networks seed "Multiple IP pools per Subnet")."""
    result = list(subnets)
    names = {pool.name for subnet in subnets for pool in subnet.pools if pool.name}
    for spec in specs:
        if spec.name == "pool" or (spec.name and spec.name in names):
            raise errors.InvalidError(f"pool name {spec.name} is taken", hint="pool names are unique in a network")
        names.add(spec.name)
        index, text = _containing(result, spec.range, what="pool")
        subnet = result[index]
        _check_apart(subnet, [*(pool.range for pool in subnet.pools), text], what="pool")
        pool = network.Pool(range=text, name=spec.name)
        result[index] = structs.replace(subnet, pools=(*subnet.pools, pool))
    return result


def _with_external(subnets: Sequence[network.Subnet], reserved: Sequence[str]) -> list[network.Subnet]:
    result = list(subnets)
    for text in reserved:
        index, run = _containing(result, text, what="reserved range")
        subnet = result[index]
        _check_apart(subnet, [*subnet.external, run], what="external reservation")
        result[index] = structs.replace(subnet, external=(*subnet.external, run))
    return result


def _check_apart(subnet: network.Subnet, texts: Sequence[str], *, what: str) -> None:
    pools.check_ranges(ranges.parse_cidr(subnet.cidr), [ranges.parse_range(text)[1] for text in texts], what=what)


def _containing(subnets: Sequence[network.Subnet], text: str, *, what: str) -> tuple[int, str]:
    """Return the index of the subnet that holds a range, and the range in canonical text."""
    family, run = ranges.parse_range(text)
    for index, subnet in enumerate(subnets):
        cidr = ranges.parse_cidr(subnet.cidr)
        if cidr.family == family and cidr.range.covers(run):
            return index, ranges.format_range(family, run)
    known = ", ".join(subnet.cidr for subnet in subnets) or "none"
    raise errors.InvalidError(f"{what} {text} is outside every subnet of the network ({known})")


def _node_addresses(snapshot: states.Snapshot, subnets: Sequence[network.Subnet], reserved: Sequence[str]) -> list[str]:
    """Return the nodes' own addresses that lie in a subnet and are not reserved yet."""
    runs = [ranges.parse_range(text) for text in reserved]
    found = []
    for node in sorted(snapshot.nodes.values(), key=lambda node: node.name):
        for text in {node.primary_ip, node.secondary_ip or node.primary_ip}:
            address = ranges.parse_address(text)
            inside = any(
                cidr.family == address.family and address.value in cidr.range
                for cidr in (ranges.parse_cidr(subnet.cidr) for subnet in subnets)
            )
            if inside and not any(family == address.family and address.value in run for family, run in runs):
                found.append(str(address))
    return found


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
        return base.Plan(lines=[f"remove network {net.name}"], changes=[states.Delete("networks", net.uuid)])


class NetworkConnect(base.Unit[opcodes.NetworkConnect, None]):
    """Plugs a network in at a node group."""

    OPCODE = opcodes.NetworkConnect

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Change the group, keep the network."""
        return _connection_locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the group with the connection."""
        del facts
        net, group = snapshot.network(self.op.network_name), snapshot.group(self.op.group_name)
        if net.uuid in group.networks:
            raise errors.ExistsError(f"network {net.name} is connected to node group {group.name} already")
        if self.op.conflicts_check:
            _check_conflicts(snapshot, net, group)
        plug = cluster.Connection(
            mode=self.op.network_mode, link=self.op.network_link, vlan=self.op.network_vlan.removeprefix(".")
        )
        new = base.changed(group, self.environment.inputs.now, networks={**group.networks, net.uuid: plug})
        line = f"connect network {net.name} to node group {group.name}: {plug.mode} to {plug.link}"
        return base.Plan(lines=[line], changes=[states.Put(new)])


def _connection_locks(
    snapshot: states.Snapshot, op: opcodes.NetworkConnect | opcodes.NetworkDisconnect
) -> base.LockSet:
    return {
        (base.Level.GROUP, snapshot.group(op.group_name).uuid): base.Mode.EXCLUSIVE,
        (base.Level.NETWORK, snapshot.network(op.network_name).uuid): base.Mode.SHARED,
    }


def _check_conflicts(snapshot: states.Snapshot, net: network.Network, group: cluster.NodeGroup) -> None:
    """Refuse when an instance of the group has an address of the network without being plugged into it."""
    cidrs = [ranges.parse_cidr(subnet.cidr) for subnet in net.subnets]
    for vm, nic in _nics_of(snapshot, group):
        for ip in nic.ip if not nic.network else ():
            address = ranges.parse_address(ip)
            if any(cidr.family == address.family and address.value in cidr.range for cidr in cidrs):
                raise errors.NotUniqueError(
                    f"address {ip} of network {net.name} is in use by instance {vm}, outside of the network",
                    hint="change the instance, or connect with --no-conflicts-check",
                )


def _nics_of(snapshot: states.Snapshot, group: cluster.NodeGroup) -> Iterable[tuple[str, instance.Nic]]:
    for node in snapshot.nodes_in.get(group.uuid) or ():
        for uuid in snapshot.on_node.get(node) or ():
            vm = snapshot.instances[uuid]
            for nic in vm.nics:
                yield vm.name, nic


class NetworkDisconnect(base.Unit[opcodes.NetworkDisconnect, None]):
    """Unplugs a network from a node group."""

    OPCODE = opcodes.NetworkDisconnect

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Change the group, keep the network."""
        return _connection_locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the group without the connection."""
        del facts
        net, group = snapshot.network(self.op.network_name), snapshot.group(self.op.group_name)
        if net.uuid not in group.networks:
            raise errors.WrongStateError(f"network {net.name} is not connected to node group {group.name}")
        users = sorted({vm for vm, nic in _nics_of(snapshot, group) if nic.network == net.uuid})
        if users:
            raise errors.WrongStateError(
                f"network {net.name} is in use in node group {group.name} by instance {', '.join(users[:5])}",
                hint="remove these instances or take their NICs off the network first",
            )
        rest = {uuid: plug for uuid, plug in group.networks.items() if uuid != net.uuid}
        new = base.changed(group, self.environment.inputs.now, networks=rest)
        return base.Plan(
            lines=[f"disconnect network {net.name} from node group {group.name}"], changes=[states.Put(new)]
        )
