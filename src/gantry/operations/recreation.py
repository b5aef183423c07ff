"""OP_INSTANCE_RECREATE_DISKS: lost disks of an instance made anew, empty, on its nodes or on others.

For an instance that does not run, whose disks are gone: a node burnt, a volume group was lost. What is still there is
not touched: a disk that exists already ends the job, and what was made is removed again.
"""

from dataclasses import dataclass

from msgspec import structs

from gantry import errors
from gantry.ipam import mirrors
from gantry.model import instance, opcodes
from gantry.operations import base, hooks, placement, volumes
from gantry.rpc import calls
from gantry.state import snapshot as states


@dataclass(frozen=True)
class Facts:
    """The disks that are made (UUIDs), and the physical volumes for them."""

    chosen: frozenset[str]
    places: volumes.Places


class InstanceRecreateDisks(base.Unit[opcodes.InstanceRecreateDisks, Facts]):
    """Makes lost disks anew."""

    OPCODE = opcodes.InstanceRecreateDisks

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Take the instance; share its nodes and those that it gets."""
        own = volumes.locks(snapshot, snapshot.instance(self.op.instance_name))
        wanted = {(base.Level.NODE, snapshot.node(name).uuid): base.Mode.SHARED for name in self.op.nodes}
        return {**own, **wanted}

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Check that it does not run, that the disks are gone, and that there is room."""
        vm = snapshot.instance(self.op.instance_name)
        if not vm.disks:
            raise errors.WrongStateError(f"instance {vm.name} has no disks")
        if not snapshot.nodes[vm.primary_node].offline:
            volumes.check_stopped(vm, await volumes.running(self.environment, snapshot, vm))
        chosen = frozenset(vm.disks[volumes.index_of(vm, index)].uuid for index in self.op.disks) or frozenset(
            disk.uuid for disk in vm.disks
        )
        new = self._placed(snapshot, vm)
        if new.nodes != vm.nodes and len(chosen) < len(vm.disks):
            raise errors.InvalidError("other nodes get all disks of an instance", hint="leave --disk out")
        own = volumes.Volumes(self.environment, snapshot, new, only=chosen)
        for target, disks in own.seats():
            found = await self.environment.nodes.call(target, calls.BlockdevStatus(disks=tuple(disks)))
            for disk, state in zip(disks, found, strict=True):
                if state:
                    raise errors.WrongStateError(
                        f"disk {disk.index} of instance {vm.name} is there on node {target.name}",
                        hint="only what is lost is made anew; --disk N names the disks that are",
                    )
        return Facts(chosen, await own.place())

    def _placed(self, snapshot: states.Snapshot, vm: instance.Instance) -> instance.Instance:
        """Return the instance on the nodes that it gets; raises InvalidError, WrongStateError."""
        if not self.op.nodes:
            return vm
        nodes = [snapshot.node(name) for name in self.op.nodes]
        if len({node.uuid for node in nodes}) != len(vm.nodes):
            raise errors.InvalidError(
                f"instance {vm.name} needs {len(vm.nodes)} nodes, {len(nodes)} are named", hint="each once"
            )
        need = placement.Need(0, 0, {nic.network for nic in vm.nics if nic.network})
        for node in nodes:
            if why := placement.static_unfit(snapshot, node, need):
                raise errors.WrongStateError(f"node {node.name} cannot take instance {vm.name}: {why}")
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
            for disk in vm.disks
        )
        return base.changed(vm, self.environment.inputs.now, primary_node=nodes[0].uuid, disks=disks)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Record the nodes, then make the disks."""
        vm = snapshot.instance(self.op.instance_name)
        new = self._placed(snapshot, vm)
        own = volumes.Volumes(self.environment, snapshot, new, only=facts.chosen)
        steps = own.create(facts.places)
        if any(disk.mirror for disk in new.disks):
            steps += [*own.activate(fresh=True), *own.wait(), *own.deactivate()]
        return base.Plan(
            lines=[f"make disks of instance {vm.name} anew", *(step.text for step in steps)],
            changes=[states.Put(new)] if new is not vm else [],
            steps=steps,
            hooks=hooks.of_instance(snapshot, vm, path="instance-recreate-disks"),
        )


def _minor(mirror: instance.Mirror, node: str, picks: mirrors.Picks) -> int:
    return mirror.minors[node] if node in mirror.minors else picks.minor(node)
