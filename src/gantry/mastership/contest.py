"""Several nodes that want the master's role at the same moment: the first by name continues, the others wait.

A node that wants the role has the lock of its own queue, so its node daemon reports no copy and grants nothing. Two
such nodes may need each other's word: then each would refuse the other until both give up. So a node that is not the
first by name gives way: ``master.serve`` closes everything, which releases the lock, waits a few seconds by chance, and
asks again. If another node has become the master meanwhile, the takeover is refused: nobody wanted to replace that one.

What has the lock of a node need not want the role, so a node gives way for a limited time. The first by name waits as
long for the others: several of them are seldom without their locks at the same moment.
"""

from collections.abc import Sequence

from gantry import errors
from gantry.mastership import vote
from gantry.model import cluster
from gantry.runtime import interface
from gantry.state.objects import snapshot as states

LIMIT_SECONDS = 30.0
"""For how long a node gives way, and the first by name waits for those that do.

It is longer than the lease of the former master, for which the first may wait too.
"""
SHORTEST_WAIT_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 5.0


class GiveWayError(errors.WrongStateError):
    """Raised to let another node become the master first; ``former`` is the UUID of the master that both replace."""

    def __init__(self, message: str, *, hint: str, former: str) -> None:
        super().__init__(message, hint=hint)
        self.former = former


def first_rival(state: states.Snapshot, own: str, answers: Sequence[vote.Answer]) -> str:
    """Return the first other candidate by name that may want the role too, if it comes before ``own``; empty if none.

    ``own`` is the name of this machine's node. Neither the master that is replaced nor a new one counts.
    """
    return min((name for name in _rivals(state, answers) if name < own), default="")


def is_first_of_several(state: states.Snapshot, own: str, answers: Sequence[vote.Answer]) -> bool:
    """Return whether other candidates may want the role too, and all of them come after ``own``: they give way."""
    names = _rivals(state, answers)
    return bool(names) and own < min(names)


def _rivals(state: states.Snapshot, answers: Sequence[vote.Answer]) -> list[str]:
    owner, roles = state.the_cluster, (cluster.Role.CANDIDATE, cluster.Role.MASTER)
    names = {node.name for node in state.nodes.values() if node.uuid != owner.master_node and node.role(owner) in roles}
    return [
        answer.node for answer in answers if answer.locked and answer.node in names and answer.master != answer.node
    ]


def check_unchanged(state: states.Snapshot, own: str, answers: Sequence[vote.Answer], *, former: str) -> None:
    """Raise WrongStateError if a node other than ``own`` has become the master since ``former`` (UUIDs) was it."""
    node = state.nodes.get(former)
    known = {former, own}
    master = state.the_cluster.master_node
    winners = [state.nodes[master].name] if master not in known and master in state.nodes else []
    names = {state.nodes[uuid].name for uuid in known if uuid in state.nodes}
    winners += [answer.node for answer in answers if answer.master == answer.node and answer.node not in names]
    if winners:
        raise errors.WrongStateError(
            f"node {winners[0]} has become the master at the same moment instead of {node.name if node else former}",
            hint="nothing is left to do; repeat the command here to make this node the master instead",
        )


def wait_seconds(random: interface.Randomness) -> float:
    """Return how long to wait before the next attempt."""
    return SHORTEST_WAIT_SECONDS + (LONGEST_WAIT_SECONDS - SHORTEST_WAIT_SECONDS) * random.below(1000) / 1000
