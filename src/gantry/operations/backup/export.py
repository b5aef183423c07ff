"""OP_BACKUP_EXPORT and OP_BACKUP_REMOVE: copy an instance's disks to a folder of a node, and remove such exports.

If the storage can make snapshots, a running instance is stopped only while they are made; otherwise for the whole copy.
An OS with the scripts ``export`` and ``import`` exports with them, one run for each disk; the disks of an OS without
both are copied as they are (contracts/os-interface.md#scripts); an OS with only one of them is refused. A complete new
export replaces an older export of the same instance, on whichever node that is.
"""

from dataclasses import dataclass, field, replace

from msgspec import structs

from gantry import errors
from gantry.model import instance, lock, opcodes
from gantry.operations import base, fill, hook_environment
from gantry.operations.backup import manifest
from gantry.operations.disk_planning import transfer, volumes
from gantry.operations.network import attached_ports
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states


@dataclass(frozen=True)
class Facts:
    """What the nodes reported: whether the instance runs, and whether its OS has export scripts."""

    running: bool
    scripted: bool


class BackupExport(base.Unit[opcodes.BackupExport, Facts]):
    """Exports an instance."""

    OPCODE = opcodes.BackupExport

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively; its nodes and the node for the export shared."""
        vm = snapshot.instance(self.op.instance_name)
        target = snapshot.node(self.op.target_node).uuid
        return {
            (lock.Level.INSTANCE, vm.uuid): lock.Mode.EXCLUSIVE,
            **{(lock.Level.NODE, uuid): lock.Mode.SHARED for uuid in vm.nodes},
            (lock.Level.NODE, target): lock.Mode.SHARED,
        }

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Check that both nodes answer, that the instance has disks, and how to export them."""
        vm = snapshot.instance(self.op.instance_name)
        source = snapshot.target(snapshot.nodes[vm.primary_node])
        if not vm.disks:
            raise errors.InvalidError(f"instance {vm.name} has no disks to export")
        nodes = self.environment.nodes
        await nodes.call(snapshot.target(snapshot.node(self.op.target_node)), calls.ExportList())
        scripted = await self._is_scripted(source, vm)
        running = await nodes.call(source, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name))
        if running and self.op.remove_instance and not self.op.shutdown:
            raise errors.InvalidError(
                f"instance {vm.name} is running, so it must be shut down to be removed", hint="omit --noshutdown"
            )
        return Facts(running is not None, scripted)

    async def _is_scripted(self, source: targets.Target, vm: instance.Instance) -> bool:
        name = vm.os.partition("+")[0]
        if not name:
            return False
        try:
            definition = await self.environment.nodes.call(source, calls.OsValidate(name=name))
        except errors.NotFoundError:
            self.environment.log.warning(f"node {source.name} has no OS {name}: copying its disks as they are")
            return False
        scripts = {script for script in ("export", "import") if script in definition.scripts}
        if len(scripts) == 1:
            raise errors.WrongStateError(
                f"OS {name} has the script {''.join(scripts)} only, so its exports could not be imported",
                hint="add the other script, or remove this one to copy disks as they are",
            )
        return bool(scripts)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Stop, take snapshots, start, copy, write the description, clean up."""
        vm = snapshot.instance(self.op.instance_name)
        source = snapshot.target(snapshot.nodes[vm.primary_node])
        target = snapshot.target(snapshot.node(self.op.target_node))
        copy = _Copy(self.environment, self.op, snapshot, vm=vm, facts=facts)
        steps = [*copy.before(), *copy.copies(target), *copy.after(target)]
        if self.op.remove_instance:
            # These steps cannot be undone, so they come last.
            steps += copy.own.remove(tolerant=self.op.ignore_remove_failures)
        private = ", ".join(sorted(vm.osparams_private))
        notes = [f"private parameters are not exported; pass them to an import: {private}"] if private else []
        return base.Plan(
            lines=[f"export instance {vm.name} from {source.name} to {target.name}"]
            + notes
            + [step.text for step in steps],
            steps=[*base.log_steps(notes), *steps],
            finish=self._removed(vm) if self.op.remove_instance else None,
            result=lambda: [True, [True] * len(vm.disks)],
            hooks=self._hooks(snapshot, vm, target),
        )

    def _removed(self, vm: instance.Instance) -> base.Finish:
        """Return the end of the plan, after which the instance is removed and its ports remain."""
        ports = attached_ports.changes(vm, None, now=self.environment.inputs.now)
        return lambda _: [states.Delete("instances", vm.uuid), *ports]

    def _hooks(self, snapshot: states.Snapshot, vm: instance.Instance, target: targets.Target) -> base.Hooks:
        hooks = hook_environment.of_instance(
            snapshot,
            vm,
            path="instance-export",
            EXPORT_MODE=self.op.mode,
            EXPORT_NODE=target.name,
            EXPORT_DO_SHUTDOWN=self.op.shutdown,
            REMOVE_INSTANCE=self.op.remove_instance,
            SHUTDOWN_TIMEOUT=self.op.shutdown_timeout,
        )
        known = {target_node.uuid for target_node in hooks.nodes_pre}
        extra = [] if target.uuid in known else [target]
        return replace(hooks, nodes_pre=[*hooks.nodes_pre, *extra], nodes_post=[*hooks.nodes_post, *extra])


@dataclass
class _Copy:
    """The steps of one export; ``devices`` are copied: the disks, or their snapshots after they were made.

    ``taken`` has the snapshots that there are. Of ``unsure``, a disk and a UUID, there may be a snapshot too: the node
    has not answered.
    """

    environment: base.Environment
    op: opcodes.BackupExport
    snapshot: states.Snapshot
    vm: instance.Instance
    facts: Facts
    devices: list[calls.Disk] = field(default_factory=list)
    uuids: list[str] = field(default_factory=list)
    taken: list[calls.Disk] = field(default_factory=list)
    unsure: tuple[calls.Disk, str] | None = None
    transfers: list[transfer.Transfer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.whole = fill.fill(self.snapshot, self.vm)
        self.source = self.snapshot.target(self.snapshot.nodes[self.vm.primary_node])
        self.own = volumes.Volumes(self.environment, self.snapshot, self.vm)
        self.devices = list(self.whole.disks)
        self.uuids = [self.environment.inputs.uuid() for _ in self.devices]

    async def _start(self) -> None:
        await self.environment.nodes.call(self.source, calls.InstanceStart(instance=self.whole))

    def before(self) -> list[base.Step]:
        """Return the steps that leave disks, or snapshots of them, to which nothing writes."""
        if not self.facts.running:
            return self.own.activate()
        take, drop = (base.Procedure("chooses what later steps copy", run) for run in (self._take, self._drop))
        snapshots = base.Step(f"take snapshots of the disks of {self.vm.name}", (take,), (drop,))
        if not self.op.shutdown:
            return [snapshots]
        stop = calls.InstanceShutdown(instance=self.whole, timeout=float(self.op.shutdown_timeout))
        start = calls.InstanceStart(instance=self.whole)
        restart = base.Procedure("depends on whether the storage made snapshots", self._restart)
        return [
            base.call_step(f"stop {self.vm.name}", self.source, stop, start),
            snapshots,
            # the undo of the stop also undoes this start
            base.Step(f"start {self.vm.name} again, if there are snapshots", (restart,)),
        ]

    async def _restart(self) -> None:
        if self._has_snapshots() and not self.op.remove_instance:
            await self._start()

    def _has_snapshots(self) -> bool:
        return self.devices != list(self.whole.disks)

    async def _take(self) -> None:
        """Take snapshots of all disks, or of none if the storage cannot make them."""
        for disk, uuid in zip(self.whole.disks, self.uuids, strict=True):
            self.unsure = disk, uuid
            try:
                self.taken.append(await self._snapshot(disk, uuid))
            except errors.RemoteError:
                raise
            except errors.GantryError as error:
                self.unsure = None
                await self._remove_taken()
                if not isinstance(error, errors.WrongStateError) or not self.op.shutdown:
                    raise
                self.environment.log.info(f"{self.vm.name} stays stopped for the whole copy: {error.message}")
                return
            self.unsure = None
        self.devices = list(self.taken)

    async def _snapshot(self, disk: calls.Disk, uuid: str) -> calls.Disk:
        """Take a snapshot of a disk, or return the one that was taken; WrongStateError if the storage cannot."""
        ask = calls.BlockdevSnapshot(disk=disk, name=f"{disk.uuid}.{uuid}.snap")
        kind, logical_id = await self.environment.nodes.call(self.source, ask)
        return structs.replace(disk, uuid=uuid, dev_type=kind, logical_id=logical_id, children=(), mirror=None)

    async def _drop(self) -> None:
        await self._remove_taken()
        if self.unsure is not None:
            # If there is one, asking again returns it.
            self.taken.append(await self._snapshot(*self.unsure))
            await self._remove_taken()
        self.devices = list(self.whole.disks)

    async def _remove_taken(self) -> None:
        for snapshot in list(self.taken):
            await self.environment.nodes.call(self.source, calls.BlockdevRemove(disk=snapshot, owner=self.vm.name))
            self.taken.remove(snapshot)

    def copies(self, target: targets.Target) -> list[base.Step]:
        """Return the steps that copy, one for each disk; a failure discards what has been copied."""
        self.transfers = [
            transfer.Transfer(self.environment, source=self.source, sink=target) for _ in self.whole.disks
        ]
        discard = calls.ExportDiscard(export=self.vm.name)
        return [
            base.call_step(f"prepare the export on {target.name}", target, discard, discard),
            *(self._copy(index, target) for index in range(len(self.whole.disks))),
        ]

    def _copy(self, index: int, target: targets.Target) -> base.Step:
        stream = self.transfers[index]

        async def copy() -> None:
            begin = calls.StreamEnd(
                instance=self.whole,
                disk=self.devices[index],
                scripted=self.facts.scripted,
                compress=self.op.compress,
                debug=self.op.debug_level or 0,
            )
            await stream.run(begin, calls.StreamEnd(export=self.vm.name, dump=self.whole.disks[index].uuid))

        text = f"copy disk {index} of {self.vm.name} to {target.name}"
        return base.Step(text, (stream.procedure(copy),), (stream.undo,))

    def after(self, target: targets.Target) -> list[base.Step]:
        """Return the steps that finish the export: it is valid as soon as its description exists."""

        async def finalize() -> None:
            description = manifest.write(self._content(), self.whole)
            await self.environment.nodes.call(
                target, calls.ExportFinalize(export=self.vm.name, description=description)
            )

        async def start() -> None:
            if not self._has_snapshots():
                await self._start()

        async def remove_older() -> None:
            await self._remove_older(target)

        describe = base.Procedure("writes what the copies reported", finalize)
        remove = base.Command(target, calls.ExportRemove(export=self.vm.name))
        steps = [base.Step(f"write the description of the export of {self.vm.name}", (describe,), (remove,))]
        if self.facts.running:
            drop = base.Procedure("depends on whether the storage made snapshots", self._drop_quietly)
            steps.append(base.Step("remove the snapshots", (drop,)))
        if self.facts.running and self.op.shutdown and not self.op.remove_instance:
            restart = base.Procedure("depends on whether the storage made snapshots", start)
            steps.append(base.Step(f"start {self.vm.name} again, if it is stopped", (restart,)))
        if not self.facts.running:
            steps += self.own.deactivate()
        older = base.Procedure("calls all nodes at once", remove_older)
        return [*steps, base.Step(f"remove older exports of {self.vm.name} from other nodes", (older,))]

    async def _drop_quietly(self) -> None:
        """Remove the snapshots; the complete export is kept if that fails."""
        if self._has_snapshots():
            try:
                await self._remove_taken()
            except errors.GantryError as error:
                self.environment.log.warning(f"a snapshot of {self.vm.name} remains on {self.source.name}: {error}")

    def _content(self) -> manifest.Export:
        return manifest.Export(
            instance=self.vm.name,
            source=self.source.name,
            timestamp=int(self.environment.inputs.now),
            os=self.vm.os,
            compression=self.op.compress,
            scripted=self.facts.scripted,
            disk_template=self.vm.disk_template,
            hypervisor=self.vm.hypervisor,
            dumps=[
                manifest.Dump(
                    file=disk.uuid,
                    size=disk.size,
                    mode=disk.mode,
                    name=disk.name,
                    digest=stream.done.digest if stream.done else "",
                    bytes=stream.done.size if stream.done else 0,
                )
                for disk, stream in zip(self.whole.disks, self.transfers, strict=True)
            ],
            tags=self.vm.tags,
            hvparams={name: str(value) for name, value in self.vm.hvparams.items()},
            beparams={name: str(value) for name, value in self.vm.beparams.items()},
            # Private parameters are not exported; an import needs them again.
            osparams={name: str(value) for name, value in self.vm.osparams.items()},
        )

    async def _remove_older(self, target: targets.Target) -> None:
        nodes = [node for node in self.snapshot.nodes.values() if node.uuid != target.uuid and not node.offline]
        other_nodes = [self.snapshot.target(node) for node in sorted(nodes, key=lambda node: node.name)]
        for answer in await self.environment.nodes.fan_out(other_nodes, calls.ExportRemove(export=self.vm.name)):
            if answer.error:
                self.environment.log.warning(f"an older export may remain on {answer.target.name}: {answer.error}")


class BackupRemove(base.Unit[opcodes.BackupRemove, list[targets.Target]]):
    """Removes the exports of an instance from all nodes."""

    OPCODE = opcodes.BackupRemove

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, if it exists: it may just be exported."""
        uuid = snapshot.names.get(("instances", self.op.instance_name))
        return {(lock.Level.INSTANCE, uuid or self.op.instance_name): lock.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> list[targets.Target]:
        """Return the nodes that have an export; raises NotFoundError if there is no export."""
        online = [snapshot.target(node) for node in snapshot.nodes.values() if not node.offline]
        online_nodes = sorted(online, key=lambda target: target.name)
        answers = await self.environment.nodes.fan_out(online_nodes, calls.ExportList())
        nodes_with_export = [answer.target for answer in answers if self.op.instance_name in (answer.value or ())]
        if not nodes_with_export:
            silent = [answer.target.name for answer in answers if answer.error]
            raise errors.NotFoundError(
                f"no node has an export {self.op.instance_name}",
                hint=f"{', '.join(silent)} did not answer" if silent else "gnt-backup list shows the exports",
            )
        return nodes_with_export

    def plan(self, snapshot: states.Snapshot, facts: list[targets.Target]) -> base.Plan:
        """Remove the exports; the state does not contain exports."""
        remove = calls.ExportRemove(export=self.op.instance_name)
        steps = [
            base.call_step(f"remove the export {self.op.instance_name} from {target.name}", target, remove)
            for target in facts
        ]
        return base.Plan(lines=[step.text for step in steps], steps=steps, keep_on_failure=True)
