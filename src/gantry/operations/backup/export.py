"""OP_BACKUP_EXPORT and OP_BACKUP_REMOVE: an instance's disks copied to a folder of a node, and taken away again.

Where the storage makes snapshots, an instance that runs is down only as long as those take; otherwise it is stopped for
the whole copy. An OS with the scripts ``export`` and ``import`` exports by them, one run per disk; one with neither has
its disks copied as they are (contracts/os-interface.md#scripts); one with only one of them is refused. The new export
takes the place of an older one of the same instance, on whatever node that is, when it is complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from gantry import errors
from gantry.model import instance, lock, opcodes
from gantry.operations import base, fill, hook_environment
from gantry.operations.backup import manifest
from gantry.operations.disk_planning import transfer, volumes
from gantry.rpc import calls, targets
from gantry.state import snapshot as states


@dataclass(frozen=True)
class Facts:
    """What the nodes said: whether the instance runs, and whether its OS exports by itself."""

    running: bool
    scripted: bool


class BackupExport(base.Unit[opcodes.BackupExport, Facts]):
    """Exports an instance."""

    OPCODE = opcodes.BackupExport

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance; share its nodes, and the node that gets the export."""
        vm = snapshot.instance(self.op.instance_name)
        target = snapshot.node(self.op.target_node).uuid
        return {
            (lock.Level.INSTANCE, vm.uuid): lock.Mode.EXCLUSIVE,
            **{(lock.Level.NODE, uuid): lock.Mode.SHARED for uuid in vm.nodes},
            (lock.Level.NODE, target): lock.Mode.SHARED,
        }

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Check that both nodes answer, that there is something to export, and how."""
        vm = snapshot.instance(self.op.instance_name)
        source = snapshot.target(snapshot.nodes[vm.primary_node])
        if not vm.disks:
            raise errors.InvalidError(f"instance {vm.name} has no disks that could be exported")
        nodes = self.environment.nodes
        await nodes.call(snapshot.target(snapshot.node(self.op.target_node)), calls.ExportList())
        scripted = await self._is_scripted(source, vm)
        running = await nodes.call(source, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name))
        if running and self.op.remove_instance and not self.op.shutdown:
            raise errors.InvalidError(f"instance {vm.name} runs; to remove it, it has to be shut down")
        return Facts(running is not None, scripted)

    async def _is_scripted(self, source: targets.Target, vm: instance.Instance) -> bool:
        name = vm.os.partition("+")[0]
        if not name:
            return False
        try:
            found = await self.environment.nodes.call(source, calls.OsValidate(name=name))
        except errors.NotFoundError:
            self.environment.log.warning(f"node {source.name} has no OS {name}: its disks are copied as they are")
            return False
        has = {script for script in ("export", "import") if script in found.scripts}
        if len(has) == 1:
            raise errors.WrongStateError(
                f"OS {name} has the script {''.join(has)} without its counterpart: what one writes, nothing could read",
                hint="give it both, or neither to have disks copied as they are",
            )
        return bool(has)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Stop, take snapshots, start, copy, write the description, clean up."""
        vm = snapshot.instance(self.op.instance_name)
        source = snapshot.target(snapshot.nodes[vm.primary_node])
        target = snapshot.target(snapshot.node(self.op.target_node))
        copy = _Copy(self.environment, self.op, snapshot, vm=vm, facts=facts)
        steps = [*copy.before(), *copy.transfers(target), *copy.after(target)]
        if self.op.remove_instance:
            # There is no way back from these, so they come last.
            steps += copy.own.remove(tolerant=self.op.ignore_remove_failures)
        private = ", ".join(sorted(vm.osparams_private))
        notes = [f"private parameters are not exported, an import is told them anew: {private}"] if private else []
        return base.Plan(
            lines=[f"export instance {vm.name} from {source.name} to {target.name}"]
            + notes
            + [step.text for step in steps],
            steps=[*base.noted(notes), *steps],
            finish=(lambda _: [states.Delete("instances", vm.uuid)]) if self.op.remove_instance else None,
            result=lambda: [True, [True] * len(vm.disks)],
            hooks=self._hooks(snapshot, vm, target),
        )

    def _hooks(self, snapshot: states.Snapshot, vm: instance.Instance, target: targets.Target) -> base.Hooks:
        made = hook_environment.of_instance(
            snapshot,
            vm,
            path="instance-export",
            EXPORT_MODE=self.op.mode,
            EXPORT_NODE=target.name,
            EXPORT_DO_SHUTDOWN=self.op.shutdown,
            REMOVE_INSTANCE=self.op.remove_instance,
            SHUTDOWN_TIMEOUT=self.op.shutdown_timeout,
        )
        known = {one.uuid for one in made.nodes_pre}
        more = [] if target.uuid in known else [target]
        return replace(made, nodes_pre=[*made.nodes_pre, *more], nodes_post=[*made.nodes_post, *more])


@dataclass
class _Copy:
    """The steps of one export; ``devices`` are what is read: the disks, or their snapshots once there are some."""

    environment: base.Environment
    op: opcodes.BackupExport
    snapshot: states.Snapshot
    vm: instance.Instance
    facts: Facts
    devices: list[calls.Disk] = field(default_factory=list)
    uuids: list[str] = field(default_factory=list)
    carriers: list[transfer.Transfer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.whole = fill.fill(self.snapshot, self.vm)
        self.source = self.snapshot.target(self.snapshot.nodes[self.vm.primary_node])
        self.own = volumes.Volumes(self.environment, self.snapshot, self.vm)
        self.devices = list(self.whole.disks)
        self.uuids = [self.environment.inputs.uuid() for _ in self.devices]

    async def _start(self) -> None:
        await self.environment.nodes.call(self.source, calls.InstanceStart(instance=self.whole))

    def before(self) -> list[base.Step]:
        """Return the steps that leave disks, or snapshots of them, that nobody writes to."""
        if not self.facts.running:
            return self.own.activate()
        take, drop = (base.Procedure("chooses what later steps copy", run) for run in (self._take, self._drop))
        snapshots = base.Step(f"take snapshots of the disks of {self.vm.name}", (take,), (drop,))
        if not self.op.shutdown:
            return [snapshots]
        stop = calls.InstanceShutdown(instance=self.whole, timeout=float(self.op.shutdown_timeout))
        start = calls.InstanceStart(instance=self.whole)
        go_on = base.Procedure("depends on whether the storage made snapshots", self._go_on)
        return [
            base.call_step(f"stop {self.vm.name}", self.source, stop, start),
            snapshots,
            # its undo is that of stopping
            base.Step(f"start {self.vm.name} again, if there are snapshots", (go_on,)),
        ]

    async def _go_on(self) -> None:
        if self._has_snapshots() and not self.op.remove_instance:
            await self._start()

    def _has_snapshots(self) -> bool:
        return self.devices != list(self.whole.disks)

    async def _take(self) -> None:
        """Take snapshots of all disks, or of none where the storage cannot make them."""
        made: list[calls.Disk] = []
        for disk, uuid in zip(self.whole.disks, self.uuids, strict=True):
            ask = calls.BlockdevSnapshot(disk=disk, name=f"{uuid}.snap")
            try:
                kind, place = await self.environment.nodes.call(self.source, ask)
            except errors.WrongStateError as error:
                await self._remove(made)
                if not self.op.shutdown:
                    raise
                self.environment.log.info(f"{self.vm.name} stays down for the whole copy: {error.message}")
                return
            made.append(structs.replace(disk, uuid=uuid, dev_type=kind, logical_id=place, children=(), mirror=None))
        self.devices = made

    async def _drop(self) -> None:
        if self._has_snapshots():
            await self._remove(self.devices)
        self.devices = list(self.whole.disks)

    async def _remove(self, disks: Sequence[calls.Disk]) -> None:
        for disk in disks:
            await self.environment.nodes.call(self.source, calls.BlockdevRemove(disk=disk, owner=self.vm.name))

    def transfers(self, target: targets.Target) -> list[base.Step]:
        """Return the steps that copy, a disk each; what has come is thrown away when one fails."""
        self.carriers = [transfer.Transfer(self.environment, source=self.source, sink=target) for _ in self.whole.disks]
        discard = calls.ExportDiscard(export=self.vm.name)
        return [
            base.call_step(f"discard an incomplete export on {target.name}", target, discard, discard),
            *(self._transfer(index, target) for index in range(len(self.whole.disks))),
        ]

    def _transfer(self, index: int, target: targets.Target) -> base.Step:
        carrier = self.carriers[index]

        async def copy() -> None:
            begin = calls.StreamEnd(
                instance=self.whole,
                disk=self.devices[index],
                scripted=self.facts.scripted,
                compress=self.op.compress,
                debug=self.op.debug_level or 0,
            )
            await carrier.run(begin, calls.StreamEnd(export=self.vm.name, dump=self.whole.disks[index].uuid))

        text = f"copy disk {index} of {self.vm.name} to {target.name}"
        return base.Step(text, (carrier.procedure(copy),), (carrier.undo,))

    def after(self, target: targets.Target) -> list[base.Step]:
        """Return the steps that end it: the export counts from its description on."""

        async def finalize() -> None:
            description = manifest.write(self._described(), self.whole)
            await self.environment.nodes.call(
                target, calls.ExportFinalize(export=self.vm.name, description=description)
            )

        async def start() -> None:
            if not self._has_snapshots():
                await self._start()

        async def forget() -> None:
            await self._forget_older(target)

        describe = base.Procedure("contains what the copies reported", finalize)
        remove = base.Command(target, calls.ExportRemove(export=self.vm.name))
        steps = [base.Step(f"write the description of the export of {self.vm.name}", (describe,), (remove,))]
        if self.facts.running:
            drop = base.Procedure("depends on whether the storage made snapshots", self._drop_quietly)
            steps.append(base.Step("remove the snapshots", (drop,)))
        if self.facts.running and self.op.shutdown and not self.op.remove_instance:
            again = base.Procedure("depends on whether the storage made snapshots", start)
            steps.append(base.Step(f"start {self.vm.name} again, if it is down", (again,)))
        if not self.facts.running:
            steps += self.own.deactivate()
        older = base.Procedure("calls all nodes at once", forget)
        return [*steps, base.Step(f"remove older exports of {self.vm.name} from other nodes", (older,))]

    async def _drop_quietly(self) -> None:
        """Remove the snapshots; the export is complete, and is kept if that fails."""
        if self._has_snapshots():
            try:
                await self._remove(self.devices)
            except errors.GantryError as error:
                self.environment.log.warning(f"a snapshot of {self.vm.name} is left on {self.source.name}: {error}")

    def _described(self) -> manifest.Export:
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
                    digest=carrier.done.digest if carrier.done else "",
                    bytes=carrier.done.size if carrier.done else 0,
                )
                for disk, carrier in zip(self.whole.disks, self.carriers, strict=True)
            ],
            tags=self.vm.tags,
            hvparams={name: str(value) for name, value in self.vm.hvparams.items()},
            beparams={name: str(value) for name, value in self.vm.beparams.items()},
            # Private ones stay here; an import is told them anew.
            osparams={name: str(value) for name, value in self.vm.osparams.items()},
        )

    async def _forget_older(self, target: targets.Target) -> None:
        nodes = [node for node in self.snapshot.nodes.values() if node.uuid != target.uuid and not node.offline]
        where = [self.snapshot.target(node) for node in sorted(nodes, key=lambda node: node.name)]
        for answer in await self.environment.nodes.fan_out(where, calls.ExportRemove(export=self.vm.name)):
            if answer.error:
                self.environment.log.warning(f"an older export may be left on {answer.target.name}: {answer.error}")


class BackupRemove(base.Unit[opcodes.BackupRemove, list[targets.Target]]):
    """Removes the exports of an instance from all nodes."""

    OPCODE = opcodes.BackupRemove

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance, if there is one: it may be exported just now."""
        uuid = snapshot.names.get(("instances", self.op.instance_name))
        return {(lock.Level.INSTANCE, uuid or self.op.instance_name): lock.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> list[targets.Target]:
        """Find the exports; NotFoundError when there is none."""
        online = [snapshot.target(node) for node in snapshot.nodes.values() if not node.offline]
        where = sorted(online, key=lambda target: target.name)
        answers = await self.environment.nodes.fan_out(where, calls.ExportList())
        found = [answer.target for answer in answers if self.op.instance_name in (answer.value or ())]
        if not found:
            silent = [answer.target.name for answer in answers if answer.error]
            raise errors.NotFoundError(
                f"no node has an export {self.op.instance_name}",
                hint=f"{', '.join(silent)} did not answer" if silent else "gnt-backup list shows those there are",
            )
        return found

    def plan(self, snapshot: states.Snapshot, facts: list[targets.Target]) -> base.Plan:
        """Remove them; the state does not know of exports."""
        remove = calls.ExportRemove(export=self.op.instance_name)
        steps = [
            base.call_step(f"remove the export {self.op.instance_name} from {target.name}", target, remove)
            for target in facts
        ]
        return base.Plan(lines=[step.text for step in steps], steps=steps, keep_on_failure=True)
