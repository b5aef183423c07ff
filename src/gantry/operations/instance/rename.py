"""OP_INSTANCE_RENAME: rename an instance in the state, on its disks, and inside its operating system."""

from msgspec import structs

from gantry import errors
from gantry.model import instance, lock, opcodes, templates
from gantry.operations import base, fill, hook_environment
from gantry.operations.disk_planning import volumes
from gantry.operations.os import os_check
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states

LogicalIds = tuple[tuple[str, ...], ...]
"""The logical ids of the disks under the new name."""


class InstanceRename(base.Unit[opcodes.InstanceRename, LogicalIds]):
    """Renames a stopped instance."""

    OPCODE = opcodes.InstanceRename

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance and its new name exclusively, its nodes shared."""
        vm = snapshot.instance(self.op.instance_name)
        return {
            (lock.Level.INSTANCE, vm.uuid): lock.Mode.EXCLUSIVE,
            (lock.Level.INSTANCE, self.op.new_name): lock.Mode.EXCLUSIVE,
            **{(lock.Level.NODE, uuid): lock.Mode.SHARED for uuid in vm.nodes},
        }

    async def inspect(self, snapshot: states.Snapshot) -> LogicalIds:
        """Refuse a name in use, a running instance, and an OS without rename script; ask for the disks' new ids."""
        vm = snapshot.instance(self.op.instance_name)
        if ("instances", self.op.new_name) in snapshot.names:
            raise errors.ExistsError(f"instance {self.op.new_name} exists already", hint="choose another name")
        target, nodes = snapshot.target(snapshot.nodes[vm.primary_node]), self.environment.nodes
        if await nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name)):
            raise errors.WrongStateError(f"instance {vm.name} is running", hint=f"gnt-instance stop {vm.name}")
        if self._has_system(vm):
            name = vm.os.partition("+")[0]
            definition = await nodes.call(target, calls.OsValidate(name=name))
            if "rename" not in definition.scripts:
                raise errors.WrongStateError(
                    f"OS {name} has no rename script, so instance {vm.name} cannot be renamed",
                    hint=f"add one to {definition.path} on node {target.name}; an empty rename script changes nothing",
                )
        return tuple([await self._new_id(target, disk, index) for index, disk in enumerate(vm.disks)])

    async def _new_id(self, target: targets.Target, disk: instance.Disk, index: int) -> tuple[str, ...]:
        if disk.dev_type not in templates.BY_NAME:
            return disk.logical_id
        ask = calls.BlockdevPath(dev_type=disk.dev_type, instance=self.op.new_name, uuids=(disk.uuid,), first=index)
        (path,) = await self.environment.nodes.call(target, ask)
        return (*disk.logical_id[:-1], path)

    def _has_system(self, vm: instance.Instance) -> bool:
        return bool(vm.os and vm.disks)

    def plan(self, snapshot: states.Snapshot, facts: LogicalIds) -> base.Plan:
        """Record the new name with the new ids of the disks; rename the disks, then run the OS's rename script."""
        vm = snapshot.instance(self.op.instance_name)
        target, now = snapshot.target(snapshot.nodes[vm.primary_node]), self.environment.inputs.now
        disks = tuple(
            structs.replace(disk, logical_id=logical_id) for disk, logical_id in zip(vm.disks, facts, strict=True)
        )
        new = base.changed(vm, now, name=self.op.new_name, disks=disks)
        own = volumes.Volumes(self.environment, snapshot, new)
        old_whole, whole = fill.fill(snapshot, vm), fill.fill(snapshot, new)
        steps = [
            self._move(target, old, disk)
            for old, disk in zip(old_whole.disks, whole.disks, strict=True)
            if old.logical_id != disk.logical_id
        ]
        if self._has_system(vm):
            steps += [
                *own.activate(),
                base.Step(
                    f"rename the operating system from {vm.name} to {new.name}",
                    (os_check.script(self.environment, target, self._script(whole, old=vm.name), whole=whole),),
                    # A rename script that failed for the new name may fail for the old name too.
                    (
                        base.Command(
                            target,
                            self._script(structs.replace(whole, name=vm.name), old=new.name),
                            errors.GantryError,
                            f"the operating system may keep the name {new.name} on its disks",
                        ),
                    ),
                ),
            ]
        steps += [self._mark(target, old, disk) for old, disk in zip(old_whole.disks, whole.disks, strict=True)]
        if self._has_system(vm):
            steps += own.deactivate()
        return base.Plan(
            lines=[f"rename instance {vm.name} to {new.name}"] + [step.text for step in steps],
            changes=[states.Put(new)],
            steps=steps,
            result=lambda: new.name,
            hooks=hook_environment.of_instance(snapshot, vm, path="instance-rename", INSTANCE_NEW_NAME=new.name),
        )

    def _move(self, target: targets.Target, old: calls.Disk, new: calls.Disk) -> base.Step:
        return base.call_step(
            f"rename disk {old.index} to {new.logical_id[-1]}",
            target,
            calls.BlockdevRename(disk=old, to=new.logical_id),
            calls.BlockdevRename(disk=new, to=old.logical_id),
        )

    def _script(self, whole: calls.Instance, *, old: str) -> calls.OsRename:
        return calls.OsRename(instance=whole, old=old, debug=self.op.debug_level or 0)

    def _mark(self, target: targets.Target, old: calls.Disk, disk: calls.Disk) -> base.Step:
        return base.call_step(
            f"label disk {disk.index} with the name {self.op.new_name}",
            target,
            calls.BlockdevSetinfo(disk=disk, owner=self.op.new_name),
            calls.BlockdevSetinfo(disk=old, owner=self.op.instance_name),
        )
