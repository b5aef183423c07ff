"""The accelerator that guests get on a node, as the node reports it; stored as ``Node.accelerator``.

A node is asked when it joins the cluster or comes back online; all nodes are asked when kvm is enabled. Called by the
units of nodes and settings, and by the initialization of a cluster. A node may need seconds to find out
(``calls.NodeInfo``), so a cluster without kvm never asks.
"""

from msgspec import structs

from gantry.model import cluster
from gantry.rpc import calls

HYPERVISOR = "kvm"
"""The hypervisor whose guests need an accelerator."""


def needed(the_cluster: cluster.Cluster) -> bool:
    """Return whether a cluster has guests that need an accelerator."""
    return HYPERVISOR in the_cluster.enabled_hypervisors


def question(the_cluster: cluster.Cluster) -> calls.NodeInfo:
    """Return the call for a node's resources, with its accelerator if the cluster needs that."""
    return calls.NodeInfo(probe=needed(the_cluster))


def with_status(node: cluster.Node, status: calls.NodeStatus | None) -> cluster.Node:
    """Return the node with the accelerator it reported; unchanged if it did not answer or was not asked for it."""
    if status is None or not status.accelerator_reason:
        return node
    return structs.replace(node, accelerator=status.accelerator, accelerator_reason=status.accelerator_reason)
