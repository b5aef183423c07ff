"""What a new master changes in its first record."""

import msgspec
import pytest
from tests.state import build

from gantry.mastership import handover
from gantry.state.objects import snapshot as states


def test_a_handover_names_the_new_master_and_keeps_the_old_one_as_a_candidate() -> None:
    state = states.Snapshot().apply(build.FIRST, serial=1)
    plain = [states.Put(msgspec.structs.replace(node, master_candidate=False)) for node in state.nodes.values()]
    state = state.apply(plain, serial=2)
    after = state.apply(handover.changes(state, "n2", now=7.0), serial=3)
    roles = {node.name: node.role(after.the_cluster).value for node in after.nodes.values()}
    assert roles == {"node0": "C", "node1": "R", "node2": "M"}
    assert after.the_cluster.mtime == 7.0


def test_an_old_master_that_is_lost_is_not_made_a_candidate() -> None:
    state = states.Snapshot().apply(build.FIRST, serial=1)
    old = state.nodes[state.the_cluster.master_node]
    changed = handover.changes(state, "n2", now=7.0, lost=[old])
    assert old.uuid not in {change.key for change in changed}


@pytest.mark.parametrize(
    ("policy", "reached", "lost"),
    [
        ("majority", {"node1"}, []),
        ("majority", set(), ["node1", "node2"]),
        ("all", {"node1"}, ["node2"]),
        ("all", {"node1", "node2"}, []),
        ("seed", set(), []),
    ],
)
def test_candidates_are_lost_if_nothing_can_be_acknowledged_without_them(
    policy: str, reached: set[str], lost: list[str]
) -> None:
    state = states.Snapshot().apply(build.FIRST, serial=1)
    owner = msgspec.structs.replace(state.the_cluster, replication=policy)
    nodes = [msgspec.structs.replace(node, master_candidate=True) for node in state.nodes.values()]
    state = state.apply([states.Put(owner), *map(states.Put, nodes)], serial=2)
    assert [node.name for node in handover.lost_candidates(state, owner.master_node, reached)] == lost
