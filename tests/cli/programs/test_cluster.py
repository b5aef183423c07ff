import json
import stat
import sys
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Fault, Gnt, Master

from gantry.cli import machine

INFO = {
    "name": "c1",
    "master": "node1",
    "uuid": "c-1",
    "software_version": "0.1.0",
    "protocol_version": 1,
    "config_version": 1,
    "os_api_version": 20,
    "export_version": 0,
    "vcs_version": "",
    "architecture": ["64bit", "x86_64"],
    "ctime": 1700000000.0,
    "mtime": 1700000000.0,
    "tags": [],
    "default_hypervisor": "kvm",
    "enabled_hypervisors": ["kvm", "fake"],
    "hvparams": {"kvm": {"accel": "auto"}},
    "candidate_pool_size": 10,
    "nicparams": {"default": {"mode": "bridged"}},
}

DAEMON = """#!{python}
import json, os, socket, sys
folder = os.environ["GANTRY_ROOT"]
if sys.argv[1:] == ["init"]:
    document = json.load(sys.stdin)
    if document["cluster_name"] == "bad":
        print("ERROR in the log\\ngantry-masterd: the name bad is taken; choose another", file=sys.stderr)
        sys.exit(5)
    json.dump(document, open(folder + "/init.json", "w"))
elif sys.argv[1:2] == ["recover"]:
    print(" ".join(sys.argv[1:]))
    if "node9" in sys.argv:
        print("gantry-masterd: no such node: node9", file=sys.stderr)
        sys.exit(2)
elif os.path.exists(folder + "/die"):
    sys.exit(3)
else:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(folder + "/run/master.sock")
    listener.listen()
    open(folder + "/session", "w").write(str(os.getsid(0) == os.getpid()))
    answers = {{"SubmitJob": 1, "WaitForJobChange": [["success"], []], "QueryJobs": [["success", ["success"], [True]]]}}
    method = ""
    while method != "QueryJobs":
        connection, _ = listener.accept()
        while method != "QueryJobs" and (message := connection.recv(65536)):
            request = json.loads(message[:-1])
            method = request["method"]
            if method == "SubmitJob":
                json.dump(request["args"], open(folder + "/jobs.json", "w"))
            answer = {{"success": True, "result": answers.get(method, {{}})}}
            connection.sendall(json.dumps(answer).encode() + b"\\x03")
"""


@pytest.fixture
def daemon(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = root / "gantry-masterd"
    path.write_text(DAEMON.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(machine, "program", lambda _: str(path))
    return root


def test_init_hands_over_what_the_options_say_and_starts_the_daemon(gnt: Gnt, daemon: Path) -> None:
    ran = gnt(
        "gnt-cluster init --node-name node1 --primary-ip 192.0.2.1 --port 1900 --enabled-hypervisors kvm,fake "
        "-H kvm:accel=tcg -H kvm:no_acpi -B memory=1g -N link=br5 -m aa:00:05 -C 3 --master-netdev br0 "
        "--enabled-disk-templates file,diskless c1"
    )
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "The cluster c1 is up; node1 is its master\n"
    assert json.loads((daemon / "init.json").read_text()) == {
        "cluster_name": "c1",
        "node_name": "node1",
        "primary_ip": "192.0.2.1",
        "port": 1900,
        "mac_prefix": "aa:00:05",
        "master_netdev": "br0",
        "enabled_hypervisors": ["kvm", "fake"],
        "enabled_disk_templates": ["file", "diskless"],
        "candidate_pool_size": 3,
        "hvparams": {"kvm": {"accel": "tcg", "acpi": False}},
        "beparams": {"memory": 1024},
        "nicparams": {"link": "br5"},
    }
    assert (daemon / "session").read_text() == "True"
    assert [op["OP_ID"] for op in json.loads((daemon / "jobs.json").read_text())[0]] == ["OP_CLUSTER_POST_INIT"]


def test_what_init_refuses_is_shown_with_its_exit_code(gnt: Gnt, daemon: Path) -> None:
    ran = gnt("gnt-cluster init --primary-ip 192.0.2.1 bad")
    assert ran == (5, "", "Failure: the name bad is taken; choose another\n")


def test_a_daemon_that_ends_at_once_is_said_so(gnt: Gnt, daemon: Path) -> None:
    (daemon / "die").touch()
    ran = gnt("gnt-cluster init --primary-ip 192.0.2.1 c1")
    assert ran.code == 1
    assert "ended at once (exit code 3)" in ran.err
    assert "master-daemon.log" in ran.err


def test_a_name_that_leads_to_this_machine_only_is_no_address(gnt: Gnt, daemon: Path) -> None:
    ran = gnt("gnt-cluster init --node-name localhost c1")
    assert ran.code == 1
    assert "--primary-ip" in ran.err
    assert not (daemon / "init.json").exists()


@pytest.mark.parametrize("options", ["-H accel=tcg", "--port many", "-C -1"])
def test_init_refuses_what_it_does_not_understand(gnt: Gnt, daemon: Path, options: str) -> None:
    assert gnt(f"gnt-cluster init --primary-ip 192.0.2.1 {options} c1").code == 1
    assert not (daemon / "init.json").exists()


def test_a_missing_daemon_is_one_line(gnt: Gnt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "program", lambda _: "/nonexistent/gantry-masterd")
    ran = gnt("gnt-cluster init --primary-ip 192.0.2.1 c1")
    assert ran.code == 1
    assert ran.err.startswith("Failure: cannot run /nonexistent/gantry-masterd")


def test_destroying_has_to_be_meant(gnt: Gnt, master: Master) -> None:
    ran = gnt("gnt-cluster destroy")
    assert (ran.code, master.requests) == (1, [])
    assert "--yes-do-it" in ran.err


def test_destroying_ends_when_the_socket_is_gone(root: Path, gnt: Gnt, master: Master) -> None:
    def die(*_: object) -> None:
        (root / "run/master.sock").unlink()
        raise ConnectionError

    master.answers["WaitForJobChange"] = die
    assert gnt("gnt-cluster destroy --yes-do-it") == (0, "", "")
    assert [op["OP_ID"] for op in master.ops] == ["OP_CLUSTER_DESTROY"]


def test_a_cluster_that_cannot_be_destroyed_says_why(gnt: Gnt, master: Master) -> None:
    master.results["OP_CLUSTER_DESTROY"] = Fault("OpPrereqError", "there are instances", "wrong_state")
    ran = gnt("gnt-cluster destroy --yes-do-it")
    assert ran.code == 1
    assert "there are instances" in ran.err


def test_verify_ends_with_1_when_something_is_wrong(gnt: Gnt, master: Master) -> None:
    master.logs["OP_CLUSTER_VERIFY"] = ["* Verifying node status", "  - ERROR: node node2: does not answer"]
    master.results["OP_CLUSTER_VERIFY"] = False
    ran = gnt("gnt-cluster verify --error-codes")
    assert ran.code == 1
    assert ran.out.splitlines()[1].endswith("  - ERROR: node node2: does not answer")
    assert master.ops[0]["error_codes"] is True
    master.results["OP_CLUSTER_VERIFY"] = True
    assert gnt("gnt-cluster verify").code == 0


@pytest.mark.parametrize(
    ("findings", "good", "conclusion"),
    [
        ([], True, "The cluster is fine: no errors, no warnings"),
        (["  - WARNING: a b: c"], True, "The cluster is fine: no errors, 1 warning"),
        (
            ["  - ERROR: node node2: x", "  - WARNING: a b: c", "  - ERROR: node node3: ERROR: x"],
            False,
            "The cluster is not fine: 2 errors, 1 warning",
        ),
    ],
)
def test_verify_ends_with_a_line_that_says_how_it_went(
    gnt: Gnt, master: Master, findings: list[str], good: bool, conclusion: str
) -> None:
    master.logs["OP_CLUSTER_VERIFY"] = ["* Verifying node status", *findings]
    master.results["OP_CLUSTER_VERIFY"] = good
    *lines, last = gnt("gnt-cluster verify").out.splitlines()
    assert len(lines) == 1 + len(findings)
    assert last == conclusion


def test_the_lines_of_verify_for_programs_have_no_conclusion(gnt: Gnt, master: Master) -> None:
    master.logs["OP_CLUSTER_VERIFY"] = ["* Verifying node status"]
    master.results["OP_CLUSTER_VERIFY"] = True
    (line,) = gnt("gnt-cluster verify --error-codes").out.splitlines()
    assert line.endswith("* Verifying node status")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--from node2", "recover --from node2"),
        ("--from node2 --accept-loss", "recover --from node2 --accept-loss"),
        ("--accept-loss", "recover --accept-loss"),
    ],
)
def test_recover_hands_its_options_to_the_daemon_and_shows_what_it_did(
    gnt: Gnt, daemon: Path, options: str, words: str
) -> None:
    assert gnt(f"gnt-cluster recover {options}") == (0, f"{words}\n", "")


def test_recover_without_a_source_or_a_confirmation_does_nothing(gnt: Gnt, daemon: Path) -> None:
    ran = gnt("gnt-cluster recover")
    assert (ran.code, ran.out) == (1, "")
    assert "with --from NODE, or add --accept-loss" in ran.err


def test_what_recover_refuses_is_shown_with_its_exit_code(gnt: Gnt, daemon: Path) -> None:
    ran = gnt("gnt-cluster recover --from node9")
    assert (ran.code, ran.err) == (2, "Failure: no such node: node9\n")


def test_stray_guests_are_repaired_by_a_rule(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-cluster repair-stray-guests --rule adopt").code == 0
    assert (master.ops[0]["OP_ID"], master.ops[0]["rule"]) == ("OP_CLUSTER_REPAIR_STRAY_GUESTS", "adopt")
    assert gnt("gnt-cluster repair-stray-guests --rule kill").code == 2


def test_versions_have_their_lines(gnt: Gnt, master: Master) -> None:
    master.answers["QueryClusterInfo"] = INFO
    assert gnt("gnt-cluster version").out.splitlines() == [
        "Software version: 0.1.0",
        "Internode protocol: 1",
        "Configuration format: 1",
        "OS api version: 20",
        "Export interface: 0",
        "VCS version: ",
    ]


def test_the_master_is_named(gnt: Gnt, master: Master) -> None:
    master.answers["QueryConfigValues"] = ["node1"]
    assert gnt("gnt-cluster getmaster") == (0, "node1\n", "")


def test_the_master_is_named_when_its_daemon_is_down(root: Path, gnt: Gnt) -> None:
    (root / "lib/ssconf/ssconf_master_node").write_text("node1\n")
    assert gnt("gnt-cluster getmaster") == (0, "node1\n", "")


def test_there_is_no_master_without_a_cluster(gnt: Gnt) -> None:
    assert gnt("gnt-cluster getmaster").code == 5


def test_info_is_yaml_under_the_known_words(gnt: Gnt, master: Master) -> None:
    master.answers["QueryClusterInfo"] = INFO
    info = yaml.safe_load(gnt("gnt-cluster info").out)
    assert info["Cluster name"] == "c1"
    assert info["Enabled hypervisors"] == "kvm, fake"
    assert info["Architecture (this node)"] == "x86_64 64bit"
    assert info["Cluster parameters"] == {"candidate pool size": 10}
