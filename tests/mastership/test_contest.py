"""Which of several nodes that want the master's role at the same moment gives way to which."""

import msgspec
import pytest
from tests.state import build

from gantry import errors
from gantry.mastership import contest, vote
from gantry.rpc import calls
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states

COPY = calls.CandidateState(serial=1, digest="", epoch=1, job=0, master="node0")


def candidates() -> states.Snapshot:
    """Return a state with the master node0 and the candidates node1 and node2."""
    state = states.Snapshot().apply(build.FIRST, serial=1)
    nodes = [msgspec.structs.replace(node, master_candidate=True) for node in state.nodes.values()]
    return state.apply(map(states.Put, nodes), serial=2)


def locked(name: str, master: str = "node0") -> vote.Answer:
    return vote.Answer(name, master=master, locked=True)


def test_only_the_first_by_name_goes_on() -> None:
    state = candidates()
    assert contest.first_rival(state, "node2", [locked("node1")]) == "node1"
    assert contest.first_rival(state, "node1", [locked("node2")]) == ""
    assert contest.is_first_of_several(state, "node1", [locked("node2")])
    assert not contest.is_first_of_several(state, "node2", [locked("node1")])
    assert not contest.is_first_of_several(state, "node1", [])


@pytest.mark.parametrize(
    "answer",
    [
        vote.Answer("node1", master="node0", copy=COPY),
        vote.Answer("node1", why="no answer"),
        locked("node0"),
        locked("node1", master="node1"),
    ],
    ids=["reports its copy", "silent", "the master to replace", "already the master"],
)
def test_a_node_that_does_not_want_the_role_is_no_rival(answer: vote.Answer) -> None:
    assert contest.first_rival(candidates(), "node2", [answer]) == ""


def test_a_node_that_is_not_a_candidate_is_no_rival() -> None:
    state = states.Snapshot().apply(build.FIRST, serial=1)
    plain = [states.Put(msgspec.structs.replace(node, master_candidate=False)) for node in state.nodes.values()]
    assert contest.first_rival(state.apply(plain, serial=2), "node2", [locked("node1")]) == ""


def test_who_gave_way_does_not_replace_the_winner() -> None:
    state = candidates()
    former = state.the_cluster.master_node
    contest.check_unchanged(state, "n2", [locked("node1"), locked("node0", master="node0")], former=former)
    with pytest.raises(errors.WrongStateError, match="node1 has become the master at the same moment instead of node0"):
        contest.check_unchanged(state, "n2", [locked("node1", master="node1")], former=former)
    won = state.apply([states.Put(msgspec.structs.replace(state.the_cluster, master_node="n1"))], serial=3)
    with pytest.raises(errors.WrongStateError, match="node1 has become the master at the same moment instead of node0"):
        contest.check_unchanged(won, "n2", [], former=former)


def test_the_wait_is_short_enough_for_several_in_the_time_of_giving_way() -> None:
    with simulated.World(seed=1) as world:
        random = world.machine("node1").random
        waits = {contest.wait_seconds(random) for _ in range(100)}
    assert len(waits) > 1
    assert min(waits) >= contest.SHORTEST_WAIT_SECONDS
    assert 4 * max(waits) < contest.LIMIT_SECONDS
