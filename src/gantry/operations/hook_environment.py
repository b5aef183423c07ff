"""What hook scripts are told of an operation, and where they run, for each operation that has hooks. Pure.

The units put a ``base.Hooks`` made here into their plans; ``jobs.hooks`` runs the scripts. A variable reaches a script
with ``GANETI_`` in front. Before a change its value is what is wanted, so that a script can refuse it; after it, the
old value, with the new one under ``GANETI_POST_`` (contracts/hooks.md#operations, whose table the functions follow).
NICs are told as ``rpc.variables`` says, with ``INSTANCE_NICn_`` in front; a network's own subnets by their numbers too,
where it has several of a family, or DHCP.
Truth values are ``True`` and ``False``, sizes MiB, lists separated by blanks.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from gantry.model import cluster as clusters
from gantry.model import instance as instances
from gantry.model import network as networks
from gantry.operations import base, fill
from gantry.rpc import calls, targets, variables
from gantry.state import snapshot as states

VERSION = "2"

Environment = variables.Environment
Phase = Literal["pre", "post"]


def environment(
    snapshot: states.Snapshot, hooks: base.Hooks, *, op_code: str, phase: Phase, after: Mapping[str, str] | None = None
) -> Environment:
    """Return all that the scripts of a phase are told; ``after`` are the values of the post phase."""
    owner = snapshot.the_cluster
    common = {
        "HOOKS_VERSION": VERSION,
        "HOOKS_PATH": hooks.path,
        "HOOKS_PHASE": phase,
        "OP_CODE": op_code,
        "OBJECT_TYPE": hooks.object_type,
        "CLUSTER": owner.name,
        "MASTER": snapshot.nodes[owner.master_node].name,
    }
    plain = hooks.wanted if hooks.wanted is not None and phase == "pre" else hooks.environment
    told = {f"GANETI_{name}": value for name, value in (common | dict(plain)).items()}
    return told | {f"GANETI_POST_{name}": value for name, value in (after or {}).items()}


def _texts(values: Mapping[str, object]) -> Environment:
    return {name: str(value) for name, value in values.items()}


def _targets(snapshot: states.Snapshot, uuids: Iterable[str]) -> list[targets.Target]:
    """Return where nodes are, each once, by name."""
    nodes = [snapshot.nodes[uuid] for uuid in set(uuids)]
    return [snapshot.target(node) for node in sorted(nodes, key=lambda node: node.name)]


def _master(snapshot: states.Snapshot) -> list[targets.Target]:
    return _targets(snapshot, [snapshot.the_cluster.master_node])


def of_instance(
    snapshot: states.Snapshot,
    vm: instances.Instance,
    *,
    path: str,
    wanted: instances.Instance | None = None,
    **more: object,
) -> base.Hooks:
    """Return the hooks around an instance, on the master and the instance's nodes; ``more`` are variables besides.

    ``wanted`` is what a change makes of it. Before an instance is removed, only the master is asked.
    """
    extra = _texts(more)
    own = _targets(snapshot, [snapshot.the_cluster.master_node, *vm.nodes])
    return base.Hooks(
        path=path,
        object_type="INSTANCE",
        environment=instance_variables(snapshot, vm) | extra,
        wanted=instance_variables(snapshot, wanted) | extra if wanted else None,
        later=lambda newest: instance_variables(newest, newest.instances.get(vm.uuid, vm)) | extra,
        nodes_pre=_master(snapshot) if path == "instance-remove" else own,
        nodes_post=own,
    )


def instance_variables(snapshot: states.Snapshot, vm: instances.Instance) -> Environment:
    """Return what is told of an instance, which the snapshot need not have yet."""
    whole = fill.fill(snapshot, vm)
    found = {
        "OP_TARGET": vm.name,
        "INSTANCE_NAME": vm.name,
        "INSTANCE_PRIMARY": whole.primary_node,
        "INSTANCE_SECONDARIES": " ".join(whole.secondary_nodes),
        "INSTANCE_OS_TYPE": vm.os,
        "INSTANCE_STATUS": vm.admin_state.value,
        "INSTANCE_MINMEM": whole.beparams["minmem"],
        "INSTANCE_MAXMEM": whole.beparams["maxmem"],
        "INSTANCE_MEMORY": whole.beparams["maxmem"],
        "INSTANCE_VCPUS": whole.beparams["vcpus"],
        "INSTANCE_DISK_TEMPLATE": vm.disk_template,
        "INSTANCE_DISK_COUNT": len(vm.disks),
        "INSTANCE_NIC_COUNT": len(vm.nics),
        "INSTANCE_HYPERVISOR": vm.hypervisor,
        "INSTANCE_TAGS": " ".join(vm.tags),
    }
    parameters = {
        f"INSTANCE_{kind}_{name}": value
        for kind, values in (("BE", whole.beparams), ("HV", whole.hvparams))
        for name, value in values.items()
    }
    parts = [_disk(disk) for disk in whole.disks] + [_nic(nic) for nic in whole.nics]
    return _texts(found | parameters) | {name: value for part in parts for name, value in part.items()}


def _disk(disk: calls.Disk) -> Environment:
    values = {"SIZE": str(disk.size), "MODE": disk.mode, "UUID": disk.uuid, "DEV_TYPE": disk.dev_type}
    values |= variables.known(NAME=disk.name)
    return {f"INSTANCE_DISK{disk.index}_{name}": value for name, value in values.items()}


def _nic(nic: calls.Nic) -> Environment:
    values = {"UUID": nic.uuid, "IP": "", "LINK": "", "VLAN": nic.vlan}
    values |= variables.known(NAME=nic.name) | variables.nic(nic)
    return {f"INSTANCE_NIC{nic.index}_{name}": value for name, value in values.items()}


def of_network(
    snapshot: states.Snapshot, net: networks.Network, *, path: str, wanted: networks.Network | None = None
) -> base.Hooks:
    """Return the hooks around a network, on the master; those around a rename are ``of_network_rename``."""
    return base.Hooks(
        path=path,
        object_type="NETWORK",
        environment=network_variables(net),
        wanted=network_variables(wanted) if wanted else None,
        later=lambda newest: network_variables(newest.networks.get(net.uuid, net)),
        nodes_pre=_master(snapshot),
        nodes_post=_master(snapshot),
    )


def of_network_rename(snapshot: states.Snapshot, net: networks.Network, *, new_name: str) -> base.Hooks:
    """Return the hooks around renaming a network, on the master and the nodes of the groups it is connected to."""
    groups = [uuid for uuid, group in snapshot.nodegroups.items() if net.uuid in group.networks]
    members = [node for uuid in groups for node in snapshot.nodes_in.get(uuid) or ()]
    where = _targets(snapshot, [snapshot.the_cluster.master_node, *members])
    told = {"OLD_NAME": net.name, "NEW_NAME": new_name}
    return base.Hooks(
        path="network-rename",
        object_type="NETWORK",
        environment=told,
        nodes_pre=where,
        nodes_post=where,
    )


def network_variables(net: networks.Network) -> Environment:
    """Return what is told of a network."""
    cable = fill.fill_network(net)
    told = variables.network(cable)
    if len(net.subnets) == len(cable.subnets) and not any(subnet.dhcp for subnet in net.subnets):
        return told
    rows = [variables.subnet(cidr=one.cidr, gateway=one.gateway, dhcp=one.dhcp) for one in net.subnets]
    return told | {"NETWORK_SUBNET_COUNT": str(len(rows))} | variables.numbered(rows)


def of_connection(
    snapshot: states.Snapshot,
    net: networks.Network,
    *,
    path: str,
    group: clusters.NodeGroup,
    plug: clusters.Connection,
) -> base.Hooks:
    """Return the hooks around connecting a network to a node group and disconnecting it, on the group's nodes."""
    told = network_variables(net) | {
        "GROUP_NAME": group.name,
        "GROUP_NETWORK_MODE": plug.mode,
        "GROUP_NETWORK_LINK": plug.link,
        "GROUP_NETWORK_VLAN": fill.vlan_of(net, plug.vlan),
    }
    where = _targets(snapshot, snapshot.nodes_in.get(group.uuid) or ())
    return base.Hooks(path=path, object_type="NETWORK", environment=told, nodes_pre=where, nodes_post=where)


def of_group(snapshot: states.Snapshot, group: clusters.NodeGroup, *, path: str, **more: object) -> base.Hooks:
    """Return the hooks around a node group, on the master; those around a rename are ``of_group_rename``."""
    return base.Hooks(
        path=path,
        object_type="GROUP",
        environment={"OP_TARGET": group.name, "GROUP_NAME": group.name} | _texts(more),
        nodes_pre=_master(snapshot),
        nodes_post=_master(snapshot),
    )


def of_group_evacuate(
    snapshot: states.Snapshot, group: clusters.NodeGroup, others: Iterable[clusters.NodeGroup]
) -> base.Hooks:
    """Return the hooks around bringing all instances of a node group to others, on the master and the group's nodes."""
    where = _targets(snapshot, [snapshot.the_cluster.master_node, *(snapshot.nodes_in.get(group.uuid) or ())])
    names = " ".join(sorted(other.name for other in others))
    told = {"OP_TARGET": group.name, "GROUP_NAME": group.name, "TARGET_GROUPS": names}
    return base.Hooks(path="group-evacuate", object_type="GROUP", environment=told, nodes_pre=where, nodes_post=where)


def of_group_rename(snapshot: states.Snapshot, group: clusters.NodeGroup, *, new_name: str) -> base.Hooks:
    """Return the hooks around renaming a node group, on the master and the group's nodes."""
    where = _targets(snapshot, [snapshot.the_cluster.master_node, *(snapshot.nodes_in.get(group.uuid) or ())])
    return base.Hooks(
        path="group-rename",
        object_type="GROUP",
        environment={"OP_TARGET": group.name, "OLD_NAME": group.name, "NEW_NAME": new_name},
        nodes_pre=where,
        nodes_post=where,
    )


def of_node_add(snapshot: states.Snapshot, new: clusters.Node) -> base.Hooks:
    """Return the hooks around the addition of a node: before on all others, after on all."""
    others = _targets(snapshot, snapshot.nodes)
    return base.Hooks(
        path="node-add",
        object_type="NODE",
        environment=_node(new),
        later=lambda newest: _node(newest.nodes.get(new.uuid, new)),
        nodes_pre=others,
        nodes_post=[*others, snapshot.target(new)],
    )


def _node(node: clusters.Node) -> Environment:
    return {
        "OP_TARGET": node.name,
        "NODE_NAME": node.name,
        "NODE_PIP": node.primary_ip,
        "NODE_SIP": node.secondary_ip or node.primary_ip,
        "MASTER_CAPABLE": str(node.master_capable),
        "VM_CAPABLE": str(node.vm_capable),
    }


def of_node_modify(snapshot: states.Snapshot, node: clusters.Node, *, silent: bool) -> base.Hooks:
    """Return the hooks around a change of a node's flags, on the master and the node, which may be ``silent``."""
    asked = {snapshot.the_cluster.master_node, *([] if silent or node.offline else [node.uuid])}
    where = _targets(snapshot, asked)

    def flags(one: clusters.Node) -> Environment:
        names = ("master_candidate", "offline", "drained", "master_capable", "vm_capable")
        return {"OP_TARGET": one.name, "NODE_NAME": one.name} | {n.upper(): str(getattr(one, n)) for n in names}

    return base.Hooks(
        path="node-modify",
        object_type="NODE",
        environment=flags(node),
        later=lambda newest: flags(newest.nodes.get(node.uuid, node)),
        nodes_pre=where,
        nodes_post=where,
    )


def of_node_migrate(snapshot: states.Snapshot, node: clusters.Node) -> base.Hooks:
    """Return the hooks around the migration of all that runs on a node, on the master."""
    return base.Hooks(
        path="node-migrate",
        object_type="NODE",
        environment={"OP_TARGET": node.name, "NODE_NAME": node.name},
        nodes_pre=_master(snapshot),
        nodes_post=_master(snapshot),
    )


def of_node_remove(snapshot: states.Snapshot, node: clusters.Node) -> base.Hooks:
    """Return the hooks around the removal of a node, which hears of it before it leaves."""
    told = {"OP_TARGET": node.name, "NODE_NAME": node.name}
    others = _targets(snapshot, [uuid for uuid in snapshot.nodes if uuid != node.uuid])
    return base.Hooks(
        path="node-remove",
        object_type="NODE",
        environment=told,
        nodes_pre=others,
        nodes_post=others,
        nodes_leaving=[snapshot.target(node)],
    )


def of_cluster_init(snapshot: states.Snapshot) -> base.Hooks:
    """Return the hooks after the making of a cluster, on the master."""
    return base.Hooks(
        path="cluster-init",
        object_type="CLUSTER",
        environment={"OP_TARGET": snapshot.the_cluster.name},
        nodes_post=_master(snapshot),
    )


def of_cluster_modify(snapshot: states.Snapshot) -> base.Hooks:
    """Return the hooks around a change of the cluster's settings, on the master; there is no volume group to name."""
    return base.Hooks(
        path="cluster-modify",
        object_type="CLUSTER",
        environment={"OP_TARGET": snapshot.the_cluster.name, "NEW_VG_NAME": ""},
        nodes_pre=_master(snapshot),
        nodes_post=_master(snapshot),
    )


def of_cluster_destroy(snapshot: states.Snapshot) -> base.Hooks:
    """Return the hooks of the end of a cluster, on the master while it still is one."""
    return base.Hooks(
        path="cluster-destroy",
        object_type="CLUSTER",
        environment={"OP_TARGET": snapshot.the_cluster.name},
        nodes_leaving=_master(snapshot),
    )


def of_cluster_verify(snapshot: states.Snapshot, report: base.Report) -> base.Hooks:
    """Return the hooks after the verification of a cluster, on all nodes; ``report`` adds what they found to it."""
    told = {"CLUSTER_TAGS": " ".join(snapshot.the_cluster.tags)}
    told |= {f"NODE_TAGS_{node.name}": " ".join(node.tags) for node in snapshot.nodes.values()}
    return base.Hooks(
        path="cluster-verify",
        object_type="CLUSTER",
        environment=told,
        nodes_post=_targets(snapshot, snapshot.nodes),
        report=report,
    )
