"""Send the cluster's files to its nodes: for ``gnt-cluster redist-conf``, and by the master itself.

Each node gets the digests of its files and the changed lines; files that it cannot build from those are sent whole,
to the nodes that report them. So a change costs a short message for each node, however long the files are.
"""

from collections.abc import Mapping, Sequence

from gantry import errors
from gantry.model import cluster, lock, opcodes
from gantry.operations import base
from gantry.operations.node import candidate_pool
from gantry.rpc import calls, targets
from gantry.state import snapshot as states
from gantry.state import ssconf

BATCH = 20
"""The number of nodes that get whole files at a time: each message is as long as the files."""


async def spread(
    nodes: base.Nodes,
    node_targets: Sequence[targets.Target],
    values: Mapping[str, str],
    *,
    before: Mapping[str, str] | None = None,
) -> dict[targets.Target, errors.GantryError]:
    """Update the ssconf files of nodes to ``values``; return the nodes that failed, with their errors.

    ``before`` is what most of the nodes have.
    """
    changed = ssconf.line_changes(before or {}, values)
    answers = await nodes.fan_out(node_targets, calls.UpdateSsconf(digests=ssconf.digests(values), lines=changed))
    failed = {answer.target: answer.error for answer in answers if answer.error}
    lacking: dict[tuple[str, ...], list[targets.Target]] = {}
    for answer in answers:
        if answer.value:
            lacking.setdefault(answer.value, []).append(answer.target)
    for keys, batch_targets in lacking.items():
        whole = calls.WriteSsconf(values={key: values[key] for key in keys if key in values})
        for start in range(0, len(batch_targets), BATCH):
            written = await nodes.fan_out(batch_targets[start : start + BATCH], whole)
            failed |= {answer.target: answer.error for answer in written if answer.error}
    return failed


class ClusterRedistConf(base.Planned[opcodes.ClusterRedistConf]):
    """Writes ssconf on all nodes and the secrets on candidates, and logs candidates whose copy is behind.

    The copies follow the journal by themselves; a copy that differs is replaced completely with the next record.
    """

    OPCODE = opcodes.ClusterRedistConf

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Share the nodes."""
        return {(lock.Level.NODE, lock.ALL_NAMES): lock.Mode.SHARED}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Send the files; nodes that do not answer cause warnings."""
        del facts
        return base.Plan(
            lines=["send the cluster's files to all nodes"],
            # A former master cannot commit, so it sends nothing.
            changes=[states.Put(base.changed(snapshot.the_cluster, self.environment.inputs.now))],
            steps=[
                base.Step(
                    "send the cluster's files to all nodes", (base.Procedure("calls all nodes in batches", self._send),)
                )
            ],
        )

    async def _send(self) -> None:
        environment = self.environment
        state = environment.snapshot()
        nodes = sorted((node for node in state.nodes.values() if not node.offline), key=lambda node: node.name)
        node_targets = [state.target(node) for node in nodes]
        for target, error in (await spread(environment.nodes, node_targets, ssconf.values(state))).items():
            environment.log.warning(f"{target.name} did not accept the cluster's files: {error}")
        for node in nodes:
            if node.role(state.the_cluster) is cluster.Role.CANDIDATE:
                try:
                    await candidate_pool.send_secrets(environment, state.target(node))
                except errors.GantryError as error:
                    environment.log.warning(f"{node.name} did not accept the authority's certificate and key: {error}")
