import json
import re
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Gnt, Master, table

from gantry import security
from gantry.cli.programs import node


def test_a_node_is_added_with_its_token_and_address(root: Path, gnt: Gnt, master: Master) -> None:
    (root / "token").write_text("secret\n")
    line = f"gnt-node add --join-token-file {root}/token --primary-ip 192.0.2.2 --port 1900 -g rack2"
    assert gnt(f"{line} --vm-capable no node2").code == 0
    (op,) = master.ops
    del op["reason"]
    assert op == {
        "OP_ID": "OP_NODE_ADD",
        "node_name": "node2",
        "join_token": "secret",
        "primary_ip": "192.0.2.2",
        "port": 1900,
        "group": "rack2",
        "vm_capable": False,
    }


TOKEN = re.compile(r"gantry-node join (\S+) --token ([0-9a-f]{48})\n")


@pytest.mark.parametrize(
    ("address", "port", "address_in_line"),
    [
        ("192.0.2.1", 1811, "192.0.2.1"),
        ("192.0.2.1", 1812, "192.0.2.1:1812"),
        ("2001:db8::1", 1811, "2001:db8::1"),
        ("2001:db8::1", 1812, "[2001:db8::1]:1812"),
    ],
)
def test_a_node_without_a_join_token_is_invited(
    gnt: Gnt, master: Master, address: str, port: int, address_in_line: str
) -> None:
    master.results["OP_NODE_INVITE"] = {"address": address, "port": port, "end": 4000.0}
    ran = gnt("gnt-node add --primary-ip 192.0.2.2 -g rack2 node2")
    assert ran.out.startswith("Run this line on node2, as root, before ")
    line = TOKEN.search(ran.out)
    assert line is not None
    (op,) = master.ops
    del op["reason"]
    assert op == {
        "OP_ID": "OP_NODE_INVITE",
        "node_name": "node2",
        "primary_ip": "192.0.2.2",
        "group": "rack2",
        "secret_hash": security.invitation.hash_of(line[2]),
    }
    assert line[1] == address_in_line
    assert line[2] not in str(master.requests)


def test_the_length_of_a_secret_is_the_same_on_both_sides() -> None:
    assert node.SECRET_BYTES == security.invitation.SECRET_BYTES


def test_invitations_are_listed_and_revoked(gnt: Gnt, master: Master) -> None:
    row = {"node": "node2", "state": "open", "end": 4000.0, "group": "", "address": ""}
    master.results["OP_NODE_QUERY_INVITATIONS"] = [row]
    assert gnt("gnt-node list-invitations --no-headers -o node,state,group").out == "node2  open  -\n"
    assert gnt("gnt-node revoke-invitation node2").code == 0
    assert master.ops[0]["OP_ID"] == "OP_NODE_REVOKE_INVITATION"


def test_an_invitation_is_not_made_in_the_background(gnt: Gnt, master: Master) -> None:
    assert "omit --submit" in gnt("gnt-node add --submit node2").err
    assert not master.requests


@pytest.mark.parametrize("options", ["--join-token-file /nonexistent", "--join-token x --join-token-file y"])
def test_a_node_is_added_with_one_token_at_most(gnt: Gnt, master: Master, options: str) -> None:
    ran = gnt(f"gnt-node add {options} node2")
    assert ran.code == 1
    assert "token" in ran.err or "cannot read" in ran.err
    assert not master.requests


def test_help_says_where_the_token_is(gnt: Gnt) -> None:
    assert "/var/lib/gantry/join-token" in gnt("gnt-node add --help").out


def test_node_info_shows_what_the_master_has(gnt: Gnt, master: Master) -> None:
    columns = ("name:N:text", "pip:P:text", "accelerator:A:text", "accelerator_reason:R:text", "powered:P:unknown")
    master.answers["Query"] = table(*columns, rows=[["node1", "192.0.2.1", "tcg", "a guest hangs", (1, None)]])
    (info,) = yaml.safe_load(gnt("gnt-node info node1").out)
    assert info == {
        "Node name": "node1",
        "primary ip": "192.0.2.1",
        "accelerator": "tcg",
        "accelerator reason": "a guest hangs",
    }


def test_a_node_is_removed(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-node remove node2").code == 0
    assert master.ops[0]["node_name"] == "node2"


def test_new_disks_are_kept_off_a_physical_volume(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-node modify-storage --allocatable no node2 lvm-pv /dev/sdb").code == 0
    expected = {"node_name": "node2", "storage_type": "lvm-pv", "name": "/dev/sdb", "changes": {"allocatable": False}}
    assert master.ops[0] | expected == master.ops[0]
    assert "nothing to change" in gnt("gnt-node modify-storage node2 lvm-pv /dev/sdb").err
    assert gnt("gnt-node modify-storage --allocatable maybe node2 lvm-pv /dev/sdb").code == 2


def test_systems_are_listed_with_their_variants(gnt: Gnt, master: Master) -> None:
    master.results["OP_OS_DIAGNOSE"] = [[["busybox+default", "busybox+tiny"]], [["plain"]], [[]]]
    assert gnt("gnt-os list --no-headers").out == "busybox+default\nbusybox+tiny\nplain\n"
    assert gnt("gnt-os list --format json").out.count("name") == 3


def test_a_system_is_described(gnt: Gnt, master: Master) -> None:
    master.results["OP_OS_DIAGNOSE"] = [
        ["busybox", True, ["default"], [["motd", "Greeting"]], [20], [], False, True, {}, {}]
    ]
    info = yaml.safe_load(gnt("gnt-os info busybox").out)
    assert info["busybox"]["parameters"] == [["motd", "Greeting"]]
    assert (info["busybox"]["hidden"], info["busybox"]["blacklisted"]) == (False, True)
    assert master.ops[0]["names"] == ["busybox"]


def test_a_system_is_hidden_and_forbidden(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-os modify --hidden yes --blacklisted no busybox+tiny").code == 0
    (op,) = master.ops
    expected = {"hidden_os": [["add", "busybox+tiny"]], "blacklisted_os": [["remove", "busybox+tiny"]]}
    assert {name: op[name] for name in op if name not in ("OP_ID", "reason")} == expected
    assert gnt("gnt-os modify --hidden perhaps busybox").code == 2


def test_a_system_that_is_not_valid_somewhere_is_diagnosed(gnt: Gnt, master: Master) -> None:
    master.results["OP_OS_DIAGNOSE"] = [
        ["busybox", False, {"n1": [["/srv/os/b", True, ""]], "n2": [["/o", False, "no create"]]}]
    ]
    ran = gnt("gnt-os diagnose")
    assert ran.code == 1
    assert yaml.safe_load(ran.out)["busybox"] == {
        "valid": False,
        "node n1": ["/srv/os/b: valid"],
        "node n2": ["/o: no create"],
    }


def test_a_delay_says_where_and_how_long(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-debug delay --no-master -n node1 -n node2 -r 2 -l 0.5").code == 0
    expected = {"duration": 0.5, "on_master": False, "on_nodes": ["node1", "node2"], "repeat": 2, "no_locks": True}
    assert master.ops[0] | expected == master.ops[0]
    assert gnt("gnt-debug delay long").code == 1


@pytest.mark.parametrize(("options", "method"), [("", "SubmitManyJobs"), ("--each", "SubmitJob")])
def test_jobs_of_files_are_submitted_and_timed(root: Path, gnt: Gnt, master: Master, options: str, method: str) -> None:
    (root / "ops").write_text(json.dumps([{"OP_ID": "OP_TEST_DELAY", "duration": 0}]))
    ran = gnt(f"gnt-debug submit-job --op-repeat 2 --job-repeat 3 --timing-stats {options} {root}/ops")
    assert ran.code == 0
    assert [len(job.ops) for job in master.jobs.values()] == [2, 2, 2]
    assert master.requests[0][0] == method
    assert "3 jobs with 6 opcodes" in ran.out


@pytest.mark.parametrize("content", ["no json", "{}", "[1]"])
def test_a_file_that_holds_no_opcodes_is_refused(root: Path, gnt: Gnt, master: Master, content: str) -> None:
    (root / "ops").write_text(content)
    assert gnt(f"gnt-debug submit-job {root}/ops").code == 1
    assert not master.requests
