"""Turn objects of the model into what is sent to nodes: an instance with every parameter filled in.

A node does not know any defaults, so the master overlays the levels here: cluster, group, instance
(contracts/cluster-design.md#filling-of-defaults).

See explanation/architecture.md#nodes.
"""

import ipaddress

from msgspec import structs

from gantry import errors
from gantry.model import allowed, cluster, confidential, instance, network, parameters
from gantry.rpc import calls
from gantry.state.objects import snapshot as states


def fill(state: states.Snapshot, vm: instance.Instance, *, node: str = "") -> calls.Instance:
    """Return an instance of the snapshot as its primary node, or the node with the UUID ``node``, sees it."""
    the_cluster = state.the_cluster
    return calls.Instance(
        name=vm.name,
        uuid=vm.uuid,
        hypervisor=vm.hypervisor,
        os=vm.os,
        disk_template=vm.disk_template,
        primary_node=state.nodes[vm.primary_node].name,
        secondary_nodes=tuple(state.nodes[uuid].name for uuid in vm.secondary_nodes),
        ctime=vm.ctime,
        mtime=vm.mtime,
        tags=vm.tags,
        hvparams=parameters.fill_hypervisor(the_cluster, vm),
        allowed=fill_allowed(the_cluster, vm),
        beparams=parameters.fill_backend(the_cluster, vm),
        osparams=confidential.filled(the_cluster, vm),
        disks=tuple(fill_disk(state, vm, index, disk, node=node) for index, disk in enumerate(vm.disks)),
        nics=tuple(
            fill_nic(the_cluster, index, nic, net=state.networks.get(nic.network)) for index, nic in enumerate(vm.nics)
        ),
    )


def fill_allowed(the_cluster: cluster.Cluster, vm: instance.Instance) -> dict[str, calls.Allowed]:
    """Return what a node may use as the values of an instance's parameters; built-in defaults are always allowed."""
    names = {parameter: allowed.OF_PARAMETER[parameter] for parameter in allowed.own_values(the_cluster, vm)}
    return {
        parameter: calls.Allowed(
            list=name, entries=allowed.entries(the_cluster, name), form=allowed.LISTS[name].form.value
        )
        for parameter, name in names.items()
    }


def fill_disk(
    state: states.Snapshot, vm: instance.Instance, index: int, disk: instance.Disk, *, node: str = ""
) -> calls.Disk:
    """Return a disk as a node sees it, with the parameters of its template and its own, for a storage provider."""
    group = state.nodegroups.get(state.nodes[vm.primary_node].group)
    return calls.Disk(
        index=index,
        uuid=disk.uuid,
        dev_type=disk.dev_type,
        size=disk.size,
        mode=disk.mode,
        name=disk.name,
        logical_id=disk.logical_id,
        params=parameters.fill_disk(state.the_cluster, group, disk.dev_type) | disk.params,
        children=tuple(fill_disk(state, vm, index, child) for child in disk.children),
        mirror=fill_mirror(state, disk.mirror, node or vm.primary_node) if disk.mirror else None,
    )


def fill_mirror(state: states.Snapshot, mirror: instance.Mirror, node: str) -> calls.Mirror:
    """Return a node's end of a mirrored disk; raises InternalError if neither end is on this node."""
    if node not in mirror.minors:
        raise errors.InternalError(f"node {state.nodes[node].name} does not have a copy of the mirrored disk")
    peer = next((uuid for uuid in mirror.minors if uuid != node), "")
    return calls.Mirror(
        minor=mirror.minors[node],
        local=_replication_address(state.nodes[node]),
        remote=_replication_address(state.nodes[peer]) if peer else "",
        port=mirror.port,
        secret=mirror.secret,
    )


def _replication_address(node: cluster.Node) -> str:
    return node.secondary_ip or node.primary_ip


def fill_nic(the_cluster: cluster.Cluster, index: int, nic: instance.Nic, *, net: network.Network | None) -> calls.Nic:
    """Return a NIC as nodes see it, its addresses with their subnets."""
    filled = parameters.fill_nic(the_cluster, nic)
    return calls.Nic(
        index=index,
        uuid=nic.uuid,
        mac=nic.mac,
        name=nic.name,
        mode=str(filled["mode"]),
        link=str(filled["link"]),
        vlan=vlan_of(net, str(filled["vlan"])),
        addresses=tuple(_address(ip, net) for ip in nic.ip),
        network=fill_network(net) if net else None,
        mtu=net.mtu if net and net.mtu < network.MTU else 0,
    )


def vlan_of(net: network.Network | None, own: str) -> str:
    """Return the VLAN of a network's segment; without such a segment, ``own``: the VLAN of the NIC or connection."""
    segment = net.segment if net else None
    return str(segment.segmentation_id) if segment and segment.network_type == "vlan" else own


def fill_network(net: network.Network) -> calls.Network:
    """Return a network as nodes see it: with the first subnet of each family only, as scripts always received."""
    firsts: dict[bool, calls.Subnet] = {}
    for subnet in net.subnets:
        firsts.setdefault(":" in subnet.cidr, calls.Subnet(cidr=subnet.cidr, gateway=subnet.gateway))
    return calls.Network(
        name=net.name,
        uuid=net.uuid,
        mac_prefix=net.mac_prefix,
        tags=net.tags,
        subnets=tuple(firsts.values()),
        segment=calls.Segment(**structs.asdict(net.segment)) if net.segment else None,
    )


def _address(ip: str, net: network.Network | None) -> calls.Address:
    value = ipaddress.ip_address(ip)
    for subnet in net.subnets if net else ():
        if value in ipaddress.ip_network(subnet.cidr):
            return calls.Address(ip=ip, subnet=subnet.cidr, gateway=subnet.gateway, dhcp=subnet.dhcp)
    return calls.Address(ip=ip)
