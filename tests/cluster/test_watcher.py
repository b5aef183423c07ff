"""gantry-watcher on real daemons: what it submits, what it says, and when it does nothing."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cluster import lab

from gantry.doors import watcher

ENDED = {"success", "error", "canceled"}


def _watch(cluster: lab.Lab, *options: str, code: int = 0) -> str:
    """Do one round; return what it added to its log."""
    log = cluster.master / "log/watcher.log"
    before = len(log.read_text()) if log.exists() else 0
    program = [sys.executable, "-m", "gantry.daemons.watcher", *options, "--root", str(cluster.master)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=lab.TIMEOUT, check=False)
    assert done.returncode == code, done.stderr
    return log.read_text()[before:] if log.exists() else ""


def _guest(cluster: lab.Lab, name: str) -> Path:
    return cluster.master / "run/instances/fake" / name


def _crash(cluster: lab.Lab, name: str) -> None:
    """Let a guest end by itself."""
    _guest(cluster, name).unlink()


def _restarted(cluster: lab.Lab, name: str) -> None:
    """Wait for the job that starts a guest: as long as that has not ended, the watcher leaves the instance to it."""
    lab.wait_until(lambda: {status for (status,) in cluster.rows("gnt-job", "status")} <= ENDED, "the end of all jobs")
    assert _guest(cluster, name).exists()


@pytest.fixture
def guests(own: lab.Lab) -> lab.Lab:
    for name in ("up.example", "stopped.example"):
        own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", "node1", name)
    own.run("gnt-instance", "shutdown", "stopped.example")
    return own


@pytest.mark.promise("cluster-36")
def test_what_should_run_is_started_by_a_job_and_only_that_is_logged(guests: lab.Lab) -> None:
    jobs = len(guests.rows("gnt-job", "id"))
    assert "attempt" not in _watch(guests)
    assert len(guests.rows("gnt-job", "id")) == jobs
    _crash(guests, "up.example")
    output = _watch(guests)
    number, summary = guests.rows("gnt-job", "id,summary")[-1]
    assert summary == "INSTANCE_STARTUP(up.example)"
    assert f"instance up.example is down: submitted job {number} to start it, attempt 1" in output
    assert "stopped.example" not in output
    _restarted(guests, "up.example")
    assert not _guest(guests, "stopped.example").exists()
    assert len(guests.rows("gnt-job", "id")) == jobs + 1
    assert "up.example" not in _watch(guests)


@pytest.mark.slow
def test_an_instance_that_does_not_stay_up_is_given_up_with_a_line(guests: lab.Lab) -> None:
    for number in range(watcher.ATTEMPTS):
        _crash(guests, "up.example")
        assert f"attempt {number + 1}\n" in _watch(guests)
        _restarted(guests, "up.example")
    _crash(guests, "up.example")
    assert f"up.example is given up after {watcher.ATTEMPTS} attempts" in _watch(guests)
    assert "up.example" not in _watch(guests)
    guests.run("gnt-instance", "startup", "up.example")
    _watch(guests)
    _crash(guests, "up.example")
    assert "attempt 1\n" in _watch(guests)


@pytest.mark.slow
def test_a_pause_and_a_drained_queue_are_kept_over_a_restart_of_the_master(guests: lab.Lab) -> None:
    _crash(guests, "up.example")
    assert guests.run("gnt-cluster", "watcher", "info").stdout == "The watcher is not paused.\n"
    assert guests.run("gnt-cluster", "watcher", "pause", "1h").stdout.startswith("The watcher is paused until ")
    guests.kill_master()
    guests.start_master()
    assert guests.run("gnt-cluster", "watcher", "info").stdout.startswith("The watcher is paused until ")
    assert "paused for another" in _watch(guests)
    assert guests.run("gnt-cluster", "watcher", "continue").stdout == "The watcher is no longer paused.\n"
    assert "is not an action of gnt-cluster watcher" in guests.refused("gnt-cluster", "watcher", "pause")
    with guests.luxi() as luxi:
        success, _ = luxi.exchange("SetWatcherPause", time.time() - 60)
        assert not success
    guests.run("gnt-cluster", "queue", "drain")
    assert guests.run("gnt-cluster", "queue", "info").stdout == "The drain flag is set\n"
    assert "the job queue is drained" in _watch(guests)
    assert not _guest(guests, "up.example").exists()
    guests.run("gnt-cluster", "queue", "undrain")
    assert guests.run("gnt-cluster", "queue", "info").stdout == "The drain flag is unset\n"
    assert "attempt 1\n" in _watch(guests)


@pytest.mark.slow
def test_a_node_that_does_not_answer_is_reported_with_what_to_do(guests: lab.Lab) -> None:
    guests.nodes[0].stop()
    output = _watch(guests)
    assert "node node1 does not answer calls" in output
    assert "gnt-node modify -f --offline yes node1" in output
    assert "attempt" not in output


@pytest.mark.promise("cluster-94")
@pytest.mark.slow
def test_a_node_that_does_not_answer_is_put_offline_if_that_is_wanted(guests: lab.Lab) -> None:
    for _ in range(2):
        guests.add_node()
    guests.nodes[2].stop()
    output = _watch(guests, "--offline-after", "2")
    assert "to mark it offline" not in output
    output = _watch(guests, "--offline-after", "2")
    number = guests.rows("gnt-job", "id")[-1][0]
    assert f"node node3: submitted job {number} to mark it offline" in output
    lab.wait_until(lambda: guests.rows("gnt-node", "role", "node3") == [["O"]], "the node to be offline")


@pytest.mark.slow
def test_without_a_master_daemon_there_is_nothing_to_do_or_it_is_said(guests: lab.Lab, tmp_path: Path) -> None:
    guests.kill_master()
    assert "the master daemon does not answer" in _watch(guests, code=1)
    program = [sys.executable, "-m", "gantry.daemons.watcher", "--root", str(tmp_path)]
    assert subprocess.run(program, check=False, timeout=lab.TIMEOUT).returncode == 0
