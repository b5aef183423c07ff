"""Units for the storage of nodes: list volumes and free space, repair volume groups, check disks of instances."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import cluster, instance, lock, opcodes, parameters, templates
from gantry.operations import base, fill
from gantry.operations.disk_planning import disk_spec
from gantry.rpc import calls, liveness, targets
from gantry.state.objects import snapshot as states

Row = list[object]

VOLUME_FIELDS = ("node", "phys", "vg", "name", "size", "instance")
STORAGE_FIELDS = ("node", "type", "name", "size", "used", "free", "allocatable")


def _shared(snapshot: states.Snapshot, names: Iterable[str]) -> lock.LockSet:
    return {(lock.Level.NODE, snapshot.node(name).uuid): lock.Mode.SHARED for name in names}


def _targets(snapshot: states.Snapshot, names: Sequence[str]) -> list[targets.Target]:
    """Return the targets to ask, by name: the named nodes, or all vm_capable nodes."""
    nodes = [snapshot.node(name) for name in names] or [node for node in snapshot.nodes.values() if node.vm_capable]
    return [snapshot.target(node) for node in sorted(nodes, key=lambda node: node.name)]


def _check_fields(requested: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    if unknown := [name for name in requested if name not in known]:
        raise parameters.unknown("field", unknown, known)
    return requested or known


class NodeQueryvols(base.Unit[opcodes.NodeQueryvols, list[Row]]):
    """Lists the logical volumes of the cluster's volume groups, with their instances."""

    OPCODE = opcodes.NodeQueryvols
    READS = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the named nodes shared."""
        return _shared(snapshot, self.op.nodes)

    async def inspect(self, snapshot: states.Snapshot) -> list[Row]:
        """Ask each node for its volume groups, and for the volumes in them."""
        fields, owners = _check_fields(self.op.output_fields, VOLUME_FIELDS), disk_spec.owners_of_volumes(snapshot)
        nodes = self.environment.nodes
        groups = await liveness.read(nodes, _targets(snapshot, self.op.nodes), calls.VgList())
        pairs = [(answer.target, group.name) for answer in groups for group in answer.value or ()]
        asking = (liveness.read(nodes, [target], calls.LvList(group=group)) for target, group in pairs)
        volumes = [answer for (answer,) in await asyncio.gather(*asking)]
        failed = [(answer.target, answer.error) for answer in groups if answer.error]
        failed += [(answer.target, answer.error) for answer in volumes if answer.error]
        for target, error in dict(failed).items():
            self.environment.log.warning(f"the volumes of node {target.name} are not listed: {error}")
        rows = []
        for (target, group), answer in zip(pairs, volumes, strict=True):
            for volume in answer.value or ():
                row: dict[str, object] = {
                    "node": target.name,
                    "phys": ",".join(volume.on),
                    "vg": group,
                    "name": volume.name,
                    "size": volume.size,
                    "instance": owners.get((target.uuid, group, volume.name), "-"),
                }
                rows.append([row[name] for name in fields])
        return rows

    def plan(self, snapshot: states.Snapshot, facts: list[Row]) -> base.Plan:
        """Change nothing; the result is the list."""
        return base.Plan(result=lambda: facts)


class NodeQueryStorage(base.Unit[opcodes.NodeQueryStorage, list[Row]]):
    """Lists the storage units of nodes: volume groups, physical volumes, folders of files."""

    OPCODE = opcodes.NodeQueryStorage
    READS = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the named nodes shared."""
        return _shared(snapshot, self.op.nodes)

    async def inspect(self, snapshot: states.Snapshot) -> list[Row]:
        """Ask the nodes."""
        fields = _check_fields(self.op.output_fields, STORAGE_FIELDS)
        kind = self.op.storage_type or _first_kind(snapshot)
        node_targets = _targets(snapshot, self.op.nodes)
        listed = await (
            self._groups(node_targets, kind) if kind.startswith("lvm-") else self._folders(node_targets, kind)
        )
        matching = [row for row in listed if self.op.name in (None, row["name"])]
        return [[row[name] for name in fields] for row in matching]

    async def _groups(self, node_targets: list[targets.Target], kind: str) -> list[dict[str, object]]:
        rows = []
        for answer in await liveness.read(self.environment.nodes, node_targets, calls.VgList()):
            for group in answer.value or ():
                if kind == "lvm-vg":
                    rows.append(_row(answer.target, kind, group.name, size=group.size, free=group.free))
                else:
                    rows += [
                        _row(
                            answer.target,
                            kind,
                            physical.name,
                            size=physical.size,
                            free=physical.free,
                            allocatable=physical.allocatable,
                        )
                        for physical in group.physical
                    ]
        return rows

    async def _folders(self, node_targets: list[targets.Target], kind: str) -> list[dict[str, object]]:
        ask = calls.NodeInfo(storage=(calls.StorageUnit(kind=kind),))
        return [
            _row(answer.target, kind, storage.path, size=storage.total, free=storage.free)
            for answer in await liveness.read(self.environment.nodes, node_targets, ask)
            for storage in (answer.value.storage if answer.value else ())
        ]

    def plan(self, snapshot: states.Snapshot, facts: list[Row]) -> base.Plan:
        """Change nothing; the result is the list."""
        return base.Plan(result=lambda: facts)


def _first_kind(snapshot: states.Snapshot) -> str:
    """Return the type of storage unit that the first enabled template uses."""
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
    """Forbids or allows new volumes on a physical volume; existing volumes stay."""

    OPCODE = opcodes.NodeModifyStorage

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the node exclusively."""
        return {(lock.Level.NODE, snapshot.node(self.op.node_name).uuid): lock.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> calls.PhysicalVolume:
        """Return the physical volume; raises NotFoundError with the existing ones."""
        target = snapshot.target(snapshot.node(self.op.node_name))
        groups = await self.environment.nodes.call(target, calls.VgList())
        known = {physical.name: physical for group in groups for physical in group.physical}
        if self.op.name not in known:
            raise errors.NotFoundError(
                f"node {target.name} has no physical volume {self.op.name}",
                hint=f"its physical volumes: {', '.join(sorted(known)) or 'none'}",
            )
        return known[self.op.name]

    def plan(self, snapshot: states.Snapshot, facts: calls.PhysicalVolume) -> base.Plan:
        """Change the physical volume, unless it already has the requested setting."""
        target, allocatable = snapshot.target(snapshot.node(self.op.node_name)), self.op.changes.allocatable
        change, undo = (
            calls.PvChange(device=facts.name, allocatable=value) for value in (allocatable, facts.allocatable)
        )
        text = f"{'allow' if allocatable else 'forbid'} new volumes on {facts.name} of {target.name}"
        steps = [base.call_step(text, target, change, undo)] if allocatable != facts.allocatable else []
        return base.Plan(lines=[step.text for step in steps] or [f"{facts.name} already has this setting"], steps=steps)


class RepairNodeStorage(base.Unit[opcodes.RepairNodeStorage, int]):
    """Removes missing physical volumes from a volume group (contracts/cluster-design.md#lvm-self-repair)."""

    OPCODE = opcodes.RepairNodeStorage

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the node exclusively."""
        return {(lock.Level.NODE, snapshot.node(self.op.node_name).uuid): lock.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> int:
        """Return the number of missing physical volumes; refuse if disks without another copy are on them."""
        node = snapshot.node(self.op.node_name)
        groups = await self.environment.nodes.call(snapshot.target(node), calls.VgList())
        volume_group = next((group for group in groups if group.name == self.op.name), None)
        if volume_group is None:
            raise errors.NotFoundError(f"node {node.name} has no volume group {self.op.name}")
        if volume_group.missing and not self.op.ignore_consistency:
            ask = calls.LvList(group=self.op.name)
            lost = {
                volume.name
                for volume in await self.environment.nodes.call(snapshot.target(node), ask)
                if volume.partial
            }
            if affected := sorted(_only_here(snapshot, node, self.op.name, lost)):
                raise errors.WrongStateError(
                    f"{', '.join(affected)} has its only copy of a disk on missing volumes of volume group "
                    f"{self.op.name} on node {node.name}",
                    hint="--ignore-consistency abandons these disks",
                )
        return volume_group.missing

    def plan(self, snapshot: states.Snapshot, facts: int) -> base.Plan:
        """Reduce the group if a part of it is missing."""
        node, name = snapshot.node(self.op.node_name), self.op.name
        lost: list[str] = []

        async def reduce() -> None:
            removed = await self.environment.nodes.call(snapshot.target(node), calls.VgReduce(group=name, force=True))
            lost.extend(volume for volume in removed if volume not in lost)
            # Monitoring looks for this line (contracts/cluster-design.md#lvm-self-repair).
            self.environment.log.warning(
                f"lvm-repair node={node.name} group={name} missing={facts} lost={','.join(lost)}"
            )

        text = f"remove {facts} missing physical volumes from volume group {name} on {node.name}"
        action = base.Procedure("the answer is the result of the opcode", reduce)
        steps = [base.Step(text, (action,))] if facts else []
        return base.Plan(
            lines=[text if facts else f"volume group {name} on {node.name} is complete"],
            steps=steps,
            result=lambda: lost,
        )


def _only_here(snapshot: states.Snapshot, node: cluster.Node, group: str, lost: set[str]) -> set[str]:
    """Return the instances, and disks without an instance, that have lost volumes on a node and no copy elsewhere."""
    here = [snapshot.instances[uuid] for uuid in snapshot.on_node.get(node.uuid) or ()]
    detached = [snapshot.disks[uuid] for uuid in snapshot.disks_on.get(node.uuid) or ()]
    owners = [(f"instance {vm.name}", vm.disks) for vm in here if not vm.secondary_nodes]
    owners += [(f"disk {entry.uuid}", (entry.disk,)) for entry in detached if not entry.disk.mirror]
    return {owner for owner, disks in owners if any((group, name) in disk_spec.volumes_of(disks) for name in lost)}


@dataclass(frozen=True)
class Faults:
    """Problems of disks: nodes that do not answer and why, instances, and missing volumes by instance."""

    silent: dict[str, str]
    inactive: list[str]
    missing: dict[str, list[tuple[str, str]]]


class GroupVerifyDisks(base.Unit[opcodes.GroupVerifyDisks, Faults]):
    """Checks the disks of instances whose admin state is up: not active, or missing."""

    OPCODE = opcodes.GroupVerifyDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the group and the instances in it shared."""
        group = snapshot.group(self.op.group_name)
        return {
            (lock.Level.GROUP, group.uuid): lock.Mode.SHARED,
            **{(lock.Level.INSTANCE, vm.uuid): lock.Mode.SHARED for vm in _instances_up(snapshot, group)},
        }

    async def inspect(self, snapshot: states.Snapshot) -> Faults:
        """Ask each node for all disks that should be active there."""
        faults = Faults({}, [], {})
        vms = _instances_up(snapshot, snapshot.group(self.op.group_name))
        uuids = sorted({node for vm in vms for node in vm.nodes}, key=lambda uuid: snapshot.nodes[uuid].name)
        disks_by_node = [
            [(vm, disk) for vm in vms if uuid in vm.nodes for disk in fill.fill(snapshot, vm, node=uuid).disks]
            for uuid in uuids
        ]
        asking = (
            liveness.attend(
                self.environment.nodes,
                [snapshot.target(snapshot.nodes[uuid])],
                calls.BlockdevStatus(disks=tuple(disk for _, disk in expected)),
                checks=liveness.THOROUGH,
            )
            for uuid, expected in zip(uuids, disks_by_node, strict=True)
        )
        for uuid, expected, (answer,) in zip(uuids, disks_by_node, await asyncio.gather(*asking), strict=True):
            node = snapshot.nodes[uuid]
            if answer.value is None:
                faults.silent[node.name] = str(answer.error)
                continue
            for (vm, disk), state in zip(expected, answer.value, strict=True):
                if state is None:
                    faults.missing.setdefault(vm.name, []).append((node.name, f"disk/{disk.index}"))
                elif not state.active and vm.name not in faults.inactive:
                    faults.inactive.append(vm.name)
        return faults

    def plan(self, snapshot: states.Snapshot, facts: Faults) -> base.Plan:
        """Change nothing; the result is the faults (contracts/opcodes.md#results)."""
        return base.Plan(result=lambda: [facts.silent, sorted(facts.inactive), facts.missing])


def _instances_up(snapshot: states.Snapshot, group: cluster.NodeGroup) -> list[instance.Instance]:
    """Return the instances of a node group whose admin state is up, by name."""
    here = [uuid for node in snapshot.nodes_in.get(group.uuid) or () for uuid in snapshot.on_node.get(node) or ()]
    vms = [snapshot.instances[uuid] for uuid in here]
    up = [vm for vm in vms if vm.admin_state is instance.AdminState.UP and vm.disks]
    return sorted(up, key=lambda vm: vm.name)


class ClusterVerifyDisks(base.Planned[opcodes.ClusterVerifyDisks]):
    """Submits a job for each node group that checks its disks."""

    OPCODE = opcodes.ClusterVerifyDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock nothing."""
        return {}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Submit the jobs."""
        del facts
        named = [snapshot.group(self.op.group_name)] if self.op.group_name else [*snapshot.nodegroups.values()]
        names = sorted(group.name for group in named)
        return base.Plan(
            lines=[f"verify the disks of node group {name}" for name in names],
            jobs=[[opcodes.GroupVerifyDisks(group_name=name, reason=self.op.reason)] for name in names],
        )
