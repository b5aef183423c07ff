"""Where an instance really is after an interrupted move, and how to finish that move: ``--cleanup``.

Shared by the units of failover and migration. ``judge`` is pure: from the states of the instance that the nodes report
(``calls.RunningInstance.state``) it decides where the instance continues. It refuses if that is uncertain: a node that
does not answer might run the instance, and a wrong guess would run it twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gantry import errors
from gantry.model import instance
from gantry.operations import base, fill
from gantry.operations.move import relocation
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

RUNS = ("running", "paused", "migrating")
HALF = ("incoming", "arrived")
NOTHING, SILENT, OFFLINE = "", "silent", "offline"


@dataclass(frozen=True)
class Finding:
    """Where an instance is: the node where it belongs, its state there, what to clear, and a description."""

    node: str
    state: str
    clear: Mapping[str, str]
    lines: tuple[str, ...]


def judge(name: str, primary: str, reported: Mapping[str, str], *, up: bool = True) -> Finding:
    """Decide from the state on each node (by name): an instance state, ``NOTHING``, ``SILENT`` or ``OFFLINE``.

    ``up`` is whether the admin state is up. If not, and one of the two paused guests of a migration is missing, the
    instance has been stopped since, and the other guest is cleared.

    Raises WrongStateError if it runs twice, EnvironmentFaultError if a node that may run it does not answer.
    """
    runs = [node for node, state in reported.items() if state in RUNS]
    if len(runs) > 1:
        raise errors.WrongStateError(
            f"instance {name} runs on several nodes: {' and '.join(runs)}",
            hint="stop it on all but one of these nodes by hand, then clean up again",
        )
    silent = [node for node, state in reported.items() if state == SILENT]
    if silent and not runs:
        raise errors.EnvironmentFaultError(
            f"node {', '.join(silent)} does not answer and may run instance {name}",
            hint="if the node is really down, mark it offline; then clean up again",
        )
    arrived = [node for node, state in reported.items() if state == "arrived"]
    departed = [node for node, state in reported.items() if state == "migrated"]
    # A stop ends the guest on the primary node only; the other guest is older, or was never resumed.
    is_stopped = not up and not (arrived and departed)
    continues = runs if is_stopped else runs or arrived or departed
    node = (continues or [primary])[0]
    clear = {other: state for other, state in reported.items() if other != node and state in (*HALF, "migrated")}
    here = reported.get(node, NOTHING)
    if here in (*HALF, "migrated") and (here == "incoming" or not continues):
        clear[node], here = here, NOTHING
    lines = [f"node {other}: {_DESCRIPTIONS[state]}" for other, state in reported.items() if state != NOTHING]
    return Finding(node, here, clear, (*lines, _outcome(name, node, here)))


_DESCRIPTIONS = {
    "running": "the instance runs here",
    "paused": "the instance is paused here",
    "migrating": "the instance runs here and is still being sent",
    "migrated": "the instance was sent from here and is paused",
    "incoming": "a part of the instance has arrived here",
    "arrived": "the whole instance has arrived here and is paused",
    SILENT: "the node does not answer",
    OFFLINE: "the node is marked offline",
}


def _outcome(name: str, node: str, state: str) -> str:
    match state:
        case "arrived":
            return f"instance {name} continues on {node}"
        case "migrated":
            return f"instance {name} continues on {node}, from where it was sent"
        case "running" | "paused" | "migrating":
            return f"instance {name} is on {node}"
        case _:
            return f"instance {name} does not run anywhere; its node is {node}"


class Cleanup:
    """The cleanup of one instance."""

    def __init__(self, environment: base.Environment, vm: instance.Instance, *, target: str | None = None) -> None:
        self._environment = environment
        self._vm = vm
        self._target = target

    async def look(self, snapshot: states.Snapshot) -> Finding:
        """Ask the nodes that may have the instance: its own nodes and the target; without a target, all nodes."""
        vm = self._vm
        uuids = [*vm.nodes, *([snapshot.node(self._target).uuid] if self._target else [])]
        if not self._target and not vm.secondary_nodes:
            uuids += sorted(snapshot.nodes, key=lambda uuid: snapshot.nodes[uuid].name)
        nodes = [snapshot.nodes[uuid] for uuid in dict.fromkeys(uuids)]
        ask = calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name)
        answers = await self._environment.nodes.fan_out([snapshot.target(node) for node in nodes], ask)
        reported = {}
        for answer in answers:
            silent = OFFLINE if answer.offline else SILENT
            # A removed instance of the same name may have left a paused guest, which must not continue as this one.
            state = answer.value.state if answer.value and answer.value.uuid == vm.uuid else NOTHING
            reported[answer.target.name] = silent if answer.error else state
        up = vm.admin_state is instance.AdminState.UP
        return judge(vm.name, snapshot.nodes[vm.primary_node].name, reported, up=up)

    def plan(self, snapshot: states.Snapshot, finding: Finding) -> base.Plan:
        """Clear what must not continue, record the instance's node, and let the instance continue there."""
        node, now = snapshot.node(finding.node), self._environment.inputs.now
        here = node.uuid == self._vm.primary_node
        new = self._vm if here else relocation.moved(self._vm, now, primary=node.uuid)
        steps = [
            base.Step(f"clear the waiting guest on {name}" if state in HALF else f"clear the paused guest on {name}",
                      self._end(snapshot, new, name, state))
            for name, state in finding.clear.items()
            if state in HALF or finding.state != "arrived"
        ]  # fmt: skip
        if finding.state == "migrating":
            steps.insert(0, base.Step(f"stop the migration from {node.name}", self._stop_sending(snapshot, new)))
        after = []
        if finding.state in ("arrived", "migrated"):
            after.append(base.Step(f"resume the guest on {node.name}", self._resume(snapshot, new, finding.state)))
        if finding.state == "arrived":
            after += [
                base.Step(f"clear the paused guest on {name}", self._end(snapshot, new, name, state))
                for name, state in finding.clear.items()
                if state not in HALF
            ]
        return base.Plan(
            lines=finding.lines,
            steps=[*base.log_steps(finding.lines), *steps],
            finish=None if here else lambda _: [states.Put(new)],
            after=after,
            keep_on_failure=True,
        )

    def _end(self, snapshot: states.Snapshot, new: instance.Instance, name: str, state: str) -> base.Actions:
        whole, node = fill.fill(snapshot, new), snapshot.node(name)
        call: calls.Call[None] = (
            calls.InstanceFinalizeMigrationDst(instance=whole, success=False)
            if state in HALF
            else calls.InstanceFinalizeMigrationSrc(instance=whole, success=True)
        )
        return (base.Command(snapshot.target(node), call),)

    def _resume(self, snapshot: states.Snapshot, new: instance.Instance, state: str) -> base.Actions:
        whole, node = fill.fill(snapshot, new), snapshot.nodes[new.primary_node]
        call: calls.Call[None] = (
            calls.InstanceFinalizeMigrationDst(instance=whole, success=True)
            if state == "arrived"
            else calls.InstanceFinalizeMigrationSrc(instance=whole, success=False)
        )
        return (base.Command(snapshot.target(node), call),)

    def _stop_sending(self, snapshot: states.Snapshot, new: instance.Instance) -> base.Actions:
        target = snapshot.target(snapshot.nodes[new.primary_node])

        async def run() -> None:
            cancel = calls.InstanceMigrateCancel(instance=fill.fill(snapshot, new))
            if (await self._environment.nodes.call(target, cancel)).status == "completed":
                raise errors.WrongStateError(
                    f"the migration of instance {new.name} from {target.name} has just completed",
                    hint="run the cleanup again",
                )

        return (base.Procedure("depends on the status that the node reports", run),)
