"""A cluster with a node that does not answer, in virtual time: how long commands wait for it."""

from collections.abc import Iterator

import pytest

from gantry.sim import cluster

CREATE = {"OP_ID": "OP_INSTANCE_CREATE", "disk_template": "diskless", "start": True}
OFFLINE = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node3", "offline": True}
VERIFY = {"OP_ID": "OP_CLUSTER_VERIFY"}
INFO = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": []}


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    """A cluster whose third node, with an instance, has just stopped answering."""
    with cluster.SimulatedCluster(seed=1, nodes=4) as lab:
        lab.run(lab.build(candidate_pool_size=2))
        lab.run(lab.done({**CREATE, "instance_name": "vm1.example", "pnode": "node3"}))
        lab.run(lab.done({**CREATE, "instance_name": "vm2.example", "pnode": "node4"}))
        freeze(lab)
        yield lab


def freeze(lab: cluster.SimulatedCluster) -> None:
    for name in lab.names:
        if name != "node3":
            lab.world.network.partition(name, "node3")


def thaw(lab: cluster.SimulatedCluster) -> None:
    for name in lab.names:
        if name != "node3":
            lab.world.network.heal(name, "node3")


def statuses(lab: cluster.SimulatedCluster) -> tuple[float, object]:
    start = lab.world.clock.monotonic()
    answer = lab.run(lab.luxi("Query", "instance", ["name", "status", "oper_ram"], None))
    assert isinstance(answer, dict)
    return lab.world.clock.monotonic() - start, answer["data"]


def test_a_list_answers_within_two_seconds_and_then_at_once_until_the_node_is_back(
    lab: cluster.SimulatedCluster,
) -> None:
    seconds, rows = statuses(lab)
    assert seconds < 2
    assert rows == [
        [[0, "vm1.example"], [0, "ERROR_nodedown"], [2, None]],
        [[0, "vm2.example"], [0, "running"], [0, 128]],
    ]
    assert statuses(lab)[0] < 0.1
    start = lab.world.clock.monotonic()
    answer = lab.run(lab.luxi("Query", "node", ["name", "mfree"], None))
    assert lab.world.clock.monotonic() - start < 2
    assert isinstance(answer, dict)
    assert [row[1][0] for row in answer["data"]] == [0, 0, 2, 0]
    thaw(lab)
    lab.run(lab.world.clock.sleep(100))
    seconds, rows = statuses(lab)
    assert seconds < 0.1
    assert isinstance(rows, list)
    assert rows[0][1] == [0, "running"]


def test_instance_info_answers_within_two_seconds(lab: cluster.SimulatedCluster) -> None:
    start = lab.world.clock.monotonic()
    lab.run(lab.done(INFO))
    assert lab.world.clock.monotonic() - start < 2.5  # the job itself is stored too


@pytest.mark.parametrize("force", [False, True])
def test_a_node_goes_offline_without_waiting_for_its_answers(lab: cluster.SimulatedCluster, force: bool) -> None:
    if not force:
        thaw(lab)
        lab.run(lab.done({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "vm1.example"}))
        freeze(lab)
    start = lab.world.clock.monotonic()
    lab.run(lab.done({**OFFLINE, "force": force}))
    assert lab.world.clock.monotonic() - start < (7 if force else 3)


def test_verify_reports_a_node_that_does_not_answer_and_ends_soon(lab: cluster.SimulatedCluster) -> None:
    start = lab.world.clock.monotonic()
    number = lab.run(lab.submit(VERIFY))
    assert lab.run(lab.wait(number)) == ("success", [False])
    assert lab.world.clock.monotonic() - start < 20
    log = str(lab.run(lab.luxi("QueryJobs", [number], ["oplog"])))
    assert "node node3: the node does not answer" in log
    assert "vm1.example" not in log


def test_an_instance_is_created_elsewhere_without_waiting_for_the_node(lab: cluster.SimulatedCluster) -> None:
    start = lab.world.clock.monotonic()
    lab.run(lab.done({**CREATE, "instance_name": "vm3.example"}))
    assert lab.world.clock.monotonic() - start < 10


def test_the_pool_of_candidates_is_filled_from_nodes_that_answer(lab: cluster.SimulatedCluster) -> None:
    start = lab.world.clock.monotonic()
    lab.run(lab.done({**OFFLINE, "node_name": "node2"}))
    assert lab.world.clock.monotonic() - start < 10
    answer = lab.run(lab.luxi("Query", "node", ["name", "role"], None))
    assert isinstance(answer, dict)
    assert [row[1][1] for row in answer["data"]] == ["M", "O", "R", "C"]


def test_candidates_that_do_not_answer_do_not_delay_verify(lab: cluster.SimulatedCluster) -> None:
    thaw(lab)
    lab.run(lab.done({**OFFLINE, "node_name": "node2"}))
    lab.run(lab.done({**OFFLINE, "node_name": "node4", "offline": None, "master_capable": False}))
    freeze(lab)
    number = lab.run(lab.submit(VERIFY))
    start = lab.world.clock.monotonic()
    assert lab.run(lab.wait(number)) == ("success", [False])
    assert lab.world.clock.monotonic() - start < 40


def test_an_instance_cannot_be_created_on_the_node_and_its_job_says_so_soon(lab: cluster.SimulatedCluster) -> None:
    start = lab.world.clock.monotonic()
    number = lab.run(lab.submit({**CREATE, "instance_name": "vm3.example", "pnode": "node3"}))
    status, results = lab.run(lab.wait(number))
    assert lab.world.clock.monotonic() - start < 10
    assert status == "error"
    assert "node3" in str(results)
