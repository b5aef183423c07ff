"""Units that destroy a cluster, and that run the hooks of a new cluster."""

from collections.abc import Sequence

from gantry import errors
from gantry.model import lock, opcodes
from gantry.operations import base, hook_environment, stray_guests
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states


class ClusterPostInit(base.Planned[opcodes.ClusterPostInit]):
    """Does nothing but run the hooks of a new cluster."""

    OPCODE = opcodes.ClusterPostInit

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock nothing."""
        return {}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Change nothing."""
        del facts
        return base.Plan(hooks=hook_environment.of_cluster_init(snapshot), result=lambda: True)


class ClusterDestroy(base.Unit[opcodes.ClusterDestroy, Sequence[stray_guests.Stray]]):
    """Destroys an empty cluster: every node forgets it; the master daemon ends after the job.

    The other nodes are no candidates any more before they forget it: their copies would be missing for the majority
    that acknowledges the end of the job.
    """

    OPCODE = opcodes.ClusterDestroy

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the whole cluster exclusively."""
        return {(lock.Level.CLUSTER, "BGL"): lock.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> Sequence[stray_guests.Stray]:
        """Ask the nodes for guests that the state does not have; one that does not answer is passed over."""
        return await stray_guests.reported(self.environment.nodes, snapshot, snapshot.nodes.values())

    def plan(self, snapshot: states.Snapshot, facts: Sequence[stray_guests.Stray]) -> base.Plan:
        """Notify the nodes, the master's node last. Refused while there are instances, or stray guests."""
        if snapshot.instances:
            names = sorted(vm.name for vm in snapshot.instances.values())
            raise errors.WrongStateError(
                f"cluster {snapshot.the_cluster.name} has {len(names)} instances ({', '.join(names[:5])})",
                hint="remove the instances first",
            )
        if snapshot.disks:
            raise errors.WrongStateError(
                f"cluster {snapshot.the_cluster.name} has {len(snapshot.disks)} disks without an instance",
                hint="gnt-node list -o name,detached_disks shows them; attach them to an instance and remove it",
            )
        stray_guests.check_none(facts)
        master = snapshot.nodes[snapshot.the_cluster.master_node]
        other_nodes = sorted(
            (node for node in snapshot.nodes.values() if node is not master), key=lambda node: node.name
        )
        now = self.environment.inputs.now
        candidates = [node for node in other_nodes if node.master_candidate]
        farewell = [
            base.Step(f"let {node.name} leave the cluster", _leave(snapshot.target(node)))
            for node in (*other_nodes, master)
        ]
        return base.Plan(
            lines=[f"destroy cluster {snapshot.the_cluster.name}"],
            changes=[states.Put(base.changed(node, now, master_candidate=False)) for node in candidates],
            after=farewell,
            result=lambda: master.name,
            hooks=hook_environment.of_cluster_destroy(snapshot),
        )


def _leave(target: targets.Target) -> base.Actions:
    return (base.Command(target, calls.NodeLeave(), errors.GantryError, f"{target.name} was not notified"),)
