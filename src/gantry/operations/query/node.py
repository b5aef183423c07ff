"""Getters of the node fields."""

from collections.abc import Callable

from gantry.model import base, cluster, parameters
from gantry.operations.query import cells
from gantry.rpc import calls


def _live(read: Callable[[calls.NodeStatus], cells.Cell]) -> cells.Getter[cluster.Node]:
    def get(context: cells.Context, node: cluster.Node) -> cells.Cell:
        answer = context.live.nodes.get(node.uuid)
        if node.offline:
            return cells.Missing.OFFLINE
        if not node.vm_capable or node.uuid in context.live.unasked:
            return cells.Missing.UNAVAILABLE
        if answer is None or answer.value is None:
            return cells.Missing.NO_DATA
        return read(answer.value)

    return get


def _storage(read: Callable[[calls.StorageInfo], int]) -> cells.Getter[cluster.Node]:
    return _live(lambda status: read(status.storage[0]) if status.storage else cells.Missing.UNAVAILABLE)


def instances(context: cells.Context, node: cluster.Node) -> list[str]:
    """Return the names of the instances whose primary node this is."""
    return sorted(context.state.instances[uuid].name for uuid in context.state.on_node.get(node.uuid) or ())


def copies(context: cells.Context, node: cluster.Node) -> list[str]:
    """Return the names of the instances whose secondary node this is."""
    return sorted(context.state.instances[uuid].name for uuid in context.state.copies_on.get(node.uuid) or ())


def _detached_disks(context: cells.Context, node: cluster.Node) -> list[str]:
    disks = (context.state.disks[uuid] for uuid in context.state.disks_on.get(node.uuid) or ())
    return sorted(f"{disk.uuid} ({disk.name})" if disk.name else disk.uuid for disk in disks)


def _group(context: cells.Context, node: cluster.Node) -> cells.Cell:
    group = context.state.nodegroups.get(node.group)
    return group.name if group else cells.Missing.UNAVAILABLE


def _parameters(context: cells.Context, node: cluster.Node) -> base.Parameters:
    state = context.state
    return parameters.fill_node(state.the_cluster, state.nodegroups.get(node.group), node)


def _parameter(name: str) -> cells.Getter[cluster.Node]:
    return lambda context, node: _parameters(context, node)[name]


def _spindles(context: cells.Context, node: cluster.Node) -> cells.Cell:
    return _live(lambda _: _parameters(context, node)["spindle_count"])(context, node)


def _stray_guests(context: cells.Context, node: cluster.Node) -> cells.Cell:
    if node.offline:
        return cells.Missing.OFFLINE
    if not node.vm_capable:
        return cells.Missing.UNAVAILABLE
    if node.uuid in context.live.silent:
        return cells.Missing.NO_DATA
    return [stray.guest.name for stray in context.live.strays if stray.target.uuid == node.uuid]


GUESTS = ("stray_guests",)
"""The fields for which a node lists its guests."""

STORAGE = ("dfree", "dtotal")
"""The fields for which a node examines its storage."""

GETTERS: dict[str, cells.Getter[cluster.Node]] = {
    "name": lambda _, node: node.name,
    "role": lambda context, node: node.role(context.state.the_cluster).value,
    "drained": lambda _, node: node.drained,
    "offline": lambda _, node: node.offline,
    "master": lambda context, node: node.uuid == context.state.the_cluster.master_node,
    "master_candidate": lambda _, node: node.master_candidate,
    "master_capable": lambda _, node: node.master_capable,
    "vm_capable": lambda _, node: node.vm_capable,
    "pip": lambda _, node: node.primary_ip,
    "sip": lambda _, node: node.secondary_ip or node.primary_ip,
    "group": _group,
    "group.uuid": lambda _, node: cells.or_none(node.group),
    "pinst_cnt": lambda context, node: len(context.state.on_node.get(node.uuid) or ()),
    "sinst_cnt": lambda context, node: len(context.state.copies_on.get(node.uuid) or ()),
    "pinst_list": instances,
    "sinst_list": copies,
    "detached_disks": _detached_disks,
    "ndparams": _parameters,
    "custom_ndparams": lambda _, node: node.ndparams,
    **{f"ndp/{name}": _parameter(name) for name in parameters.NODE},
    "accelerator": lambda _, node: cells.or_none(node.accelerator),
    "accelerator_reason": lambda _, node: cells.or_none(node.accelerator_reason),
    "certificate_end": lambda _, node: cells.or_none(node.certificate.end or None),
    "stray_guests": _stray_guests,
    "bootid": _live(lambda status: status.bootid),
    "cnodes": _live(lambda status: status.cpu_node),
    "cnos": _live(lambda status: status.cpu_node),
    "csockets": _live(lambda status: status.cpu_sockets),
    "ctotal": _live(lambda status: status.cpu_total),
    "dfree": _storage(lambda storage: storage.free),
    "dtotal": _storage(lambda storage: storage.total),
    "mfree": _live(lambda status: status.memory_free),
    "mnode": _live(lambda status: status.memory_node),
    "mtotal": _live(lambda status: status.memory_total),
    "spfree": _spindles,
    "sptotal": _spindles,
    **{name: lambda _, node: cells.Missing.UNAVAILABLE for name in ("powered", "hv_state", "disk_state")},
}
