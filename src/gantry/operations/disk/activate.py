"""OP_INSTANCE_ACTIVATE_DISKS and OP_INSTANCE_DEACTIVATE_DISKS: activate and deactivate the disks of an instance."""

from gantry.model import lock, opcodes
from gantry.operations import base, fill
from gantry.operations.disk_planning import requirements, volumes
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

Paths = list[tuple[str, str, str | None]]
"""Node, disk and path (contracts/opcodes.md#results)."""


class InstanceActivateDisks(base.Unit[opcodes.InstanceActivateDisks, None]):
    """Activates the disks of an instance; the result is their paths."""

    OPCODE = opcodes.InstanceActivateDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, its nodes shared."""
        return requirements.locks(snapshot, snapshot.instance(self.op.instance_name))

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Check that the primary node is online and answers."""
        await requirements.running(self.environment, snapshot, snapshot.instance(self.op.instance_name))

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Activate all disks; a failure deactivates them all."""
        del facts
        vm = snapshot.instance(self.op.instance_name)
        own = volumes.Volumes(self.environment, snapshot, vm)
        target, disks = snapshot.target(snapshot.nodes[vm.primary_node]), fill.fill(snapshot, vm).disks
        paths: Paths = []

        async def query() -> None:
            states_on_node = await self.environment.nodes.call(target, calls.BlockdevStatus(disks=disks))
            paths[:] = [
                (target.name, f"disk/{disk.index}", state.path if state else None)
                for disk, state in zip(disks, states_on_node, strict=True)
            ]

        report = base.Procedure("the answer is the result of the opcode", query)
        steps = [*own.activate(), *(own.wait() if self.op.wait_for_sync else [])]
        return base.Plan(
            lines=[f"activate the disks of instance {vm.name}"],
            steps=[*steps, base.Step(f"query the disks of {vm.name}", (report,))],
            result=lambda: paths,
        )


class InstanceDeactivateDisks(base.Unit[opcodes.InstanceDeactivateDisks, None]):
    """Deactivates the disks of a stopped instance."""

    OPCODE = opcodes.InstanceDeactivateDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, its nodes shared."""
        return requirements.locks(snapshot, snapshot.instance(self.op.instance_name))

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Refuse an instance that runs; ``force`` skips this check, and disks in use stay active."""
        vm = snapshot.instance(self.op.instance_name)
        if not self.op.force:
            requirements.check_stopped(vm, await requirements.running(self.environment, snapshot, vm))

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Deactivate all disks."""
        del facts
        vm = snapshot.instance(self.op.instance_name)
        return base.Plan(
            lines=[f"deactivate the disks of instance {vm.name}"],
            steps=volumes.Volumes(self.environment, snapshot, vm, ignore_secondaries=self.op.force).deactivate(),
        )
