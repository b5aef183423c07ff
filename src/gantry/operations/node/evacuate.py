"""OP_NODE_EVACUATE and OP_NODE_MIGRATE: move the instances of a node away, by separate jobs (``multi_move``)."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from gantry import errors
from gantry.model import cluster, instance, lock, opcodes
from gantry.operations import base, hook_environment, parameter_levels
from gantry.operations.move import multi_move as spreads
from gantry.operations.move import relocation
from gantry.operations.placement import iallocator, node_choice
from gantry.state.objects import snapshot as states


class NodeEvacuate(spreads.Many[opcodes.NodeEvacuate]):
    """Moves all instances and copies away from a node."""

    OPCODE = opcodes.NodeEvacuate

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the possible target nodes shared; the jobs lock the instances."""
        return _nodes(snapshot, self.op.node_name, self.op.remote_node)

    async def inspect(self, snapshot: states.Snapshot) -> spreads.Facts:
        """Choose nodes for everything on the node."""
        op, node = self.op, snapshot.node(self.op.node_name)
        node_choice.refuse_both(op.remote_node, op.iallocator)
        first = list(snapshot.on_node.get(node.uuid) or ()) if op.mode != "secondary-only" else []
        second = list(snapshot.copies_on.get(node.uuid) or ()) if op.mode != "primary-only" else []
        chooser = node_choice.Allocation(self.environment, snapshot, named=op.iallocator)
        if chooser.program and not op.remote_node:
            names = [vm.name for vm in spreads.ordered(snapshot, [*first, *second])]
            if not names:
                return spreads.Facts([], {}, [])
            raw = await chooser.ask(iallocator.evacuate(names, mode=op.mode))
            return self.to_jobs(iallocator.moves(raw, program=chooser.program))
        vms = spreads.ordered(snapshot, [*first, *second])
        spread = await _spread(chooser, snapshot, node, target=op.remote_node, vms=vms)
        both = op.mode == "all"
        for vm in spreads.ordered(snapshot, first):
            _leave(snapshot, spread, vm, both=both, early=op.early_release)
        for vm in spreads.ordered(snapshot, second):
            if target := _copy_target(snapshot, spread, vm):
                spread.jobs.append([spreads.replace_secondary(vm, target.name, early=op.early_release)])
        return self.to_jobs(spread)

    def plan(self, snapshot: states.Snapshot, facts: spreads.Facts) -> base.Plan:
        """Submit the jobs."""
        return self.submitted(facts, title=f"evacuate node {snapshot.node(self.op.node_name).name} ({self.op.mode})")


class NodeMigrate(spreads.Many[opcodes.NodeMigrate]):
    """Migrates all running instances of a node."""

    OPCODE = opcodes.NodeMigrate

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the possible target nodes shared; the jobs lock the instances."""
        return _nodes(snapshot, self.op.node_name, self.op.target_node)

    async def inspect(self, snapshot: states.Snapshot) -> spreads.Facts:
        """Choose nodes for all instances whose admin state is up."""
        op, node = self.op, snapshot.node(self.op.node_name)
        node_choice.refuse_both(op.target_node, op.iallocator)
        if node.offline:
            raise errors.EnvironmentFaultError(
                f"node {node.name} is offline", hint=f"gnt-node failover {node.name} starts its instances elsewhere"
            )
        up = [
            uuid
            for uuid in snapshot.on_node.get(node.uuid) or ()
            if snapshot.instances[uuid].admin_state is instance.AdminState.UP
        ]
        chooser = node_choice.Allocation(self.environment, snapshot, named=op.iallocator)
        spread = await _spread(chooser, snapshot, node, target=op.target_node, vms=spreads.ordered(snapshot, up))
        options = {"mode": op.mode, "live": op.live, "ignore_ipolicy": op.ignore_ipolicy}
        for vm in spreads.ordered(snapshot, up):
            _leave(snapshot, spread, vm, program="" if op.target_node else chooser.program, options=options)
        return self.to_jobs(spread)

    def plan(self, snapshot: states.Snapshot, facts: spreads.Facts) -> base.Plan:
        """Submit the jobs."""
        node = snapshot.node(self.op.node_name)
        return self.submitted(
            facts,
            title=f"migrate all instances from node {node.name}",
            hook=hook_environment.of_node_migrate(snapshot, node),
        )


def _nodes(snapshot: states.Snapshot, name: str, other: str | None) -> lock.LockSet:
    node = snapshot.node(name)
    if other and snapshot.node(other).uuid == node.uuid:
        raise errors.WrongStateError(f"node {node.name} is to be emptied, so it cannot be the target")
    names = {node.uuid, snapshot.node(other).uuid} if other else {lock.ALL_NAMES}
    return {(lock.Level.NODE, node_uuid): lock.Mode.SHARED for node_uuid in names}


async def _spread(
    chooser: node_choice.Allocation,
    snapshot: states.Snapshot,
    node: cluster.Node,
    *,
    target: str | None,
    vms: Sequence[instance.Instance],
) -> spreads.Spread:
    """Ask the possible targets: the requested node, or all other nodes of the group."""
    if target:
        target_nodes = [snapshot.node(target)]
    else:
        members = sorted(snapshot.nodes_in.get(node.group) or ())
        target_nodes = [snapshot.nodes[uuid] for uuid in members if uuid != node.uuid]
    return spreads.Spread(snapshot, await chooser.statuses(target_nodes, units=relocation.units(*vms)))


def _leave(
    snapshot: states.Snapshot,
    spread: spreads.Spread,
    vm: instance.Instance,
    *,
    both: bool = False,
    early: bool = False,
    program: str = "",
    options: Mapping[str, object] | None = None,
) -> None:
    """Add the job that moves an instance off its primary node, with ``both`` its disks too."""
    if vm.admin_state is instance.AdminState.OFFLINE:
        spread.stay[vm.name] = "the instance is marked offline"
    elif vm.secondary_nodes:
        job = [_moved(snapshot, vm, None, options)]
        if both:
            second = _copy_target(snapshot, spread, vm)
            if second is None:
                return
            job.append(spreads.replace_secondary(vm, second.name, early=early))
        spread.jobs.append(job)
    elif vm.disk_template not in relocation.ANYWHERE:
        spread.stay[vm.name] = "its disks exist on this node alone; gnt-instance move copies them while it is stopped"
    elif program:
        spread.jobs.append([_moved(snapshot, vm, None, {**(options or {}), "iallocator": program})])
    else:
        need = relocation.need(snapshot, vm, runs=vm.admin_state is instance.AdminState.UP)
        forbidden = "the instance policy of its node group forbids the instance"
        if chosen := spread.choose(vm, need, where=lambda node: _allowed(snapshot, vm, node), otherwise=forbidden):
            spread.jobs.append([_moved(snapshot, vm, chosen.name, options)])


def _copy_target(snapshot: states.Snapshot, spread: spreads.Spread, vm: instance.Instance) -> cluster.Node | None:
    """Choose a node for a copy of the disks, in the node group of the other copy."""
    group = snapshot.nodes[vm.primary_node].group
    need = spreads.of_copy(relocation.need(snapshot, vm, runs=False, disks=True))
    other_group = "it is not in the node group of the other copy"
    return spread.choose(vm, need, where=lambda node: node.group == group, otherwise=other_group)


def _allowed(snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node) -> bool:
    own = snapshot.nodes[vm.primary_node].group
    return node.group == own or not parameter_levels.violations(snapshot, vm, group=node.group)


def _moved(
    snapshot: states.Snapshot, vm: instance.Instance, target: str | None, options: Mapping[str, object] | None
) -> opcodes.AnyOpcode:
    """Return the opcode that moves an instance: a migration, or a failover from an offline node."""
    if snapshot.nodes[vm.primary_node].offline:
        return opcodes.InstanceFailover(instance_name=vm.name, target_node=target)
    if options is None:
        return opcodes.InstanceMigrate(instance_name=vm.name, target_node=target, allow_failover=True)
    set_options = {name: value for name, value in options.items() if value is not None}
    return structs.replace(opcodes.InstanceMigrate(instance_name=vm.name, target_node=target), **set_options)
