"""OP_INSTANCE_MOVE: copy the disks of an instance to another node, and run it there.

For disks that only their own node has (``file``, ``plain``). The instance is stopped first; the data goes from node to
node (``disk_planning.transfer``) and is checked at its end. Until all has arrived nothing is lost at the source: a
failure removes what is at the target and starts the instance where it was. Afterwards the target is recorded, the
instance starts there if it is wanted up, and the old disks are removed.
"""

from dataclasses import dataclass, replace

from gantry import errors
from gantry.model import instance, lock, opcodes
from gantry.operations import base, fill
from gantry.operations.disk_planning import transfer, volumes
from gantry.operations.move import relocation
from gantry.state import snapshot as states


@dataclass(frozen=True)
class Facts:
    """Whether it runs, and what the target's drivers call its disks."""

    runs: bool
    names: tuple[str, ...]


class InstanceMove(base.Unit[opcodes.InstanceMove, Facts]):
    """Moves an instance with its disks."""

    OPCODE = opcodes.InstanceMove

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance, share both nodes."""
        vm = snapshot.instance(self.op.instance_name)
        return relocation.locks(snapshot, vm, target=self.op.target_node)

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Tell whether it runs; check that it fits the target."""
        op, vm = self.op, snapshot.instance(self.op.instance_name)
        node = snapshot.nodes[vm.primary_node]
        relocation.check_in_use(vm)
        if vm.disk_template not in relocation.LOCAL:
            raise errors.WrongStateError(
                f"the disks of instance {vm.name} ({vm.disk_template}) need not be copied",
                hint=f"gnt-instance failover {vm.name}, or migrate it while it runs",
            )
        target = snapshot.node(op.target_node)
        relocation.check_target(snapshot, vm, target, ignore_policy=op.ignore_ipolicy)
        if node.offline:
            raise errors.EnvironmentFaultError(
                f"node {node.name} is offline, and only it has the disks of instance {vm.name}",
                hint="restore it from a backup: gnt-backup import",
            )
        running = await relocation.running(self.environment, snapshot, vm, node.uuid)
        up = vm.admin_state is instance.AdminState.UP
        wanted = relocation.need(snapshot, vm, runs=up, disks=True)
        units = relocation.units(vm)
        await relocation.check_room(self.environment, snapshot, vm, node=target, wanted=wanted, units=units)
        names = await relocation.names(self.environment, snapshot, vm, node=target)
        return Facts(running is not None, names)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Stop it, copy, record the target, start it there, remove what is left."""
        vm, target = snapshot.instance(self.op.instance_name), snapshot.node(self.op.target_node)
        disks = relocation.renamed(vm.disks, facts.names)
        new = relocation.moved(vm, self.environment.inputs.now, primary=target.uuid, lingering=(), disks=disks)
        work = relocation.Work(self.environment, snapshot, vm, new=new, timeout=float(self.op.shutdown_timeout))
        old = volumes.Volumes(self.environment, snapshot, vm)
        come = volumes.Volumes(self.environment, snapshot, new)
        here, there = (
            (snapshot.target(snapshot.nodes[one.primary_node]), fill.fill(snapshot, one)) for one in (vm, new)
        )
        opened = old.activate()
        if facts.runs:
            # It goes on with them when all is taken back.
            opened = [replace(step, undo=()) for step in opened]
        steps = [
            *work.leave(runs=facts.runs, lenient=self.op.ignore_consistency)[:1],
            *opened,
            *come.create({}),
            *volumes.Volumes(self.environment, snapshot, transfer.writable(new)).activate(),
            *transfer.copies(self.environment, here, there, compress=self.op.compress),
        ]
        up = vm.admin_state is instance.AdminState.UP
        after = [*(work.arrive() if up else come.deactivate()), *old.deactivate(), *old.remove(tolerant=True)]
        source = snapshot.nodes[vm.primary_node].name
        return base.Plan(
            lines=[f"instance {vm.name} moves with its disks from {source} to {target.name}"]
            + [step.text for step in (*steps, *after)],
            steps=steps,
            finish=lambda _: [states.Put(new)],
            after=after,
            hooks=relocation.told(
                snapshot,
                vm,
                new=new,
                path="instance-move",
                TARGET_NODE=target.name,
                SHUTDOWN_TIMEOUT=self.op.shutdown_timeout,
            ),
        )
