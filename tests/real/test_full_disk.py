"""A master with a full disk: requests fail, the stored state stays complete, and work continues when there is space."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import lab

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="a small file system of its own needs root"),
]

# A few of these are more than fits into what is left of the journal's last block.
BIG = {"OP_ID": "OP_TEST_DELAY", "duration": 0, "comment": "x" * 4096}


@pytest.fixture
def small() -> Iterator[lab.Lab]:
    """A cluster whose first machine keeps its state on a file system of 16 MiB."""
    with lab.lab() as cluster:
        state = cluster.folder / "node1/lib"
        state.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", state], check=True)
        try:
            cluster.init()
            cluster.add_network()
            yield cluster
        finally:
            cluster.close_daemons()
            subprocess.run(["umount", "--lazy", state], check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def test_a_full_disk_fails_jobs_and_keeps_the_state_whole(small: lab.Lab) -> None:
    small.add_instance("before.example")
    filler = small.master / "lib/filler"
    _fill(filler)
    create = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "full.example", "disk_template": "diskless"}
    with small.luxi() as luxi:
        success, result = luxi.exchange("SubmitJob", [BIG, BIG, BIG, {**create, "pnode": "node1"}])
    assert not success
    assert "No space left on device" in str(result)
    assert small.rows("gnt-instance", "name") == [["before.example"]]
    filler.unlink()
    small.add_instance("after.example")
    small.kill_master()
    small.start_master()
    assert small.rows("gnt-instance", "name,nic.ips") == [
        ["after.example", "192.0.2.11/2001:db8::11"],
        ["before.example", "192.0.2.10/2001:db8::10"],
    ]


def test_a_disk_that_fills_while_a_job_runs_fails_the_job_only(small: lab.Lab) -> None:
    filler = small.master / "lib/filler"
    with small.luxi() as luxi:
        number = luxi.value("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 2}])
        status: object = "queued"
        while status != "running":
            answer = luxi.value("WaitForJobChange", number, ["status"], [status], None, 60)
            assert isinstance(answer, list)
            (status,) = answer[0]
        _fill(filler)
        success, result = luxi.exchange("SubmitJob", [BIG] * 4)
        assert not success
        assert "No space left on device" in str(result)
        lab.wait_until(lambda: "No space left" in (small.master / "log/master-daemon.log").read_text(), "the log")
        filler.unlink()
        assert luxi.finished(number)[0] == "success"
        assert luxi.finished(luxi.value("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 0}]))[0] == "success"
