"""OP_INSTANCE_CHANGE_GROUP and OP_GROUP_EVACUATE: move instances to other node groups, each by its own job.

The nodes are chosen for all instances together (``multi_move``). If every node can use the disks, the instance is
migrated; mirrored disks get one new node, the instance moves there, and then they get the other new node; disks of a
single node are copied while the instance is stopped.
"""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from gantry import errors
from gantry.model import cluster, instance, lock, opcodes
from gantry.operations import base, hook_environment
from gantry.operations.move import multi_move as spreads
from gantry.operations.move import relocation
from gantry.operations.placement import iallocator, node_choice
from gantry.state.objects import snapshot as states


class InstanceChangeGroup(spreads.Many[opcodes.InstanceChangeGroup]):
    """Moves an instance to another node group."""

    OPCODE = opcodes.InstanceChangeGroup

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance and all nodes shared; the job has locks of its own."""
        vm = snapshot.instance(self.op.instance_name)
        for name in self.op.target_groups:
            snapshot.group(name)
        return {
            (lock.Level.INSTANCE, vm.uuid): lock.Mode.SHARED,
            (lock.Level.NODE, lock.ALL_NAMES): lock.Mode.SHARED,
        }

    def _groups(self, snapshot: states.Snapshot, vm: instance.Instance) -> list[cluster.NodeGroup]:
        own = snapshot.nodegroups[snapshot.nodes[vm.primary_node].group]
        return _targets(snapshot, own, self.op.target_groups, what=f"instance {vm.name}")

    async def inspect(self, snapshot: states.Snapshot) -> spreads.Facts:
        """Choose nodes in the groups."""
        op, vm = self.op, snapshot.instance(self.op.instance_name)
        relocation.check_in_use(vm)
        groups = self._groups(snapshot, vm)
        chooser = node_choice.Allocation(self.environment, snapshot, named=op.iallocator)
        if chooser.program:
            raw = await chooser.ask(iallocator.change_group([vm.name], groups=[group.uuid for group in groups]))
            return self.to_jobs(iallocator.moves(raw, program=chooser.program))
        spread = await _spread(chooser, snapshot, groups, vms=[vm])
        _bring(snapshot, spread, vm, groups, early=op.early_release)
        if vm.name in spread.stay:
            raise errors.NoRoomError(f"instance {vm.name} cannot leave its node group: {spread.stay[vm.name]}")
        return self.to_jobs(spread)

    def plan(self, snapshot: states.Snapshot, facts: spreads.Facts) -> base.Plan:
        """Submit the job."""
        vm = snapshot.instance(self.op.instance_name)
        names = " ".join(sorted(group.name for group in self._groups(snapshot, vm)))
        hooks = hook_environment.of_instance(snapshot, vm, path="instance-change-group", TARGET_GROUPS=names)
        master = [snapshot.target(snapshot.nodes[snapshot.the_cluster.master_node])]
        hook = replace(hooks, nodes_pre=master, nodes_post=master)
        return self.submitted(facts, title=f"move instance {vm.name} to another node group", hook=hook)


class GroupEvacuate(spreads.Many[opcodes.GroupEvacuate]):
    """Moves all instances of a node group to other groups."""

    OPCODE = opcodes.GroupEvacuate

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the groups and all nodes shared; the jobs lock the instances."""
        own = snapshot.group(self.op.group_name)
        groups = _targets(snapshot, own, self.op.target_groups, what="the evacuated group")
        return {
            **{(lock.Level.GROUP, group.uuid): lock.Mode.SHARED for group in (own, *groups)},
            (lock.Level.NODE, lock.ALL_NAMES): lock.Mode.SHARED,
        }

    async def inspect(self, snapshot: states.Snapshot) -> spreads.Facts:
        """Choose nodes for all instances of the group."""
        op, own = self.op, snapshot.group(self.op.group_name)
        groups = _targets(snapshot, own, op.target_groups, what="the evacuated group")
        members = snapshot.nodes_in.get(own.uuid) or ()
        vms = spreads.ordered(snapshot, [uuid for node in members for uuid in snapshot.on_node.get(node) or ()])
        chooser = node_choice.Allocation(self.environment, snapshot, named=op.iallocator)
        if chooser.program and vms:
            request = iallocator.change_group([vm.name for vm in vms], groups=[group.uuid for group in groups])
            moves = self.to_jobs(iallocator.moves(await chooser.ask(request), program=chooser.program))
        else:
            spread = await _spread(chooser, snapshot, groups, vms=vms)
            for vm in vms:
                if vm.admin_state is instance.AdminState.OFFLINE:
                    spread.stay[vm.name] = "the instance is marked offline"
                else:
                    _bring(snapshot, spread, vm, groups, early=op.early_release, failover=op.force_failover)
            moves = self.to_jobs(spread)
        return replace(moves, jobs=_chained(moves.jobs)) if op.sequential else moves

    def plan(self, snapshot: states.Snapshot, facts: spreads.Facts) -> base.Plan:
        """Submit the jobs."""
        own = snapshot.group(self.op.group_name)
        groups = _targets(snapshot, own, self.op.target_groups, what="the evacuated group")
        hook = hook_environment.of_group_evacuate(snapshot, own, groups)
        return self.submitted(facts, title=f"evacuate node group {own.name}", hook=hook)


def _targets(
    snapshot: states.Snapshot, own: cluster.NodeGroup, names: Sequence[str], *, what: str
) -> list[cluster.NodeGroup]:
    """Return the named node groups, or all other groups; raises WrongStateError."""
    named = [snapshot.group(name) for name in names]
    if own in named:
        raise errors.WrongStateError(f"target node group {own.name} is already the node group of {what}")
    groups = named or [group for group in snapshot.nodegroups.values() if group.uuid != own.uuid]
    if not groups:
        raise errors.WrongStateError("there is no other node group", hint="gnt-group add creates a node group")
    return groups


async def _spread(
    chooser: node_choice.Allocation,
    snapshot: states.Snapshot,
    groups: Sequence[cluster.NodeGroup],
    *,
    vms: Sequence[instance.Instance],
) -> spreads.Spread:
    """Ask the nodes of the groups, except of unallocable groups."""
    nodes = [
        snapshot.nodes[uuid]
        for group in groups
        if group.alloc_policy is not cluster.AllocPolicy.UNALLOCABLE
        for uuid in sorted(snapshot.nodes_in.get(group.uuid) or ())
    ]
    local = [vm for vm in vms if vm.disk_template not in relocation.ANYWHERE]
    units = relocation.units(*local) if local else None
    return spreads.Spread(snapshot, await chooser.statuses(nodes, units=units))


def _bring(
    snapshot: states.Snapshot,
    spread: spreads.Spread,
    vm: instance.Instance,
    groups: Sequence[cluster.NodeGroup],
    *,
    early: bool,
    failover: bool = False,
) -> None:
    """Add the job that moves an instance to one of the groups, or the reason why it stays."""
    open_groups, reasons = node_choice.open_groups(snapshot, vm, groups)
    if not open_groups:
        spread.stay[vm.name] = "; ".join(reasons)
        return
    open_to = {group.uuid for group in open_groups}
    local = vm.disk_template not in relocation.ANYWHERE
    need = relocation.need(snapshot, vm, runs=vm.admin_state is instance.AdminState.UP, disks=local)
    first = spread.choose(vm, need, where=lambda node: node.group in open_to)
    if first is None:
        return
    if local and not vm.secondary_nodes:
        spread.jobs.append([opcodes.InstanceMove(instance_name=vm.name, target_node=first.name)])
        return
    move: opcodes.AnyOpcode = opcodes.InstanceMigrate(
        instance_name=vm.name, target_node=first.name, allow_failover=True
    )
    if failover:
        move = opcodes.InstanceFailover(instance_name=vm.name, target_node=first.name)
    if not local:
        spread.jobs.append([move])
        return
    second = spread.choose(
        vm, spreads.of_copy(need), where=lambda node: node.uuid != first.uuid and node.group == first.group
    )
    if second is not None:
        replacements = [spreads.replace_secondary(vm, node.name, early=early) for node in (first, second)]
        spread.jobs.append([replacements[0], move, replacements[1]])


def _chained(jobs: Sequence[Sequence[opcodes.AnyOpcode]]) -> list[list[opcodes.AnyOpcode]]:
    """Make each job wait for the end of the previous job, successful or not."""
    before = (opcodes.Dependency(job=-1),)
    return [[structs.replace(job[0], depends=before if index else None), *job[1:]] for index, job in enumerate(jobs)]
