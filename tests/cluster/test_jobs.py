"""Jobs and their locks in a running master: what clients see of both, and what is left when the master starts again.

A frozen node daemon or a hook keeps a job at work for as long as the test needs it to.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
import pytest
from tests.cluster import lab

DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0}
ON_NODE = DELAY | {"on_master": False, "on_nodes": ["node1"]}
VERIFY = {"OP_ID": "OP_CLUSTER_VERIFY"}
QUERIES: dict[str, list[object]] = {
    "Query": ["node", ["name", "role", "dtotal"], None], "QueryFields": ["node", None],
    "QueryJobs": [None, ["id", "status"]],
    "QueryClusterInfo": [], "QueryConfigValues": [["cluster_name"]], "QueryNodes": [[], ["name"], False],
    "QueryInstances": [[], ["name"], False], "QueryGroups": [[], ["name"], False], "QueryTags": ["cluster", ""],
}  # fmt: skip
VM = "vm.example"
START = {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": VM}
REMOVE = {"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": VM, "shutdown_timeout": 1}
ADD = ("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-install", "-n", "node1")

Row = tuple[
    tuple[int, str],
    tuple[int, str | None],
    tuple[int, list[str] | None],
    tuple[int, list[tuple[str, list[str]]] | None],
]


class Lock(NamedTuple):
    """How a lock is held, by which jobs, and which jobs wait for it in which mode."""

    mode: str | None
    owner: list[str]
    pending: list[tuple[str, list[str]]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[lab.Lab]:
    with lab.lab() as one_node:
        one_node.init()
        one_node.verified()
        yield one_node


@pytest.fixture
def luxi(cluster: lab.Lab) -> Iterator[lab.Luxi]:
    with cluster.luxi() as luxi:
        yield luxi


@contextlib.contextmanager
def _frozen(cluster: lab.Lab) -> Iterator[None]:
    """Stop the node's daemon, so that calls of it take as long as the block."""
    daemon = cluster.nodes[0].daemon
    assert daemon is not None
    daemon.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def _hooks_waiting(cluster: lab.Lab, phase: str) -> Iterator[None]:
    """Keep the hooks of a phase running for as long as the block: a job does not give up a node that is alive."""
    node = cluster.nodes[0]
    gate, hook = cluster.folder / f"{phase}.gate", node.root / f"etc/hooks/{phase}.d/10-gate"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\nwhile ! [ -e {gate} ]; do sleep 0.05; done\n")
    hook.chmod(0o755)
    try:
        yield
    finally:
        gate.touch()


def _submit(luxi: lab.Luxi, *ops: Mapping[str, object]) -> object:
    return luxi.value("SubmitJob", ops)


def _statuses(luxi: lab.Luxi, *numbers: object) -> list[object]:
    rows = luxi.value("QueryJobs", numbers, ["status"])
    assert isinstance(rows, list)
    return [row[0] for row in rows]


def _wait(luxi: lab.Luxi, **jobs: object) -> None:
    """Wait until the jobs have the statuses that are their names here."""
    lab.wait_until(lambda: _statuses(luxi, *jobs.values()) == [*jobs], f"jobs to be {', '.join(jobs)}")


def _locks(luxi: lab.Luxi) -> dict[str, Lock]:
    """Return the locks by name."""
    answer = msgspec.convert(luxi.call("Query", "lock", ["name", "mode", "owner", "pending"], None)["data"], list[Row])
    return {row[0][1]: Lock(row[1][1], row[2][1] or [], row[3][1] or []) for row in answer}


@pytest.mark.promise("cluster-21", "cluster-53", "cluster-57", "cluster-64")
def test_clients_submit_jobs_wait_for_them_query_cancel_and_archive_them(luxi: lab.Luxi) -> None:
    number = _submit(luxi, DELAY, VERIFY)
    status: object = None
    while status != "success":
        answer = luxi.value("WaitForJobChange", number, ["status"], [status], None, 60)
        assert isinstance(answer, list)
        ((status,), log) = answer
    assert isinstance(log, list)
    fields = ["status", "opstatus", "opresult"]
    ended = ["success", ["success", "success"], [None, True]]
    assert luxi.value("QueryJobs", [number], fields) == [ended]
    failing = _submit(luxi, DELAY, START, DELAY)
    luxi.finished(failing)
    assert luxi.value("QueryJobs", [failing], fields[:2]) == [["error", ["success", "error", "error"]]]
    canceled = luxi.value("CancelJob", number)
    assert isinstance(canceled, list)
    assert canceled[0] is False
    assert luxi.value("ArchiveJob", number) is True
    assert luxi.value("QueryJobs", [number], fields) == [ended]
    listed = luxi.value("QueryJobs", None, ["id"])
    assert isinstance(listed, list)
    assert ([number] in listed, [failing] in listed) == (False, True)


@pytest.mark.promise("cluster-152")
def test_a_command_that_only_submits_ends_before_its_job_and_the_job_goes_on(cluster: lab.Lab, luxi: lab.Luxi) -> None:
    with _frozen(cluster):
        done = cluster.run("gnt-debug", "delay", "--no-master", "-n", "node1", "--submit", "--print-jobid", "0")
        number = int(done.stdout)
        assert done.stderr == f"JobID: {number}\n"
        _wait(luxi, running=number)
    assert luxi.finished(number)[0] == "success"


@pytest.mark.promise("cluster-155")
def test_a_command_that_waits_for_its_job_shows_the_log_while_the_job_runs(cluster: lab.Lab, luxi: lab.Luxi) -> None:
    environment = {**os.environ, "GANTRY_ROOT": str(cluster.master)}
    command = subprocess.Popen([lab.BIN / "gnt-cluster", "verify"], env=environment, stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    with command:
        with _frozen(cluster):
            printed = [command.stdout.readline()]
            jobs = msgspec.convert(luxi.value("QueryJobs", None, ["id", "status"]), list[tuple[int, str]])
            (number,) = [job for job, status in jobs if status == "running"]
        printed += command.stdout.readlines()
    # What verify says itself, when its job has ended.
    conclusion = printed.pop()
    assert conclusion.startswith("The cluster is ")
    rows = luxi.value("QueryJobs", [number], ["oplog"])
    ((log,),) = msgspec.convert(rows, list[tuple[list[list[tuple[int, object, str, str]]]]])
    stamp = len(f"{time.ctime()} ")
    assert [line[stamp:].rstrip("\n") for line in printed] == [text for *_, text in log[0]]


@pytest.mark.promise("cluster-20", "cluster-55", "cluster-56", "cluster-65")
def test_a_job_is_queued_or_waits_until_it_may_run_and_is_canceled_until_then(cluster: lab.Lab, luxi: lab.Luxi) -> None:
    luxi.finished(_submit(luxi, {"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": 2}))
    with _frozen(cluster):
        running = _submit(luxi, ON_NODE)
        _wait(luxi, running=running)
        waiting, queued, last = (_submit(luxi, op) for op in (ON_NODE, DELAY, DELAY))
        _wait(luxi, running=running, waiting=waiting, queued=queued)
        assert luxi.value("WaitForJobChange", last, ["status"], ["queued"], None, 0.2) == "nochange"
        for number, can_be_canceled in ((running, False), (queued, True), (waiting, True)):
            answer = luxi.value("CancelJob", number)
            assert isinstance(answer, list)
            assert answer[0] is can_be_canceled
        assert luxi.finished(last)[0] == "success"
        assert _statuses(luxi, running) == ["running"]
    assert [luxi.finished(number)[0] for number in (running, waiting, queued)] == ["success", "canceled", "canceled"]
    assert luxi.finished(_submit(luxi, START))[0] == "error"
    cluster.run("gnt-cluster", "modify", "--max-running-jobs", "default")


@pytest.mark.promise("cluster-14", "cluster-15", "cluster-68")
def test_queries_are_answered_and_change_nothing_while_the_queue_is_drained_and_a_node_is_frozen(
    cluster: lab.Lab, luxi: lab.Luxi
) -> None:
    with _frozen(cluster):
        running = _submit(luxi, ON_NODE)
        _wait(luxi, running=running)
        luxi.call("SetDrainFlag", True)
        jobs, serial = luxi.value("QueryJobs", None, ["id", "status"]), luxi.call("WaitForEvents", 0, 1, 0)["serial"]
        with lab.without_waiting_for_a_node():
            for method, arguments in QUERIES.items():
                luxi.call(method, *arguments)
        assert luxi.value("QueryJobs", None, ["id", "status"]) == jobs
        assert luxi.call("WaitForEvents", 0, 1, 0)["serial"] == serial
        for method, argument in (("SubmitJob", [DELAY]), ("SubmitManyJobs", [[DELAY]])):
            success, refusal = luxi.exchange(method, argument)
            assert (success, "JobQueueDrainError" in str(refusal)) == (False, True)
    assert luxi.finished(running)[0] == "success"
    cluster.kill_master()
    cluster.start_master()
    with cluster.luxi() as again:
        assert again.exchange("SubmitJob", [DELAY])[0] is False
        again.call("SetDrainFlag", False)
        assert again.finished(_submit(again, DELAY))[0] == "success"


@pytest.mark.promise("cluster-58", "cluster-67")
def test_an_archived_job_moves_to_the_history_and_is_left_alone(cluster: lab.Lab, luxi: lab.Luxi) -> None:
    first, second = (_submit(luxi, DELAY) for _ in range(2))
    luxi.finished(second)
    queue = cluster.master / "lib/queue"
    assert luxi.value("AutoArchiveJobs", 3600, 10) == [0, 0]
    luxi.call("ArchiveJob", first)
    lab.wait_until((queue / f"archive/0/job-{first}").exists, "the archived job's file")
    lab.wait_until((queue / f"job-{second}").exists, "the other job's file")
    assert not (queue / f"job-{first}").exists()
    archived = luxi.value("AutoArchiveJobs", 0, 10)
    assert isinstance(archived, list)
    assert archived[0] >= 1
    lab.wait_until((queue / f"archive/0/job-{second}").exists, "the file of the other job in the archive")
    assert luxi.value("QueryJobs", None, ["id"]) == []
    cluster.stop_master(cluster.nodes[0])
    damaged = queue / f"archive/0/job-{first}"
    damaged.write_text("no job")
    cluster.start_master()
    assert cluster.rows("gnt-job", "id") == []
    assert damaged.read_text() == "no job"
    assert str(damaged) not in (cluster.master / "log/master-daemon.log").read_text()


@pytest.mark.promise("cluster-43", "cluster-45", "cluster-46", "cluster-48", "cluster-49", "cluster-52")
def test_nodes_instances_and_the_configuration_have_locks_that_come_and_go_with_them(
    cluster: lab.Lab, luxi: lab.Luxi
) -> None:
    cluster.run(*ADD, VM)
    ((node,),), ((instance,),) = cluster.rows("gnt-node", "uuid"), cluster.rows("gnt-instance", "uuid", VM)
    with _hooks_waiting(cluster, "instance-remove-pre"):
        remover = _submit(luxi, REMOVE)
        _wait(luxi, running=remover)
        waiter, everything, alone = (_submit(luxi, op) for op in (START, VERIFY, {"OP_ID": "OP_CLUSTER_DESTROY"}))
        setter = _submit(luxi, {"OP_ID": "OP_CLUSTER_SET_PARAMS", "enabled_hypervisors": ["fake"]})
        for number in (waiter, everything, alone, setter):
            _wait(luxi, waiting=number)
        locks = _locks(luxi)
        owner = f"job/{remover}"
        assert locks[f"instance/{instance}"] == Lock("exclusive", [owner], [("exclusive", [f"job/{waiter}"])])
        assert (locks[f"node/{node}"].mode, locks[f"node/{node}"].owner) == ("shared", [owner])
        assert locks["config/cluster"] == Lock(None, [], [("exclusive", [f"job/{setter}"])])
        assert locks["cluster/BGL"].owner == [owner]
        assert ("exclusive", [f"job/{alone}"]) in locks["cluster/BGL"].pending
        luxi.call("CancelJob", alone)
    ends = [luxi.finished(number)[0] for number in (remover, waiter, everything, alone, setter)]
    assert ends == ["success", "error", "success", "canceled", "success"]
    assert "a lock was removed while the job waited for it" in str(luxi.value("QueryJobs", [waiter], ["opresult"]))
    assert _locks(luxi) == {}


@pytest.mark.promise("cluster-45", "cluster-47", "cluster-48")
def test_a_lock_over_all_instances_or_nodes_is_shared_and_includes_those_that_come_later(
    cluster: lab.Lab, luxi: lab.Luxi
) -> None:
    with _hooks_waiting(cluster, "cluster-verify-post"):
        verifying = [_submit(luxi, VERIFY) for _ in range(2)]
        for number in verifying:
            _wait(luxi, running=number)
        new = _submit(
            luxi,
            {
                "OP_ID": "OP_INSTANCE_CREATE", "instance_name": VM, "disk_template": "diskless", "pnode": "node1",
                "mode": "create", "disks": [], "nics": [], "os_type": "plain", "no_install": True,
            },
        )  # fmt: skip
        on_node = _submit(luxi, ON_NODE)
        for number in (new, on_node):
            _wait(luxi, waiting=number)
        locks = _locks(luxi)
        for level in ("instance", "node"):
            lock = locks[f"{level}/[lockset]"]
            assert (lock.mode, sorted(lock.owner)) == ("shared", sorted(f"job/{number}" for number in verifying))
        assert locks[f"instance/{VM}"] == Lock(None, [], [("exclusive", [f"job/{new}"])])
    assert [luxi.finished(number)[0] for number in (*verifying, new, on_node)] == ["success"] * 4
    cluster.run("gnt-instance", "remove", "-f", VM)
