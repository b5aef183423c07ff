"""OP_INSTANCE_RECREATE_DISKS: recreate lost disks of an instance, empty, on its nodes or on other nodes.

For a stopped instance whose disks are lost: a node or a volume group was destroyed. Existing disks are not touched: a
disk that exists, on its present node too, fails the job, and the created disks are removed again. The request lists
other nodes, or an allocator chooses them in the instance's node group; they get all disks. The disks of a node that is
marked offline count as lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from gantry import errors
from gantry.ipam import mirrors
from gantry.model import cluster, instance, lock, opcodes, parameters
from gantry.operations import base, hook_environment, parameter_levels
from gantry.operations.disk_planning import disk_spec, requirements, volumes
from gantry.operations.move import relocation
from gantry.operations.placement import builtin_allocator, iallocator, node_choice
from gantry.rpc import calls
from gantry.state.objects import snapshot as states


@dataclass(frozen=True)
class Facts:
    """The disks to recreate (UUIDs), their new nodes if any, the driver's names there, and physical volumes."""

    chosen: frozenset[str]
    nodes: Sequence[cluster.Node]
    physical_volumes: volumes.PhysicalVolumes
    names: tuple[str, ...] = ()
    why: Sequence[str] = ()


class InstanceRecreateDisks(base.Unit[opcodes.InstanceRecreateDisks, Facts]):
    """Recreates lost disks."""

    OPCODE = opcodes.InstanceRecreateDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively; its present and new nodes shared, or all nodes if an allocator chooses."""
        own = requirements.locks(snapshot, snapshot.instance(self.op.instance_name))
        names = [snapshot.node(name).uuid for name in self.op.nodes] + ([lock.ALL_NAMES] if self.op.iallocator else [])
        return {**own, **{(lock.Level.NODE, name): lock.Mode.SHARED for name in names}}

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Check that the instance is stopped, that the disks are lost, and that there is free space."""
        op, vm = self.op, snapshot.instance(self.op.instance_name)
        if not vm.disks:
            raise errors.WrongStateError(f"instance {vm.name} has no disks")
        if op.nodes and op.iallocator:
            raise errors.InvalidError("nodes and an allocator exclude each other", hint="specify only one of them")
        if not snapshot.nodes[vm.primary_node].offline:
            requirements.check_stopped(vm, await requirements.running(self.environment, snapshot, vm))
        changed = self._changes(vm)
        chosen = frozenset(vm.disks[index].uuid for index in changed) or frozenset(disk.uuid for disk in vm.disks)
        facts = Facts(chosen, [snapshot.node(name) for name in op.nodes], {})
        if op.iallocator:
            choice = await self._choose(snapshot, self._resized(vm))
            facts = replace(facts, nodes=choice.nodes, why=choice.why)
        new = self._placed(snapshot, vm, facts)
        if new.nodes != vm.nodes and len(chosen) < len(vm.disks):
            raise errors.InvalidError(
                f"on other nodes, all disks of instance {vm.name} must be recreated", hint="omit --disk"
            )
        if new.nodes != vm.nodes and vm.disk_template in relocation.LOCAL:
            names = await relocation.names(self.environment, snapshot, vm, node=facts.nodes[0])
            facts = replace(facts, names=names)
            new = self._placed(snapshot, vm, facts)
        parameter_levels.check_policy(snapshot, new, before=vm)
        await self._check_lost(snapshot, vm, new, chosen)
        own = volumes.Volumes(self.environment, snapshot, new, only=chosen)
        await requirements.check_free_space(self.environment, snapshot, new, only=chosen)
        return replace(facts, physical_volumes=await own.choose_physical_volumes())

    async def _check_lost(
        self, snapshot: states.Snapshot, vm: instance.Instance, new: instance.Instance, chosen: frozenset[str]
    ) -> None:
        """Check that no disk exists, on its nodes or on its new nodes; raises WrongStateError.

        Nodes that are marked offline are not asked: their disks count as lost.
        """
        seats = volumes.Volumes(self.environment, snapshot, new, only=chosen).seats()
        if new.nodes != vm.nodes:
            old = volumes.Volumes(self.environment, snapshot, vm, only=chosen).seats()
            seats = [*seats, *((target, disks) for target, disks in old if not target.offline)]
        for target, disks in seats:
            disk_states = await self.environment.nodes.call(target, calls.BlockdevStatus(disks=tuple(disks)))
            for disk, state in zip(disks, disk_states, strict=True):
                if state:
                    raise errors.WrongStateError(
                        f"disk {disk.index} of instance {vm.name} exists on node {target.name}",
                        hint="only lost disks can be recreated; list them with --disk N",
                    )

    def _changes(self, vm: instance.Instance) -> dict[int, opcodes.DiskMod]:
        """Return the changes of the listed disks, by index; raises NotFoundError, InvalidError."""
        changes: dict[int, opcodes.DiskMod] = {}
        for entry in self.op.disks:
            index, change = (entry, opcodes.DiskMod()) if isinstance(entry, int) else (entry.index, entry.disk)
            if requirements.index_of(vm, index) in changes:
                raise errors.InvalidError(f"disk {index} is listed twice")
            if change != opcodes.DiskMod(size=change.size, mode=change.mode):
                raise errors.InvalidError(f"disk {index}: only size and mode of a recreated disk can change")
            changes[index] = change
        return changes

    def _resized(self, vm: instance.Instance) -> instance.Instance:
        """Return the instance with the new sizes and modes of its disks."""
        disks = list(vm.disks)
        for index, change in self._changes(vm).items():
            if change.size is not None:
                size = parameters.size(change.size)
                if size <= 0:
                    raise errors.InvalidError(f"disk {index}: size {change.size} is not above 0 MiB")
                disks[index] = disk_spec.resized(disks[index], size)
            if change.mode:
                disks[index] = structs.replace(disks[index], mode=disk_spec.MODES.get(change.mode, change.mode))
        return structs.replace(vm, disks=tuple(disks))

    async def _choose(self, snapshot: states.Snapshot, vm: instance.Instance) -> node_choice.Choice:
        """Let an allocator choose the number of nodes that the instance has; raises NoRoomError."""
        chooser = node_choice.Allocation(self.environment, snapshot, named=self.op.iallocator)
        group = snapshot.nodegroups[snapshot.nodes[vm.primary_node].group]
        count = len(vm.nodes)
        if chooser.program:
            request = iallocator.allocate(snapshot, vm, mirrored=count > 1, group=group.name)
            nodes, reason = iallocator.nodes(await chooser.ask(request), snapshot, program=chooser.program, count=count)
            node_choice.check_answer(snapshot, nodes, program=chooser.program)
            names = ", ".join(node.name for node in nodes)
            return node_choice.Choice(nodes, [f"allocator {chooser.program} chose {names}: {reason}"])
        chosen: list[cluster.Node] = []
        why: list[str] = []
        for _ in range(count):
            need = relocation.need(snapshot, vm, runs=True, disks=True)
            need = replace(need, memory=0, copy=True) if chosen else need
            but = [node.uuid for node in chosen]
            choice = await chooser.choose(need, [group], excluded=but, units=relocation.units(vm))
            chosen, why = [*chosen, *choice.nodes], [*why, *choice.why]
        return node_choice.Choice(chosen, why)

    def _placed(self, snapshot: states.Snapshot, vm: instance.Instance, facts: Facts) -> instance.Instance:
        """Return the instance after the opcode, perhaps on other nodes; raises InvalidError, WrongStateError."""
        new, nodes = self._resized(vm), facts.nodes
        if not nodes:
            return new
        if len({node.uuid for node in nodes}) != len(vm.nodes):
            raise errors.InvalidError(
                f"instance {vm.name} needs {len(vm.nodes)} nodes, {len(nodes)} were specified",
                hint="specify each node once",
            )
        need = builtin_allocator.Need(0, 0, {nic.network for nic in vm.nics if nic.network})
        for node in nodes:
            if reason := builtin_allocator.static_unfit(snapshot, node, need):
                raise errors.WrongStateError(f"node {node.name} cannot take instance {vm.name}: {reason}")
        picks = self.environment.ledger.mirrors.picks()
        disks = tuple(
            structs.replace(
                disk,
                mirror=structs.replace(
                    disk.mirror,
                    minors={node.uuid: _minor(disk.mirror, node.uuid, picks) for node in nodes},
                ),
            )
            if disk.mirror
            else disk
            for disk in new.disks
        )
        disks = relocation.renamed(disks, facts.names) if facts.names else disks
        return structs.replace(new, primary_node=nodes[0].uuid, disks=disks)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Record nodes and sizes, then create the disks."""
        vm = snapshot.instance(self.op.instance_name)
        new = self._placed(snapshot, vm, facts)
        own = volumes.Volumes(self.environment, snapshot, new, only=facts.chosen)
        steps = own.create(facts.physical_volumes)
        if any(disk.mirror for disk in new.disks):
            steps += [*own.activate(fresh=True), *own.wait(), *own.deactivate()]
        return base.Plan(
            lines=[f"recreate disks of instance {vm.name}", *facts.why, *(step.text for step in steps)],
            changes=[states.Put(base.changed(new, self.environment.inputs.now))] if new != vm else [],
            steps=[*base.log_steps(facts.why), *steps],
            hooks=hook_environment.of_instance(snapshot, vm, path="instance-recreate-disks"),
        )


def _minor(mirror: instance.Mirror, node: str, picks: mirrors.Picks) -> int:
    return mirror.minors[node] if node in mirror.minors else picks.minor(node)
