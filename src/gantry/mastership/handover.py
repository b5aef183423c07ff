"""What a new master changes in its first record, beside the epoch: its own role, and candidates that are lost. Pure.

``role`` writes it.
"""

from collections.abc import Collection, Sequence

from gantry.model import cluster
from gantry.operations import base
from gantry.state.candidates import needed_copies
from gantry.state.objects import snapshot as states


def changes(state: states.Snapshot, new: str, *, now: float, lost: Sequence[cluster.Node] = ()) -> list[states.Change]:
    """Return the changes that make the node with UUID ``new`` the master, and the old master a candidate.

    An old master that is ``lost`` is left as it is.
    """
    the_cluster = state.the_cluster
    nodes = [node for uuid in (the_cluster.master_node, new) if (node := state.nodes.get(uuid)) and node not in lost]
    flagged = [base.changed(node, now, master_candidate=True) for node in nodes if not node.master_candidate]
    return [states.Put(base.changed(the_cluster, now, master_node=new)), *map(states.Put, flagged)]


def lost_candidates(state: states.Snapshot, own: str, reached: Collection[str]) -> list[cluster.Node]:
    """Return the silent candidates, by name, if no change can be acknowledged without them; an empty list otherwise.

    ``own`` is the UUID of the node that starts without a vote, ``reached`` has the names of the nodes that answered.
    """
    owner, keeping = state.the_cluster, (cluster.Role.CANDIDATE, cluster.Role.MASTER)
    members = {node.uuid: node for node in state.nodes.values() if node.uuid != own and node.role(owner) in keeping}
    lost = sorted((node for node in members.values() if node.name not in reached), key=lambda node: node.name)
    rule = needed_copies.Rule(state.serial, state.replication_policy, frozenset(members))
    reached_copies = 1 + len(members) - len(lost)
    return [] if rule.policy.continues_alone or reached_copies >= rule.needed else lost
