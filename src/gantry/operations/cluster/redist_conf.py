"""Bringing the cluster's files to its nodes: what ``gnt-cluster redist-conf`` asks for, and the master by itself does.

Each node is sent what its files should be, by digest, and the lines that changed; only what cannot be made of those
goes whole, to the nodes that say so. So a change costs a short message for each node, however long the files are.
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
"""How many nodes get whole files at a time: each message is as long as they are."""


async def spread(
    nodes: base.Nodes,
    where: Sequence[targets.Target],
    values: Mapping[str, str],
    *,
    before: Mapping[str, str] | None = None,
) -> dict[targets.Target, errors.GantryError]:
    """Bring the ssconf files of nodes to ``values``; return the nodes that did not take them.

    ``before`` is what most of them hold.
    """
    changed = ssconf.line_changes(before or {}, values)
    answers = await nodes.fan_out(where, calls.UpdateSsconf(digests=ssconf.digests(values), lines=changed))
    failed = {answer.target: answer.error for answer in answers if answer.error}
    lacking: dict[tuple[str, ...], list[targets.Target]] = {}
    for answer in answers:
        if answer.value:
            lacking.setdefault(answer.value, []).append(answer.target)
    for keys, some in lacking.items():
        whole = calls.WriteSsconf(values={key: values[key] for key in keys if key in values})
        for start in range(0, len(some), BATCH):
            written = await nodes.fan_out(some[start : start + BATCH], whole)
            failed |= {answer.target: answer.error for answer in written if answer.error}
    return failed


class ClusterRedistConf(base.Planned[opcodes.ClusterRedistConf]):
    """Writes ssconf on all nodes and the papers on candidates, and says whose copy of the state is behind.

    The copies follow the journal by themselves; one that differs is replaced as a whole when the next record comes.
    """

    OPCODE = opcodes.ClusterRedistConf

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Share the nodes."""
        return {(lock.Level.NODE, lock.ALL_NAMES): lock.Mode.SHARED}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Send, node by node; those that do not answer are warnings."""
        del facts
        return base.Plan(
            lines=["send the cluster's files to all nodes"],
            # A master that was replaced cannot commit, so it sends nothing.
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
        where = [state.target(node) for node in nodes]
        for target, error in (await spread(environment.nodes, where, ssconf.values(state))).items():
            environment.log.warning(f"{target.name} did not take the files: {error}")
        for node in nodes:
            if node.role(state.the_cluster) is cluster.Role.CANDIDATE:
                try:
                    await candidate_pool.give_papers(environment, state.target(node))
                except errors.GantryError as error:
                    environment.log.warning(f"{node.name} did not take the authority's papers: {error}")
