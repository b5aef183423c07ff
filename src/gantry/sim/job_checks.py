"""What must hold when a job has just succeeded: no hook refused it, and no move broke an instance policy.

``client`` creates a ``Beginning`` when a job was submitted, and calls ``check`` at its successful end.
"""

from collections.abc import Mapping

from gantry.daemons import master as daemons
from gantry.model import parameters, policy
from gantry.sim import cluster
from gantry.sim.steps import wish as wishes
from gantry.sim.story import Violation
from gantry.state import snapshot as states

VETO = "an opcode that a hook refused is not carried out"
POLICY = "a move to another node group obeys that group's instance policy"
MOVES = ("OP_INSTANCE_FAILOVER", "OP_INSTANCE_MIGRATE")


class Beginning:
    """The time, the master daemons and their states when a job was submitted."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self._lab = lab
        self._since = lab.world.clock.monotonic()
        self._daemons: Mapping[str, daemons.Master] = dict(lab.daemons)
        self._states = {name: daemon.store.snapshot for name, daemon in lab.daemons.items()}

    def check(self, wish: wishes.Wish, master: str, log: str) -> None:
        """Check a job that has succeeded, unless its master has changed; raises Violation."""
        daemon = self._daemons.get(master)
        if daemon is None or self._lab.daemons.get(master) is not daemon:
            return
        self._check_hooks(wish, master, log)
        for op in wish.ops:
            if op["OP_ID"] in MOVES and not op.get("cleanup"):
                _check_policy(self._states[master], daemon.store.snapshot, str(op["instance_name"]))

    def _check_hooks(self, wish: wishes.Wish, master: str, log: str) -> None:
        """Check that no script on the master's own machine refused; if its answer did not arrive, the log says so."""
        for op in wish.ops:
            for _, name in wish.keys:
                refused = self._lab.hooks.refused(master, str(op["OP_ID"]), name, since=self._since)
                if refused and f"on {master}: did not run" not in log:
                    raise Violation(VETO, f"no {op['OP_ID']} of {name}, which a hook refused", "it succeeded")


def _check_policy(before: states.Snapshot, after: states.Snapshot, name: str) -> None:
    """Check an instance that is in another group than before, if nobody has changed a policy meanwhile."""
    uuid = after.names.get(("instances", name), "")
    if uuid not in before.instances or before.the_cluster != after.the_cluster:
        return
    vm = after.instances[uuid]
    old_group, group = before.nodes[before.instances[uuid].primary_node].group, after.nodes[vm.primary_node].group
    if group == old_group or before.nodegroups.get(group) != after.nodegroups[group]:
        return
    owner, node_group = after.the_cluster, after.nodegroups[group]
    limits = policy.filled(owner.ipolicy, node_group.ipolicy)
    if broken := policy.violations(limits, vm, parameters.fill_backend(owner, vm)):
        raise Violation(POLICY, f"{name} within the policy of {node_group.name}", broken[0])
