"""The check that a node which has obeyed a master obeys no former one."""

from collections.abc import Iterator

import pytest

from gantry.rpc import calls
from gantry.runtime import http_interface
from gantry.sim import cluster, fenced, story

DONE, REFUSED = b"[true,null]", b'[false,["FencedError",["epoch 1 has passed"]]]'


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=1) as simulated:
        yield simulated


def call(lab: cluster.SimulatedCluster, procedure: type[calls.Call[None]], *, epoch: int, answer: bytes) -> None:
    """Let a call arrive at node1, and be answered at once."""
    request = http_interface.Request("POST", f"/{procedure.procedure()}", b"", headers={calls.EPOCH_HEADER: str(epoch)})
    assert lab.world.network.on_arrival is not None
    answered = lab.world.network.on_arrival("node2", "node1", request)
    assert answered is not None
    answered(answer)


def test_a_node_may_obey_one_master_and_a_later_one_and_refuse_the_former(lab: cluster.SimulatedCluster) -> None:
    check = fenced.Fenced(lab)
    call(lab, calls.WriteSsconf, epoch=1, answer=DONE)
    call(lab, calls.WriteSsconf, epoch=2, answer=DONE)
    call(lab, calls.WriteSsconf, epoch=1, answer=REFUSED)
    check.check()


def test_a_node_that_obeys_a_former_master_is_reported(lab: cluster.SimulatedCluster) -> None:
    check = fenced.Fenced(lab)
    call(lab, calls.WriteSsconf, epoch=2, answer=DONE)
    call(lab, calls.WriteSsconf, epoch=1, answer=DONE)
    with pytest.raises(story.Violation, match=r"node1 to refuse node2's .* of epoch 1.* obeyed epoch 2"):
        check.check()


def test_a_node_that_has_left_its_cluster_may_obey_any_master(lab: cluster.SimulatedCluster) -> None:
    check = fenced.Fenced(lab)
    call(lab, calls.NodeLeave, epoch=2, answer=DONE)
    call(lab, calls.WriteSsconf, epoch=1, answer=DONE)
    check.check()


def test_requests_that_are_no_calls_of_a_master_are_not_looked_at(lab: cluster.SimulatedCluster) -> None:
    fenced.Fenced(lab)
    assert lab.world.network.on_arrival is not None
    assert lab.world.network.on_arrival("node2", "node1", http_interface.Request("GET", "/2/instances", b"")) is None
