"""OP_INSTANCE_REINSTALL: install the same or another operating system on the disks of an existing instance."""

from msgspec import structs

from gantry import errors
from gantry.model import confidential, instance, lock, opcodes, parameters
from gantry.operations import base, fill, hook_environment
from gantry.operations.disk_planning import volumes
from gantry.operations.os import os_check
from gantry.rpc import calls
from gantry.state.objects import snapshot as states


class InstanceReinstall(base.Unit[opcodes.InstanceReinstall, None]):
    """Reinstalls a stopped instance."""

    OPCODE = opcodes.InstanceReinstall

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, its nodes shared."""
        vm = snapshot.instance(self.op.instance_name)
        return {
            (lock.Level.INSTANCE, vm.uuid): lock.Mode.EXCLUSIVE,
            **{(lock.Level.NODE, uuid): lock.Mode.SHARED for uuid in vm.nodes},
        }

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Refuse a running or diskless instance, and parameters that the operating system does not accept."""
        vm, new = snapshot.instance(self.op.instance_name), self._reinstalled(snapshot)
        if not vm.disks:
            raise errors.InvalidError(f"instance {vm.name} has no disks to install an operating system on")
        if not new.os:
            raise errors.InvalidError(
                f"instance {vm.name} has no operating system", hint="specify an operating system with -o OS"
            )
        target, nodes = snapshot.target(snapshot.nodes[vm.primary_node]), self.environment.nodes
        if await nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name)):
            raise errors.WrongStateError(f"instance {vm.name} is running", hint=f"gnt-instance stop {vm.name}")
        draft = os_check.with_secrets(fill.fill(snapshot, new), self.op.osparams_secret)
        await os_check.check(
            nodes, target, draft, the_cluster=snapshot.the_cluster, force_variant=self.op.force_variant
        )

    def _reinstalled(self, snapshot: states.Snapshot) -> instance.Instance:
        """Return the instance with the requested OS and parameters; a different OS drops the present parameters."""
        vm = snapshot.instance(self.op.instance_name)
        system = self.op.os_type or vm.os
        stays = system.partition("+")[0] == vm.os.partition("+")[0]
        public, private = (vm.osparams, vm.osparams_private) if stays else ({}, {})
        public = parameters.merge(public, self.op.osparams)
        private = parameters.merge(private, self.op.osparams_private)
        confidential.check_apart(public=public, private=private, secret=self.op.osparams_secret)
        return structs.replace(vm, os=system, osparams=public, osparams_private=private)

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Record the requested OS, then run its create script on the disks."""
        del facts
        vm, new = snapshot.instance(self.op.instance_name), self._reinstalled(snapshot)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        whole = os_check.with_secrets(fill.fill(snapshot, new), self.op.osparams_secret)
        now, own = self.environment.inputs.now, volumes.Volumes(self.environment, snapshot, new)
        add = calls.OsAdd(instance=whole, reinstall=True, debug=self.op.debug_level or 0)
        install = os_check.script(self.environment, target, add, whole=whole)
        return base.Plan(
            lines=[f"install {new.os} on the disks of {vm.name}; their content is lost"],
            changes=[states.Put(base.changed(new, now))] if new != vm else [],
            steps=[
                *own.activate(),
                base.Step(f"install {new.os} on {vm.name}", (install,)),
                *own.deactivate(),
            ],
            hooks=hook_environment.of_instance(snapshot, vm, path="instance-reinstall", planned=new),
        )
