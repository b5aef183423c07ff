"""A cluster with a node that does not answer, in virtual time: how long commands wait for it."""

from collections.abc import Iterator

import pytest

from gantry import errors
from gantry.runtime import commands
from gantry.runtime.simulated import processes
from gantry.sim import cluster

CREATE = {"OP_ID": "OP_INSTANCE_CREATE", "disk_template": "diskless", "start": True}
OFFLINE = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node3", "offline": True}
VERIFY = {"OP_ID": "OP_CLUSTER_VERIFY"}
VERIFY_DISKS = {"OP_ID": "OP_GROUP_VERIFY_DISKS", "group_name": "default"}
RENEW = {"OP_ID": "OP_CLUSTER_RENEW_CRYPTO"}
REDISTRIBUTE = {"OP_ID": "OP_CLUSTER_REDIST_CONF"}
CONSOLE = {"OP_ID": "OP_INSTANCE_CONSOLE"}
SYSTEMS = {"OP_ID": "OP_OS_DIAGNOSE", "output_fields": ["name"], "names": []}
STORAGE = {"OP_ID": "OP_NODE_QUERY_STORAGE", "nodes": [], "storage_type": "lvm-vg", "output_fields": ["node", "name"]}
VOLUMES = {"OP_ID": "OP_NODE_QUERYVOLS", "nodes": [], "output_fields": ["node", "name"]}
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


def hang(lab: cluster.SimulatedCluster, name: str, program: str) -> None:
    """Let a program on a machine take a quarter of an hour, as if a disk hung."""
    programs = lab.world.machine(name).processes.programs
    answers = programs[program]

    async def hanging(invocation: processes.Invocation) -> commands.Completed:
        await lab.world.clock.sleep(900)
        return await answers(invocation)

    programs[program] = hanging


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


def lasts(lab: cluster.SimulatedCluster, op: cluster.Opcode) -> float:
    """Return how many seconds a job takes, however it ends."""
    start = lab.world.clock.monotonic()
    lab.run(lab.wait(lab.run(lab.submit(op))))
    return lab.world.clock.monotonic() - start


def test_instance_info_as_a_job_waits_less_than_two_seconds_and_then_not_at_all(lab: cluster.SimulatedCluster) -> None:
    assert lasts(lab, INFO) < 2.5  # the job itself is stored too
    assert lasts(lab, INFO) < 0.5


@pytest.mark.parametrize("op", [INFO, VOLUMES, STORAGE, SYSTEMS], ids=lambda op: str(op["OP_ID"]))
def test_what_only_reads_waits_for_the_node_in_its_first_answer_only(
    lab: cluster.SimulatedCluster, op: cluster.Opcode
) -> None:
    assert read(lab, op)[0] < 2
    assert read(lab, op)[0] < 0.1


def test_a_node_that_answers_nothing_is_silent_for_all_that_only_reads(lab: cluster.SimulatedCluster) -> None:
    statuses(lab)
    for op in (INFO, VOLUMES, STORAGE, SYSTEMS):
        assert read(lab, op)[0] < 0.1


def read(lab: cluster.SimulatedCluster, op: cluster.Opcode) -> tuple[float, object]:
    """Return how many seconds the answer to an opcode that only reads took, and the answer or its error."""
    start = lab.world.clock.monotonic()
    try:
        answer = lab.run(lab.luxi("ReadOpcode", op))
    except errors.GantryError as error:
        answer = error
    return lab.world.clock.monotonic() - start, answer


def test_a_console_on_the_node_is_refused_within_two_seconds_and_then_at_once(lab: cluster.SimulatedCluster) -> None:
    seconds, refused = read(lab, {**CONSOLE, "instance_name": "vm1.example"})
    assert seconds < 2
    assert "node3" in str(refused)
    assert read(lab, {**CONSOLE, "instance_name": "vm1.example"})[0] < 0.1
    assert isinstance(read(lab, {**CONSOLE, "instance_name": "vm2.example"})[1], list)


def test_what_only_reads_does_not_wait_for_a_disk_that_hangs_below_a_daemon_that_answers(
    lab: cluster.SimulatedCluster,
) -> None:
    thaw(lab)
    lab.run(lab.world.clock.sleep(100))
    hang(lab, "node4", "lvs")
    for limit in (2.0, 0.1):
        seconds, answer = read(lab, VOLUMES)
        assert seconds < limit
        assert isinstance(answer, list)
        assert "node4" in str(answer[1])
        assert "lv_list" in str(answer[1])
    assert statuses(lab)[1] == [
        [[0, "vm1.example"], [0, "running"], [0, 128]],
        [[0, "vm2.example"], [0, "running"], [0, 128]],
    ]


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
    assert lab.world.clock.monotonic() - start < 9
    log = str(lab.run(lab.luxi("QueryJobs", [number], ["oplog"])))
    assert "node node3: the node does not answer" in log
    assert "vm1.example" not in log


@pytest.mark.parametrize("op", [VERIFY, VERIFY_DISKS], ids=lambda op: str(op["OP_ID"]))
def test_a_job_that_checks_nodes_waits_for_a_silent_node_once(
    lab: cluster.SimulatedCluster, op: cluster.Opcode
) -> None:
    assert lasts(lab, op) < 9
    assert lasts(lab, op) < 2


@pytest.mark.parametrize("op", [RENEW, REDISTRIBUTE], ids=lambda op: str(op["OP_ID"]))
def test_a_job_for_all_nodes_gives_up_the_one_that_does_not_answer(
    lab: cluster.SimulatedCluster, op: cluster.Opcode
) -> None:
    assert lasts(lab, op) < 12
    number = lab.run(lab.submit(op))
    start = lab.world.clock.monotonic()
    assert lab.run(lab.wait(number))[0] == "success"
    assert lab.world.clock.monotonic() - start < 6
    assert "node3" in str(lab.run(lab.luxi("QueryJobs", [number], ["oplog", "opresult"])))


def test_verify_asks_a_node_whose_disks_hang_for_those_of_one_instance(lab: cluster.SimulatedCluster) -> None:
    thaw(lab)
    lab.run(lab.world.clock.sleep(100))
    lab.run(lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "enabled_disk_templates": ["diskless", "plain"]}))
    disks = {"disk_template": "plain", "disks": [{"size": 64}], "pnode": "node4", "no_install": True}
    for number in (3, 4, 5):
        lab.run(lab.done({**CREATE, **disks, "instance_name": f"vm{number}.example"}))
    hang(lab, "node4", "lvs")
    start = lab.world.clock.monotonic()
    number = lab.run(lab.submit(VERIFY))
    assert lab.run(lab.wait(number)) == ("success", [False])
    assert lab.world.clock.monotonic() - start < 30
    log = str(lab.run(lab.luxi("QueryJobs", [number], ["oplog"])))
    assert "vm3.example: node node4 cannot report its disks: it has not answered blockdev_status within 20 s" in log
    assert "vm4.example" not in log
    start = lab.world.clock.monotonic()
    number = lab.run(lab.submit(VERIFY))
    assert lab.run(lab.wait(number)) == ("success", [False])
    assert lab.world.clock.monotonic() - start < 3
    log = str(lab.run(lab.luxi("QueryJobs", [number], ["oplog"])))
    assert "vm3.example: node node4 cannot report its disks" in log


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
