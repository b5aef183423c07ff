"""Owners of the addresses of a network: instances and ports in it, instances outside of it, and the nodes. Pure.

Shared by the units that change networks and those that connect them.
"""

from collections.abc import Iterable, Iterator, Sequence

from gantry import errors
from gantry.address import ranges
from gantry.ipam import embedded
from gantry.model import cluster, instance, network
from gantry.operations.network import subnets
from gantry.state import conflicts
from gantry.state import snapshot as states


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
                        yield subnets.Owner(address, title, is_port=bool(owner.port))

    return find


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
    texts = {text for node in snapshot.nodes.values() for text in (node.primary_ip, node.secondary_ip) if text}
    addresses = sorted(ranges.parse_address(text) for text in texts)
    return [address for address in addresses if subnets.covers(address_ranges, address)]
