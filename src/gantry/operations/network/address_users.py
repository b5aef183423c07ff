"""Owners of the addresses of a network: instances and ports in it, instances outside of it, and the nodes. Pure.

Shared by the units that change networks and those that connect them.
"""

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.ipam import embedded
from gantry.model import cluster, instance, network
from gantry.operations.network import pools, subnets
from gantry.state.objects import conflicts
from gantry.state.objects import snapshot as states


def owners(snapshot: states.Snapshot, ledger: embedded.Ledger, net: network.Network) -> subnets.Owners:
    """Return a function that yields the owners of addresses in ranges, in order. Cost: the used addresses there."""

    def find(address_ranges: Iterable[subnets.AddressRange]) -> Iterator[subnets.Owner]:
        for family, part in address_ranges:
            for run in ledger.space(net.uuid, family).used_runs(part):
                for number in range(run.first, run.last + 1):
                    address = ranges.Address(family, number)
                    # A quarantined address is used in the ledger, but has no owner in the state.
                    if owner := snapshot.addresses.get((net.uuid, str(address))):
                        title = conflicts.owner_title(snapshot.owner(owner))
                        yield subnets.Owner(address, title, snapshot.ports.get(owner.port))

    return find


def ports_after(snapshot: states.Snapshot, before: network.Network, after: network.Network) -> Iterator[network.Port]:
    """Yield the ports of a network that have addresses in removed subnets, without these addresses.

    ``subnets`` refuses to remove a subnet with other addresses than those that ports configure themselves.
    """
    removed = subnets.gained(after, before)
    for uuid in sorted(snapshot.ports_in.get(before.uuid) or ()) if removed else ():
        port = snapshot.ports[uuid]
        kept = tuple(ip for ip in port.ip if not subnets.covers(removed, ranges.parse_address(ip)))
        if kept != port.ip:
            yield structs.replace(port, ip=kept)


def nics_of(snapshot: states.Snapshot, group: cluster.NodeGroup) -> Iterable[tuple[str, instance.Nic]]:
    """Yield the NICs of the instances in a node group, with the instance's name."""
    for node in snapshot.nodes_in.get(group.uuid) or ():
        for uuid in snapshot.on_node.get(node) or ():
            vm = snapshot.instances[uuid]
            for nic in vm.nics:
                yield vm.name, nic


def check_strangers(
    snapshot: states.Snapshot,
    net: network.Network,
    group: cluster.NodeGroup,
    *,
    address_ranges: Sequence[subnets.AddressRange],
) -> None:
    """Refuse if an instance of the group has an address in the network's ranges without a NIC in the network."""
    for vm, nic in nics_of(snapshot, group):
        for ip in nic.ip if not nic.network else ():
            if subnets.covers(address_ranges, ranges.parse_address(ip)):
                raise errors.NotUniqueError(
                    f"address {ip} of network {net.name} is in use by instance {vm}, outside of the network",
                    hint="change the instance, or add --no-conflicts-check",
                )


def node_addresses(snapshot: states.Snapshot, address_ranges: Sequence[subnets.AddressRange]) -> list[ranges.Address]:
    """Return the nodes' own addresses in the ranges, each once, sorted. Reads no node if there are no ranges."""
    if not address_ranges:
        return []
    addresses = sorted({address for node in snapshot.nodes.values() for address in addresses_of(node)})
    return [address for address in addresses if subnets.covers(address_ranges, address)]


def addresses_of(node: cluster.Node) -> list[ranges.Address]:
    """Return the primary and the secondary address of a node, each once, sorted."""
    return sorted(ranges.parse_address(text) for text in {node.primary_ip, node.secondary_ip} if text)


@dataclass(frozen=True)
class NodeAddress:
    """An address of a node in a network; ``owner`` names the guest that has the address too, if there is one."""

    net: network.Network
    address: ranges.Address
    owner: str
    is_reserved: bool


def in_networks(snapshot: states.Snapshot, addresses: Sequence[ranges.Address]) -> Iterator[NodeAddress]:
    """Yield sorted addresses of nodes, each in each network that contains it, networks by name.

    Cost: a binary search for each subnet.
    """
    for net in sorted(snapshot.networks.values(), key=lambda net: net.name):
        for family, run in map(subnets.address_range, net.subnets):
            start = bisect.bisect_left(addresses, ranges.Address(family, run.first))
            end = bisect.bisect_right(addresses, ranges.Address(family, run.last))
            for address in addresses[start:end]:
                owner = snapshot.addresses.get((net.uuid, str(address)))
                title = conflicts.owner_title(snapshot.owner(owner)) if owner else ""
                yield NodeAddress(net, address, title, subnets.covers(pools.reserved(net), address))


def reserve_for_node(
    snapshot: states.Snapshot, name: str, addresses: Sequence[ranges.Address]
) -> list[network.Network]:
    """Return the networks that change when the addresses of a node are reserved in them; see ``check_free``."""
    check_free(snapshot, name, addresses)
    changed: dict[str, network.Network] = {}
    for node_address in in_networks(snapshot, addresses):
        if not node_address.is_reserved:
            net = changed.get(node_address.net.uuid, node_address.net)
            changed[net.uuid] = pools.reserve(net, [str(node_address.address)], force=True)
    return list(changed.values())


def check_free(snapshot: states.Snapshot, name: str, addresses: Sequence[ranges.Address]) -> None:
    """Refuse an address of a node that a guest has, in a network or outside of all; raises NotUniqueError."""
    in_nets = [(each.address, f" in network {each.net.name}", each.owner) for each in in_networks(snapshot, addresses)]
    outside = [(address, "", owner_outside(snapshot, address)) for address in addresses]
    for address, where, owner in (*in_nets, *outside):
        if owner:
            raise errors.NotUniqueError(
                f"address {address} of node {name} is in use by {owner}{where}",
                hint="choose another address for the node, or change the address of that owner",
            )


def owner_outside(snapshot: states.Snapshot, address: ranges.Address) -> str:
    """Return the text that names the guest with a NIC outside of all networks that has an address; empty for none."""
    owner = snapshot.addresses.get(("", str(address)))
    return conflicts.owner_title(snapshot.owner(owner)) if owner else ""
