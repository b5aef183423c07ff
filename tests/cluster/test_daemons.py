"""The daemons from outside: who may call whom, what they write down, what a candidate has of the queue."""

import http.client
import json
import re
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster import lab

from gantry.cli import client
from gantry.rpc import calls

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR) [\w.]+: ")


def _call(node: lab.Node, certificate: Path | None) -> tuple[int, object]:
    """Call a node daemon with somebody's certificate; the paths are without ``.pem`` and ``.key``."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        # The master's certificate is for the key of its node.
        context.load_cert_chain(f"{certificate}.pem", certificate.with_name("node.key"))
    connection = http.client.HTTPSConnection("127.0.0.1", node.port, context=context, timeout=lab.TIMEOUT)
    try:
        connection.request("POST", f"/{calls.Version.procedure()}", body=b"{}")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.mark.promise("cluster-6")
def test_only_the_master_daemon_can_call_a_node_daemon(shared: lab.Lab) -> None:
    first, second = shared.nodes
    for node in (first, second):
        status, answer = _call(node, first.root / "lib/certs/master")
        assert (status, isinstance(answer, list) and answer[0]) == (200, True)
        for other in (first.root / "lib/certs/node", second.root / "lib/certs/node"):
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
                _call(node, other)
        # A machine with an invitation has no certificate either, so a stranger may connect, but not call.
        assert _call(node, None) == (400, [False, ["LuxiError", ["only the cluster's master may call this node"]]])


@pytest.mark.promise("cluster-22")
def test_a_client_is_a_few_lines_with_the_library_and_without_it(shared: lab.Lab) -> None:
    op = {"OP_ID": "OP_TEST_DELAY", "duration": 0}
    library = client.Client(str(shared.master / "run/master.sock"))
    try:
        number = library.submit([op])
        change = library.wait_for_change(number, ["status"], previous=["success"], serial=None, timeout_seconds=60)
        while change is None or change.values[0] not in ("success", "error"):
            previous = change.values if change else ["success"]
            change = library.wait_for_change(number, ["status"], previous=previous, serial=None, timeout_seconds=60)
        assert library.jobs([number], ["status", "opresult"]) == [["success", [None]]]
    finally:
        library.close()
    request = json.dumps({"method": "QueryJobs", "args": [[number], ["status", "opresult"]]})
    script = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('run/master.sock'); "
        f"s.sendall({request!r}.encode() + bytes([3])); print(s.recv(65536)[:-1].decode())"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], cwd=shared.master, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"success": True, "result": [["success", [None]]]}


@pytest.mark.promise("cluster-33")
def test_daemons_log_by_the_standard_library_and_so_do_the_libraries_they_use(shared: lab.Lab, tmp_path: Path) -> None:
    for name in ("master-daemon", "node-daemon"):
        lines = (shared.master / f"log/{name}.log").read_text().splitlines()
        assert lines
        assert all(LINE.match(line) for line in lines if not line.startswith((" ", "Traceback")))
    script = (
        "import logging; from gantry.daemons import logs; from gantry.runtime import paths; "
        f"logs.configure(paths.Paths.below({str(tmp_path)!r}), 'some-daemon', debug=False); "
        "logging.getLogger('some.library').error('what it says')"
    )
    (tmp_path / "log").mkdir()
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert (tmp_path / "log/some-daemon.log").read_text().endswith(" ERROR some.library: what it says\n")


def test_logs_are_for_root_and_the_daemons_group_alone(shared: lab.Lab) -> None:
    (shared.master / "log").chmod(0o755)
    logs = [path for node in shared.nodes for path in lab.files(node.root / "log") if path.suffix == ".log"]
    assert {path.name for path in logs} >= {"master-daemon.log", "node-daemon.log"}
    assert {oct(path.stat().st_mode & 0o777) for path in logs} == {"0o640"}


@pytest.mark.promise("cluster-34")
def test_each_daemon_has_one_log(shared: lab.Lab) -> None:
    names = {path.name for path in (shared.master / "log").iterdir()}
    assert {"master-daemon.log", "node-daemon.log"} <= names
    assert not {name for name in names if "error" in name or "debug" in name}
    assert (shared.nodes[1].root / "log/node-daemon.log").exists()
    assert not (shared.nodes[1].root / "log/master-daemon.log").exists()


@pytest.mark.slow
@pytest.mark.promise("cluster-63")
def test_a_candidate_hears_of_jobs_and_of_their_archive_and_forgets_the_queue_when_it_leaves() -> None:
    with lab.lab() as cluster:
        cluster.init()
        cluster.add_node()
        third = cluster.add_node()
        kept, archived = (
            re.findall(r"\d+", cluster.run("gnt-debug", "delay", "--print-jobid", "0").stdout)[0] for _ in range(2)
        )
        cluster.run("gnt-job", "archive", archived)
        cluster.kill_master()
        cluster.run("gnt-cluster", "master-failover", on=cluster.nodes[1])
        cluster.leader = 1
        queue = cluster.master / "lib/queue"
        assert cluster.rows("gnt-job", "id,status,archived", kept, archived) == [
            [kept, "success", "N"],
            [archived, "success", "Y"],
        ]
        lab.wait_until((queue / f"archive/0/job-{archived}").exists, "the archived job's file")
        lab.wait_until((queue / f"job-{kept}").exists, "the other job's file")
        assert not (queue / f"job-{archived}").exists()
        assert (third.root / "lib/journal").exists()
        cluster.run("gnt-node", "remove", "node3")
        remaining = [path for folder in ("queue", "journal") for path in lab.files(third.root / "lib" / folder)]
        assert not [path for path in remaining if path.name.startswith("job-") or path.suffix == ".log"]
        assert not (third.root / "lib/config.data").exists()


@pytest.mark.slow
def test_a_cluster_of_three_candidates_is_destroyed() -> None:
    """They leave it one after the other, and no majority is left that could acknowledge the end of the job."""
    with lab.lab() as own:
        own.init()
        machines = [own.nodes[0], own.add_node(), own.add_node()]
        lab.wait_until(lambda: (machines[2].root / "lib/config.data").exists(), "the third copy")
        pid = own.master_pid()
        own.run("gnt-cluster", "destroy", "--yes-do-it")
        lab.wait_until(lambda: lab.is_gone(pid), "the end of the master daemon")
        for machine in machines:
            lab.wait_until((machine.root / "lib/join-token").exists, f"the token of {machine.name}")
            assert not (machine.root / "lib/config.data").exists()
            assert not (machine.root / "lib/certs/authority.key").exists()


@pytest.mark.slow
def test_the_machine_of_a_destroyed_cluster_joins_another_one() -> None:
    with lab.lab() as former, lab.lab() as other:
        former.init()
        former.run("gnt-cluster", "destroy", "--yes-do-it")
        machine = former.nodes[0]
        lab.wait_until(lambda: not (machine.root / "lib/journal").exists(), "the end of the master daemon")
        other.init()
        token = machine.root / "lib/join-token"
        lab.wait_until(token.exists, "the token of the machine")
        where = ("--primary-ip", "127.0.0.1", "--port", machine.port)
        other.run("gnt-node", "add", "--join-token-file", token, *where, "former")
        assert [row[0] for row in other.rows("gnt-node", "name")] == ["former", "node1"]
