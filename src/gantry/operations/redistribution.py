"""Sending the cluster's files to all nodes again (``gnt-cluster redist-conf``)."""

from gantry import errors
from gantry.model import cluster, opcodes
from gantry.operations import base, candidacy
from gantry.rpc import calls
from gantry.state import snapshot as states
from gantry.state import ssconf


class ClusterRedistConf(base.Unit[opcodes.ClusterRedistConf, None]):
    """Writes ssconf on all nodes and the papers on candidates, and says whose copy of the state is behind.

    The copies follow the journal by themselves; one that differs is replaced as a whole when the next record comes.
    """

    OPCODE = opcodes.ClusterRedistConf

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Share the nodes."""
        return {(base.Level.NODE, base.ALL_NAMES): base.Mode.SHARED}

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Send, node by node; those that do not answer are warnings."""
        del facts
        return base.Plan(
            lines=["send the cluster's files to all nodes"],
            # A master that was replaced cannot commit, so it sends nothing.
            changes=[states.Put(base.changed(snapshot.the_cluster, self.environment.inputs.now))],
            steps=[base.Step("send the cluster's files to all nodes", self._send)],
        )

    async def _send(self) -> None:
        environment = self.environment
        state = environment.snapshot()
        nodes = sorted((node for node in state.nodes.values() if not node.offline), key=lambda node: node.name)
        where = [state.target(node) for node in nodes]
        answers = await environment.nodes.fan_out(where, calls.WriteSsconf(values=ssconf.values(state)))
        for answer in answers:
            if answer.error:
                environment.log.warning(f"{answer.target.name} did not take the files: {answer.error}")
        for node in nodes:
            if node.role(state.the_cluster) is cluster.Role.CANDIDATE:
                try:
                    await candidacy.give_papers(environment, state.target(node))
                except errors.GantryError as error:
                    environment.log.warning(f"{node.name} did not take the authority's papers: {error}")
