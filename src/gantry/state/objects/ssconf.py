"""The ssconf files: small text files about the cluster on every node, one for each key.

Pure. ``mastership.distribution`` updates the nodes' files to ``values`` (calls UpdateSsconf, WriteSsconf) when
``affects`` returns True for a change. A value is a file's whole content: one entry a line, each line ended, sorted by
name.

See contracts/configuration.md#ssconf.
"""

from collections.abc import Iterable, Mapping, Sequence

import gantry
from gantry.lib_files import ssconf as ssconf_file
from gantry.model import cluster as clusters
from gantry.model import instance, network, parameters
from gantry.rpc import calls
from gantry.state.objects import snapshot


def values(state: snapshot.Snapshot) -> dict[str, str]:
    """Return key and content of every ssconf file."""
    the_cluster = state.the_cluster
    nodes = sorted(state.nodes.values(), key=lambda node: node.name)
    candidates = [node for node in nodes if node.role(the_cluster) in (clusters.Role.MASTER, clusters.Role.CANDIDATE)]
    master = state.nodes[the_cluster.master_node]
    keys = {
        "cluster_name": [the_cluster.name],
        "cluster_tags": sorted(the_cluster.tags),
        "release_version": [gantry.__version__],
        "master_node": [master.name],
        "master_ip": [master.primary_ip],
        "master_netdev": [the_cluster.master_netdev],
        "master_candidates": [node.name for node in candidates],
        "master_candidates_ips": [node.primary_ip for node in candidates],
        ssconf_file.MASTERS: masters(state),
        ssconf_file.NODE_KEYS: sorted(keys_of(nodes)),
        "revoked_certificates": sorted(revoked.serial for revoked in the_cluster.revoked),
        "node_list": [node.name for node in nodes],
        "node_primary_ips": [f"{node.name} {node.primary_ip}" for node in nodes],
        "node_secondary_ips": [f"{node.name} {node.secondary_ip or node.primary_ip}" for node in nodes],
        "node_ports": [f"{node.name} {node.port}" for node in nodes],
        "node_vm_capable": [f"{node.name}={node.vm_capable}" for node in nodes],
        "offline_nodes": [node.name for node in nodes if node.offline],
        "online_nodes": [node.name for node in nodes if not node.offline],
        "instance_list": sorted(vm.name for vm in state.instances.values()),
        "hypervisor_list": list(the_cluster.enabled_hypervisors),
        "disk_templates": list(the_cluster.enabled_disk_templates),
        "node_groups": [f"{node.name} {node.group}" for node in nodes],
        "nodegroup_links": sorted(line for group in state.nodegroups.values() for line in _links_of(state, group)),
        "nodegroups": _names(state.nodegroups.values()),
        "networks": _names(state.networks.values()),
    }
    for name in the_cluster.enabled_hypervisors:
        filled = parameters.fill(parameters.HYPERVISORS[name], the_cluster.hvparams.get(name, {}))
        keys[f"hvparams_{name}"] = [f"{key}={value}" for key, value in sorted(filled.items())]
    return {key: "".join(f"{line}\n" for line in lines if line) for key, lines in keys.items()}


def _links_of(state: snapshot.Snapshot, group: clusters.NodeGroup) -> set[str]:
    """Return a line for each bridge, or device below a segment, to which networks are connected in a node group."""
    return {
        f"{group.uuid} {'device' if state.networks[uuid].segment else 'bridge'} {plug.link}"
        for uuid, plug in group.networks.items()
        if plug.mode == "bridged" and plug.link
    }


def _names(entities: Iterable[clusters.NodeGroup | network.Network]) -> list[str]:
    return [f"{entity.uuid} {entity.name}" for entity in sorted(entities, key=lambda entity: entity.name)]


def masters(state: snapshot.Snapshot) -> list[str]:
    """Return a line for each key of the master candidates, the master included, in the order of the file."""
    the_cluster = state.the_cluster
    roles = (clusters.Role.MASTER, clusters.Role.CANDIDATE)
    return sorted(keys_of(node for node in state.nodes.values() if node.role(the_cluster) in roles))


def keys_of(nodes: Iterable[clusters.Node]) -> list[str]:
    """Return a line for each key of nodes: the node's UUID, and the digest of the key."""
    return [f"{node.uuid}={key}" for node in nodes for key in node.certificate.keys]


def master(state: snapshot.Snapshot) -> dict[str, str]:
    """Return the files about the master: its name, its address, and the keys of those who may take its place."""
    node = state.nodes[state.the_cluster.master_node]
    keys = "".join(f"{line}\n" for line in masters(state))
    about_master = {"master_node": f"{node.name}\n", "master_ip": f"{node.primary_ip}\n"}
    return about_master | ({ssconf_file.MASTERS: keys} if keys else {})


def digests(contents: Mapping[str, str]) -> dict[str, str]:
    """Return the digest of each value, which shows whether a file is up to date."""
    return {key: calls.digest_of(value) for key, value in contents.items()}


def line_changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, calls.LineChange]:
    """Return the lines in which values differ, for keys that are in both."""
    changes = {}
    for key, value in after.items():
        if key in before and before[key] != value:
            old, new = set(before[key].splitlines()), set(value.splitlines())
            changes[key] = calls.LineChange(removed=tuple(sorted(old - new)), added=tuple(sorted(new - old)))
    return changes


def affects(before: snapshot.Snapshot, after: snapshot.Snapshot, changes: Sequence[snapshot.Change]) -> bool:
    """Return whether changes affect the files: a job does not, nor does an instance that keeps its name."""
    return any(
        _content_of(before, change.kind, change.key) != _content_of(after, change.kind, change.key)
        for change in changes
        if change.kind in _KINDS_IN_FILES
    )


_KINDS_IN_FILES = {"cluster", "nodes", "nodegroups", "networks", "instances"}
"""The kinds of objects that affect the files."""


def _content_of(state: snapshot.Snapshot, kind: str, key: str) -> object:
    """Return the properties of an object that are in the files, and whether a node can have the files."""
    match state.get(kind, key):
        case clusters.Cluster() as owner:
            return owner
        case clusters.Node() as node:
            roles = (node.master_candidate, node.offline, node.joining, node.drained, node.vm_capable)
            addresses = (node.primary_ip, node.secondary_ip, node.port)
            return node.name, node.group, addresses, roles, node.certificate.keys
        case clusters.NodeGroup() as group:
            return group.name, _links_of(state, group)
        case network.Network() as net:
            return net.name, bool(net.segment)
        case instance.Instance() as vm:
            return vm.name
        case _:
            return None
