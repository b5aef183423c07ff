"""Instances that exist: start, stop, reboot, remove, console."""

import msgspec
from msgspec import structs

from gantry import errors
from gantry.model import instance, lock, opcodes, parameters
from gantry.operations import base, fill, hook_environment
from gantry.operations.disk_planning import volumes
from gantry.rpc import calls, targets
from gantry.state import snapshot as states

InstanceOp = (
    opcodes.InstanceStartup
    | opcodes.InstanceShutdown
    | opcodes.InstanceReboot
    | opcodes.InstanceRemove
    | opcodes.InstanceConsole
)


def _locks(snapshot: states.Snapshot, op: InstanceOp) -> lock.LockSet:
    vm = snapshot.instance(op.instance_name)
    return {
        (lock.Level.INSTANCE, vm.uuid): lock.Mode.EXCLUSIVE,
        **{(lock.Level.NODE, node): lock.Mode.SHARED for node in vm.nodes},
    }


def _online(snapshot: states.Snapshot, vm: instance.Instance) -> None:
    node = snapshot.nodes[vm.primary_node]
    if node.offline:
        raise errors.EnvironmentFaultError(f"node {node.name} of instance {vm.name} is offline")


def _check_in_use(vm: instance.Instance) -> None:
    if vm.admin_state is instance.AdminState.OFFLINE:
        raise errors.WrongStateError(f"instance {vm.name} is marked offline")


def _wanted(vm: instance.Instance, state: instance.AdminState, now: float, *, remember: bool) -> list[states.Change]:
    return [states.Put(base.changed(vm, now, admin_state=state))] if remember and vm.admin_state is not state else []


def _let_go(vm: instance.Instance, now: float) -> base.Finish:
    """Return the end of a plan that leaves a guest stopped, or started anew: addresses do not linger any more."""

    def finish(snapshot: states.Snapshot) -> list[states.Change]:
        newest = snapshot.instances[vm.uuid]
        return [states.Put(base.changed(newest, now, lingering=()))] if newest.lingering else []

    return finish


async def _started(
    environment: base.Environment, target: targets.Target, start: calls.InstanceStart, *, own: volumes.Volumes
) -> None:
    """Start an instance; the disks of one that does not start are taken out of use again."""
    try:
        await environment.nodes.call(target, start)
    except errors.HypervisorError:
        await own.off()
        raise


class InstanceStartup(base.Unit[opcodes.InstanceStartup, bool]):
    """Starts an instance; parameters of the opcode hold for this start only."""

    OPCODE = opcodes.InstanceStartup

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance, share its node."""
        return _locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> bool:
        """Tell whether it runs; if not, check that the node has memory for it."""
        vm = self._temporary(snapshot)
        backend = parameters.fill_backend(snapshot.the_cluster, vm)
        parameters.check_memory(backend)
        _online(snapshot, vm)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        nodes = self.environment.nodes
        if await nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name)):
            return True
        need = int(backend["maxmem"])
        status = await nodes.call(target, calls.NodeInfo())
        if status.memory_free < need and not self.op.force:
            raise errors.NoRoomError(
                f"node {target.name} has {status.memory_free} MiB of memory free, instance {vm.name} needs {need}"
            )
        return False

    def _temporary(self, snapshot: states.Snapshot) -> instance.Instance:
        vm = snapshot.instance(self.op.instance_name)
        return structs.replace(
            vm,
            hvparams=parameters.merge(vm.hvparams, parameters.instance_hypervisor(vm.hypervisor, self.op.hvparams)),
            beparams=parameters.merge(vm.beparams, parameters.backend(self.op.beparams)),
        )

    def plan(self, snapshot: states.Snapshot, facts: bool) -> base.Plan:
        """Want it up, then start it. A failed start leaves it wanted, so that a watcher tries again."""
        vm = snapshot.instance(self.op.instance_name)
        _check_in_use(vm)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        start = calls.InstanceStart(
            instance=fill.fill(snapshot, self._temporary(snapshot)), paused=self.op.startup_paused
        )
        own = volumes.Volumes(self.environment, snapshot, vm, ignore_secondaries=self.op.force)

        async def run() -> None:
            if not facts:
                await own.on()
            await _started(self.environment, target, start, own=own)

        action = base.Procedure("deactivates the disks again if the hypervisor refuses to start", run)
        return base.Plan(
            lines=[f"start instance {vm.name} on {target.name}"],
            changes=_wanted(vm, instance.AdminState.UP, self.environment.inputs.now, remember=not self.op.no_remember),
            steps=[base.Step(f"start {vm.name} on {target.name}", (action,))],
            finish=None if facts else _let_go(vm, self.environment.inputs.now),
            keep_on_failure=True,
            hooks=hook_environment.of_instance(snapshot, vm, path="instance-start", FORCE=self.op.force),
        )


class InstanceShutdown(base.Unit[opcodes.InstanceShutdown, None]):
    """Stops an instance."""

    OPCODE = opcodes.InstanceShutdown

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance, share its node."""
        return _locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Check that the node can be asked."""
        if not self.op.force:
            _online(snapshot, snapshot.instance(self.op.instance_name))

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Want it down, then stop it."""
        del facts
        vm = snapshot.instance(self.op.instance_name)
        _check_in_use(vm)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        timeout = 0 if self.op.force else self.op.timeout
        stop = calls.InstanceShutdown(instance=fill.fill(snapshot, vm), timeout=timeout)

        return base.Plan(
            lines=[f"stop instance {vm.name} on {target.name}"],
            changes=_wanted(
                vm, instance.AdminState.DOWN, self.environment.inputs.now, remember=not self.op.no_remember
            ),
            steps=[
                base.call_step(f"stop {vm.name} on {target.name}", target, stop),
                *volumes.Volumes(self.environment, snapshot, vm, ignore_secondaries=True).deactivate(),
            ],
            finish=_let_go(vm, self.environment.inputs.now),
            keep_on_failure=True,
            hooks=hook_environment.of_instance(snapshot, vm, path="instance-stop", TIMEOUT=timeout),
        )


class InstanceReboot(base.Unit[opcodes.InstanceReboot, None]):
    """Restarts an instance; one that does not run is started."""

    OPCODE = opcodes.InstanceReboot

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance, share its node."""
        return _locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Check that the node can be asked."""
        _online(snapshot, snapshot.instance(self.op.instance_name))

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Want it up; restart it as asked."""
        del facts
        vm = snapshot.instance(self.op.instance_name)
        _check_in_use(vm)
        return base.Plan(
            lines=[f"reboot instance {vm.name} ({self.op.reboot_type})"],
            changes=_wanted(vm, instance.AdminState.UP, self.environment.inputs.now, remember=True),
            steps=[base.Step(f"reboot {vm.name}", (base.Procedure("depends on whether it runs now", self._reboot),))],
            # Other kinds go on in the same hypervisor process, with the NICs that it has.
            finish=_let_go(vm, self.environment.inputs.now) if self.op.reboot_type == "full" else None,
            keep_on_failure=True,
            hooks=hook_environment.of_instance(
                snapshot,
                vm,
                path="instance-reboot",
                IGNORE_SECONDARIES=False,
                REBOOT_TYPE=self.op.reboot_type,
                SHUTDOWN_TIMEOUT=self.op.shutdown_timeout,
            ),
        )

    async def _reboot(self) -> None:
        snapshot, nodes = self.environment.snapshot(), self.environment.nodes
        vm = snapshot.instance(self.op.instance_name)
        target, whole = snapshot.target(snapshot.nodes[vm.primary_node]), fill.fill(snapshot, vm)
        timeout = float(self.op.shutdown_timeout)
        running = await nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name))
        if running and self.op.reboot_type != "full":
            await nodes.call(target, calls.InstanceReboot(instance=whole, kind=self.op.reboot_type, timeout=timeout))
            return
        own = volumes.Volumes(self.environment, snapshot, vm)
        if running:
            await nodes.call(target, calls.InstanceShutdown(instance=whole, timeout=timeout))
            await own.off()
        await own.on()
        await _started(self.environment, target, calls.InstanceStart(instance=whole), own=own)


class InstanceRemove(base.Unit[opcodes.InstanceRemove, None]):
    """Removes an instance: stopped first, then its disks, last its record with its addresses."""

    OPCODE = opcodes.InstanceRemove

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance, share its node."""
        return _locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Check that the node can be asked."""
        if not self.op.ignore_failures:
            _online(snapshot, snapshot.instance(self.op.instance_name))

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Want it down, stop it, remove the disks; the record goes at the end, so nothing is lost when a step fails."""
        del facts
        vm = snapshot.instance(self.op.instance_name)
        node, whole = snapshot.nodes[vm.primary_node], fill.fill(snapshot, vm)
        target = snapshot.target(node)
        timeout = float(self.op.shutdown_timeout)
        stop = calls.InstanceShutdown(instance=whole, timeout=timeout)
        ignores = errors.GantryError if self.op.ignore_failures else None
        steps = [base.Step(f"stop {vm.name}", (base.Command(target, stop, ignores),))]
        steps += volumes.Volumes(self.environment, snapshot, vm).remove(tolerant=self.op.ignore_failures)
        return base.Plan(
            lines=[f"remove instance {vm.name} from {node.name}"] + [step.text for step in steps],
            changes=_wanted(vm, instance.AdminState.DOWN, self.environment.inputs.now, remember=True),
            steps=steps,
            finish=lambda _: [states.Delete("instances", vm.uuid)],
            keep_on_failure=True,
            hooks=hook_environment.of_instance(
                snapshot, vm, path="instance-remove", SHUTDOWN_TIMEOUT=self.op.shutdown_timeout
            ),
        )


class InstanceConsole(base.Unit[opcodes.InstanceConsole, calls.Console]):
    """Says how to reach the console of a running instance."""

    OPCODE = opcodes.InstanceConsole

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Share the instance and its node."""
        return dict.fromkeys(_locks(snapshot, self.op), lock.Mode.SHARED)

    async def inspect(self, snapshot: states.Snapshot) -> calls.Console:
        """Ask the node."""
        vm = snapshot.instance(self.op.instance_name)
        _online(snapshot, vm)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        running = await self.environment.nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name))
        if running is None:
            raise errors.WrongStateError(f"instance {vm.name} does not run", hint=f"gnt-instance start {vm.name}")
        return await self.environment.nodes.call(target, calls.InstanceConsole(instance=fill.fill(snapshot, vm)))

    def plan(self, snapshot: states.Snapshot, facts: calls.Console) -> base.Plan:
        """Change nothing; the result is the console."""
        return base.Plan(result=lambda: msgspec.to_builtins(facts))
