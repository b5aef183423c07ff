"""OP_INSTANCE_GROW_DISK: grow a disk on all nodes of its instance, and in a running guest.

The nodes check their free space before anything is changed. A disk does not shrink: when a step fails, the disk keeps
its recorded size, and the next attempt continues where this one failed.
"""

from dataclasses import dataclass

from gantry import errors
from gantry.model import instance, lock, opcodes, parameters
from gantry.operations import base, fill, hook_environment, parameter_levels
from gantry.operations.disk_planning import disk_spec, requirements, volumes
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

Running = calls.RunningInstance | None


@dataclass(frozen=True)
class _Growth:
    """The disk to grow, its new size in MiB, and the instance afterwards."""

    index: int
    size: int
    vm: instance.Instance


class InstanceGrowDisk(base.Unit[opcodes.InstanceGrowDisk, Running]):
    """Grows a disk."""

    OPCODE = opcodes.InstanceGrowDisk

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, its nodes shared."""
        return requirements.locks(snapshot, snapshot.instance(self.op.instance_name))

    def _growth(self, snapshot: states.Snapshot) -> _Growth:
        vm = snapshot.instance(self.op.instance_name)
        disk = vm.disks[requirements.index_of(vm, self.op.disk)]
        amount = parameters.size(self.op.amount)
        size = amount if self.op.absolute else disk.size + amount
        if size <= disk.size:
            raise errors.InvalidError(
                f"disk {self.op.disk} of instance {vm.name} has {disk.size} MiB, it cannot shrink to {size} MiB",
                hint="disks can only grow",
            )
        disks = [disk_spec.resized(disk, size) if old_disk is disk else old_disk for old_disk in vm.disks]
        new = base.changed(vm, self.environment.inputs.now, disks=tuple(disks))
        if not self.op.ignore_ipolicy:
            parameter_levels.check_policy(snapshot, new, before=vm)
        return _Growth(self.op.disk, size, new)

    async def inspect(self, snapshot: states.Snapshot) -> Running:
        """Ask every node for free space, and the primary node whether the instance runs."""
        vm, growth = snapshot.instance(self.op.instance_name), self._growth(snapshot)
        for uuid in vm.nodes:
            disk = fill.fill(snapshot, vm, node=uuid).disks[growth.index]
            there = snapshot.target(snapshot.nodes[uuid])
            check = calls.BlockdevGrow(disk=disk, size=growth.size, backing=True, dry_run=True)
            await self.environment.nodes.call(there, check)
        return await requirements.running(self.environment, snapshot, vm)

    def plan(self, snapshot: states.Snapshot, facts: Running) -> base.Plan:
        """Grow the volumes under the disk on all nodes, the disk, and the guest's view; record the size last."""
        vm, growth = snapshot.instance(self.op.instance_name), self._growth(snapshot)
        old = vm.disks[growth.index]
        own = volumes.Volumes(self.environment, snapshot, vm, only={old.uuid})
        grown = volumes.Volumes(self.environment, snapshot, growth.vm, only={old.uuid})
        wipes = snapshot.the_cluster.prealloc_wipe_disks
        return base.Plan(
            lines=[f"grow disk {growth.index} of instance {vm.name} from {old.size} to {growth.size} MiB"],
            steps=[
                *([] if facts else own.activate()),
                *own.grow(growth.size),
                *(grown.wipe(start=old.size) if wipes else []),
                *(self._resize_in_guest(snapshot, growth) if facts else []),
                *(grown.wait() if self.op.wait_for_sync else []),
                *([] if facts else grown.deactivate()),
            ],
            finish=lambda current: [states.Put(self._recorded(current, growth))],
            hooks=hook_environment.of_instance(
                snapshot, vm, path="disk-grow", DISK=growth.index, AMOUNT=growth.size - old.size
            ),
        )

    def _recorded(self, current: states.Snapshot, growth: _Growth) -> instance.Instance:
        vm = current.instances[growth.vm.uuid]
        return base.changed(vm, self.environment.inputs.now, disks=growth.vm.disks)

    def _resize_in_guest(self, snapshot: states.Snapshot, growth: _Growth) -> list[base.Step]:
        vm = growth.vm
        whole, target = fill.fill(snapshot, vm), snapshot.target(snapshot.nodes[vm.primary_node])

        async def resize() -> None:
            call = calls.DiskResize(instance=whole, disk=whole.disks[growth.index])
            if not await self.environment.nodes.call(target, call):
                self.environment.log.info(f"the guest of {vm.name} does not have disk {growth.index} yet")

        action = base.Procedure("logs whether the guest has the disk", resize)
        return [base.Step(f"resize disk {growth.index} in the guest of {vm.name}", (action,))]
