"""Getters of the node group fields."""

from gantry.model import cluster, parameters
from gantry.operations.query import cells


def _nodes(context: cells.Context, group: cluster.NodeGroup) -> list[str]:
    return sorted(context.state.nodes[uuid].name for uuid in context.state.nodes_in.get(group.uuid) or ())


def _instances(context: cells.Context, group: cluster.NodeGroup) -> list[str]:
    nodes = context.state.nodes_in.get(group.uuid) or ()
    return sorted(
        context.state.instances[uuid].name for node in nodes for uuid in context.state.on_node.get(node) or ()
    )


GETTERS: dict[str, cells.Getter[cluster.NodeGroup]] = {
    "name": lambda _, group: group.name,
    "alloc_policy": lambda _, group: group.alloc_policy,
    "ndparams": lambda context, group: parameters.fill(
        parameters.NODE, context.state.the_cluster.ndparams, group.ndparams
    ),
    "custom_ndparams": lambda _, group: group.ndparams,
    "node_cnt": lambda context, group: len(context.state.nodes_in.get(group.uuid) or ()),
    "node_list": _nodes,
    "pinst_cnt": lambda context, group: len(_instances(context, group)),
    "pinst_list": _instances,
}
