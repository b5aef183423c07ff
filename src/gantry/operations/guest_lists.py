"""How nodes are asked which guests run."""

from collections.abc import Collection

from gantry.model import instance
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

MOST_NAMES = 100
"""Of more instances than this, a node does not receive the names: it lists all that run."""


def ask(snapshot: states.Snapshot, vms: Collection[instance.Instance] | None = None) -> calls.InstanceList:
    """Return the call for the guests that run on a node, all or at least those of some instances."""
    names = tuple(vm.name for vm in vms) if vms is not None and len(vms) <= MOST_NAMES else None
    return calls.InstanceList(hypervisors=snapshot.the_cluster.enabled_hypervisors, names=names)
