"""Runs the hooks of one opcode on the nodes of its plan, before and after its work.

``jobs.processor`` creates a ``Runner`` for a plan with hooks. A script can refuse the opcode in the phase ``pre``:
HooksError. A node that is offline or does not answer refuses nothing; a script that must run belongs on the master. In
the phase ``post`` failures are only reported.

See contracts/hooks.md#directories.
"""

from collections.abc import Sequence

from gantry import errors
from gantry.jobs import environment
from gantry.operations import base, hook_environment
from gantry.rpc import calls, liveness, targets
from gantry.state.objects import snapshot as states

PRE: hook_environment.Phase = "pre"
POST: hook_environment.Phase = "post"
SILENT = "(no output)"


class Runner:
    """The hooks of one opcode."""

    def __init__(self, planned: base.Hooks, op_code: str, *, services: environment.Services, log: base.Log) -> None:
        self._hooks = planned
        self._op_code = op_code
        self._services = services
        self._log = log

    def asks(self, snapshot: states.Snapshot) -> bool:
        """Return whether any node may have scripts for this opcode."""
        phases = ((PRE, self._hooks.nodes_pre), (POST, self._hooks.nodes_post), (POST, self._hooks.nodes_leaving))
        return any(self._nodes_with_scripts(snapshot, phase, nodes) for phase, nodes in phases)

    async def before(self, snapshot: states.Snapshot) -> None:
        """Run the phase ``pre``; raises HooksError with node and output of each failed script."""
        nodes = self._nodes_with_scripts(snapshot, PRE, self._hooks.nodes_pre)
        if not nodes:
            return
        variables = hook_environment.environment(snapshot, self._hooks, op_code=self._op_code, phase=PRE)
        failures = await self._run(PRE, variables, nodes)
        self._warn([failure for failure in failures if not failure[1]])
        refusals = [failure for failure in failures if failure[1]]
        if refusals:
            raise errors.HooksError(refusals)

    async def after(self, snapshot: states.Snapshot, *, leaving: bool = False) -> None:
        """Run the phase ``post``, on the nodes that leave or on all other nodes; report failures."""
        nodes = self._nodes_with_scripts(
            snapshot, POST, self._hooks.nodes_leaving if leaving else self._hooks.nodes_post
        )
        if not nodes:
            return
        after = self._hooks.after(snapshot)
        variables = hook_environment.environment(snapshot, self._hooks, op_code=self._op_code, phase=POST, after=after)
        (self._hooks.report or self._warn)(await self._run(POST, variables, nodes))

    def _nodes_with_scripts(
        self, snapshot: states.Snapshot, phase: hook_environment.Phase, nodes: Sequence[targets.Target]
    ) -> list[targets.Target]:
        """Return the nodes that may have scripts; the folder of the master's own node is checked directly."""
        own = snapshot.cluster.master_node if snapshot.cluster else ""
        here = any(target.uuid == own for target in nodes) and self._services.has_hooks(f"{self._hooks.path}-{phase}.d")
        return [target for target in nodes if target.uuid != own or here]

    def _warn(self, failures: Sequence[base.HookFailure]) -> None:
        for node, script, output in failures:
            problem = f"script {script} failed, output: {output}" if script else f"did not run: {output}"
            self._log.warning(f"hooks {self._hooks.path} on {node}: {problem}")

    async def _run(
        self, phase: hook_environment.Phase, variables: hook_environment.Environment, nodes: Sequence[targets.Target]
    ) -> list[base.HookFailure]:
        """Run the scripts on all nodes at once; return the failures. Offline nodes are ignored."""
        call = calls.HooksRun(path=self._hooks.path, phase=phase, environment=variables)
        failures: list[base.HookFailure] = []
        # Hooks that report findings check something: that a node is silent is a finding too.
        checks = liveness.THOROUGH if self._hooks.report else liveness.PATIENT
        for answer in await liveness.attend(self._services.nodes, nodes, call, checks=checks):
            node = answer.target.name
            if answer.error and not answer.offline:
                failures.append((node, "", str(answer.error)))
            failed = [result for result in answer.value or () if result.outcome == "failed"]
            failures += [(node, result.script, result.output or SILENT) for result in failed]
        return failures
