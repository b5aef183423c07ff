"""Many moves at once: choose the nodes together, and submit the moves as jobs.

The units of ``node.evacuate`` and ``group.change_group`` only decide which instance goes where; the jobs that they
submit take their own locks and run side by side. All nodes are chosen together, so that the capacity that one instance
takes is not counted as free for the next: by the built-in allocator, or by a program that gets them all in one request.
Instances that no job can move stay, and the result says why.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from gantry import errors
from gantry.model import cluster, instance, opcodes
from gantry.operations import base
from gantry.operations.move import relocation
from gantry.operations.placement import builtin_allocator, iallocator
from gantry.state.objects import snapshot as states

Job = list[opcodes.AnyOpcode]


@dataclass(frozen=True)
class Facts:
    """The jobs, the reasons why some instances stay, and the log's lines."""

    jobs: Sequence[Sequence[opcodes.AnyOpcode]]
    stay: dict[str, str]
    lines: Sequence[str]


@dataclass
class Spread:
    """Chooses nodes one after the other; each choice counts for the next. ``state`` is the state after the moves."""

    state: states.Snapshot
    statuses: builtin_allocator.Statuses
    jobs: list[Job] = field(default_factory=list)
    stay: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def choose(
        self,
        vm: instance.Instance,
        need: builtin_allocator.Need,
        *,
        where: Callable[[cluster.Node], bool],
        otherwise: str = "",
    ) -> cluster.Node | None:
        """Choose a node for an instance or for its copy; without a fitting node, record that it stays, return None.

        ``otherwise`` is the reason against the nodes that ``where`` excludes.
        """
        state, here = self.state, self.state.nodes
        free_nodes = {uuid: status for uuid, status in self.statuses.items() if uuid not in vm.nodes}
        known = {uuid: status for uuid, status in free_nodes.items() if where(here[uuid])}
        reasons = sorted(f"{here[uuid].name}: {otherwise}" for uuid in free_nodes.keys() - known.keys() if otherwise)
        try:
            chosen = builtin_allocator.choose(state, known, need, reasons=reasons)
        except errors.NoRoomError as error:
            self.stay[vm.name] = error.message
            return None
        self.lines.append(f"{vm.name}: {'; '.join(builtin_allocator.explain(state, known, need, chosen=chosen))}")
        self._take(vm, need, chosen)
        return chosen

    def _take(self, vm: instance.Instance, need: builtin_allocator.Need, chosen: cluster.Node) -> None:
        status = self.statuses[chosen.uuid]
        if status is not None:
            storage = tuple(structs.replace(unit, free=unit.free - need.disk) for unit in status.storage)
            free = status.memory_free - need.memory
            self.statuses[chosen.uuid] = structs.replace(status, memory_free=free, storage=storage)
        if not need.copy and not any(disk.mirror for disk in vm.disks):
            new = structs.replace(vm, primary_node=chosen.uuid)
            self.state = self.state.apply([states.Put(new)], serial=self.state.serial)


class Many(base.Unit[base.Op, Facts]):
    """Base of the units that submit their work as jobs."""

    def to_jobs(self, spread: Spread | iallocator.Moves) -> Facts:
        """Return the jobs of the moves, and the instances that stay."""
        return Facts([list(job) for job in spread.jobs], dict(spread.stay), list(spread.lines))

    def submitted(self, facts: Facts, *, title: str, hook: base.Hooks | None = None) -> base.Plan:
        """Return the plan that submits the jobs; its result lists the instances that stay."""

        async def warn() -> None:
            for name, reason in facts.stay.items():
                self.environment.log.warning(f"instance {name} stays: {reason}")

        warnings = base.Procedure("only writes warnings to the job's log", warn)
        jobs = [f"job: {', '.join(op.summary + _to(op) for op in job)}" for job in facts.jobs]
        stays = [f"instance {name} stays: {reason}" for name, reason in facts.stay.items()]
        return base.Plan(
            lines=[title, *facts.lines, *jobs, *stays],
            steps=[*base.log_steps(facts.lines), base.Step(title, (warnings,))],
            jobs=facts.jobs,
            result=lambda: {"stay": facts.stay},
            hooks=hook,
        )


def _to(op: opcodes.AnyOpcode) -> str:
    node = getattr(op, "target_node", None) or getattr(op, "remote_node", None)
    return f" to {node}" if node else ""


def ordered(snapshot: states.Snapshot, uuids: Sequence[str]) -> list[instance.Instance]:
    """Return instances, those with the most memory first, because large instances fit last."""
    vms = [snapshot.instances[uuid] for uuid in uuids]
    return sorted(vms, key=lambda vm: (-relocation.need(snapshot, vm, runs=True).memory, vm.name))


def replace_secondary(vm: instance.Instance, node: str, *, early: bool) -> opcodes.AnyOpcode:
    """Return the opcode that changes the secondary node of mirrored disks."""
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


def of_copy(need: builtin_allocator.Need) -> builtin_allocator.Need:
    """Return the need of a copy of the disks."""
    return builtin_allocator.Need(memory=0, disk=need.disk, networks=need.networks, ignored=need.ignored, copy=True)
