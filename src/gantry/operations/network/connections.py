"""Connections of networks to node groups, apart from the units that make them.

``connect`` checks a connection with it, and ``network`` connects a new network of the Neutron API by default.
"""

from gantry import errors
from gantry.model import cluster, network
from gantry.operations import base, fill
from gantry.state.objects import snapshot as states

LINKS = {
    "vlan": "use mode=bridged and as link a VLAN-aware bridge or a network device",
    "vxlan": "use mode=bridged and as link the device with the address by which the nodes reach each other",
}
"""The types of segments that nodes create, with what they are connected by."""


def check_vlans(
    snapshot: states.Snapshot, net: network.Network, group: cluster.NodeGroup, plug: cluster.Connection
) -> None:
    """Refuse a VLAN of a link that another network of the group uses, if one of both has a segment."""
    vlans = _vlans(net, plug)
    for uuid, connection in group.networks.items():
        other = snapshot.networks[uuid]
        both = vlans & _vlans(other, connection) if connection.link == plug.link else None
        if both and (net.segment or other.segment):
            raise errors.ExistsError(
                f"VLAN {min(both)} of {plug.link} is already network {other.name} in node group {group.name}",
                hint="use another link for another physical network",
            )


def _vlans(net: network.Network, plug: cluster.Connection) -> set[str]:
    return set(filter(None, fill.vlan_of(net, plug.vlan).split(":")))


def default_link(the_cluster: cluster.Cluster, net: network.Network) -> str:
    """Return the link that connects a new network of the Neutron API (decision 59); empty if it is not connected."""
    wire = net.wire
    if wire is None or wire.network_type not in (*LINKS, network.FLAT):
        return ""
    return (
        the_cluster.bridge_mappings.get(wire.physical_network, "") if wire.physical_network else the_cluster.tunnel_link
    )


def connected(snapshot: states.Snapshot, net: network.Network, now: float) -> list[cluster.NodeGroup]:
    """Return all node groups with the default connection of a new network; none if it has no link."""
    plug = _default(snapshot, net)
    groups = [*snapshot.nodegroups.values()] if plug.link else []
    for group in groups:
        check_vlans(snapshot, net, group, plug)
    return [base.changed(group, now, networks={**group.networks, net.uuid: plug}) for group in groups]


def disconnected(snapshot: states.Snapshot, net: network.Network, now: float) -> list[cluster.NodeGroup]:
    """Return the node groups that have a network's default connection, without it; others an administrator made."""
    plug = _default(snapshot, net)
    return [
        base.changed(group, now, networks={uuid: plug for uuid, plug in group.networks.items() if uuid != net.uuid})
        for group in snapshot.nodegroups.values()
        if group.networks.get(net.uuid) == plug
    ]


def _default(snapshot: states.Snapshot, net: network.Network) -> cluster.Connection:
    return cluster.Connection(mode="bridged", link=default_link(snapshot.the_cluster, net))
