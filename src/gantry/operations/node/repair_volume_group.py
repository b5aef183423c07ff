"""OP_CLUSTER_REPAIR_STORAGE: repair a volume group that has just lost a disk.

The watcher submits it repeatedly, with the previous result; ``model.repair`` decides. Volumes on a lost disk
are lost, so mirrored disks continue with their peer until ``replace-disks`` recreates the copy.

See contracts/cluster-design.md#lvm-self-repair.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gantry.model import lock, opcodes, repair, templates
from gantry.operations import base
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states


@dataclass(frozen=True)
class Facts:
    """The decision, and the volume groups that have lost something on the affected node."""

    decision: repair.Decision
    broken: Sequence[tuple[targets.Target, calls.VolumeGroup]]


class ClusterRepairStorage(base.Unit[opcodes.ClusterRepairStorage, Facts]):
    """Checks the volume groups of all nodes, and repairs one at most; the result is the input of the next check."""

    OPCODE = opcodes.ClusterRepairStorage

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock all nodes shared."""
        return {(lock.Level.NODE, lock.ALL_NAMES): lock.Mode.SHARED}

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Ask all online nodes; a node that does not answer counts as consistent."""
        used = {*templates.IN_VOLUME_GROUPS} & {*snapshot.the_cluster.enabled_disk_templates}
        nodes = [node for node in snapshot.nodes.values() if used and node.vm_capable and not node.offline]
        online = [snapshot.target(node) for node in sorted(nodes, key=lambda node: node.name)]
        broken = [
            (answer.target, group)
            for answer in await self.environment.nodes.fan_out(online, calls.VgList())
            for group in answer.value or ()
            if group.missing
        ]
        names = {target.name for target, _ in broken}
        return Facts(repair.decide(whole_before=self.op.whole_before, broken=names), broken)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Reduce the groups of the node that lost a disk; otherwise only log the decision."""
        del snapshot
        names = ", ".join(f"{group.name} on {target.name}" for target, group in facts.broken)
        repairs = facts.decision.action is repair.Action.REPAIR
        steps = [
            base.Step(
                f"remove the missing volumes from volume group {group.name} on {target.name}",
                self._reduce(target, group),
            )
            for target, group in facts.broken
            if repairs
        ]
        line = f"volume groups: {facts.decision.action.value}" + (f", {names}" if names else "")
        return base.Plan(
            lines=[line],
            steps=[base.Step(line), *steps],
            result=lambda: facts.decision.whole,
        )

    def _reduce(self, target: targets.Target, group: calls.VolumeGroup) -> base.Actions:
        async def reduce() -> None:
            lost = await self.environment.nodes.call(target, calls.VgReduce(group=group.name, force=True))
            # Monitoring looks for this line.
            self.environment.log.warning(
                f"lvm-repair node={target.name} group={group.name} missing={group.missing} lost={','.join(lost)}"
            )

        return (base.Procedure("logs which volumes were lost", reduce),)
