"""What survives: power cuts of the master, damaged journals, a full disk, a second daemon."""

import contextlib
import json
import random
import threading
import time
from pathlib import Path

import pytest
from tests.cluster import lab

ENDED = {"success", "error"}


def _journal(cluster: lab.Lab) -> Path:
    """Return the newest section of the journal."""
    return max((cluster.master / "lib/journal").iterdir())


def _log(cluster: lab.Lab) -> str:
    return (cluster.master / "log/master-daemon.log").read_text()


class Client(threading.Thread):
    """Creates diskless instances with two addresses each until it is stopped; notes what was acknowledged."""

    def __init__(self, cluster: lab.Lab, name: str) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.prefix = name
        self.submitted: list[int] = []
        self.created: list[str] = []
        self.ended = threading.Event()

    def run(self) -> None:
        count = 0
        while not self.ended.is_set():
            count += 1
            with contextlib.suppress(OSError, ValueError, AssertionError), self.cluster.luxi() as luxi:
                self._create(luxi, f"{self.prefix}-{count}.example")
            time.sleep(0.01)

    def _create(self, luxi: lab.Luxi, name: str) -> None:
        nics = [{"ip": ["pool", "wide6"], "network": "wide"}]
        op = {"OP_ID": "OP_INSTANCE_CREATE", "disk_template": "diskless", "pnode": "node1", "nics": nics}
        number = luxi.value("SubmitJob", [{**op, "instance_name": name}])
        assert isinstance(number, int)
        self.submitted.append(number)
        if luxi.finished(number)[0] == "success":
            self.created.append(name)


def _work_on(clients: list[Client]) -> None:
    """Wait until some more instances have been created, however fast the machine is."""

    def created() -> int:
        return sum(len(client.created) for client in clients)

    before = created()
    lab.wait_until(lambda: created() >= before + 5, "five more instances")


@pytest.mark.promise("cluster-30", "cluster-66")
def test_a_killed_master_loses_no_acknowledged_job_instance_or_address(own: lab.Lab) -> None:
    own.run(
        "gnt-network", "add", "--subnet", "cidr=10.20.0.0/16", "--subnet", "cidr=2001:db8:20::/64",
        "--pool", "10.20.0.0/16", "--pool", "2001:db8:20::/112,name=wide6", "wide",
    )  # fmt: skip
    own.run("gnt-network", "connect", "-N", "mode=routed,link=main", "wide", "default")
    chance = random.Random(7)
    clients = [Client(own, f"c{number}") for number in range(4)]
    for client in clients:
        client.start()
    for _ in range(5):
        _work_on(clients)
        time.sleep(chance.uniform(0, 0.5))
        own.kill_master()
        own.start_master()
    _work_on(clients)
    for client in clients:
        client.ended.set()
    for client in clients:
        client.join(lab.TIMEOUT)
    own.kill_master()
    own.start_master()
    _check_nothing_lost(own, clients)


def _check_nothing_lost(cluster: lab.Lab, clients: list[Client]) -> None:
    # A job whose client lost its connection, and which had not begun, is done by the next master.
    lab.wait_until(lambda: {row[0] for row in cluster.rows("gnt-job", "status")} <= ENDED, "the end of all jobs")
    rows = cluster.rows("gnt-instance", "name,nic.ips")
    names = {name for name, _ in rows}
    created = {name for client in clients for name in client.created}
    assert len(created) > 20
    assert created <= names
    addresses = [address for _, text in rows for address in text.split("/")]
    assert len(addresses) == 2 * len(rows)
    assert len(set(addresses)) == len(addresses)
    submitted = [number for client in clients for number in client.submitted]
    assert len(set(submitted)) == len(submitted)
    assert set(submitted) <= {int(number) for (number,) in cluster.rows("gnt-job", "id")}
    used = {row[0]: int(row[1]) for row in cluster.rows("gnt-network", "name,reserved_count")}
    assert used["wide"] >= len(addresses)


@pytest.mark.slow
def test_a_torn_last_record_is_dropped_and_said(own: lab.Lab) -> None:
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", "node1", "kept.example")
    own.kill_master()
    journal = _journal(own)
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole.splitlines(keepends=True)[-1][:-30])
    own.start_master()
    assert own.rows("gnt-instance", "name") == [["kept.example"]]
    assert str(journal) in _log(own)
    own.run("gnt-instance", "remove", "-f", "kept.example")


@pytest.mark.slow
def test_a_flipped_byte_is_refused_with_file_and_offset(own: lab.Lab) -> None:
    own.run("gnt-debug", "delay", "0")
    own.kill_master()
    journal = _journal(own)
    whole = bytearray(journal.read_bytes())
    lines = bytes(whole).splitlines(keepends=True)
    offset = len(lines[0]) + len(lines[1]) // 2
    whole[offset] ^= 1
    journal.write_bytes(whole)
    daemon = own.start_master(check=False)
    assert daemon.wait(lab.TIMEOUT) == 2
    assert daemon.stderr is not None
    output = daemon.stderr.read()
    assert str(journal) in output
    assert str(len(lines[0])) in output
    assert "Traceback" not in output
    assert journal.read_bytes() == whole


def test_a_second_master_on_one_folder_refuses(own: lab.Lab) -> None:
    pid = own.master_pid()
    second = own.start_master(check=False)
    assert second.wait(lab.TIMEOUT) == 1
    assert second.stderr is not None
    assert str(pid) in second.stderr.read()
    assert own.answers()


@pytest.mark.slow
@pytest.mark.promise("cluster-60", "cluster-61")
def test_the_queue_is_files_that_people_can_read(own: lab.Lab) -> None:
    own.run("gnt-debug", "delay", "0")
    queue = own.master / "lib/queue"
    (number,) = own.rows("gnt-job", "id")[-1]
    file = queue / f"job-{number}"
    lab.wait_until(file.exists, "the job's file")
    lab.wait_until(lambda: json.loads(file.read_text())["ops"][0]["status"] == "success", "its end in the file")
    assert set(json.loads(file.read_text())) >= {"id", "ops", "received_timestamp", "start_timestamp", "end_timestamp"}
    assert (queue / "version").read_text() == "1\n"
    lab.wait_until(lambda: (queue / "serial").read_text() == f"{number}\n", "the serial")
    own.run("gnt-job", "archive", number)
    lab.wait_until((queue / f"archive/0/job-{number}").exists, "the archived file")
    assert not file.exists()
    assert own.rows("gnt-job", "id,status", number) == [[number, "success"]]
