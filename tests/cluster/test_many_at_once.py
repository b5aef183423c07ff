"""What runs at the same time: clients, jobs, calls of a node; and what ends with the master."""

import json

import pytest
from tests.cluster import lab

DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0}
LONG = {"OP_ID": "OP_TEST_DELAY", "duration": 300}


def _statuses(luxi: lab.Luxi, numbers: list[object]) -> set[object]:
    rows = luxi.value("QueryJobs", numbers, ["status"])
    assert isinstance(rows, list)
    return {row[0] for row in rows}


@pytest.mark.promise("cluster-1", "cluster-23")
def test_no_client_and_no_running_job_keeps_the_master_from_others(shared: lab.Lab) -> None:
    with shared.luxi() as halting, shared.luxi() as waiting, shared.luxi() as luxi:
        running = [luxi.value("SubmitJob", [LONG]) for _ in range(40)]
        halting.send(b'{"method": "QueryClusterInfo", ')
        wait = {"method": "WaitForJobChange", "args": [running[0], ["status"], ["running"], 0, 300]}
        waiting.send(json.dumps(wait).encode() + b"\x03")
        lab.wait_until(lambda: _statuses(luxi, running) == {"running"}, "all jobs to run at once")
        assert shared.answers()
        assert luxi.finished(luxi.value("SubmitJob", [DELAY]))[0] == "success"
        halting.send(b'"args": []}\x03')
        assert b"lab.example" in halting.receive()
        assert _statuses(luxi, running) == {"running"}


@pytest.mark.promise("cluster-37")
def test_a_node_answers_a_call_while_it_works_on_another(shared: lab.Lab) -> None:
    on_node = {"on_master": False, "on_nodes": ["node2"], "no_locks": True}
    with shared.luxi() as luxi:
        slow = luxi.value("SubmitJob", [LONG | on_node])
        lab.wait_until(lambda: _statuses(luxi, [slow]) == {"running"}, "the long call")
        assert luxi.finished(luxi.value("SubmitJob", [DELAY | on_node]))[0] == "success"
        lab.wait_until(lambda: shared.rows("gnt-node", "mtotal", "node2")[0][0].isdecimal(), "the memory of the node")
        assert _statuses(luxi, [slow]) == {"running"}


@pytest.mark.slow
@pytest.mark.promise("cluster-40")
def test_locks_end_with_the_master_and_nothing_has_to_be_cleared(own: lab.Lab) -> None:
    with own.luxi() as luxi:
        holder, waiter = (luxi.value("SubmitJob", [LONG | {"on_nodes": ["node1"]}]) for _ in range(2))
        lab.wait_until(lambda: _statuses(luxi, [waiter]) == {"waiting"}, "somebody to wait for the lock")
    output = own.run("gnt-debug", "locks").stdout
    assert f"job/{waiter} for job/{holder} (exclusive)" in output
    own.kill_master()
    own.start_master()
    assert "job/" not in own.run("gnt-debug", "locks").stdout
    own.run("gnt-debug", "delay", "-n", "node1", "0")
    assert own.rows("gnt-job", "status", str(holder), str(waiter)) == [["error"], ["error"]]
