"""OP_NODE_EVACUATE, OP_NODE_MIGRATE and OP_INSTANCE_CHANGE_GROUP: many moves at once, each a job of its own.

The units here only decide who goes where; the jobs that they submit lock what they touch and run side by side. All
places are chosen together, so that what one instance takes is not counted as free for the next: by the built-in
allocator, or by a program that is asked for all of them at once. Instances that no job can help stay, and the result
says why.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from gantry import errors
from gantry.model import cluster, instance, opcodes
from gantry.operations import allocation, base, hooks, iallocator, levels, moving, placement
from gantry.state import snapshot as states

Job = list[opcodes.AnyOpcode]


@dataclass(frozen=True)
class Facts:
    """The jobs, why some instances stay, and what there is to be said."""

    jobs: Sequence[Sequence[opcodes.AnyOpcode]]
    stay: dict[str, str]
    lines: Sequence[str]


@dataclass
class Spread:
    """Chooses places one after the other; each choice counts for the next. ``left`` is the state that comes of them."""

    left: states.Snapshot
    statuses: placement.Statuses
    jobs: list[Job] = field(default_factory=list)
    stay: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def place(
        self, vm: instance.Instance, need: placement.Need, *, where: Callable[[cluster.Node], bool]
    ) -> cluster.Node | None:
        """Take a node for an instance, or its copy; None when there is none, which is noted."""
        state, here = self.left, self.left.nodes
        known = {uuid: status for uuid, status in self.statuses.items() if uuid not in vm.nodes and where(here[uuid])}
        try:
            chosen = placement.choose(state, known, need)
        except errors.NoRoomError as error:
            self.stay[vm.name] = error.message
            return None
        self.lines.append(f"{vm.name}: {'; '.join(placement.explain(state, known, need, chosen=chosen))}")
        self._take(vm, need, chosen)
        return chosen

    def _take(self, vm: instance.Instance, need: placement.Need, chosen: cluster.Node) -> None:
        status = self.statuses[chosen.uuid]
        if status is not None:
            storage = tuple(structs.replace(one, free=one.free - need.disk) for one in status.storage)
            free = status.memory_free - need.memory
            self.statuses[chosen.uuid] = structs.replace(status, memory_free=free, storage=storage)
        if not need.copy and not any(disk.mirror for disk in vm.disks):
            new = structs.replace(vm, primary_node=chosen.uuid)
            self.left = self.left.apply([states.Put(new)], serial=self.left.serial)


class _Many(base.Unit[base.Op, Facts]):
    """What the units of this module share."""

    def _to_jobs(self, spread: Spread | iallocator.Moves) -> Facts:
        reason, priority = self.op.reason, self.op.priority
        jobs = [
            [structs.replace(op, reason=op.reason or reason, priority=priority) for op in job] for job in spread.jobs
        ]
        return Facts(jobs, dict(spread.stay), list(spread.lines))

    def _plan(self, facts: Facts, *, title: str, hook: base.Hooks | None = None) -> base.Plan:
        async def told() -> None:
            for name, why in facts.stay.items():
                self.environment.log.warning(f"instance {name} stays: {why}")

        said = [f"job: {', '.join(op.summary + _to(op) for op in job)}" for job in facts.jobs]
        stays = [f"instance {name} stays: {why}" for name, why in facts.stay.items()]
        return base.Plan(
            lines=[title, *facts.lines, *said, *stays],
            steps=[*base.noted(facts.lines), base.Step(title, told)],
            jobs=facts.jobs,
            result=lambda: {"stay": facts.stay},
            hooks=hook,
        )


def _to(op: opcodes.AnyOpcode) -> str:
    node = getattr(op, "target_node", None) or getattr(op, "remote_node", None)
    return f" to {node}" if node else ""


def _sorted(snapshot: states.Snapshot, uuids: Sequence[str]) -> list[instance.Instance]:
    """Return instances, those first that need most memory: what is large finds no room in the end."""
    vms = [snapshot.instances[uuid] for uuid in uuids]
    return sorted(vms, key=lambda vm: (-moving.need(snapshot, vm, runs=True).memory, vm.name))


def _replaced(vm: instance.Instance, node: str, *, early: bool) -> opcodes.AnyOpcode:
    """Return the opcode that gives mirrored disks another secondary node."""
    return opcodes.decode(
        {
            "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
            "instance_name": vm.name,
            "mode": "replace_new_secondary",
            "disks": [],
            "remote_node": node,
            "early_release": early,
        }
    )


class NodeEvacuate(_Many[opcodes.NodeEvacuate]):
    """Empties a node."""

    OPCODE = opcodes.NodeEvacuate

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Share the nodes that may take something; the jobs lock the instances."""
        return _nodes(snapshot, self.op.node_name, self.op.remote_node)

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Choose places for all that is there."""
        op, node = self.op, snapshot.node(self.op.node_name)
        allocation.refuse_both(op.remote_node, op.iallocator)
        first = list(snapshot.on_node.get(node.uuid) or ()) if op.mode != "secondary-only" else []
        second = list(snapshot.copies_on.get(node.uuid) or ()) if op.mode != "primary-only" else []
        chooser = allocation.Allocation(self.environment, snapshot, named=op.iallocator)
        if chooser.program and not op.remote_node:
            names = [vm.name for vm in _sorted(snapshot, [*first, *second])]
            if not names:
                return Facts([], {}, [])
            raw = await chooser.ask(iallocator.evacuate(names, mode=op.mode))
            return self._to_jobs(iallocator.moves(raw, program=chooser.program))
        vms = _sorted(snapshot, [*first, *second])
        spread = await _spread(chooser, snapshot, node, target=op.remote_node, vms=vms)
        both = op.mode == "all"
        for vm in _sorted(snapshot, first):
            _leave(snapshot, spread, vm, both=both, early=op.early_release)
        for vm in _sorted(snapshot, second):
            need = moving.need(snapshot, vm, runs=False, disks=True)
            if to := spread.place(vm, _of_copy(need), where=lambda _: True):
                spread.jobs.append([_replaced(vm, to.name, early=op.early_release)])
        return self._to_jobs(spread)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Submit the jobs."""
        return self._plan(facts, title=f"evacuate node {snapshot.node(self.op.node_name).name} ({self.op.mode})")


class NodeMigrate(_Many[opcodes.NodeMigrate]):
    """Migrates all that runs on a node."""

    OPCODE = opcodes.NodeMigrate

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Share the nodes that may take something; the jobs lock the instances."""
        return _nodes(snapshot, self.op.node_name, self.op.target_node)

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Choose places for all that is to run there."""
        op, node = self.op, snapshot.node(self.op.node_name)
        allocation.refuse_both(op.target_node, op.iallocator)
        if node.offline:
            raise errors.EnvironmentFaultError(
                f"node {node.name} is offline", hint=f"gnt-node failover {node.name} starts its instances elsewhere"
            )
        up = [
            uuid
            for uuid in snapshot.on_node.get(node.uuid) or ()
            if snapshot.instances[uuid].admin_state is instance.AdminState.UP
        ]
        chooser = allocation.Allocation(self.environment, snapshot, named=op.iallocator)
        spread = await _spread(chooser, snapshot, node, target=op.target_node, vms=_sorted(snapshot, up))
        how = {"mode": op.mode, "live": op.live, "ignore_ipolicy": op.ignore_ipolicy}
        for vm in _sorted(snapshot, up):
            _leave(snapshot, spread, vm, program="" if op.target_node else chooser.program, how=how)
        return self._to_jobs(spread)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Submit the jobs."""
        node = snapshot.node(self.op.node_name)
        return self._plan(facts, title=f"migrate all from node {node.name}", hook=hooks.of_node_migrate(snapshot, node))


class InstanceChangeGroup(_Many[opcodes.InstanceChangeGroup]):
    """Brings an instance to another node group."""

    OPCODE = opcodes.InstanceChangeGroup

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Share the instance and all nodes; the job locks what it touches."""
        vm = snapshot.instance(self.op.instance_name)
        for name in self.op.target_groups:
            snapshot.group(name)
        return {
            (base.Level.INSTANCE, vm.uuid): base.Mode.SHARED,
            (base.Level.NODE, base.ALL_NAMES): base.Mode.SHARED,
        }

    def _groups(self, snapshot: states.Snapshot, vm: instance.Instance) -> list[cluster.NodeGroup]:
        own = snapshot.nodegroups[snapshot.nodes[vm.primary_node].group]
        named = [snapshot.group(name) for name in self.op.target_groups]
        if own in named:
            raise errors.WrongStateError(f"instance {vm.name} is in node group {own.name} already")
        found = named or [group for group in snapshot.nodegroups.values() if group.uuid != own.uuid]
        if not found:
            raise errors.WrongStateError("there is no other node group", hint="gnt-group add makes one")
        return found

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Choose nodes in the groups."""
        op, vm = self.op, snapshot.instance(self.op.instance_name)
        moving.check_in_use(vm)
        groups = self._groups(snapshot, vm)
        chooser = allocation.Allocation(self.environment, snapshot, named=op.iallocator)
        if chooser.program:
            raw = await chooser.ask(iallocator.change_group([vm.name], groups=[group.uuid for group in groups]))
            return self._to_jobs(iallocator.moves(raw, program=chooser.program))
        good, reasons = allocation.open_groups(snapshot, vm, groups)
        if not good:
            raise errors.NoRoomError(f"instance {vm.name} cannot leave its node group: {'; '.join(reasons)}")
        nodes = [snapshot.nodes[uuid] for group in good for uuid in sorted(snapshot.nodes_in.get(group.uuid) or ())]
        local = vm.disk_template not in moving.ANYWHERE
        units = moving.units(vm) if local else None
        spread = Spread(snapshot, await chooser.statuses(nodes, units=units))
        need = moving.need(snapshot, vm, runs=vm.admin_state is instance.AdminState.UP, disks=local)
        first = spread.place(vm, need, where=lambda _: True)
        if first is None:
            raise errors.NoRoomError(f"instance {vm.name}: {spread.stay[vm.name]}")
        spread.jobs.append(self._job(spread, vm, need, first))
        return self._to_jobs(spread)

    def _job(self, spread: Spread, vm: instance.Instance, need: placement.Need, first: cluster.Node) -> Job:
        go = opcodes.InstanceMigrate(instance_name=vm.name, target_node=first.name, allow_failover=True)
        if vm.disk_template in moving.ANYWHERE:
            return [go]
        if not vm.secondary_nodes:
            return [opcodes.InstanceMove(instance_name=vm.name, target_node=first.name)]
        second = spread.place(
            vm, _of_copy(need), where=lambda node: node.uuid != first.uuid and node.group == first.group
        )
        if second is None:
            raise errors.NoRoomError(f"no second node for the disks of instance {vm.name}: {spread.stay[vm.name]}")
        early = self.op.early_release
        return [_replaced(vm, first.name, early=early), go, _replaced(vm, second.name, early=early)]

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Submit the jobs."""
        vm = snapshot.instance(self.op.instance_name)
        names = " ".join(sorted(group.name for group in self._groups(snapshot, vm)))
        told = hooks.of_instance(snapshot, vm, path="instance-change-group", TARGET_GROUPS=names)
        master = [snapshot.target(snapshot.nodes[snapshot.the_cluster.master_node])]
        hook = replace(told, nodes_pre=master, nodes_post=master)
        return self._plan(facts, title=f"bring instance {vm.name} to another node group", hook=hook)


def _nodes(snapshot: states.Snapshot, name: str, other: str | None) -> base.LockSet:
    node = snapshot.node(name)
    if other and snapshot.node(other).uuid == node.uuid:
        raise errors.WrongStateError(f"node {node.name} is the one that is to be left")
    names = {node.uuid, snapshot.node(other).uuid} if other else {base.ALL_NAMES}
    return {(base.Level.NODE, one): base.Mode.SHARED for one in names}


async def _spread(
    chooser: allocation.Allocation,
    snapshot: states.Snapshot,
    node: cluster.Node,
    *,
    target: str | None,
    vms: Sequence[instance.Instance],
) -> Spread:
    """Ask the nodes that may take something: the one named, or all others of the group."""
    if target:
        others = [snapshot.node(target)]
    else:
        members = sorted(snapshot.nodes_in.get(node.group) or ())
        others = [snapshot.nodes[uuid] for uuid in members if uuid != node.uuid]
    return Spread(snapshot, await chooser.statuses(others, units=moving.units(*vms)))


def _leave(
    snapshot: states.Snapshot,
    spread: Spread,
    vm: instance.Instance,
    *,
    both: bool = False,
    early: bool = False,
    program: str = "",
    how: Mapping[str, object] | None = None,
) -> None:
    """Add the job that takes an instance off its primary node, ``both`` its disks too."""
    if vm.admin_state is instance.AdminState.OFFLINE:
        spread.stay[vm.name] = "it is marked offline"
    elif vm.secondary_nodes:
        job = [_moved(snapshot, vm, None, how)]
        if both:
            need = moving.need(snapshot, vm, runs=False, disks=True)
            second = spread.place(vm, _of_copy(need), where=lambda _: True)
            if second is None:
                return
            job.append(_replaced(vm, second.name, early=early))
        spread.jobs.append(job)
    elif vm.disk_template not in moving.ANYWHERE:
        spread.stay[vm.name] = "its disks are on this node alone; gnt-instance move copies them while it stands still"
    elif program:
        spread.jobs.append([_moved(snapshot, vm, None, {**(how or {}), "iallocator": program})])
    else:
        need = moving.need(snapshot, vm, runs=vm.admin_state is instance.AdminState.UP)
        if chosen := spread.place(vm, need, where=lambda node: _allowed(snapshot, vm, node)):
            spread.jobs.append([_moved(snapshot, vm, chosen.name, how)])


def _allowed(snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node) -> bool:
    own = snapshot.nodes[vm.primary_node].group
    return node.group == own or not levels.violations(snapshot, vm, group=node.group)


def _moved(
    snapshot: states.Snapshot, vm: instance.Instance, target: str | None, how: Mapping[str, object] | None
) -> opcodes.AnyOpcode:
    """Return the opcode that moves an instance: a migration, or a failover from a node that is offline."""
    if snapshot.nodes[vm.primary_node].offline:
        return opcodes.InstanceFailover(instance_name=vm.name, target_node=target)
    if how is None:
        return opcodes.InstanceMigrate(instance_name=vm.name, target_node=target, allow_failover=True)
    given = {name: value for name, value in how.items() if value is not None}
    return structs.replace(opcodes.InstanceMigrate(instance_name=vm.name, target_node=target), **given)


def _of_copy(need: placement.Need) -> placement.Need:
    """Return what a copy of the disks asks for."""
    return placement.Need(memory=0, disk=need.disk, networks=need.networks, ignored=need.ignored, copy=True)
