"""Instances that exist: start, stop, reboot, remove, console, description."""

import msgspec
from msgspec import structs

from gantry import errors
from gantry.model import instance, opcodes, parameters
from gantry.operations import base, filled, hooks
from gantry.rpc import calls, targets
from gantry.state import snapshot as states

InstanceOp = (
    opcodes.InstanceStartup
    | opcodes.InstanceShutdown
    | opcodes.InstanceReboot
    | opcodes.InstanceRemove
    | opcodes.InstanceConsole
)


def _locks(snapshot: states.Snapshot, op: InstanceOp) -> base.LockSet:
    vm = snapshot.instance(op.instance_name)
    return {
        (base.Level.INSTANCE, vm.uuid): base.Mode.EXCLUSIVE,
        (base.Level.NODE, vm.primary_node): base.Mode.SHARED,
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


class InstanceStartup(base.Unit[opcodes.InstanceStartup, bool]):
    """Starts an instance; parameters of the opcode hold for this start only."""

    OPCODE = opcodes.InstanceStartup

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Take the instance, share its node."""
        return _locks(snapshot, self.op)

    async def inspect(self, snapshot: states.Snapshot) -> bool:
        """Tell whether it runs; if not, check that the node has memory for it."""
        vm = self._temporary(snapshot)
        _online(snapshot, vm)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        nodes = self.environment.nodes
        if await nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name)):
            return True
        need = int(parameters.fill_backend(snapshot.the_cluster, vm)["maxmem"])
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
            hvparams=parameters.merge(vm.hvparams, parameters.hypervisor(vm.hypervisor, self.op.hvparams)),
            beparams=parameters.merge(vm.beparams, parameters.backend(self.op.beparams)),
        )

    def plan(self, snapshot: states.Snapshot, facts: bool) -> base.Plan:
        """Want it up, then start it. A failed start leaves it wanted, so that a watcher tries again."""
        vm = snapshot.instance(self.op.instance_name)
        _check_in_use(vm)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        start = calls.InstanceStart(
            instance=filled.fill(snapshot, self._temporary(snapshot)), paused=self.op.startup_paused
        )

        async def do() -> None:
            await self.environment.nodes.call(target, start)

        return base.Plan(
            lines=[f"start instance {vm.name} on {target.name}"],
            changes=_wanted(vm, instance.AdminState.UP, self.environment.inputs.now, remember=not self.op.no_remember),
            steps=[base.Step(f"start {vm.name} on {target.name}", do)],
            finish=None if facts else _let_go(vm, self.environment.inputs.now),
            keep_on_failure=True,
            hooks=hooks.of_instance(snapshot, vm, path="instance-start", FORCE=self.op.force),
        )


class InstanceShutdown(base.Unit[opcodes.InstanceShutdown, None]):
    """Stops an instance."""

    OPCODE = opcodes.InstanceShutdown

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
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
        stop = calls.InstanceShutdown(instance=filled.fill(snapshot, vm), timeout=timeout)

        async def do() -> None:
            await self.environment.nodes.call(target, stop)

        return base.Plan(
            lines=[f"stop instance {vm.name} on {target.name}"],
            changes=_wanted(
                vm, instance.AdminState.DOWN, self.environment.inputs.now, remember=not self.op.no_remember
            ),
            steps=[base.Step(f"stop {vm.name} on {target.name}", do)],
            finish=_let_go(vm, self.environment.inputs.now),
            keep_on_failure=True,
            hooks=hooks.of_instance(snapshot, vm, path="instance-stop", TIMEOUT=timeout),
        )


class InstanceReboot(base.Unit[opcodes.InstanceReboot, None]):
    """Restarts an instance; one that does not run is started."""

    OPCODE = opcodes.InstanceReboot

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
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
            steps=[base.Step(f"reboot {vm.name}", self._reboot)],
            # Other kinds go on in the same hypervisor process, with the NICs that it has.
            finish=_let_go(vm, self.environment.inputs.now) if self.op.reboot_type == "full" else None,
            keep_on_failure=True,
            hooks=hooks.of_instance(
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
        target, whole = snapshot.target(snapshot.nodes[vm.primary_node]), filled.fill(snapshot, vm)
        timeout = float(self.op.shutdown_timeout)
        running = await nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name))
        if running and self.op.reboot_type != "full":
            await nodes.call(target, calls.InstanceReboot(instance=whole, kind=self.op.reboot_type, timeout=timeout))
            return
        if running:
            await nodes.call(target, calls.InstanceShutdown(instance=whole, timeout=timeout))
        await nodes.call(target, calls.InstanceStart(instance=whole))


class InstanceRemove(base.Unit[opcodes.InstanceRemove, None]):
    """Removes an instance: stopped first, then its disks, last its record with its addresses."""

    OPCODE = opcodes.InstanceRemove

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
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
        node, whole = snapshot.nodes[vm.primary_node], filled.fill(snapshot, vm)
        target = snapshot.target(node)
        timeout = float(self.op.shutdown_timeout)
        steps = [
            base.Step(
                f"stop {vm.name}", self._tolerant(target, calls.InstanceShutdown(instance=whole, timeout=timeout))
            )
        ]
        steps += [
            base.Step(
                f"remove disk {disk.index} of {vm.name}",
                self._tolerant(target, calls.BlockdevRemove(disk=disk, owner=vm.name)),
            )
            for disk in whole.disks
        ]
        return base.Plan(
            lines=[f"remove instance {vm.name} from {node.name}"] + [step.text for step in steps],
            changes=_wanted(vm, instance.AdminState.DOWN, self.environment.inputs.now, remember=True),
            steps=steps,
            finish=lambda _: [states.Delete("instances", vm.uuid)],
            keep_on_failure=True,
            hooks=hooks.of_instance(snapshot, vm, path="instance-remove", SHUTDOWN_TIMEOUT=self.op.shutdown_timeout),
        )

    def _tolerant(self, target: targets.Target, what: calls.Call[None]) -> base.Action:
        async def action() -> None:
            try:
                await self.environment.nodes.call(target, what)
            except errors.GantryError as error:
                if not self.op.ignore_failures:
                    raise
                self.environment.log.warning(f"ignored: {error}")

        return action


class InstanceConsole(base.Unit[opcodes.InstanceConsole, calls.Console]):
    """Says how to reach the console of a running instance."""

    OPCODE = opcodes.InstanceConsole

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Share the instance and its node."""
        return dict.fromkeys(_locks(snapshot, self.op), base.Mode.SHARED)

    async def inspect(self, snapshot: states.Snapshot) -> calls.Console:
        """Ask the node."""
        vm = snapshot.instance(self.op.instance_name)
        _online(snapshot, vm)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        running = await self.environment.nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name))
        if running is None:
            raise errors.WrongStateError(f"instance {vm.name} does not run", hint=f"gnt-instance start {vm.name}")
        return await self.environment.nodes.call(target, calls.InstanceConsole(instance=filled.fill(snapshot, vm)))

    def plan(self, snapshot: states.Snapshot, facts: calls.Console) -> base.Plan:
        """Change nothing; the result is the console."""
        return base.Plan(result=lambda: msgspec.to_builtins(facts))


Seen = dict[str, dict[str, str]]
"""What runs on the nodes that answered: by node UUID and instance name, with the accelerator."""


class InstanceQueryData(base.Unit[opcodes.InstanceQueryData, dict[str, dict[str, object]]]):
    """Describes instances in full (contract: OP_INSTANCE_QUERY_DATA)."""

    OPCODE = opcodes.InstanceQueryData

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Take nothing: a description is of one snapshot. Unknown names are refused."""
        for name in self.op.instances:
            snapshot.instance(name)
        return {}

    async def inspect(self, snapshot: states.Snapshot) -> dict[str, dict[str, object]]:
        """Describe each instance, asking its node unless ``static``."""
        names = self.op.instances or sorted(vm.name for vm in snapshot.instances.values())
        vms = [snapshot.instance(name) for name in names]
        seen: Seen = {}
        if not self.op.static:
            nodes = {vm.primary_node: snapshot.nodes[vm.primary_node] for vm in vms}
            ask = calls.InstanceList(hypervisors=snapshot.the_cluster.enabled_hypervisors)
            answers = await self.environment.nodes.fan_out([snapshot.target(node) for node in nodes.values()], ask)
            for answer in answers:
                if answer.value is not None:
                    seen[answer.target.uuid] = {one.name: one.accelerator for one in answer.value}
        return {vm.name: self._describe(snapshot, vm, seen) for vm in vms}

    def _describe(self, snapshot: states.Snapshot, vm: instance.Instance, seen: Seen) -> dict[str, object]:
        node, running = snapshot.nodes[vm.primary_node], seen.get(vm.primary_node)
        whole = filled.fill(snapshot, vm)
        return {
            "name": vm.name,
            "uuid": vm.uuid,
            "serial_no": vm.serial_no,
            "ctime": vm.ctime,
            "mtime": vm.mtime,
            "tags": list(vm.tags),
            "config_state": vm.admin_state.value,
            "run_state": None if running is None else ("up" if vm.name in running else "down"),
            "accelerator": (running or {}).get(vm.name, ""),
            "pnode": node.name,
            "pnode_group_uuid": node.group,
            "pnode_group_name": snapshot.nodegroups[node.group].name,
            "snodes": [],
            "snodes_group_uuids": [],
            "snodes_group_names": [],
            "os": vm.os,
            "hypervisor": vm.hypervisor,
            "network_port": vm.network_port or None,
            "hv_instance": vm.hvparams,
            "hv_actual": whole.hvparams,
            "be_instance": vm.beparams,
            "be_actual": whole.beparams,
            "os_instance": vm.osparams,
            "os_actual": whole.osparams,
            "nics": [_describe_nic(nic) for nic in whole.nics],
            "disk_template": vm.disk_template,
            "disks": [_describe_disk(disk) for disk in whole.disks],
        }

    def plan(self, snapshot: states.Snapshot, facts: dict[str, dict[str, object]]) -> base.Plan:
        """Change nothing; the result is the description."""
        return base.Plan(result=lambda: facts)


def _describe_nic(nic: calls.Nic) -> list[object]:
    """Return the nine elements that clients know; the addresses are a list (networks seed "Multiple IPs per NIC")."""
    net, info = nic.network, None
    if net:
        info = {"name": net.name, "subnets": [{"cidr": one.subnet, "gateway": one.gateway} for one in nic.addresses]}
    addresses = [address.ip for address in nic.addresses]
    plug = [nic.mode, nic.link, nic.vlan, net.uuid if net else None]
    return [nic.name or None, nic.uuid, addresses, nic.mac, *plug, info]


def _describe_disk(disk: calls.Disk) -> dict[str, object]:
    return {
        "iv_name": f"disk/{disk.index}",
        "dev_type": disk.dev_type,
        "logical_id": list(disk.logical_id),
        "size": disk.size,
        "mode": disk.mode,
        "name": disk.name or None,
        "uuid": disk.uuid,
        "spindles": None,
        "children": [],
        "drbd_info": None,
        "pstatus": None,
        "sstatus": None,
    }
