"""OP_CLUSTER_REDIST_CONF: send the cluster's files to its nodes."""

from gantry import errors
from gantry.model import cluster, lock, opcodes
from gantry.operations import base
from gantry.operations.cluster import ssconf_files
from gantry.operations.node import candidate_pool
from gantry.state.objects import snapshot as states
from gantry.state.objects import ssconf


class ClusterRedistConf(base.Planned[opcodes.ClusterRedistConf]):
    """Writes ssconf on all nodes and the secrets on candidates, and logs candidates whose copy is behind.

    The copies follow the journal by themselves; a copy that differs is replaced completely with the next record.
    """

    OPCODE = opcodes.ClusterRedistConf

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the nodes shared."""
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
        nodes = sorted((node for node in state.nodes.values() if node.takes_part), key=lambda node: node.name)
        node_targets = [state.target(node) for node in nodes]
        failed = await ssconf_files.spread(environment.nodes, node_targets, ssconf.values(state))
        for target, error in failed.items():
            environment.log.warning(f"{target.name} did not accept the cluster's files: {error}")
        for node in nodes:
            if node.role(state.the_cluster) is cluster.Role.CANDIDATE:
                target = state.target(node)
                try:
                    if isinstance(no_answer := failed.get(target), errors.RemoteError):
                        raise no_answer
                    await candidate_pool.send_secrets(environment, target)
                except errors.GantryError as error:
                    environment.log.warning(f"{node.name} did not accept the authority's certificate and key: {error}")
