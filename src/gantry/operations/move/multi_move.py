"""Many moves at once: places chosen one after the other, and the jobs that the moves become.

The units of ``node.evacuate`` and ``group.change_group`` only decide who goes where; the jobs that they submit lock
what they touch and run side by side. All places are chosen together, so that what one instance takes is not counted as
free for the next: by the built-in allocator, or by a program that is asked for all of them at once. Instances that no
job can help stay, and the result says why.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from gantry import errors
from gantry.model import cluster, instance, opcodes
from gantry.operations import base
from gantry.operations.move import relocation
from gantry.operations.placement import builtin_allocator, iallocator
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
    statuses: builtin_allocator.Statuses
    jobs: list[Job] = field(default_factory=list)
    stay: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def place(
        self, vm: instance.Instance, need: builtin_allocator.Need, *, where: Callable[[cluster.Node], bool]
    ) -> cluster.Node | None:
        """Take a node for an instance, or its copy; None when there is none, which is noted."""
        state, here = self.left, self.left.nodes
        known = {uuid: status for uuid, status in self.statuses.items() if uuid not in vm.nodes and where(here[uuid])}
        try:
            chosen = builtin_allocator.choose(state, known, need)
        except errors.NoRoomError as error:
            self.stay[vm.name] = error.message
            return None
        self.lines.append(f"{vm.name}: {'; '.join(builtin_allocator.explain(state, known, need, chosen=chosen))}")
        self._take(vm, need, chosen)
        return chosen

    def _take(self, vm: instance.Instance, need: builtin_allocator.Need, chosen: cluster.Node) -> None:
        status = self.statuses[chosen.uuid]
        if status is not None:
            storage = tuple(structs.replace(one, free=one.free - need.disk) for one in status.storage)
            free = status.memory_free - need.memory
            self.statuses[chosen.uuid] = structs.replace(status, memory_free=free, storage=storage)
        if not need.copy and not any(disk.mirror for disk in vm.disks):
            new = structs.replace(vm, primary_node=chosen.uuid)
            self.left = self.left.apply([states.Put(new)], serial=self.left.serial)


class Many(base.Unit[base.Op, Facts]):
    """What units share that leave their work to jobs."""

    def to_jobs(self, spread: Spread | iallocator.Moves) -> Facts:
        """Return the jobs of moves, with the reason and the priority of the opcode."""
        reason, priority = self.op.reason, self.op.priority
        jobs = [
            [structs.replace(op, reason=op.reason or reason, priority=priority) for op in job] for job in spread.jobs
        ]
        return Facts(jobs, dict(spread.stay), list(spread.lines))

    def submitted(self, facts: Facts, *, title: str, hook: base.Hooks | None = None) -> base.Plan:
        """Return the plan that submits the jobs; its result says what stays."""

        async def warn() -> None:
            for name, why in facts.stay.items():
                self.environment.log.warning(f"instance {name} stays: {why}")

        warnings = base.Procedure("only writes warnings to the job's log", warn)
        said = [f"job: {', '.join(op.summary + _to(op) for op in job)}" for job in facts.jobs]
        stays = [f"instance {name} stays: {why}" for name, why in facts.stay.items()]
        return base.Plan(
            lines=[title, *facts.lines, *said, *stays],
            steps=[*base.noted(facts.lines), base.Step(title, (warnings,))],
            jobs=facts.jobs,
            result=lambda: {"stay": facts.stay},
            hooks=hook,
        )


def _to(op: opcodes.AnyOpcode) -> str:
    node = getattr(op, "target_node", None) or getattr(op, "remote_node", None)
    return f" to {node}" if node else ""


def ordered(snapshot: states.Snapshot, uuids: Sequence[str]) -> list[instance.Instance]:
    """Return instances, those first that need most memory: what is large finds no room in the end."""
    vms = [snapshot.instances[uuid] for uuid in uuids]
    return sorted(vms, key=lambda vm: (-relocation.need(snapshot, vm, runs=True).memory, vm.name))


def replaced(vm: instance.Instance, node: str, *, early: bool) -> opcodes.AnyOpcode:
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


def of_copy(need: builtin_allocator.Need) -> builtin_allocator.Need:
    """Return what a copy of the disks asks for."""
    return builtin_allocator.Need(memory=0, disk=need.disk, networks=need.networks, ignored=need.ignored, copy=True)
