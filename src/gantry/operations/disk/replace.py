"""OP_INSTANCE_REPLACE_DISKS: one side of mirrored disks made anew, while the other goes on.

On one of the nodes (``replace_on_primary``, ``replace_on_secondary``): both volumes are made anew under the same names
and filled from the peer. Under a disk that the primary node uses they are changed while it goes on over the network;
elsewhere the disk is taken down first, so that nothing of it has to be left. With another secondary node
(``replace_new_secondary``): the disk is made there, the primary node turns to it, and when both are the same the old
copy is removed. ``replace_auto`` takes the side that is broken. Before anything is changed the side that stays has to
be whole: it is all there is for a while.

What lies on the new node is undone when a step fails; volumes that were taken away are not brought back, and the next
attempt goes on from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import cluster, instance, lock, opcodes
from gantry.operations import base, fill, hook_environment
from gantry.operations.disk_planning import remirror, volumes
from gantry.operations.move import relocation
from gantry.operations.placement import builtin_allocator, node_choice
from gantry.rpc import calls
from gantry.state import snapshot as states

PRIMARY, SECONDARY, NEW, AUTO = (
    "replace_on_primary",
    "replace_on_secondary",
    "replace_new_secondary",
    "replace_auto",
)
UP_TO_DATE = "UpToDate"
States = dict[str, tuple[calls.DiskState | None, ...]]
"""By node UUID, what it says of the disks; nodes that do not answer are not in it."""


@dataclass(frozen=True)
class Facts:
    """What is done on which node, for which disks (UUIDs), with which physical volumes; nothing without a mode.

    ``whole`` is whether that node has them all now, so that the other one can be compared with it.
    """

    mode: str
    node: str
    chosen: frozenset[str]
    runs: bool
    places: volumes.Places
    why: Sequence[str] = ()
    whole: bool = True


class InstanceReplaceDisks(base.Unit[opcodes.InstanceReplaceDisks, Facts]):
    """Replaces one side of mirrored disks."""

    OPCODE = opcodes.InstanceReplaceDisks

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance; share its nodes and the new one, or all where it is to be chosen."""
        own = volumes.locks(snapshot, snapshot.instance(self.op.instance_name))
        if self.op.mode != NEW:
            return own
        new = snapshot.node(self.op.remote_node).uuid if self.op.remote_node else lock.ALL_NAMES
        return {**own, (lock.Level.NODE, new): lock.Mode.SHARED}

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Look at both sides, find the node, and ask it for room."""
        vm = snapshot.instance(self.op.instance_name)
        if not vm.secondary_nodes:
            raise errors.WrongStateError(f"instance {vm.name} has no mirrored disks, one side cannot be replaced")
        chosen = frozenset(vm.disks[volumes.index_of(vm, index)].uuid for index in self.op.disks) or frozenset(
            disk.uuid for disk in vm.disks
        )
        self._check_arguments(vm, chosen)
        runs = bool(await volumes.running(self.environment, snapshot, vm))
        seen = await self._look(snapshot, vm)
        mode = broken_side(vm, chosen, seen) if self.op.mode == AUTO else self.op.mode
        if not mode:
            return Facts("", "", chosen, runs, {})
        if mode != NEW:
            node = vm.primary_node if mode == PRIMARY else vm.secondary_nodes[0]
            self._check_peer(snapshot, vm, chosen, seen, leaves=node)
            return Facts(mode, node, chosen, runs, {}, whole=not _is_bad(vm, node, chosen, seen))
        self._check_peer(snapshot, vm, chosen, seen, leaves=vm.secondary_nodes[0])
        choice = await self._new_node(snapshot, vm)
        draft = self._moved(vm, choice.nodes[0].uuid)
        there = volumes.Volumes(self.environment, snapshot, draft, nodes={choice.nodes[0].uuid})
        return Facts(mode, choice.nodes[0].uuid, chosen, runs, await there.place(), choice.why)

    def _check_arguments(self, vm: instance.Instance, chosen: frozenset[str]) -> None:
        if self.op.mode == NEW:
            if len(chosen) < len(vm.disks):
                raise errors.InvalidError("another secondary node gets all disks", hint="leave --disks out")
        elif self.op.remote_node:
            raise errors.InvalidError(f"mode {self.op.mode} stays on the nodes of instance {vm.name}")

    async def _look(self, snapshot: states.Snapshot, vm: instance.Instance) -> States:
        found: States = {}
        for uuid in vm.nodes:
            ask = calls.BlockdevStatus(disks=fill.fill(snapshot, vm, node=uuid).disks)
            (answer,) = await self.environment.nodes.fan_out([snapshot.target(snapshot.nodes[uuid])], ask)
            if answer.value is not None:
                found[uuid] = answer.value
        return found

    def _check_peer(
        self, snapshot: states.Snapshot, vm: instance.Instance, chosen: frozenset[str], seen: States, *, leaves: str
    ) -> None:
        """Refuse to give up one side when the other is not whole."""
        (stays,) = (uuid for uuid in vm.nodes if uuid != leaves)
        name = snapshot.nodes[stays].name
        if stays not in seen:
            raise errors.EnvironmentFaultError(f"node {name}, which would be left with the only copy, does not answer")
        for index, (disk, state) in enumerate(zip(vm.disks, seen[stays], strict=True)):
            if disk.uuid in chosen and not _is_whole(state):
                raise errors.WrongStateError(
                    f"disk {index} of instance {vm.name} is not whole on node {name}, which would have the only copy",
                    hint="gnt-instance info shows both sides; gnt-instance activate-disks lets them synchronise",
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
        """Return the instance with another secondary node, and minors there."""
        picks = self.environment.ledger.mirrors.picks()
        disks = remirror.paired(vm, keeps=vm.primary_node, new=new, picks=picks)
        return base.changed(vm, self.environment.inputs.now, disks=disks)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Replace what the facts say."""
        vm = snapshot.instance(self.op.instance_name)
        if not facts.mode:
            said = [f"nothing is to be done: both sides of the disks of instance {vm.name} are whole"]
            return base.Plan(lines=said, steps=base.noted(said))
        node = snapshot.nodes[facts.node]
        told = hook_environment.of_instance(
            snapshot,
            vm,
            path="mirrors-replace",
            MODE=self.op.mode,
            OLD_SECONDARY=snapshot.nodes[vm.secondary_nodes[0]].name,
            NEW_SECONDARY=node.name if facts.mode == NEW else "",
        )
        if facts.mode == NEW:
            return self._plan_new(snapshot, vm, node, facts=facts, told=told)
        own = volumes.Volumes(self.environment, snapshot, vm, only=facts.chosen)
        compared = facts.mode == PRIMARY and facts.whole
        stay = {*vm.nodes} - (set() if compared else {facts.node})
        there = volumes.Volumes(self.environment, snapshot, vm, only=facts.chosen, nodes=stay)
        steps = [
            *([] if facts.runs else there.assemble()),
            *(self._compared(snapshot, vm, facts) if compared else []),
            *self._anew(snapshot, vm, node, facts=facts),
            *own.wait(),
            *([] if facts.runs else own.deactivate()),
        ]
        return base.Plan(
            lines=[f"recreate disks of instance {vm.name} on {node.name}", *(step.text for step in steps)],
            steps=steps,
            keep_on_failure=True,
            hooks=told,
        )

    def _compared(self, snapshot: states.Snapshot, vm: instance.Instance, facts: Facts) -> list[base.Step]:
        """Return the step that looks whether the secondary node has all that was written, for it alone keeps that."""
        node = snapshot.nodes[vm.secondary_nodes[0]]

        async def check() -> None:
            await remirror.check_copy(self.environment, snapshot, vm, node=node, only=facts.chosen, follows=True)

        action = base.Procedure("judges the state that the node reports", check)
        return [base.Step(f"check that {node.name} has complete copies of the disks", (action,))]

    def _anew(
        self, snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node, *, facts: Facts
    ) -> list[base.Step]:
        """Return the steps that make volumes anew, under a disk in use or with the disk."""
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
        self, snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node, *, facts: Facts, told: base.Hooks
    ) -> base.Plan:
        new = self._moved(vm, node.uuid)
        there = volumes.Volumes(self.environment, snapshot, new, nodes={node.uuid})
        here = volumes.Volumes(self.environment, snapshot, new, nodes={vm.primary_node})
        before = volumes.Volumes(self.environment, snapshot, vm, nodes={vm.primary_node})
        gone = volumes.Volumes(self.environment, snapshot, vm, nodes=set(vm.secondary_nodes)).remove(tolerant=True)
        turned = [
            base.Step(f"connect to {node.name}: {step.text.removeprefix('activate ')}", step.do, back.do)
            for step, back in zip(here.assemble(), before.assemble(), strict=True)
        ]
        steps = [
            *([] if facts.runs else before.activate()),
            *there.create(facts.places),
            *there.activate(),
            *remirror.part(snapshot, vm, node=vm.secondary_nodes[0]),
            *turned,
            *([] if self.op.early_release else here.wait()),
        ]
        both = volumes.Volumes(self.environment, snapshot, new)
        late = here.wait() if self.op.early_release else []
        return base.Plan(
            lines=[
                f"give instance {vm.name} the secondary node {node.name} instead of "
                f"{snapshot.nodes[vm.secondary_nodes[0]].name}",
                *facts.why,
                *(step.text for step in [*steps, *gone]),
            ],
            changes=[states.Put(new)],
            steps=steps,
            after=[*gone, *late, *([] if facts.runs else both.deactivate())],
            hooks=told,
        )


def broken_side(vm: instance.Instance, chosen: frozenset[str], seen: States) -> str:
    """Return what has to be replaced of the chosen disks, empty for nothing; raises WrongStateError. Pure."""
    bad = {uuid: _is_bad(vm, uuid, chosen, seen) for uuid in vm.nodes}
    primary, secondary = vm.nodes
    if bad[primary] and bad[secondary]:
        raise errors.WrongStateError(
            f"disks of instance {vm.name} are broken on both nodes, none can be replaced from the other"
        )
    return PRIMARY if bad[primary] else SECONDARY if bad[secondary] else ""


def _is_bad(vm: instance.Instance, node: str, chosen: frozenset[str], seen: States) -> bool:
    """Tell whether a node does not answer, or does not have all of a chosen disk."""
    states = zip(vm.disks, seen.get(node, ()), strict=node in seen)
    return node not in seen or any(disk.uuid in chosen and not _is_whole(state) for disk, state in states)


def _is_whole(state: calls.DiskState | None) -> bool:
    """Tell whether a node has all of a disk; one that is not active is as it was left."""
    return state is not None and (state.local == UP_TO_DATE if state.active else not state.problem)
