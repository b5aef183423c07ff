"""Getters of the node group fields."""

import msgspec

from gantry.model import base, cluster, parameters, policy
from gantry.operations.query import cells


def _nodes(context: cells.Context, group: cluster.NodeGroup) -> list[str]:
    return sorted(context.state.nodes[uuid].name for uuid in context.state.nodes_in.get(group.uuid) or ())


def _instances(context: cells.Context, group: cluster.NodeGroup) -> list[str]:
    nodes = context.state.nodes_in.get(group.uuid) or ()
    return sorted(
        context.state.instances[uuid].name for node in nodes for uuid in context.state.on_node.get(node) or ()
    )


def _parameters(context: cells.Context, group: cluster.NodeGroup) -> base.Parameters:
    return parameters.fill(parameters.NODE, context.state.the_cluster.ndparams, group.ndparams)


def _parameter(name: str) -> cells.Getter[cluster.NodeGroup]:
    return lambda context, group: _parameters(context, group)[name]


GETTERS: dict[str, cells.Getter[cluster.NodeGroup]] = {
    "name": lambda _, group: group.name,
    "alloc_policy": lambda _, group: group.alloc_policy,
    "ndparams": _parameters,
    "custom_ndparams": lambda _, group: group.ndparams,
    **{f"ndp/{name}": _parameter(name) for name in parameters.NODE},
    "diskparams": lambda context, group: {
        template: parameters.fill_disk(context.state.the_cluster, group, template) for template in parameters.DISK
    },
    "custom_diskparams": lambda _, group: group.diskparams,
    "ipolicy": lambda context, group: msgspec.to_builtins(
        policy.filled(context.state.the_cluster.ipolicy, group.ipolicy)
    ),
    "custom_ipolicy": lambda _, group: msgspec.to_builtins(group.ipolicy),
    "node_cnt": lambda context, group: len(context.state.nodes_in.get(group.uuid) or ()),
    "node_list": _nodes,
    "pinst_cnt": lambda context, group: len(_instances(context, group)),
    "pinst_list": _instances,
}
