"""Who sits on the addresses of a network: instances and ports in it, instances that are not, and the nodes. Pure.

Shared by the units that change networks and those that connect them.
"""

from collections.abc import Iterable, Iterator, Sequence

from gantry import errors
from gantry.address import ranges
from gantry.ipam import embedded
from gantry.model import cluster, instance, network
from gantry.operations.network import subnets
from gantry.state import integrity
from gantry.state import snapshot as states


def holders(snapshot: states.Snapshot, ledger: embedded.Ledger, net: network.Network) -> subnets.Holders:
    """Return who tells the addresses of a network that are in use, in order. Cost: those in the places asked for."""

    def find(places: Iterable[subnets.Place]) -> Iterator[subnets.Holder]:
        for family, part in places:
            for run in ledger.space(net.uuid, family).used_runs(part):
                for number in range(run.first, run.last + 1):
                    address = ranges.Address(family, number)
                    # One that rests is used in the ledger, and nobody's in the state.
                    if owner := snapshot.addresses.get((net.uuid, str(address))):
                        called = integrity.called(snapshot.holder(owner))
                        yield subnets.Holder(address, called, is_port=bool(owner.port))

    return find


def nics_of(snapshot: states.Snapshot, group: cluster.NodeGroup) -> Iterable[tuple[str, instance.Nic]]:
    """Yield the NICs of the instances in a node group, with the instance's name."""
    for node in snapshot.nodes_in.get(group.uuid) or ():
        for uuid in snapshot.on_node.get(node) or ():
            vm = snapshot.instances[uuid]
            for nic in vm.nics:
                yield vm.name, nic


def check_strangers(
    snapshot: states.Snapshot, net: network.Network, group: cluster.NodeGroup, *, places: Sequence[subnets.Place]
) -> None:
    """Refuse ``places`` of a network if an instance of the group has an address there without being plugged in."""
    for vm, nic in nics_of(snapshot, group):
        for ip in nic.ip if not nic.network else ():
            if subnets.covers(places, ranges.parse_address(ip)):
                raise errors.NotUniqueError(
                    f"address {ip} of network {net.name} is in use by instance {vm}, outside of the network",
                    hint="change the instance, or go on with --no-conflicts-check",
                )


def node_addresses(snapshot: states.Snapshot, places: Sequence[subnets.Place]) -> list[ranges.Address]:
    """Return the nodes' own addresses that lie in ``places``, each once, in order. Without places nothing is read."""
    if not places:
        return []
    texts = {text for node in snapshot.nodes.values() for text in (node.primary_ip, node.secondary_ip) if text}
    found = sorted(ranges.parse_address(text) for text in texts)
    return [address for address in found if subnets.covers(places, address)]
