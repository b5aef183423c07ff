"""The variables of hook scripts and the nodes where they run, for each operation that has hooks. Pure.

Units put the ``base.Hooks`` from here into their plans; ``jobs.hooks`` runs the scripts. Scripts see each variable with
the prefix ``GANETI_``. Before a change the variables contain the planned values, so that a script can refuse. After
the change they contain the old values, and those with ``GANETI_POST_`` the new ones (contracts/hooks.md#operations,
whose table the functions follow). ``rpc.variables`` names the variables of NICs, here with the prefix
``INSTANCE_NICn_``. A network with several subnets of a family, or with DHCP, also has numbered subnet variables.
Truth values are ``True`` and ``False``, sizes are in MiB, lists are separated by spaces.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from gantry.model import cluster as clusters
from gantry.model import instance as instances
from gantry.model import network as networks
from gantry.operations import base, fill
from gantry.rpc import calls, targets, variables
from gantry.state.objects import snapshot as states

VERSION = "2"

Environment = variables.Environment
Phase = Literal["pre", "post"]


def environment(
    snapshot: states.Snapshot, hooks: base.Hooks, *, op_code: str, phase: Phase, after: Mapping[str, str] | None = None
) -> Environment:
    """Return all variables for the scripts of a phase; ``after`` contains the values of the post phase."""
    the_cluster = snapshot.the_cluster
    common = {
        "HOOKS_VERSION": VERSION,
        "HOOKS_PATH": hooks.path,
        "HOOKS_PHASE": phase,
        "OP_CODE": op_code,
        "OBJECT_TYPE": hooks.object_type,
        "CLUSTER": the_cluster.name,
        "MASTER": snapshot.nodes[the_cluster.master_node].name,
    }
    values = hooks.planned if hooks.planned is not None and phase == "pre" else hooks.environment
    prefixed = {f"GANETI_{name}": value for name, value in (common | dict(values)).items()}
    return prefixed | {f"GANETI_POST_{name}": value for name, value in (after or {}).items()}


def _texts(parameters: Mapping[str, object]) -> Environment:
    return {name: str(value) for name, value in parameters.items()}


def _targets(snapshot: states.Snapshot, uuids: Iterable[str]) -> list[targets.Target]:
    """Return the targets of nodes, each once, sorted by name."""
    nodes = [snapshot.nodes[uuid] for uuid in set(uuids)]
    return [snapshot.target(node) for node in sorted(nodes, key=lambda node: node.name)]


def _master(snapshot: states.Snapshot) -> list[targets.Target]:
    return _targets(snapshot, [snapshot.the_cluster.master_node])


def of_instance(
    snapshot: states.Snapshot,
    vm: instances.Instance,
    *,
    path: str,
    planned: instances.Instance | None = None,
    **more: object,
) -> base.Hooks:
    """Return the hooks around an instance, on the master and the instance's nodes; ``more`` are further variables.

    ``planned`` is the instance after the change. The pre phase of a removal runs on the master alone.
    """
    extra = _texts(more)
    own = _targets(snapshot, [snapshot.the_cluster.master_node, *vm.nodes])
    return base.Hooks(
        path=path,
        object_type="INSTANCE",
        environment=instance_variables(snapshot, vm) | extra,
        planned=instance_variables(snapshot, planned) | extra if planned else None,
        later=lambda current: instance_variables(current, current.instances.get(vm.uuid, vm)) | extra,
        nodes_pre=_master(snapshot) if path == "instance-remove" else own,
        nodes_post=own,
    )


def instance_variables(snapshot: states.Snapshot, vm: instances.Instance) -> Environment:
    """Return the variables of an instance, which the snapshot may not contain yet."""
    whole = fill.fill(snapshot, vm)
    values = {
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
        for kind, kind_values in (("BE", whole.beparams), ("HV", whole.hvparams))
        for name, value in kind_values.items()
    }
    parts = [_disk(disk) for disk in whole.disks] + [_nic(nic) for nic in whole.nics]
    return _texts(values | parameters) | {name: value for part in parts for name, value in part.items()}


def _disk(disk: calls.Disk) -> Environment:
    values = {"SIZE": str(disk.size), "MODE": disk.mode, "UUID": disk.uuid, "DEV_TYPE": disk.dev_type}
    values |= variables.known(NAME=disk.name)
    return {f"INSTANCE_DISK{disk.index}_{name}": value for name, value in values.items()}


def _nic(nic: calls.Nic) -> Environment:
    values = {"UUID": nic.uuid, "IP": "", "LINK": "", "VLAN": nic.vlan}
    values |= variables.known(NAME=nic.name) | variables.nic(nic)
    return {f"INSTANCE_NIC{nic.index}_{name}": value for name, value in values.items()}


def of_network(
    snapshot: states.Snapshot, net: networks.Network, *, path: str, planned: networks.Network | None = None
) -> base.Hooks:
    """Return the hooks around a network, on the master; hooks around its rename are ``of_network_rename``."""
    return base.Hooks(
        path=path,
        object_type="NETWORK",
        environment=network_variables(net),
        planned=network_variables(planned) if planned else None,
        later=lambda current: network_variables(current.networks.get(net.uuid, net)),
        nodes_pre=_master(snapshot),
        nodes_post=_master(snapshot),
    )


def of_network_rename(snapshot: states.Snapshot, net: networks.Network, *, new_name: str) -> base.Hooks:
    """Return the hooks around renaming a network, on the master and the nodes of its connected groups."""
    groups = [uuid for uuid, group in snapshot.nodegroups.items() if net.uuid in group.networks]
    member_nodes = [node for uuid in groups for node in snapshot.nodes_in.get(uuid) or ()]
    nodes = _targets(snapshot, [snapshot.the_cluster.master_node, *member_nodes])
    values = {"OLD_NAME": net.name, "NEW_NAME": new_name}
    return base.Hooks(
        path="network-rename",
        object_type="NETWORK",
        environment=values,
        nodes_pre=nodes,
        nodes_post=nodes,
    )


def network_variables(net: networks.Network) -> Environment:
    """Return the variables of a network."""
    filled = fill.fill_network(net)
    values = variables.network(filled)
    if len(net.subnets) == len(filled.subnets) and not any(subnet.dhcp for subnet in net.subnets):
        return values
    rows = [variables.subnet(cidr=subnet.cidr, gateway=subnet.gateway, dhcp=subnet.dhcp) for subnet in net.subnets]
    return values | {"NETWORK_SUBNET_COUNT": str(len(rows))} | variables.numbered(rows)


def of_connection(
    snapshot: states.Snapshot,
    net: networks.Network,
    *,
    path: str,
    group: clusters.NodeGroup,
    plug: clusters.Connection,
) -> base.Hooks:
    """Return the hooks around connecting a network to a node group and disconnecting it, on the group's nodes."""
    values = network_variables(net) | {
        "GROUP_NAME": group.name,
        "GROUP_NETWORK_MODE": plug.mode,
        "GROUP_NETWORK_LINK": plug.link,
        "GROUP_NETWORK_VLAN": fill.vlan_of(net, plug.vlan),
    }
    nodes = _targets(snapshot, snapshot.nodes_in.get(group.uuid) or ())
    return base.Hooks(path=path, object_type="NETWORK", environment=values, nodes_pre=nodes, nodes_post=nodes)


def of_group(snapshot: states.Snapshot, group: clusters.NodeGroup, *, path: str, **more: object) -> base.Hooks:
    """Return the hooks around a node group, on the master; hooks around its rename are ``of_group_rename``."""
    return base.Hooks(
        path=path,
        object_type="GROUP",
        environment={"OP_TARGET": group.name, "GROUP_NAME": group.name} | _texts(more),
        nodes_pre=_master(snapshot),
        nodes_post=_master(snapshot),
    )


def of_group_evacuate(
    snapshot: states.Snapshot, group: clusters.NodeGroup, target_groups: Iterable[clusters.NodeGroup]
) -> base.Hooks:
    """Return the hooks around moving all instances to other node groups, on the master and the group's nodes."""
    nodes = _targets(snapshot, [snapshot.the_cluster.master_node, *(snapshot.nodes_in.get(group.uuid) or ())])
    names = " ".join(sorted(target_group.name for target_group in target_groups))
    values = {"OP_TARGET": group.name, "GROUP_NAME": group.name, "TARGET_GROUPS": names}
    return base.Hooks(path="group-evacuate", object_type="GROUP", environment=values, nodes_pre=nodes, nodes_post=nodes)


def of_group_rename(snapshot: states.Snapshot, group: clusters.NodeGroup, *, new_name: str) -> base.Hooks:
    """Return the hooks around renaming a node group, on the master and the group's nodes."""
    nodes = _targets(snapshot, [snapshot.the_cluster.master_node, *(snapshot.nodes_in.get(group.uuid) or ())])
    return base.Hooks(
        path="group-rename",
        object_type="GROUP",
        environment={"OP_TARGET": group.name, "OLD_NAME": group.name, "NEW_NAME": new_name},
        nodes_pre=nodes,
        nodes_post=nodes,
    )


def of_node_add(snapshot: states.Snapshot, new: clusters.Node) -> base.Hooks:
    """Return the hooks around adding a node: before on all other nodes, after on all nodes."""
    other_nodes = _targets(snapshot, [uuid for uuid in snapshot.nodes if uuid != new.uuid])
    return base.Hooks(
        path="node-add",
        object_type="NODE",
        environment=_node(new),
        later=lambda current: _node(current.nodes.get(new.uuid, new)),
        nodes_pre=other_nodes,
        nodes_post=[*other_nodes, snapshot.target(new)],
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
    """Return the hooks around a change of a node's flags, on the master and, unless ``silent``, on the node."""
    uuids = {snapshot.the_cluster.master_node, *([] if silent or node.offline else [node.uuid])}
    targets_of_phase = _targets(snapshot, uuids)

    def flags(changed_node: clusters.Node) -> Environment:
        names = ("master_candidate", "offline", "drained", "master_capable", "vm_capable")
        return {"OP_TARGET": changed_node.name, "NODE_NAME": changed_node.name} | {
            n.upper(): str(getattr(changed_node, n)) for n in names
        }

    return base.Hooks(
        path="node-modify",
        object_type="NODE",
        environment=flags(node),
        later=lambda current: flags(current.nodes.get(node.uuid, node)),
        nodes_pre=targets_of_phase,
        nodes_post=targets_of_phase,
    )


def of_node_migrate(snapshot: states.Snapshot, node: clusters.Node) -> base.Hooks:
    """Return the hooks around migrating all instances of a node, on the master."""
    return base.Hooks(
        path="node-migrate",
        object_type="NODE",
        environment={"OP_TARGET": node.name, "NODE_NAME": node.name},
        nodes_pre=_master(snapshot),
        nodes_post=_master(snapshot),
    )


def of_node_remove(snapshot: states.Snapshot, node: clusters.Node) -> base.Hooks:
    """Return the hooks around removing a node; the node runs its post phase before it leaves."""
    values = {"OP_TARGET": node.name, "NODE_NAME": node.name}
    other_nodes = _targets(snapshot, [uuid for uuid in snapshot.nodes if uuid != node.uuid])
    return base.Hooks(
        path="node-remove",
        object_type="NODE",
        environment=values,
        nodes_pre=other_nodes,
        nodes_post=other_nodes,
        nodes_leaving=[snapshot.target(node)],
    )


def of_cluster_init(snapshot: states.Snapshot) -> base.Hooks:
    """Return the hooks after the creation of a cluster, on the master."""
    return base.Hooks(
        path="cluster-init",
        object_type="CLUSTER",
        environment={"OP_TARGET": snapshot.the_cluster.name},
        nodes_post=_master(snapshot),
    )


def of_cluster_modify(snapshot: states.Snapshot) -> base.Hooks:
    """Return the hooks around a change of the cluster's settings, on the master; the volume group name is empty."""
    return base.Hooks(
        path="cluster-modify",
        object_type="CLUSTER",
        environment={"OP_TARGET": snapshot.the_cluster.name, "NEW_VG_NAME": ""},
        nodes_pre=_master(snapshot),
        nodes_post=_master(snapshot),
    )


def of_cluster_destroy(snapshot: states.Snapshot) -> base.Hooks:
    """Return the hooks after destroying a cluster, on the master before it leaves."""
    return base.Hooks(
        path="cluster-destroy",
        object_type="CLUSTER",
        environment={"OP_TARGET": snapshot.the_cluster.name},
        nodes_leaving=_master(snapshot),
    )


def of_cluster_verify(snapshot: states.Snapshot, report: base.Report) -> base.Hooks:
    """Return the hooks after the verification of a cluster, on all nodes; ``report`` receives their failures."""
    values = {"CLUSTER_TAGS": " ".join(snapshot.the_cluster.tags)}
    values |= {f"NODE_TAGS_{node.name}": " ".join(node.tags) for node in snapshot.nodes.values()}
    return base.Hooks(
        path="cluster-verify",
        object_type="CLUSTER",
        environment=values,
        nodes_post=_targets(snapshot, snapshot.nodes),
        report=report,
    )
