"""OP_INSTANCE_REPLACE_DISKS: recreate one side of mirrored disks, while the other side stays in use.

On one of the nodes (``replace_on_primary``, ``replace_on_secondary``): both volumes are recreated under the same names
and filled from the peer. Under a disk that the primary node uses they are exchanged while the disk works over the
network; otherwise the disk is deactivated first, so that no part of it must be readable. With another secondary node
(``replace_new_secondary``): the disk is created there, the primary node connects to it, and when both are synchronized
the old copy is removed. ``replace_auto`` replaces the broken side. Before any change the remaining side must be
complete: for a while it is the only copy.

When a step fails, the new node's disks are removed; removed volumes are not restored, and the next attempt continues
from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import cluster, instance, lock, opcodes
from gantry.operations import base, fill, hook_environment
from gantry.operations.disk_planning import remirror, requirements, volumes
from gantry.operations.move import relocation
from gantry.operations.placement import builtin_allocator, node_choice
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

PRIMARY, SECONDARY, NEW, AUTO = (
    "replace_on_primary",
    "replace_on_secondary",
    "replace_new_secondary",
    "replace_auto",
)
UP_TO_DATE = "UpToDate"
States = dict[str, tuple[calls.DiskState | None, ...]]
"""By node UUID, the disk states that the node reports; nodes that do not answer are missing."""


@dataclass(frozen=True)
class Facts:
    """The mode, the node to replace on, the disks (UUIDs), and physical volumes; an empty mode replaces nothing.

    ``whole`` is whether that node has complete disks now, so that the other node can be compared with it.
    """

    mode: str
    node: str
    chosen: frozenset[str]
    runs: bool
    physical_volumes: volumes.PhysicalVolumes
    why: Sequence[str] = ()
    whole: bool = True


class InstanceReplaceDisks(base.Unit[opcodes.InstanceReplaceDisks, Facts]):
    """Replaces one side of mirrored disks."""

    OPCODE = opcodes.InstanceReplaceDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively; its nodes and the new one shared, or all nodes if it must be chosen."""
        own = requirements.locks(snapshot, snapshot.instance(self.op.instance_name))
        if self.op.mode != NEW:
            return own
        new = snapshot.node(self.op.remote_node).uuid if self.op.remote_node else lock.ALL_NAMES
        return {**own, (lock.Level.NODE, new): lock.Mode.SHARED}

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Check both sides, choose the node, and ask it for free space."""
        vm = snapshot.instance(self.op.instance_name)
        if not vm.secondary_nodes:
            raise errors.WrongStateError(f"instance {vm.name} has no mirrored disks, so no side can be replaced")
        chosen = frozenset(vm.disks[requirements.index_of(vm, index)].uuid for index in self.op.disks) or frozenset(
            disk.uuid for disk in vm.disks
        )
        self._check_arguments(vm, chosen)
        runs = bool(await requirements.running(self.environment, snapshot, vm))
        disk_states = await self._query(snapshot, vm)
        mode = broken_side(vm, chosen, disk_states) if self.op.mode == AUTO else self.op.mode
        if not mode:
            return Facts("", "", chosen, runs, {})
        if mode != NEW:
            node = vm.primary_node if mode == PRIMARY else vm.secondary_nodes[0]
            self._check_peer(snapshot, vm, chosen, disk_states, replaced=node)
            return Facts(mode, node, chosen, runs, {}, whole=not _is_bad(vm, node, chosen, disk_states))
        self._check_peer(snapshot, vm, chosen, disk_states, replaced=vm.secondary_nodes[0])
        choice = await self._new_node(snapshot, vm)
        if not self.op.ignore_ipolicy:
            relocation.check_policy(snapshot, vm, choice.nodes[0])
        draft = self._moved(vm, choice.nodes[0].uuid)
        there = volumes.Volumes(self.environment, snapshot, draft, nodes={choice.nodes[0].uuid})
        return Facts(mode, choice.nodes[0].uuid, chosen, runs, await there.choose_physical_volumes(), choice.why)

    def _check_arguments(self, vm: instance.Instance, chosen: frozenset[str]) -> None:
        if self.op.mode == NEW:
            if len(chosen) < len(vm.disks):
                raise errors.InvalidError(
                    f"a new secondary node gets all disks of instance {vm.name}", hint="omit --disks"
                )
        elif self.op.remote_node:
            raise errors.InvalidError(f"mode {self.op.mode} takes no new node: omit {self.op.remote_node}")

    async def _query(self, snapshot: states.Snapshot, vm: instance.Instance) -> States:
        disk_states: States = {}
        for uuid in vm.nodes:
            ask = calls.BlockdevStatus(disks=fill.fill(snapshot, vm, node=uuid).disks)
            (answer,) = await self.environment.nodes.fan_out([snapshot.target(snapshot.nodes[uuid])], ask)
            if answer.value is not None:
                disk_states[uuid] = answer.value
        return disk_states

    def _check_peer(
        self,
        snapshot: states.Snapshot,
        vm: instance.Instance,
        chosen: frozenset[str],
        disk_states: States,
        *,
        replaced: str,
    ) -> None:
        """Refuse to replace one side when the other side is not complete."""
        (remaining,) = (uuid for uuid in vm.nodes if uuid != replaced)
        name = snapshot.nodes[remaining].name
        if remaining not in disk_states:
            raise errors.EnvironmentFaultError(
                f"node {name}, which would have the only copy of the disks of instance {vm.name}, does not answer"
            )
        for index, (disk, state) in enumerate(zip(vm.disks, disk_states[remaining], strict=True)):
            if disk.uuid in chosen and not _is_whole(state):
                raise errors.WrongStateError(
                    f"disk {index} of instance {vm.name} is incomplete on node {name}, which would have the only copy",
                    hint="gnt-instance info shows both sides; gnt-instance activate-disks makes them synchronize",
                )

    async def _new_node(self, snapshot: states.Snapshot, vm: instance.Instance) -> node_choice.Choice:
        size = sum(child.size for disk in vm.disks for child in disk.children)
        networks = {nic.network for nic in vm.nics if nic.network}
        need = builtin_allocator.Need(0, size, networks, tags=vm.tags, ignored=(vm.uuid,), copy=True)
        own = node_choice.Allocation(self.environment, snapshot, named=self.op.iallocator)
        if not self.op.remote_node:
            return await own.relocate(vm, need, leaves=vm.secondary_nodes[0])
        node = snapshot.node(self.op.remote_node)
        relocation.check_copy_target(snapshot, vm, node, need)
        return node_choice.Choice([node])

    def _moved(self, vm: instance.Instance, new: str) -> instance.Instance:
        """Return the instance with another secondary node, and with minors there."""
        picks = self.environment.ledger.mirrors.picks()
        disks = remirror.paired(vm, keeps=vm.primary_node, new=new, picks=picks)
        return base.changed(vm, self.environment.inputs.now, disks=disks)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Replace the disks that the facts name."""
        vm = snapshot.instance(self.op.instance_name)
        if not facts.mode:
            lines = [f"nothing to do: the disks of instance {vm.name} are complete on both nodes"]
            return base.Plan(lines=lines, steps=base.log_steps(lines))
        node = snapshot.nodes[facts.node]
        hooks = hook_environment.of_instance(
            snapshot,
            vm,
            path="mirrors-replace",
            MODE=self.op.mode,
            OLD_SECONDARY=snapshot.nodes[vm.secondary_nodes[0]].name,
            NEW_SECONDARY=node.name if facts.mode == NEW else "",
        )
        if facts.mode == NEW:
            return self._plan_new(snapshot, vm, node, facts=facts, hooks=hooks)
        own = volumes.Volumes(self.environment, snapshot, vm, only=facts.chosen)
        compares = facts.mode == PRIMARY and facts.whole
        active_nodes = {*vm.nodes} - (set() if compares else {facts.node})
        there = volumes.Volumes(self.environment, snapshot, vm, only=facts.chosen, nodes=active_nodes)
        steps = [
            *([] if facts.runs else there.assemble()),
            *(self._compared(snapshot, vm, facts) if compares else []),
            *self._recreate(snapshot, vm, node, facts=facts),
            *own.wait(),
            *([] if facts.runs else own.deactivate()),
        ]
        return base.Plan(
            lines=[f"recreate disks of instance {vm.name} on {node.name}", *(step.text for step in steps)],
            steps=steps,
            keep_on_failure=True,
            hooks=hooks,
        )

    def _compared(self, snapshot: states.Snapshot, vm: instance.Instance, facts: Facts) -> list[base.Step]:
        """Return the step that checks that the secondary node, soon the only copy, has everything that was written."""
        node = snapshot.nodes[vm.secondary_nodes[0]]

        async def check() -> None:
            await remirror.check_copy(self.environment, snapshot, vm, node=node, only=facts.chosen, follows=True)

        action = base.Procedure("checks the disk state that the node reports", check)
        return [base.Step(f"check that {node.name} has complete copies of the disks", (action,))]

    def _recreate(
        self, snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node, *, facts: Facts
    ) -> list[base.Step]:
        """Return the steps that recreate volumes, under a disk in use or together with the disk."""
        target = snapshot.target(node)
        used = facts.runs and facts.mode == PRIMARY

        def work(disk: calls.Disk) -> list[calls.Call[object]]:
            if not used:
                return [
                    calls.BlockdevRemove(disk=disk, owner=vm.name),
                    calls.BlockdevCreate(disk=disk, owner=vm.name),
                    calls.BlockdevAssemble(disk=disk, primary=False),
                ]
            return [
                calls.BlockdevRemovechildren(disk=disk),
                *(calls.BlockdevRemove(disk=child, owner=vm.name) for child in disk.children),
                *(calls.BlockdevCreate(disk=child, owner=vm.name) for child in disk.children),
                calls.BlockdevAddchildren(disk=disk),
            ]

        return [
            base.Step(
                f"recreate the volumes of disk {disk.index} on {node.name}",
                tuple(base.Command(target, call) for call in work(disk)),
            )
            for disk in fill.fill(snapshot, vm, node=node.uuid).disks
            if disk.uuid in facts.chosen
        ]

    def _plan_new(
        self, snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node, *, facts: Facts, hooks: base.Hooks
    ) -> base.Plan:
        old, new = snapshot.nodes[vm.secondary_nodes[0]], self._moved(vm, node.uuid)
        there = volumes.Volumes(self.environment, snapshot, new, nodes={node.uuid})
        here = volumes.Volumes(self.environment, snapshot, new, nodes={vm.primary_node})
        before = volumes.Volumes(self.environment, snapshot, vm, nodes={vm.primary_node})
        remove_old = volumes.Volumes(self.environment, snapshot, vm, nodes=set(vm.secondary_nodes)).remove(
            tolerant=True
        )
        # A primary node that fails meanwhile connects to the recorded peer when its disks are activated again.
        reconnect = [
            base.Step(
                f"connect to {node.name}: {step.text.removeprefix('activate ')}",
                step.do,
                base.tolerant(back.do, errors.GantryError, warning=f"not connected to {old.name} again"),
            )
            for step, back in zip(here.assemble(), before.assemble(), strict=True)
        ]
        steps = [
            *([] if facts.runs else before.activate()),
            *there.create(facts.physical_volumes),
            *there.activate(),
            *remirror.disconnect(snapshot, vm, node=vm.secondary_nodes[0]),
            *reconnect,
            *([] if self.op.early_release else here.wait()),
        ]
        both = volumes.Volumes(self.environment, snapshot, new)
        late = here.wait() if self.op.early_release else []
        return base.Plan(
            lines=[
                f"change the secondary node of instance {vm.name} to {node.name}, from {old.name}",
                *facts.why,
                *(step.text for step in [*steps, *remove_old]),
            ],
            changes=[states.Put(new)],
            steps=steps,
            after=[*remove_old, *late, *([] if facts.runs else both.deactivate())],
            hooks=hooks,
        )


def broken_side(vm: instance.Instance, chosen: frozenset[str], disk_states: States) -> str:
    """Return the mode that replaces the chosen disks, empty if none is broken; raises WrongStateError. Pure."""
    bad = {uuid: _is_bad(vm, uuid, chosen, disk_states) for uuid in vm.nodes}
    primary, secondary = vm.nodes
    if bad[primary] and bad[secondary]:
        raise errors.WrongStateError(
            f"disks of instance {vm.name} are broken on both nodes, so neither copy can be replaced from the other"
        )
    return PRIMARY if bad[primary] else SECONDARY if bad[secondary] else ""


def _is_bad(vm: instance.Instance, node: str, chosen: frozenset[str], disk_states: States) -> bool:
    """Return whether a node does not answer, or has an incomplete copy of a chosen disk."""
    states = zip(vm.disks, disk_states.get(node, ()), strict=node in disk_states)
    return node not in disk_states or any(disk.uuid in chosen and not _is_whole(state) for disk, state in states)


def _is_whole(state: calls.DiskState | None) -> bool:
    """Return whether a node has a complete disk; the state of an inactive disk counts as it was left."""
    return state is not None and (state.local == UP_TO_DATE if state.active else not state.problem)
