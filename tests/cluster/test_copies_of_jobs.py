"""Jobs on the disks of other nodes: there before their ids are answered, and after each change."""

import json
import os
import select
import signal
from collections.abc import Callable, Iterable, Iterator

import pytest
from tests.cluster import lab

SILENCE_SECONDS = 1.5


@pytest.fixture(scope="module")
def three() -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        cluster_lab.add_node()
        yield cluster_lab


def changes_of(node: lab.Node, number: object) -> list[dict[str, object]]:
    """Return the states of a job that the journal on a node's disk has, in their order."""
    lines = (
        line for file in sorted((node.root / "lib/journal").glob("*.log")) for line in file.read_bytes().split(b"\n")
    )
    frames = (json.loads(line.split(b" ", 2)[2]) for line in lines if line.endswith(b"}"))
    records = (record for frame in frames for record in frame["records"])
    changes = (change for record in records for change in record["changes"])
    return [change[2] for change in changes if change[:2] == ["put", "jobs"] and change[2]["id"] == number]


def steps_of(job: dict[str, object]) -> list[dict[str, object]]:
    steps = job["ops"]
    assert isinstance(steps, list)
    return steps


def statuses(node: lab.Node, number: object) -> list[tuple[object, object]]:
    """Return status and priority of a job in each of its states on a node's disk."""
    return [(step["status"], step["priority"]) for job in changes_of(node, number) for step in steps_of(job)]


@pytest.mark.promise("cluster-54")
@pytest.mark.parametrize(
    ("policy", "enough"),
    [("majority", any), *(pytest.param(*row, marks=pytest.mark.slow) for row in (("all", all), ("seed", any)))],
)
def test_an_id_is_answered_when_the_job_is_on_other_nodes_and_not_before(
    three: lab.Lab, policy: str, enough: Callable[[Iterable[object]], bool]
) -> None:
    three.run("gnt-cluster", "modify", "--replication", policy)
    other_nodes = three.nodes[1:]
    daemons = [node.daemon.pid for node in other_nodes if node.daemon]
    with three.luxi() as luxi:
        last = luxi.value("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 0}])
        luxi.finished(last)
        for pid in daemons:
            os.kill(pid, signal.SIGSTOP)
        try:
            op = {"OP_ID": "OP_TEST_DELAY", "duration": 0}
            luxi.send(json.dumps({"method": "SubmitJob", "args": [[op]]}).encode() + b"\x03")
            answers, _, _ = select.select([luxi.socket], [], [], SILENCE_SECONDS)
            assert not answers, luxi.receive()
        finally:
            for pid in daemons:
                os.kill(pid, signal.SIGCONT)
        answer = json.loads(luxi.receive())
        copies = [changes_of(node, answer["result"]) for node in other_nodes]
        assert answer["success"]
        assert isinstance(answer["result"], int)
        assert answer["result"] > int(str(last))
        assert enough(copies), "the id was answered before the job was on other nodes"
        luxi.finished(answer["result"])


@pytest.mark.promise("cluster-54")
def test_a_job_is_on_a_majority_of_the_candidates_when_its_id_is_answered(three: lab.Lab) -> None:
    three.run("gnt-cluster", "modify", "--replication", "majority")
    with three.luxi() as luxi:
        for _ in range(5):
            number = luxi.value("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 0}])
            assert any(changes_of(node, number) for node in three.nodes[1:])
            luxi.finished(number)


@pytest.mark.promise("cluster-62")
def test_every_change_of_a_job_is_copied_except_its_log_messages(three: lab.Lab) -> None:
    with three.luxi() as luxi:
        running = luxi.value("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 300, "on_nodes": ["node1"]}])
        waits = {"OP_ID": "OP_TEST_DELAY", "duration": 0, "depends": [[running, []]]}
        queued = luxi.value("SubmitJob", [waits])
        lab.wait_until(lambda: ("running", 0) in statuses(three.nodes[1], running), "the copy of the job that runs")
        three.run("gnt-job", "change-priority", "--priority", "low", "-f", queued)
        three.run("gnt-job", "cancel", queued)
        expected = [("queued", 0), ("queued", 10), ("canceled", 10)]
        other_nodes = three.nodes[1:]
        lab.wait_until(
            lambda: all(statuses(node, queued) == expected for node in other_nodes), "the copies of each change"
        )
        long = luxi.value("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 0.05, "repeat": 20}])
        assert luxi.finished(long)[0] == "success"
    whole = changes_of(three.nodes[0], long)
    lab.wait_until(
        lambda: all(changes_of(node, long) == whole for node in other_nodes), "the copies of the last change"
    )
    assert [status for status, _ in statuses(three.nodes[0], long)] == ["running", "success"]
    logs = [step["log"] for job in whole for step in steps_of(job)]
    assert logs[0] == []
    assert isinstance(logs[1], list)
    assert len(logs[1]) >= 20


def _levels(three: lab.Lab) -> list[str]:
    """Return the levels of what the master has logged about candidates without the newest changes."""
    lines = (three.master / "log/master-daemon.log").read_text().splitlines()
    return [line.split()[2] for line in lines if "newest changes" in line]


@pytest.mark.promise("cluster-59")
@pytest.mark.slow
def test_only_the_loss_of_more_than_half_of_the_nodes_is_logged_as_an_error(three: lab.Lab) -> None:
    three.run("gnt-cluster", "modify", "--replication", "seed")
    before = len(_levels(three))
    three.nodes[1].stop()
    three.run("gnt-debug", "delay", "0")
    lab.wait_until(lambda: len(_levels(three)) > before, "the loss of a candidate in the log")
    assert set(_levels(three)[before:]) == {"WARNING"}
    three.nodes[2].stop()
    three.run("gnt-debug", "delay", "0", check=False)
    lab.wait_until(lambda: "ERROR" in _levels(three)[before:], "the loss of more than half of them in the log")
    for node in three.nodes[1:]:
        node.start()
