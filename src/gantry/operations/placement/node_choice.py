"""Which allocator chooses nodes: the built-in allocator (``builtin_allocator``), or a program of the site.

Shared by the units that place instances. A request names an allocator; ``.`` or an empty name is the cluster's default,
and without a default the built-in allocator, named ``BUILT_IN``, decides. The choice comes with lines that explain it,
for the job's log and for a dry run.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import cluster, instance
from gantry.operations import base, parameter_levels
from gantry.operations.placement import builtin_allocator, iallocator
from gantry.rpc import calls, liveness
from gantry.state.objects import snapshot as states

BUILT_IN = "gantry"


@dataclass(frozen=True)
class Choice:
    """The chosen nodes, the primary node first, and why."""

    nodes: Sequence[cluster.Node]
    why: Sequence[str] = ()


def program(snapshot: states.Snapshot, named: str | None) -> str:
    """Return the allocator program that a request selects; empty for the built-in allocator."""
    name = snapshot.the_cluster.default_iallocator if named in (None, "", ".") else named
    return "" if name == BUILT_IN else str(name)


def check_answer(
    snapshot: states.Snapshot,
    nodes: Iterable[cluster.Node],
    *,
    program: str,
    need: builtin_allocator.Need = builtin_allocator.Need(0, 0, ()),  # noqa: B008 - it is immutable
) -> None:
    """Raise WrongStateError if the configuration forbids a node that an allocator program has chosen."""
    for node in nodes:
        if problem := builtin_allocator.static_unfit(snapshot, node, need):
            raise errors.WrongStateError(f"allocator {program} chose unfit node {node.name}: {problem}")


class Allocation:
    """Chooses nodes for one opcode."""

    def __init__(self, environment: base.Environment, snapshot: states.Snapshot, *, named: str | None = None) -> None:
        self._environment = environment
        self._snapshot = snapshot
        self.program = program(snapshot, named)

    async def ask(self, request: iallocator.Json) -> bytes:
        """Return the program's answer to a request, which gets a description of the whole cluster."""
        snapshot = self._snapshot
        document = iallocator.document(snapshot, await self.statuses(snapshot.nodes.values()), request)
        options = [f"--{name}={value}" for name, value in snapshot.the_cluster.default_iallocator_params.items()]
        return await self._environment.run_allocator(self.program, document, options)

    async def statuses(
        self,
        nodes: Iterable[cluster.Node],
        need: builtin_allocator.Need | None = None,
        *,
        units: tuple[calls.StorageUnit, ...] | None = None,
    ) -> builtin_allocator.Statuses:
        """Ask nodes for their status, except for nodes that the configuration forbids for the need."""
        snapshot, known = self._snapshot, list(nodes)
        targets_to_ask = [
            snapshot.target(node)
            for node in known
            if node.vm_capable
            and not node.offline
            and not (need and builtin_allocator.static_unfit(snapshot, node, need))
        ]
        ask = calls.NodeInfo() if units is None else calls.NodeInfo(storage=units)
        answers = await liveness.attend(self._environment.nodes, targets_to_ask, ask)
        unknown: builtin_allocator.Statuses = {node.uuid: None for node in known}
        return unknown | {answer.target.uuid: answer.value for answer in answers}

    async def choose(
        self,
        need: builtin_allocator.Need,
        groups: Sequence[cluster.NodeGroup],
        *,
        excluded: Collection[str] = (),
        reasons: Sequence[str] = (),
        units: tuple[calls.StorageUnit, ...] | None = None,
    ) -> Choice:
        """Let the built-in allocator choose a node of the groups, except ``excluded`` (UUIDs); raises NoRoomError.

        Asks some of the nodes, and more only if none of them fits, so that a large cluster is not asked as a whole.
        """
        snapshot, statuses = self._snapshot, builtin_allocator.Statuses()
        for tier in builtin_allocator.tiers(snapshot, groups):
            remaining = [uuid for uuid in tier if uuid not in excluded]
            while remaining:
                count = len(statuses) or builtin_allocator.SAMPLE_SIZE
                batch = builtin_allocator.sample(remaining, count, below=self._environment.inputs.below)
                batch_statuses = await self.statuses([snapshot.nodes[uuid] for uuid in batch], need, units=units)
                statuses |= batch_statuses
                if builtin_allocator.fitting(snapshot, batch_statuses, need):
                    chosen = builtin_allocator.choose(snapshot, statuses, need)
                    return Choice([chosen], builtin_allocator.explain(snapshot, statuses, need, chosen=chosen))
        return Choice([builtin_allocator.choose(snapshot, statuses, need, reasons=reasons)])

    async def relocate(self, vm: instance.Instance, need: builtin_allocator.Need, *, leaves: str) -> Choice:
        """Choose a node of the instance's group that replaces the node (a UUID) that it leaves.

        Raises NoRoomError, and WrongStateError if a program chose a node that the configuration forbids.
        """
        snapshot = self._snapshot
        if self.program:
            request = iallocator.relocate(vm, leaves=[snapshot.nodes[leaves].name])
            raw = await self.ask(request)
            nodes, reason = iallocator.nodes(raw, snapshot, program=self.program, count=1, excluded=vm.nodes)
            check_answer(snapshot, nodes, program=self.program, need=need)
            return Choice(nodes, [f"allocator {self.program} chose {nodes[0].name}: {reason}"])
        group = snapshot.nodegroups[snapshot.nodes[vm.primary_node].group]
        return await self.choose(need, [group], excluded=vm.nodes)


def open_groups(
    snapshot: states.Snapshot,
    vm: instance.Instance,
    named: Sequence[cluster.NodeGroup],
    *,
    forbidden: Callable[[cluster.NodeGroup], Sequence[str]] | None = None,
) -> tuple[list[cluster.NodeGroup], list[str]]:
    """Return the node groups that an instance may go to, and the reasons against the other groups."""
    open_groups, reasons = [], []
    for group in sorted(named, key=lambda group: group.name):
        violations = forbidden(group) if forbidden else parameter_levels.violations(snapshot, vm, group=group.uuid)
        if group.alloc_policy is cluster.AllocPolicy.UNALLOCABLE:
            reasons.append(f"node group {group.name}: it is unallocable, so the node must be specified")
        elif violations:
            reasons.append(f"node group {group.name}: its instance policy forbids it: {', '.join(violations)}")
        else:
            open_groups.append(group)
    return open_groups, reasons


def refuse_both(target: str | None, named: str | None) -> None:
    """Refuse a node together with an allocator."""
    if target and named and named != ".":
        raise errors.InvalidError("a node and an allocator exclude each other", hint="specify only one of them")
