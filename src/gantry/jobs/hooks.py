"""Runs the hooks of one opcode on the nodes that its plan names, before and after its work.

``jobs.processor`` makes a ``Runner`` for a plan with hooks. A script may refuse in the phase ``pre``: HooksError. A
node that is offline or does not answer refuses nothing; who needs a script to be asked puts it on the master. In the
phase ``post`` nothing can fail any more.

See contracts/hooks.md#directories.
"""

from collections.abc import Sequence

from gantry import errors
from gantry.jobs import environment
from gantry.operations import base, hook_environment
from gantry.rpc import calls, targets
from gantry.state import snapshot as states

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
        """Tell whether there is any node whose scripts have a word in this."""
        everywhere = ((PRE, self._hooks.nodes_pre), (POST, self._hooks.nodes_post), (POST, self._hooks.nodes_leaving))
        return any(self._asked(snapshot, phase, where) for phase, where in everywhere)

    async def before(self, snapshot: states.Snapshot) -> None:
        """Run the phase ``pre``; HooksError names each script that failed, with node and output."""
        where = self._asked(snapshot, PRE, self._hooks.nodes_pre)
        if not where:
            return
        told = hook_environment.environment(snapshot, self._hooks, op_code=self._op_code, phase=PRE)
        failures = await self._run(PRE, told, where)
        self._warn([failure for failure in failures if not failure[1]])
        refusals = [failure for failure in failures if failure[1]]
        if refusals:
            raise errors.HooksError(refusals)

    async def after(self, snapshot: states.Snapshot, *, leaving: bool = False) -> None:
        """Run the phase ``post`` on the nodes that are ``leaving``, or on the others; failures are reported."""
        where = self._asked(snapshot, POST, self._hooks.nodes_leaving if leaving else self._hooks.nodes_post)
        if not where:
            return
        after = self._hooks.after(snapshot)
        told = hook_environment.environment(snapshot, self._hooks, op_code=self._op_code, phase=POST, after=after)
        (self._hooks.report or self._warn)(await self._run(POST, told, where))

    def _asked(
        self, snapshot: states.Snapshot, phase: hook_environment.Phase, where: Sequence[targets.Target]
    ) -> list[targets.Target]:
        """Return the nodes that may have scripts: of the master's own it can be seen here."""
        own = snapshot.cluster.master_node if snapshot.cluster else ""
        here = any(target.uuid == own for target in where) and self._services.has_hooks(f"{self._hooks.path}-{phase}.d")
        return [target for target in where if target.uuid != own or here]

    def _warn(self, failures: Sequence[base.HookFailure]) -> None:
        for node, script, output in failures:
            what = f"script {script} failed, output: {output}" if script else f"did not run: {output}"
            self._log.warning(f"hooks {self._hooks.path} on {node}: {what}")

    async def _run(
        self, phase: hook_environment.Phase, told: hook_environment.Environment, where: Sequence[targets.Target]
    ) -> list[base.HookFailure]:
        """Run the scripts on all nodes at once; return what failed. Offline nodes are left out."""
        call = calls.HooksRun(path=self._hooks.path, phase=phase, environment=told)
        failures: list[base.HookFailure] = []
        for answer in await self._services.nodes.fan_out(where, call):
            node = answer.target.name
            if answer.error and not answer.offline:
                failures.append((node, "", str(answer.error)))
            failed = [result for result in answer.value or () if result.outcome == "failed"]
            failures += [(node, result.script, result.output or SILENT) for result in failed]
        return failures
