"""Which accelerator guests get on a node: the node's own word, which is kept with it (``Node.accelerator``).

A node is asked when it comes into the cluster or back online, all of them when the cluster is to have kvm; the units of
nodes and settings and the initialisation of a cluster do. A node may need seconds to find out (``calls.NodeInfo``), so
a cluster without kvm never asks.
"""

from msgspec import structs

from gantry.model import cluster
from gantry.rpc import calls

HYPERVISOR = "kvm"
"""The hypervisor whose guests need one."""


def needed(owner: cluster.Cluster) -> bool:
    """Tell whether a cluster has guests that need one."""
    return HYPERVISOR in owner.enabled_hypervisors


def question(owner: cluster.Cluster) -> calls.NodeInfo:
    """Return the question for a node's resources, and for its accelerator where that is needed."""
    return calls.NodeInfo(probe=needed(owner))


def told(node: cluster.Node, status: calls.NodeStatus | None) -> cluster.Node:
    """Return the node with what it said; it stays as it is when it did not answer, or was not asked for this."""
    if status is None or not status.accelerator_reason:
        return node
    return structs.replace(node, accelerator=status.accelerator, accelerator_reason=status.accelerator_reason)
