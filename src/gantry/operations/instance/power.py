"""Units that start, stop, reboot and remove an instance, and open its console."""

import msgspec
from msgspec import structs

from gantry import errors
from gantry.model import instance, lock, opcodes, parameters
from gantry.operations import base, fill, hook_environment
from gantry.operations.disk_planning import volumes
from gantry.operations.network import attached_ports
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states

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


def _check_online(snapshot: states.Snapshot, vm: instance.Instance) -> None:
    node = snapshot.nodes[vm.primary_node]
    if node.offline:
        raise errors.EnvironmentFaultError(f"primary node {node.name} of instance {vm.name} is offline")


def _check_not_offline(vm: instance.Instance) -> None:
    if vm.admin_state is instance.AdminState.OFFLINE:
        raise errors.WrongStateError(
            f"instance {vm.name} is marked offline", hint=f"gnt-instance modify --online {vm.name}"
        )


def _admin_state(
    vm: instance.Instance, state: instance.AdminState, now: float, *, remember: bool
) -> list[states.Change]:
    return [states.Put(base.changed(vm, now, admin_state=state))] if remember and vm.admin_state is not state else []


def _release_lingering(vm: instance.Instance, now: float) -> base.Finish:
    """Return the end of a plan after which the guest is stopped or restarted: its lingering addresses are released."""

    def finish(snapshot: states.Snapshot) -> list[states.Change]:
        current = snapshot.instances[vm.uuid]
        return [states.Put(base.changed(current, now, lingering=()))] if current.lingering else []

    return finish


async def _start(
    environment: base.Environment, target: targets.Target, start: calls.InstanceStart, *, own: volumes.Volumes
) -> None:
    """Start an instance; if the hypervisor fails to start it, deactivate its disks again."""
    try:
        await environment.nodes.call(target, start)
    except errors.HypervisorError:
        await own.off()
        raise


class InstanceStartup(base.Unit[opcodes.InstanceStartup, bool]):
    """Starts an instance; parameters of the opcode apply to this start only."""

    OPCODE = opcodes.InstanceStartup

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, its node shared."""
        return _locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> bool:
        """Return whether the instance runs; if not, check that the node has enough memory for it."""
        vm = self._temporary(snapshot)
        backend = parameters.fill_backend(snapshot.the_cluster, vm)
        parameters.check_memory(backend)
        _check_online(snapshot, vm)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        nodes = self.environment.nodes
        if await nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name)):
            return True
        need = int(backend["maxmem"])
        status = await nodes.call(target, calls.NodeInfo())
        if status.memory_free < need and not self.op.force:
            raise errors.NoRoomError(
                f"node {target.name} has {status.memory_free} MiB of memory free, instance {vm.name} needs {need} MiB"
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
        """Record admin state up, then start. A failed start keeps that state, so that the watcher tries again."""
        vm = snapshot.instance(self.op.instance_name)
        _check_not_offline(vm)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        start = calls.InstanceStart(
            instance=fill.fill(snapshot, self._temporary(snapshot)), paused=self.op.startup_paused
        )
        own = volumes.Volumes(self.environment, snapshot, vm, ignore_secondaries=self.op.force)

        async def run() -> None:
            if not facts:
                await own.on()
            await _start(self.environment, target, start, own=own)

        action = base.Procedure("deactivates the disks again if the hypervisor refuses to start", run)
        return base.Plan(
            lines=[f"start instance {vm.name} on {target.name}"],
            changes=_admin_state(
                vm, instance.AdminState.UP, self.environment.inputs.now, remember=not self.op.no_remember
            ),
            steps=[base.Step(f"start {vm.name} on {target.name}", (action,))],
            finish=None if facts else _release_lingering(vm, self.environment.inputs.now),
            keep_on_failure=True,
            hooks=hook_environment.of_instance(snapshot, vm, path="instance-start", FORCE=self.op.force),
        )


class InstanceShutdown(base.Unit[opcodes.InstanceShutdown, None]):
    """Stops an instance."""

    OPCODE = opcodes.InstanceShutdown

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, its node shared."""
        return _locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Check that the node is online."""
        if not self.op.force:
            _check_online(snapshot, snapshot.instance(self.op.instance_name))

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Record admin state down, then stop the instance."""
        del facts
        vm = snapshot.instance(self.op.instance_name)
        _check_not_offline(vm)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        timeout = 0 if self.op.force else self.op.timeout
        stop = calls.InstanceShutdown(instance=fill.fill(snapshot, vm), timeout=timeout)

        return base.Plan(
            lines=[f"stop instance {vm.name} on {target.name}"],
            changes=_admin_state(
                vm, instance.AdminState.DOWN, self.environment.inputs.now, remember=not self.op.no_remember
            ),
            steps=[
                base.call_step(f"stop {vm.name} on {target.name}", target, stop),
                *volumes.Volumes(self.environment, snapshot, vm, ignore_secondaries=True).deactivate(),
            ],
            finish=_release_lingering(vm, self.environment.inputs.now),
            keep_on_failure=True,
            hooks=hook_environment.of_instance(snapshot, vm, path="instance-stop", TIMEOUT=timeout),
        )


class InstanceReboot(base.Unit[opcodes.InstanceReboot, None]):
    """Restarts an instance; starts an instance that does not run.

    ``soft`` asks the guest and keeps its hypervisor process. ``hard`` stops the instance and starts it with its present
    parameters, NICs and disks; ``full`` deactivates and activates its disks in between
    (contracts/commands.md#reboot-types). With ``ignore_secondaries`` a secondary node that does not answer is no
    reason to leave the instance stopped: it starts with the primary node's copy of its disks, as after a forced start.
    """

    OPCODE = opcodes.InstanceReboot

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, its node shared."""
        return _locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Check that the node is online."""
        _check_online(snapshot, snapshot.instance(self.op.instance_name))

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Record admin state up; restart in the requested way."""
        del facts
        vm = snapshot.instance(self.op.instance_name)
        _check_not_offline(vm)
        return base.Plan(
            lines=[f"reboot instance {vm.name} ({self.op.reboot_type})"],
            changes=_admin_state(vm, instance.AdminState.UP, self.environment.inputs.now, remember=True),
            steps=[
                base.Step(f"reboot {vm.name}", (base.Procedure("depends on whether the instance runs", self._reboot),))
            ],
            # A soft reboot continues in the same hypervisor process, with its present NICs.
            finish=_release_lingering(vm, self.environment.inputs.now) if self.op.reboot_type != "soft" else None,
            keep_on_failure=True,
            hooks=hook_environment.of_instance(
                snapshot,
                vm,
                path="instance-reboot",
                IGNORE_SECONDARIES=self.op.ignore_secondaries,
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
        if running and self.op.reboot_type == "soft":
            await nodes.call(target, calls.InstanceReboot(instance=whole, kind="soft", timeout=timeout))
            return
        own = volumes.Volumes(self.environment, snapshot, vm, ignore_secondaries=self.op.ignore_secondaries)
        if running:
            await nodes.call(target, calls.InstanceShutdown(instance=whole, timeout=timeout))
        if running and self.op.reboot_type == "full":
            await own.off()
        # Also for a hard reboot: disks that were added while the instance ran may not be active yet.
        await own.on()
        await _start(self.environment, target, calls.InstanceStart(instance=whole), own=own)


class InstanceRemove(base.Unit[opcodes.InstanceRemove, None]):
    """Removes an instance: stops the guest, then removes its disks, last its record with its addresses."""

    OPCODE = opcodes.InstanceRemove

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, its node shared."""
        return _locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Check that the node is online."""
        if not self.op.ignore_failures:
            _check_online(snapshot, snapshot.instance(self.op.instance_name))

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Stop the instance and remove its disks; the record goes last, so that a failed step loses nothing."""
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
            changes=_admin_state(vm, instance.AdminState.DOWN, self.environment.inputs.now, remember=True),
            steps=steps,
            finish=lambda _: [
                states.Delete("instances", vm.uuid),
                *attached_ports.changes(vm, None, now=self.environment.inputs.now),
            ],
            keep_on_failure=True,
            hooks=hook_environment.of_instance(
                snapshot, vm, path="instance-remove", SHUTDOWN_TIMEOUT=self.op.shutdown_timeout
            ),
        )


class InstanceConsole(base.Unit[opcodes.InstanceConsole, calls.Console]):
    """Returns how to reach the console of a running instance."""

    OPCODE = opcodes.InstanceConsole
    READS = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance and its node shared."""
        return dict.fromkeys(_locks(snapshot, self.op), lock.Mode.SHARED)

    async def inspect(self, snapshot: states.Snapshot) -> calls.Console:
        """Ask the node for the console."""
        vm = snapshot.instance(self.op.instance_name)
        _check_online(snapshot, vm)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        running = await self.environment.nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name))
        if running is None:
            raise errors.WrongStateError(f"instance {vm.name} is not running", hint=f"gnt-instance start {vm.name}")
        return await self.environment.nodes.call(target, calls.InstanceConsole(instance=fill.fill(snapshot, vm)))

    def plan(self, snapshot: states.Snapshot, facts: calls.Console) -> base.Plan:
        """Change nothing; the result is the console."""
        return base.Plan(result=lambda: msgspec.to_builtins(facts))
