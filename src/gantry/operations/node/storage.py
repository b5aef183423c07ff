"""Storage of nodes: its volumes and room, volume groups repaired, disks of running instances looked after."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import cluster, instance, lock, opcodes, parameters, templates
from gantry.operations import base, fill
from gantry.operations.disk_planning import disk_spec
from gantry.rpc import calls, targets
from gantry.state import snapshot as states

Row = list[object]

VOLUME_FIELDS = ("node", "phys", "vg", "name", "size", "instance")
STORAGE_FIELDS = ("node", "type", "name", "size", "used", "free", "allocatable")


def _shared(snapshot: states.Snapshot, names: Iterable[str]) -> lock.LockSet:
    return {(lock.Level.NODE, snapshot.node(name).uuid): lock.Mode.SHARED for name in names}


def _asked(snapshot: states.Snapshot, names: Sequence[str]) -> list[targets.Target]:
    """Return where to ask: the nodes named, or all that have instances, by name."""
    nodes = [snapshot.node(name) for name in names] or [node for node in snapshot.nodes.values() if node.vm_capable]
    return [snapshot.target(node) for node in sorted(nodes, key=lambda node: node.name)]


def _check_fields(wanted: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    if wrong := [name for name in wanted if name not in known]:
        raise parameters.unknown("field", wrong, known)
    return wanted or known


class NodeQueryvols(base.Unit[opcodes.NodeQueryvols, list[Row]]):
    """Lists the logical volumes of the cluster's volume groups, with the instances that they belong to."""

    OPCODE = opcodes.NodeQueryvols

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Share the nodes that are named."""
        return _shared(snapshot, self.op.nodes)

    async def inspect(self, snapshot: states.Snapshot) -> list[Row]:
        """Ask each node for its groups, and for the volumes in them."""
        fields, owners = _check_fields(self.op.output_fields, VOLUME_FIELDS), disk_spec.owners_of_volumes(snapshot)
        rows = []
        for answer in await self.environment.nodes.fan_out(_asked(snapshot, self.op.nodes), calls.VgList()):
            if answer.value is None:
                self.environment.log.warning(f"node {answer.target.name} does not answer: {answer.error}")
            for group in answer.value or ():
                for volume in await self.environment.nodes.call(answer.target, calls.LvList(group=group.name)):
                    row: dict[str, object] = {
                        "node": answer.target.name,
                        "phys": ",".join(volume.on),
                        "vg": group.name,
                        "name": volume.name,
                        "size": volume.size,
                        "instance": owners.get((answer.target.uuid, group.name, volume.name), "-"),
                    }
                    rows.append([row[name] for name in fields])
        return rows

    def plan(self, snapshot: states.Snapshot, facts: list[Row]) -> base.Plan:
        """Change nothing; the result is the list."""
        return base.Plan(result=lambda: facts)


class NodeQueryStorage(base.Unit[opcodes.NodeQueryStorage, list[Row]]):
    """Lists the storage units of nodes: volume groups, physical volumes, folders of files."""

    OPCODE = opcodes.NodeQueryStorage

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Share the nodes that are named."""
        return _shared(snapshot, self.op.nodes)

    async def inspect(self, snapshot: states.Snapshot) -> list[Row]:
        """Ask the nodes."""
        fields = _check_fields(self.op.output_fields, STORAGE_FIELDS)
        kind = self.op.storage_type or _first_kind(snapshot)
        where = _asked(snapshot, self.op.nodes)
        listed = await (self._groups(where, kind) if kind.startswith("lvm-") else self._folders(where, kind))
        wanted = [row for row in listed if self.op.name in (None, row["name"])]
        return [[row[name] for name in fields] for row in wanted]

    async def _groups(self, where: list[targets.Target], kind: str) -> list[dict[str, object]]:
        rows = []
        for answer in await self.environment.nodes.fan_out(where, calls.VgList()):
            for group in answer.value or ():
                if kind == "lvm-vg":
                    rows.append(_row(answer.target, kind, group.name, size=group.size, free=group.free))
                else:
                    rows += [
                        _row(answer.target, kind, one.name, size=one.size, free=one.free, allocatable=one.allocatable)
                        for one in group.physical
                    ]
        return rows

    async def _folders(self, where: list[targets.Target], kind: str) -> list[dict[str, object]]:
        ask = calls.NodeInfo(storage=(calls.StorageUnit(kind=kind),))
        return [
            _row(answer.target, kind, place.path, size=place.total, free=place.free)
            for answer in await self.environment.nodes.fan_out(where, ask)
            for place in (answer.value.storage if answer.value else ())
        ]

    def plan(self, snapshot: states.Snapshot, facts: list[Row]) -> base.Plan:
        """Change nothing; the result is the list."""
        return base.Plan(result=lambda: facts)


def _first_kind(snapshot: states.Snapshot) -> str:
    """Return the kind of storage unit that the first enabled template draws from."""
    for template in snapshot.the_cluster.enabled_disk_templates:
        if template in templates.IN_VOLUME_GROUPS:
            return "lvm-vg"
        if template in templates.ALWAYS_ACTIVE:
            return template
    return "file"


def _row(
    target: targets.Target, kind: str, name: str, *, size: int, free: int, allocatable: bool = True
) -> dict[str, object]:
    return {
        "node": target.name,
        "type": kind,
        "name": name,
        "size": size,
        "used": size - free,
        "free": free,
        "allocatable": allocatable,
    }


class NodeModifyStorage(base.Unit[opcodes.NodeModifyStorage, calls.PhysicalVolume]):
    """Keeps new volumes off a physical volume, or lets them use it; those that are there stay."""

    OPCODE = opcodes.NodeModifyStorage

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the node."""
        return {(lock.Level.NODE, snapshot.node(self.op.node_name).uuid): lock.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> calls.PhysicalVolume:
        """Find the physical volume; raises NotFoundError with those there are."""
        target = snapshot.target(snapshot.node(self.op.node_name))
        groups = await self.environment.nodes.call(target, calls.VgList())
        known = {one.name: one for group in groups for one in group.physical}
        if self.op.name not in known:
            raise errors.NotFoundError(
                f"node {target.name} has no physical volume {self.op.name}",
                hint=f"there are {', '.join(sorted(known)) or 'none'}",
            )
        return known[self.op.name]

    def plan(self, snapshot: states.Snapshot, facts: calls.PhysicalVolume) -> base.Plan:
        """Change it, unless it is so already."""
        target, wanted = snapshot.target(snapshot.node(self.op.node_name)), self.op.changes.allocatable
        change, back = (calls.PvChange(device=facts.name, allocatable=value) for value in (wanted, facts.allocatable))
        text = f"{'let new volumes use' if wanted else 'keep new volumes off'} {facts.name} on {target.name}"
        steps = [base.call_step(text, target, change, back)] if wanted != facts.allocatable else []
        return base.Plan(lines=[step.text for step in steps] or [f"{facts.name} is so already"], steps=steps)


class RepairNodeStorage(base.Unit[opcodes.RepairNodeStorage, int]):
    """Takes missing physical volumes out of a volume group (contracts/cluster-design.md#lvm-self-repair)."""

    OPCODE = opcodes.RepairNodeStorage

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the node."""
        return {(lock.Level.NODE, snapshot.node(self.op.node_name).uuid): lock.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> int:
        """Count the physical volumes that are missing; volumes of disks without another copy stand in the way."""
        node = snapshot.node(self.op.node_name)
        groups = await self.environment.nodes.call(snapshot.target(node), calls.VgList())
        found = next((group for group in groups if group.name == self.op.name), None)
        if found is None:
            raise errors.NotFoundError(f"node {node.name} has no volume group {self.op.name}")
        if found.missing and not self.op.ignore_consistency:
            ask = calls.LvList(group=self.op.name)
            lost = {one.name for one in await self.environment.nodes.call(snapshot.target(node), ask) if one.partial}
            if alone := sorted(_only_here(snapshot, node, self.op.name, lost)):
                raise errors.WrongStateError(
                    f"{', '.join(alone)} has its only copy of a disk on what is missing of volume group "
                    f"{self.op.name} on node {node.name}",
                    hint="--ignore-consistency gives it up",
                )
        return found.missing

    def plan(self, snapshot: states.Snapshot, facts: int) -> base.Plan:
        """Reduce the group, if something of it is missing."""
        node, name = snapshot.node(self.op.node_name), self.op.name
        gone: list[str] = []

        async def reduce() -> None:
            taken = await self.environment.nodes.call(snapshot.target(node), calls.VgReduce(group=name, force=True))
            gone.extend(one for one in taken if one not in gone)
            # Monitoring looks for this line (contracts/cluster-design.md#lvm-self-repair).
            self.environment.log.warning(
                f"lvm-repair node={node.name} group={name} missing={facts} lost={','.join(gone)}"
            )

        text = f"remove {facts} missing physical volumes from volume group {name} on {node.name}"
        action = base.Procedure("its answer is the result of the opcode", reduce)
        steps = [base.Step(text, (action,))] if facts else []
        return base.Plan(
            lines=[text if facts else f"nothing of volume group {name} on {node.name} is missing"],
            steps=steps,
            result=lambda: gone,
        )


def _only_here(snapshot: states.Snapshot, node: cluster.Node, group: str, lost: set[str]) -> set[str]:
    """Return the instances that have lost volumes on a node, and no copy elsewhere; and disks without an instance."""
    here = [snapshot.instances[uuid] for uuid in snapshot.on_node.get(node.uuid) or ()]
    loose = [snapshot.disks[uuid] for uuid in snapshot.disks_on.get(node.uuid) or ()]
    alone = [(f"instance {vm.name}", vm.disks) for vm in here if not vm.secondary_nodes]
    alone += [(f"disk {one.uuid}", (one.disk,)) for one in loose if not one.disk.mirror]
    return {what for what, held in alone if any((group, name) in disk_spec.volumes_of(held) for name in lost)}


@dataclass(frozen=True)
class Faults:
    """What is wrong with disks: nodes that do not answer and why, instances, and volumes that are gone, by instance."""

    silent: dict[str, str]
    inactive: list[str]
    missing: dict[str, list[tuple[str, str]]]


class GroupVerifyDisks(base.Unit[opcodes.GroupVerifyDisks, Faults]):
    """Looks for disks of running instances that are not active, or gone."""

    OPCODE = opcodes.GroupVerifyDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Share the group and the instances in it."""
        group = snapshot.group(self.op.group_name)
        return {
            (lock.Level.GROUP, group.uuid): lock.Mode.SHARED,
            **{(lock.Level.INSTANCE, vm.uuid): lock.Mode.SHARED for vm in _wanted(snapshot, group)},
        }

    async def inspect(self, snapshot: states.Snapshot) -> Faults:
        """Ask each node for all disks that it should have active."""
        faults = Faults({}, [], {})
        vms = _wanted(snapshot, snapshot.group(self.op.group_name))
        for uuid in sorted({node for vm in vms for node in vm.nodes}, key=lambda uuid: snapshot.nodes[uuid].name):
            node = snapshot.nodes[uuid]
            kept = [(vm, disk) for vm in vms if uuid in vm.nodes for disk in fill.fill(snapshot, vm, node=uuid).disks]
            ask = calls.BlockdevStatus(disks=tuple(disk for _, disk in kept))
            (answer,) = await self.environment.nodes.fan_out([snapshot.target(node)], ask)
            if answer.value is None:
                faults.silent[node.name] = str(answer.error)
                continue
            for (vm, disk), state in zip(kept, answer.value, strict=True):
                if state is None:
                    faults.missing.setdefault(vm.name, []).append((node.name, f"disk/{disk.index}"))
                elif not state.active and vm.name not in faults.inactive:
                    faults.inactive.append(vm.name)
        return faults

    def plan(self, snapshot: states.Snapshot, facts: Faults) -> base.Plan:
        """Change nothing; the result is what is wrong (contracts/opcodes.md#results)."""
        return base.Plan(result=lambda: [facts.silent, sorted(facts.inactive), facts.missing])


def _wanted(snapshot: states.Snapshot, group: cluster.NodeGroup) -> list[instance.Instance]:
    """Return the instances of a node group that should run, by name."""
    here = [uuid for node in snapshot.nodes_in.get(group.uuid) or () for uuid in snapshot.on_node.get(node) or ()]
    vms = [snapshot.instances[uuid] for uuid in here]
    up = [vm for vm in vms if vm.admin_state is instance.AdminState.UP and vm.disks]
    return sorted(up, key=lambda vm: vm.name)


class ClusterVerifyDisks(base.Planned[opcodes.ClusterVerifyDisks]):
    """Submits the look at the disks of each node group, a job each."""

    OPCODE = opcodes.ClusterVerifyDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take nothing."""
        return {}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Leave it to the jobs."""
        del facts
        named = [snapshot.group(self.op.group_name)] if self.op.group_name else [*snapshot.nodegroups.values()]
        names = sorted(group.name for group in named)
        return base.Plan(
            lines=[f"look at the disks of node group {name}" for name in names],
            jobs=[[opcodes.GroupVerifyDisks(group_name=name, reason=self.op.reason)] for name in names],
        )
