"""The fields of objects in the state, named as clients know them (``facts``): ``outcome`` compares the two."""

from collections.abc import Callable, Iterator, Mapping

from gantry import errors
from gantry.model import instance, network
from gantry.sim import facts
from gantry.state.objects import snapshot as states


def _instance(state: states.Snapshot, name: str) -> dict[str, object]:
    try:
        vm = state.instance(name)
    except errors.NotFoundError:
        return {}
    node = state.nodes[vm.primary_node].name
    return {
        facts.THERE: True,
        "up": vm.admin_state is instance.AdminState.UP,
        "node": node,
        f"on {node}": True,
        "nics": len(vm.nics),
        "disks": len(vm.disks),
        "template": vm.disk_template,
        "size": vm.disks[0].size if vm.disks else None,
    } | {f"tag {tag}": True for tag in vm.tags}


def _network(state: states.Snapshot, name: str) -> dict[str, object]:
    try:
        net = state.network(name)
    except errors.NotFoundError:
        return {}
    groups = [group.name for group in state.nodegroups.values() if net.uuid in group.networks]
    connected = {"connected": "default" in groups} | {f"in {group}": True for group in groups}
    ports = {f"port {uuid}": True for uuid in state.ports_in.get(net.uuid) or ()}
    segment = {"segmented": True, "segment": net.segment.segmentation_id} if net.segment else {}
    return {facts.THERE: True, "prefix": net.mac_prefix} | connected | ports | segment | dict(_parts(net))


def _parts(net: network.Network) -> Iterator[tuple[str, object]]:
    for subnet in net.subnets:
        yield f"subnet {subnet.cidr}", True
        for pool in subnet.pools:
            yield f"pool {pool.name}", True
        for text in subnet.external:
            yield f"reserved {text}", True


def _node(state: states.Snapshot, name: str) -> dict[str, object]:
    try:
        node = state.node(name)
    except errors.NotFoundError:
        return {}
    group = state.nodegroups[node.group].name
    return {facts.THERE: True, "offline": node.offline, "drained": node.drained, "group": group}


def _group(state: states.Snapshot, name: str) -> dict[str, object]:
    try:
        group = state.group(name)
    except errors.NotFoundError:
        return {}
    return {facts.THERE: True, "policy": group.alloc_policy.value}


def _cluster(state: states.Snapshot, name: str) -> dict[str, object]:
    the_cluster = state.the_cluster
    values = {field: getattr(the_cluster, field) for field in the_cluster.__struct_fields__}
    invited = {f"invited {each.node}": True for each in the_cluster.invitations if not each.closed}
    return values | invited | {f"tag {tag}": True for tag in the_cluster.tags}


def _user(state: states.Snapshot, name: str) -> dict[str, object]:
    return {f"token {token.label}": True for token in state.apitokens.values() if token.user == name}


def _range(state: states.Snapshot, name: str) -> dict[str, object]:
    run = next((each for each in state.segmentranges.values() if each.name == name), None)
    return {facts.THERE: True, "minimum": run.minimum, "maximum": run.maximum} if run else {}


def _subnet_pool(state: states.Snapshot, name: str) -> dict[str, object]:
    pool = next((each for each in state.subnetpools.values() if each.name == name), None)
    return {facts.THERE: True, "length": pool.default_prefixlen} if pool else {}


def _webhook(state: states.Snapshot, name: str) -> dict[str, object]:
    uuid = state.names.get(("webhooks", name))
    return {facts.THERE: True, "enabled": state.webhooks[uuid].enabled} if uuid else {}


SEEN: Mapping[str, Callable[[states.Snapshot, str], Mapping[str, object]]] = {
    "instance": _instance,
    "network": _network,
    "node": _node,
    "nodegroup": _group,
    "cluster": _cluster,
    "segmentrange": _range,
    "subnetpool": _subnet_pool,
    "user": _user,
    "webhook": _webhook,
}
"""For each kind of object the function that returns the fields of the object with a name; empty if there is none."""
