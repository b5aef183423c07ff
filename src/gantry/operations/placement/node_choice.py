"""Who decides where an instance goes: the built-in allocator (``builtin_allocator``), or a program of the site's.

Shared by the units that place instances. A request names an allocator, ``.`` or nothing is the cluster's own, and where
that has none the built-in one decides, which has the name ``BUILT_IN``. The answers come with lines that explain them,
for the job's log and for a dry run.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import cluster, instance
from gantry.operations import base, parameter_levels
from gantry.operations.placement import builtin_allocator, iallocator
from gantry.rpc import calls
from gantry.state import snapshot as states

BUILT_IN = "gantry"


@dataclass(frozen=True)
class Choice:
    """The nodes chosen, the primary one first, and why."""

    nodes: Sequence[cluster.Node]
    why: Sequence[str] = ()


def program(snapshot: states.Snapshot, named: str | None) -> str:
    """Return the allocator program that a request asks for; empty for the built-in allocator."""
    wanted = snapshot.the_cluster.default_iallocator if named in (None, "", ".") else named
    return "" if wanted == BUILT_IN else str(wanted)


class Allocation:
    """Asks for places in the name of one opcode."""

    def __init__(self, environment: base.Environment, snapshot: states.Snapshot, *, named: str | None = None) -> None:
        self._environment = environment
        self._snapshot = snapshot
        self.program = program(snapshot, named)

    async def ask(self, asked: iallocator.Json) -> bytes:
        """Return the program's answer to a request; it is told of the whole cluster."""
        snapshot = self._snapshot
        request = iallocator.document(snapshot, await self.statuses(snapshot.nodes.values()), asked)
        options = [f"--{name}={value}" for name, value in snapshot.the_cluster.default_iallocator_params.items()]
        return await self._environment.run_allocator(self.program, request, options)

    async def statuses(
        self,
        nodes: Iterable[cluster.Node],
        need: builtin_allocator.Need | None = None,
        *,
        units: tuple[calls.StorageUnit, ...] | None = None,
    ) -> builtin_allocator.Statuses:
        """Ask nodes for their room; those that the configuration keeps the instance off are not asked."""
        snapshot, known = self._snapshot, list(nodes)
        asked = [
            snapshot.target(node)
            for node in known
            if node.vm_capable
            and not node.offline
            and not (need and builtin_allocator.static_unfit(snapshot, node, need))
        ]
        ask = calls.NodeInfo() if units is None else calls.NodeInfo(storage=units)
        answers = await self._environment.nodes.fan_out(asked, ask)
        silent: builtin_allocator.Statuses = {node.uuid: None for node in known}
        return silent | {answer.target.uuid: answer.value for answer in answers}

    async def choose(
        self,
        need: builtin_allocator.Need,
        groups: Sequence[cluster.NodeGroup],
        *,
        but: Collection[str] = (),
        reasons: Sequence[str] = (),
        units: tuple[calls.StorageUnit, ...] | None = None,
    ) -> Choice:
        """Let the built-in allocator take one node of groups, none of ``but`` (UUIDs); raises NoRoomError.

        Some nodes are asked, and more only when none of those fits: a large cluster is not asked as a whole.
        """
        snapshot, statuses = self._snapshot, builtin_allocator.Statuses()
        for tier in builtin_allocator.tiers(snapshot, groups):
            left = [uuid for uuid in tier if uuid not in but]
            while left:
                count = len(statuses) or builtin_allocator.ASKED
                some = builtin_allocator.sample(left, count, below=self._environment.inputs.below)
                found = await self.statuses([snapshot.nodes[uuid] for uuid in some], need, units=units)
                statuses |= found
                if builtin_allocator.fitting(snapshot, found, need):
                    chosen = builtin_allocator.choose(snapshot, statuses, need)
                    return Choice([chosen], builtin_allocator.explain(snapshot, statuses, need, chosen=chosen))
        return Choice([builtin_allocator.choose(snapshot, statuses, need, reasons=reasons)])

    async def relocate(self, vm: instance.Instance, need: builtin_allocator.Need, *, leaves: str) -> Choice:
        """Choose a node in an instance's group in the place of the one (a UUID) that it leaves; raises NoRoomError."""
        snapshot = self._snapshot
        if self.program:
            asked = iallocator.relocate(vm, leaves=[snapshot.nodes[leaves].name])
            raw = await self.ask(asked)
            found, said = iallocator.nodes(raw, snapshot, program=self.program, count=1, but=vm.nodes)
            return Choice(found, [f"allocator {self.program} takes {found[0].name}: {said}"])
        group = snapshot.nodegroups[snapshot.nodes[vm.primary_node].group]
        return await self.choose(need, [group], but=vm.nodes)


def open_groups(
    snapshot: states.Snapshot,
    vm: instance.Instance,
    named: Sequence[cluster.NodeGroup],
    *,
    forbidden: Callable[[cluster.NodeGroup], Sequence[str]] | None = None,
) -> tuple[list[cluster.NodeGroup], list[str]]:
    """Return which node groups an instance may go to, and why not to the others."""
    good, reasons = [], []
    for group in sorted(named, key=lambda one: one.name):
        broken = forbidden(group) if forbidden else parameter_levels.violations(snapshot, vm, group=group.uuid)
        if group.alloc_policy is cluster.AllocPolicy.UNALLOCABLE:
            reasons.append(f"node group {group.name}: it takes only instances that name their node")
        elif broken:
            reasons.append(f"node group {group.name}: its policy forbids it, {', '.join(broken)}")
        else:
            good.append(group)
    return good, reasons


def refuse_both(target: str | None, named: str | None) -> None:
    """Refuse a node together with an allocator."""
    if target and named and named != ".":
        raise errors.InvalidError("a node and an allocator exclude each other", hint="name one of them")
