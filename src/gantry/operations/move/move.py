"""OP_INSTANCE_MOVE: copy the disks of an instance to another node, and run it there.

For disks that exist on a single node (``file``, ``plain``). The instance is stopped first; the nodes copy the data
directly (``disk_planning.transfer``) and compare it at the end. Until everything has arrived nothing is removed at the
source: a failure removes the copies and starts the instance where it was. Afterwards the target is recorded, the
old disks are removed, and the instance starts there if its admin state is up. The start comes last: whether it fails or
not, the old disks belong to nobody, and no later job would find them.
"""

from dataclasses import dataclass, replace

from gantry import errors
from gantry.model import instance, lock, opcodes
from gantry.operations import base, fill
from gantry.operations.disk_planning import transfer, volumes
from gantry.operations.move import relocation
from gantry.state.objects import snapshot as states


@dataclass(frozen=True)
class Facts:
    """Whether the instance runs, and the names that the target's drivers give its disks."""

    runs: bool
    names: tuple[str, ...]


class InstanceMove(base.Unit[opcodes.InstanceMove, Facts]):
    """Moves an instance with its disks."""

    OPCODE = opcodes.InstanceMove

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, both nodes shared."""
        vm = snapshot.instance(self.op.instance_name)
        return relocation.locks(snapshot, vm, target=self.op.target_node)

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Return whether the instance runs; check that the target can take it."""
        op, vm = self.op, snapshot.instance(self.op.instance_name)
        node = snapshot.nodes[vm.primary_node]
        relocation.check_in_use(vm)
        if vm.disk_template not in relocation.LOCAL:
            raise errors.WrongStateError(
                f"the disks of instance {vm.name} ({vm.disk_template}) do not need to be copied to move it",
                hint=f"gnt-instance failover {vm.name}, or gnt-instance migrate while it runs",
            )
        target = snapshot.node(op.target_node)
        relocation.check_target(snapshot, vm, target, ignore_policy=op.ignore_ipolicy)
        if node.offline:
            raise errors.EnvironmentFaultError(
                f"node {node.name} is offline, and only this node has the disks of instance {vm.name}",
                hint="restore the instance from an export: gnt-backup import",
            )
        running = await relocation.running(self.environment, snapshot, vm, node.uuid)
        up = vm.admin_state is instance.AdminState.UP
        requirements = relocation.need(snapshot, vm, runs=up, disks=True)
        units = relocation.units(vm)
        await relocation.check_fits(self.environment, snapshot, vm, node=target, requirements=requirements, units=units)
        names = await relocation.names(self.environment, snapshot, vm, node=target)
        return Facts(running is not None, names)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Stop the instance, copy its disks, record the target, remove the old disks, start it there."""
        vm, target = snapshot.instance(self.op.instance_name), snapshot.node(self.op.target_node)
        disks = relocation.renamed(vm.disks, facts.names)
        new = relocation.moved(vm, self.environment.inputs.now, primary=target.uuid, lingering=(), disks=disks)
        work = relocation.Work(self.environment, snapshot, vm, new=new, timeout=float(self.op.shutdown_timeout))
        old_volumes = volumes.Volumes(self.environment, snapshot, vm)
        new_volumes = volumes.Volumes(self.environment, snapshot, new)
        here, there = (
            (snapshot.target(snapshot.nodes[side.primary_node]), fill.fill(snapshot, side)) for side in (vm, new)
        )
        activate = old_volumes.activate()
        if facts.runs:
            # After an undo the instance continues with its active disks.
            activate = [replace(step, undo=()) for step in activate]
        steps = [
            *work.leave(runs=facts.runs, lenient=self.op.ignore_consistency)[:1],
            *activate,
            *new_volumes.create({}),
            *volumes.Volumes(self.environment, snapshot, transfer.writable(new)).activate(),
            *transfer.copies(self.environment, here, there, compress=self.op.compress),
        ]
        up = vm.admin_state is instance.AdminState.UP
        after = [
            *(
                replace(step, do=base.tolerant(step.do, errors.GantryError, warning="the old disk stays active"))
                for step in old_volumes.deactivate()
            ),
            *old_volumes.remove(tolerant=True),
            *(work.arrive() if up else new_volumes.deactivate()),
        ]
        source = snapshot.nodes[vm.primary_node].name
        return base.Plan(
            lines=[f"instance {vm.name} moves with its disks from {source} to {target.name}"]
            + [step.text for step in (*steps, *after)],
            steps=steps,
            finish=lambda _: [states.Put(new)],
            after=after,
            hooks=relocation.hooks(
                snapshot,
                vm,
                new=new,
                path="instance-move",
                TARGET_NODE=target.name,
                SHUTDOWN_TIMEOUT=self.op.shutdown_timeout,
            ),
        )
