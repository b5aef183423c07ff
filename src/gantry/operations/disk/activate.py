"""OP_INSTANCE_ACTIVATE_DISKS and OP_INSTANCE_DEACTIVATE_DISKS: the disks of an instance in use, and out of it."""

from gantry.model import lock, opcodes
from gantry.operations import base, fill
from gantry.operations.disk_planning import volumes
from gantry.rpc import calls
from gantry.state import snapshot as states

Paths = list[tuple[str, str, str | None]]
"""Node, disk and path (contracts/opcodes.md#results)."""


class InstanceActivateDisks(base.Unit[opcodes.InstanceActivateDisks, None]):
    """Activates the disks of an instance; the result says where they are."""

    OPCODE = opcodes.InstanceActivateDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance, share its nodes."""
        return volumes.locks(snapshot, snapshot.instance(self.op.instance_name))

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Check that the primary node can be asked."""
        await volumes.running(self.environment, snapshot, snapshot.instance(self.op.instance_name))

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Activate all disks, or leave none active."""
        del facts
        vm = snapshot.instance(self.op.instance_name)
        own = volumes.Volumes(self.environment, snapshot, vm)
        target, disks = snapshot.target(snapshot.nodes[vm.primary_node]), fill.fill(snapshot, vm).disks
        found: Paths = []

        async def look() -> None:
            there = await self.environment.nodes.call(target, calls.BlockdevStatus(disks=disks))
            found[:] = [
                (target.name, f"disk/{disk.index}", state.path if state else None)
                for disk, state in zip(disks, there, strict=True)
            ]

        report = base.Procedure("its answer is the result of the opcode", look)
        steps = [*own.activate(), *(own.wait() if self.op.wait_for_sync else [])]
        return base.Plan(
            lines=[f"activate the disks of instance {vm.name}"],
            steps=[*steps, base.Step(f"query the disks of {vm.name}", (report,))],
            result=lambda: found,
        )


class InstanceDeactivateDisks(base.Unit[opcodes.InstanceDeactivateDisks, None]):
    """Takes the disks of an instance that does not run out of use."""

    OPCODE = opcodes.InstanceDeactivateDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance, share its nodes."""
        return volumes.locks(snapshot, snapshot.instance(self.op.instance_name))

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Refuse an instance that runs; with ``force`` nobody asks, and disks in use stay so."""
        vm = snapshot.instance(self.op.instance_name)
        if not self.op.force:
            volumes.check_stopped(vm, await volumes.running(self.environment, snapshot, vm))

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Deactivate all disks."""
        del facts
        vm = snapshot.instance(self.op.instance_name)
        return base.Plan(
            lines=[f"deactivate the disks of instance {vm.name}"],
            steps=volumes.Volumes(self.environment, snapshot, vm, ignore_secondaries=self.op.force).deactivate(),
        )
