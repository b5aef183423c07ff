"""OP_INSTANCE_RECREATE_DISKS: lost disks of an instance made anew, empty, on its nodes or on others.

For an instance that does not run, whose disks are gone: a node burnt, a volume group was lost. What is still there is
not touched: a disk that exists already ends the job, and what was made is removed again. Other nodes are named, or an
allocator chooses them in the instance's node group; they get all disks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from gantry import errors
from gantry.ipam import mirrors
from gantry.model import cluster, instance, lock, opcodes, parameters
from gantry.operations import base, hook_environment, parameter_levels
from gantry.operations.disk_planning import disk_spec, volumes
from gantry.operations.move import relocation
from gantry.operations.placement import builtin_allocator, iallocator, node_choice
from gantry.rpc import calls
from gantry.state import snapshot as states


@dataclass(frozen=True)
class Facts:
    """The disks that are made (UUIDs); the nodes that get them if others, and their names there; physical volumes."""

    chosen: frozenset[str]
    nodes: Sequence[cluster.Node]
    places: volumes.Places
    names: tuple[str, ...] = ()
    why: Sequence[str] = ()


class InstanceRecreateDisks(base.Unit[opcodes.InstanceRecreateDisks, Facts]):
    """Makes lost disks anew."""

    OPCODE = opcodes.InstanceRecreateDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance; share its nodes and those that it gets, or all where an allocator chooses."""
        own = volumes.locks(snapshot, snapshot.instance(self.op.instance_name))
        names = [snapshot.node(name).uuid for name in self.op.nodes] + ([lock.ALL_NAMES] if self.op.iallocator else [])
        return {**own, **{(lock.Level.NODE, name): lock.Mode.SHARED for name in names}}

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Check that it does not run, that the disks are gone, and that there is room."""
        op, vm = self.op, snapshot.instance(self.op.instance_name)
        if not vm.disks:
            raise errors.WrongStateError(f"instance {vm.name} has no disks")
        if op.nodes and op.iallocator:
            raise errors.InvalidError("nodes and an allocator exclude each other", hint="name one of them")
        if not snapshot.nodes[vm.primary_node].offline:
            volumes.check_stopped(vm, await volumes.running(self.environment, snapshot, vm))
        changed = self._changes(vm)
        chosen = frozenset(vm.disks[index].uuid for index in changed) or frozenset(disk.uuid for disk in vm.disks)
        facts = Facts(chosen, [snapshot.node(name) for name in op.nodes], {})
        if op.iallocator:
            choice = await self._choose(snapshot, self._resized(vm))
            facts = replace(facts, nodes=choice.nodes, why=choice.why)
        new = self._placed(snapshot, vm, facts)
        if new.nodes != vm.nodes and len(chosen) < len(vm.disks):
            raise errors.InvalidError("other nodes get all disks of an instance", hint="leave --disk out")
        if new.nodes != vm.nodes and vm.disk_template in relocation.LOCAL:
            names = await relocation.names(self.environment, snapshot, vm, node=facts.nodes[0])
            facts = replace(facts, names=names)
            new = self._placed(snapshot, vm, facts)
        parameter_levels.check_policy(snapshot, new, before=vm)
        own = volumes.Volumes(self.environment, snapshot, new, only=chosen)
        for target, seen in own.seats():
            found = await self.environment.nodes.call(target, calls.BlockdevStatus(disks=tuple(seen)))
            for disk, state in zip(seen, found, strict=True):
                if state:
                    raise errors.WrongStateError(
                        f"disk {disk.index} of instance {vm.name} is there on node {target.name}",
                        hint="only what is lost is made anew; --disk N names the disks that are",
                    )
        return replace(facts, places=await own.place())

    def _changes(self, vm: instance.Instance) -> dict[int, opcodes.DiskMod]:
        """Return what is said of the disks that are named, by index; raises NotFoundError, InvalidError."""
        found: dict[int, opcodes.DiskMod] = {}
        for one in self.op.disks:
            index, change = (one, opcodes.DiskMod()) if isinstance(one, int) else (one.index, one.disk)
            if volumes.index_of(vm, index) in found:
                raise errors.InvalidError(f"disk {index} is named twice")
            if change != opcodes.DiskMod(size=change.size, mode=change.mode):
                raise errors.InvalidError(f"disk {index}: only size and mode of a disk that is made anew can change")
            found[index] = change
        return found

    def _resized(self, vm: instance.Instance) -> instance.Instance:
        """Return the instance with the sizes and modes that its disks get."""
        made = list(vm.disks)
        for index, change in self._changes(vm).items():
            if change.size is not None:
                size = parameters.size(change.size)
                if size <= 0:
                    raise errors.InvalidError(f"disk {index}: size {change.size} is not above 0 MiB")
                made[index] = disk_spec.resized(made[index], size)
            if change.mode:
                made[index] = structs.replace(made[index], mode=disk_spec.MODES.get(change.mode, change.mode))
        return structs.replace(vm, disks=tuple(made))

    async def _choose(self, snapshot: states.Snapshot, vm: instance.Instance) -> node_choice.Choice:
        """Let an allocator take as many nodes as the instance has; raises NoRoomError."""
        chooser = node_choice.Allocation(self.environment, snapshot, named=self.op.iallocator)
        group = snapshot.nodegroups[snapshot.nodes[vm.primary_node].group]
        count = len(vm.nodes)
        if chooser.program:
            asked = iallocator.allocate(snapshot, vm, mirrored=count > 1, group=group.name)
            found, said = iallocator.nodes(await chooser.ask(asked), snapshot, program=chooser.program, count=count)
            names = ", ".join(node.name for node in found)
            return node_choice.Choice(found, [f"allocator {chooser.program} takes {names}: {said}"])
        taken: list[cluster.Node] = []
        why: list[str] = []
        for _ in range(count):
            need = relocation.need(snapshot, vm, runs=True, disks=True)
            need = replace(need, memory=0, copy=True) if taken else need
            but = [node.uuid for node in taken]
            choice = await chooser.choose(need, [group], but=but, units=relocation.units(vm))
            taken, why = [*taken, *choice.nodes], [*why, *choice.why]
        return node_choice.Choice(taken, why)

    def _placed(self, snapshot: states.Snapshot, vm: instance.Instance, facts: Facts) -> instance.Instance:
        """Return the instance as it shall be, on other nodes if there are any; raises InvalidError, WrongStateError."""
        new, nodes = self._resized(vm), facts.nodes
        if not nodes:
            return new
        if len({node.uuid for node in nodes}) != len(vm.nodes):
            raise errors.InvalidError(
                f"instance {vm.name} needs {len(vm.nodes)} nodes, {len(nodes)} are named", hint="each once"
            )
        need = builtin_allocator.Need(0, 0, {nic.network for nic in vm.nics if nic.network})
        for node in nodes:
            if why := builtin_allocator.static_unfit(snapshot, node, need):
                raise errors.WrongStateError(f"node {node.name} cannot take instance {vm.name}: {why}")
        picks = self.environment.ledger.mirrors.picks()
        made = tuple(
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
        made = relocation.renamed(made, facts.names) if facts.names else made
        return structs.replace(new, primary_node=nodes[0].uuid, disks=made)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Record nodes and sizes, then make the disks."""
        vm = snapshot.instance(self.op.instance_name)
        new = self._placed(snapshot, vm, facts)
        own = volumes.Volumes(self.environment, snapshot, new, only=facts.chosen)
        steps = own.create(facts.places)
        if any(disk.mirror for disk in new.disks):
            steps += [*own.activate(fresh=True), *own.wait(), *own.deactivate()]
        return base.Plan(
            lines=[f"make disks of instance {vm.name} anew", *facts.why, *(step.text for step in steps)],
            changes=[states.Put(base.changed(new, self.environment.inputs.now))] if new != vm else [],
            steps=[*base.noted(facts.why), *steps],
            hooks=hook_environment.of_instance(snapshot, vm, path="instance-recreate-disks"),
        )


def _minor(mirror: instance.Mirror, node: str, picks: mirrors.Picks) -> int:
    return mirror.minors[node] if node in mirror.minors else picks.minor(node)
