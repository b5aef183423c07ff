"""Where an instance really is after a move that was interrupted, and how that is ended: ``--cleanup``.

Shared by the units of failover and migration. ``judge`` is pure: from what the nodes say it has of the instance
(``calls.RunningInstance.state``) it tells where it is to go on, or refuses when that cannot be told: a node that does
not answer might run it, and somebody who guesses lets it run twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gantry import errors
from gantry.model import instance
from gantry.operations import base, fill
from gantry.operations.move import relocation
from gantry.rpc import calls
from gantry.state import snapshot as states

RUNS = ("running", "paused", "migrating")
HALF = ("incoming", "arrived")
NOTHING, SILENT, OFFLINE = "", "silent", "offline"


@dataclass(frozen=True)
class Finding:
    """Where an instance is: ``node`` is where it belongs, and in which state it is there; ``lines`` say it all."""

    node: str
    state: str
    clear: Mapping[str, str]
    lines: tuple[str, ...]


def judge(name: str, primary: str, seen: Mapping[str, str]) -> Finding:
    """Decide from what each node has: a state of the instance, ``NOTHING``, ``SILENT`` or ``OFFLINE``; nodes by name.

    Raises WrongStateError when it runs twice, EnvironmentFaultError when a node that may run it does not answer.
    """
    runs = [node for node, state in seen.items() if state in RUNS]
    if len(runs) > 1:
        raise errors.WrongStateError(
            f"instance {name} runs on {' and '.join(runs)}", hint="end one of them there by hand, then clean up again"
        )
    silent = [node for node, state in seen.items() if state == SILENT]
    if silent and not runs:
        raise errors.EnvironmentFaultError(
            f"node {', '.join(silent)} does not answer and may run instance {name}",
            hint="if it is really down, mark it offline; then clean up again",
        )
    arrived = [node for node, state in seen.items() if state == "arrived"]
    left = [node for node, state in seen.items() if state == "migrated"]
    node = (runs or arrived[:1] or left[:1] or [primary])[0]
    clear = {one: state for one, state in seen.items() if one != node and state in (*HALF, "migrated")}
    if seen.get(node) == "incoming":
        clear[node] = "incoming"
    lines = [f"node {one}: {_TOLD[state]}" for one, state in seen.items() if state != NOTHING]
    return Finding(node, seen.get(node, NOTHING), clear, (*lines, _outcome(name, node, seen.get(node, NOTHING))))


_TOLD = {
    "running": "it runs here",
    "paused": "it stands paused here",
    "migrating": "it runs here and is still being sent",
    "migrated": "it has left from here, and stands still",
    "incoming": "a part of it has arrived here",
    "arrived": "all of it has arrived here, and waits",
    SILENT: "the node does not answer",
    OFFLINE: "the node is marked offline",
}


def _outcome(name: str, node: str, state: str) -> str:
    match state:
        case "arrived":
            return f"instance {name} goes on on {node}"
        case "migrated":
            return f"instance {name} goes on on {node}, which it had left"
        case "running" | "paused" | "migrating":
            return f"instance {name} is on {node}"
        case _:
            return f"instance {name} runs nowhere; its node is {node}"


class Cleanup:
    """What ``--cleanup`` does for one instance."""

    def __init__(self, environment: base.Environment, vm: instance.Instance, *, target: str | None = None) -> None:
        self._environment = environment
        self._vm = vm
        self._target = target

    async def look(self, snapshot: states.Snapshot) -> Finding:
        """Ask the nodes that may have it: its own, the target where one is named, otherwise all."""
        vm = self._vm
        uuids = [*vm.nodes, *([snapshot.node(self._target).uuid] if self._target else [])]
        if not self._target and not vm.secondary_nodes:
            uuids += sorted(snapshot.nodes, key=lambda uuid: snapshot.nodes[uuid].name)
        nodes = [snapshot.nodes[uuid] for uuid in dict.fromkeys(uuids)]
        ask = calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name)
        answers = await self._environment.nodes.fan_out([snapshot.target(node) for node in nodes], ask)
        seen = {}
        for answer in answers:
            silent = OFFLINE if answer.offline else SILENT
            seen[answer.target.name] = silent if answer.error else answer.value.state if answer.value else NOTHING
        return judge(vm.name, snapshot.nodes[vm.primary_node].name, seen)

    def plan(self, snapshot: states.Snapshot, finding: Finding) -> base.Plan:
        """Clear what must not go on, record where it is, let it go on there."""
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
            steps.insert(0, base.Step(f"stop sending it from {node.name}", self._stop_sending(snapshot, new)))
        after = []
        if finding.state in ("arrived", "migrated"):
            after.append(base.Step(f"resume the guest on {node.name}", self._go_on(snapshot, new, finding.state)))
        if finding.state == "arrived":
            after += [
                base.Step(f"clear the paused guest on {name}", self._end(snapshot, new, name, state))
                for name, state in finding.clear.items()
                if state not in HALF
            ]
        return base.Plan(
            lines=finding.lines,
            steps=[*base.noted(finding.lines), *steps],
            finish=None if here else lambda _: [states.Put(new)],
            after=after,
            keep_on_failure=True,
        )

    def _end(self, snapshot: states.Snapshot, new: instance.Instance, name: str, state: str) -> base.Actions:
        whole, node = fill.fill(snapshot, new), snapshot.node(name)
        what: calls.Call[None] = (
            calls.InstanceFinalizeMigrationDst(instance=whole, success=False)
            if state in HALF
            else calls.InstanceFinalizeMigrationSrc(instance=whole, success=True)
        )
        return (base.Command(snapshot.target(node), what),)

    def _go_on(self, snapshot: states.Snapshot, new: instance.Instance, state: str) -> base.Actions:
        whole, node = fill.fill(snapshot, new), snapshot.nodes[new.primary_node]
        what: calls.Call[None] = (
            calls.InstanceFinalizeMigrationDst(instance=whole, success=True)
            if state == "arrived"
            else calls.InstanceFinalizeMigrationSrc(instance=whole, success=False)
        )
        return (base.Command(snapshot.target(node), what),)

    def _stop_sending(self, snapshot: states.Snapshot, new: instance.Instance) -> base.Actions:
        target = snapshot.target(snapshot.nodes[new.primary_node])

        async def run() -> None:
            cancel = calls.InstanceMigrateCancel(instance=fill.fill(snapshot, new))
            if (await self._environment.nodes.call(target, cancel)).status == "completed":
                raise errors.WrongStateError(
                    f"instance {new.name} left {target.name} just now", hint="run the cleanup again"
                )

        return (base.Procedure("judges the status that the node answers", run),)
