"""The master's role on clusters of real daemons: taken over, confirmed, refused, fenced."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator

import pytest
from tests.cluster import lab

from gantry.lib_files import epoch as epochs


@contextlib.contextmanager
def _cluster(nodes: int, *more: object) -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init(*more)
        for _ in range(nodes - 1):
            cluster_lab.add_node()
        yield cluster_lab


@pytest.fixture
def three() -> Iterator[lab.Lab]:
    with _cluster(3) as cluster_lab:
        yield cluster_lab


def _failover(cluster: lab.Lab, to: int, *options: str) -> None:
    """Let a node take over. ``tests/sim`` tells how long that takes, by a clock that no other program slows down."""
    cluster.run("gnt-cluster", "master-failover", *options, on=cluster.nodes[to])
    cluster.leader = to
    assert cluster.answers()


def _masters(cluster: lab.Lab) -> list[str]:
    return [(node.root / "lib/ssconf/ssconf_master_node").read_text().strip() for node in cluster.nodes]


def _refusal(cluster: lab.Lab, node: int, *options: str) -> str:
    """Start a master daemon that must refuse; return what it said."""
    daemon = cluster.start_master(*options, check=False, on=cluster.nodes[node])
    assert daemon.wait(lab.TIMEOUT) == 1
    assert daemon.stderr is not None
    output = daemon.stderr.read()
    assert "Traceback" not in output
    return output


@pytest.mark.promise("cluster-11", "cluster-30", "cluster-32", "cluster-156")
def test_a_candidate_takes_over_from_a_living_master_and_its_jobs_go_with_the_role(three: lab.Lab) -> None:
    with three.luxi() as luxi:
        running = luxi.value("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 300, "on_nodes": ["node1"]}])
        waits = {"OP_ID": "OP_TEST_DELAY", "duration": 0, "depends": [[running, []]]}
        queued = luxi.value("SubmitJob", [waits])
        three.run("gnt-debug", "delay", "0")
    lab.wait_until(lambda: three.rows("gnt-job", "status", str(running)) == [["running"]], "the first job to run")
    jobs = three.rows("gnt-job", "id")
    old = three.master_pid()
    _failover(three, 1, "--yes-do-it")
    lab.wait_until(lambda: lab.is_gone(old), "the end of the old master")
    assert _masters(three) == ["node2"] * 3
    assert dict(three.rows("gnt-node", "name,role")) == {"node1": "C", "node2": "M", "node3": "C"}
    lab.wait_until(lambda: three.rows("gnt-job", "status", str(queued)) == [["success"]], "the job that waited")
    assert three.rows("gnt-job", "status", str(running)) == [["error"]]
    assert "restarted while the job ran" in three.run("gnt-job", "info", str(running)).stdout
    assert three.rows("gnt-job", "id") == jobs
    three.run("gnt-cluster", "master-ping")
    three.run("gnt-debug", "delay", "0")
    assert three.run("gnt-cluster", "getmaster", on=three.nodes[0]).stdout == "node2\n"
    three.refused("gnt-cluster", "master-ping", on=three.nodes[0])


@pytest.mark.slow
@pytest.mark.promise("cluster-41")
def test_a_living_master_that_runs_jobs_is_replaced_only_on_demand(three: lab.Lab) -> None:
    with three.luxi() as luxi:
        running = luxi.value("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 300, "on_nodes": ["node3"]}])
    lab.wait_until(lambda: three.rows("gnt-job", "status", str(running)) == [["running"]], "the job to run")
    old = three.master_pid()
    output = three.refused("gnt-cluster", "master-failover", on=three.nodes[1])
    assert f"node1, is alive and runs jobs that would be aborted: {running}" in output
    assert "add --yes-do-it" in output
    assert three.master_pid() == old
    assert three.rows("gnt-job", "status", str(running)) == [["running"]]
    three.run("gnt-cluster", "queue", "drain")
    _failover(three, 1, "--yes-do-it")
    assert three.run("gnt-cluster", "queue", "info").stdout == "The drain flag is set\n"
    assert three.rows("gnt-job", "status", str(running)) == [["error"]]


@pytest.mark.slow
@pytest.mark.promise("cluster-24", "cluster-28", "cluster-29")
def test_an_old_master_that_comes_back_is_refused_and_becomes_a_candidate(three: lab.Lab) -> None:
    three.run("gnt-debug", "delay", "0")
    three.kill_master()
    three.nodes[0].stop()
    _failover(three, 1)
    three.run("gnt-debug", "delay", "0")
    jobs = three.rows("gnt-job", "id")
    # its own state names itself, and nobody has told it anything yet
    output = _refusal(three, 0)
    assert "node node1 is not confirmed as the master" in output
    assert "node2 takes node2 for the master" in output
    assert "--no-voting --yes-do-it" in output
    three.nodes[0].start()
    lab.wait_until(lambda: _has_copy(three.nodes[0], master=three.nodes[1]), "the new state on the old master")
    assert "its copy of the state names node2 as the master" in _refusal(three, 0)
    _failover(three, 0)
    assert three.rows("gnt-job", "id") == jobs


def _has_copy(node: lab.Node, *, master: lab.Node) -> bool:
    """Return whether ``master`` is the master in a node's copy of the state."""
    uuid = json.loads((master.root / "lib/certs/member.json").read_text())["uuid"]
    files = [node.root / "lib/config.data", *(node.root / "lib/journal").glob("*.log")]
    return any(f'"master_node":"{uuid}"' in file.read_text() for file in files if file.exists())


@pytest.mark.promise("cluster-31")
@pytest.mark.slow
def test_a_master_that_was_forced_fences_the_one_that_it_replaces(three: lab.Lab) -> None:
    """The old master continues alone: its node daemon is down, so that nobody can end it."""
    three.run("gnt-cluster", "modify", "--replication", "seed")
    three.nodes[0].stop()
    _failover(three, 1)
    three.leader = 0
    assert three.answers()
    before = three.master_pid()
    failed = three.run("gnt-debug", "delay", "0", check=False)
    assert failed.returncode != 0
    lab.wait_until(lambda: lab.is_gone(before), "the end of the master that was replaced")
    three.leader = 1
    three.run("gnt-debug", "delay", "0")


@pytest.mark.promise("cluster-84", "cluster-86")
@pytest.mark.slow
def test_a_node_that_is_no_candidate_is_refused_with_those_that_are() -> None:
    with _cluster(3, "-C", "2") as cluster:
        output = cluster.refused("gnt-cluster", "master-failover", on=cluster.nodes[2])
        assert "node node3 is not a master candidate" in output
        assert "node1, node2" in output
        assert cluster.answers()
        here = cluster.refused("gnt-cluster", "master-failover", on=cluster.nodes[0])
        assert "a master daemon already runs on this node" in here


@pytest.mark.promise("cluster-92", "cluster-93")
@pytest.mark.slow
def test_two_nodes_with_one_down_need_the_override() -> None:
    with _cluster(2) as cluster:
        cluster.run("gnt-node", "modify", "-O", "yes", "node2")
        cluster.kill_master()
        # it is asked though it is offline: its word is what makes the quorum
        cluster.start_master()
        cluster.kill_master()
        cluster.nodes[1].stop()
        output = _refusal(cluster, 0)
        assert "1 of 2 nodes" in output
        assert "node2 does not answer" in output
        assert "add --yes-do-it" in _refusal(cluster, 0, "--no-voting")
        cluster.start_master("--no-voting", "--yes-do-it")
        cluster.run("gnt-debug", "delay", "0")


@pytest.mark.promise("cluster-31")
@pytest.mark.slow
def test_the_last_candidate_of_two_takes_over_with_the_override() -> None:
    with _cluster(2) as cluster:
        cluster.run("gnt-debug", "delay", "0")
        cluster.kill_master()
        cluster.nodes[0].stop()
        assert "1 of 2 nodes" in cluster.refused("gnt-cluster", "master-failover", on=cluster.nodes[1])
        _failover(cluster, 1, "--no-voting", "--yes-do-it")
        assert cluster.rows("gnt-job", "status")[0] == ["success"]
        cluster.run("gnt-debug", "delay", "0")


@pytest.mark.slow
def test_a_master_that_slept_through_its_replacement_is_refused_by_all_nodes(three: lab.Lab) -> None:
    daemon = three.nodes[0].daemon
    assert daemon is not None
    old = three.master_pid()
    for pid in (old, daemon.pid):
        os.kill(pid, signal.SIGSTOP)
    try:
        _failover(three, 1)
        three.run("gnt-debug", "delay", "0")
    finally:
        for pid in (old, daemon.pid):
            os.kill(pid, signal.SIGCONT)
    failed = three.run("gnt-debug", "delay", "0", check=False, on=three.nodes[0])
    assert failed.returncode != 0
    lab.wait_until(lambda: lab.is_gone(old), "the end of the master that was replaced")
    assert _masters(three)[1:] == ["node2", "node2"]
    three.kill_master()
    three.start_master()
    lab.wait_until(lambda: _masters(three)[0] == "node2", "the news on the old master")


@pytest.mark.slow
@pytest.mark.promise("cluster-25")
def test_a_master_starts_quickly_though_a_node_is_silent(three: lab.Lab) -> None:
    three.kill_master()
    daemon = three.nodes[2].daemon
    assert daemon is not None
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        three.start_master()
        three.run("gnt-cluster", "master-ping")
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_node_with_a_broken_epoch_file_neither_stops_the_master_nor_a_failover(three: lab.Lab) -> None:
    three.nodes[2].stop()
    epoch = three.nodes[2].root / "lib/epoch"
    epoch.unlink()
    broken = epochs.Mastership(999999999, "of-no-node", is_proven=True)
    epoch.write_bytes(epochs.encode([broken]))
    three.nodes[2].start()
    three.run("gnt-debug", "delay", "0")
    _failover(three, 1)
    three.run("gnt-debug", "delay", "0")
    three.kill_master()
    three.start_master()
    three.run("gnt-debug", "delay", "0")
    log = (three.master / "log/master-daemon.log").read_text()
    assert "node3 takes node1 for the master, says: it reports epoch 999999999, and no other node knows" in log
