import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Fault, Gnt, Master, table


def created(gnt: Gnt, master: Master, options: str) -> dict[str, Any]:
    """Return the opcode that an add submits, without empty collections."""
    ran = gnt(f"gnt-instance add --submit {options} web1")
    assert ran.code == 0, ran.err
    return {key: value for key, value in master.ops[-1].items() if value not in ({}, [])}


@pytest.mark.promise("networks-64")
def test_addresses_of_a_nic_reach_the_opcode_as_a_list(gnt: Gnt, master: Master) -> None:
    op = created(gnt, master, "--net 0:ip0=192.0.2.4,ip1=pool,ip2=some-pool-name,network=network1")
    assert op["nics"] == [{"ip": ["192.0.2.4", "pool", "some-pool-name"], "network": "network1"}]


def test_nics_are_numbered_and_have_options(gnt: Gnt, master: Master) -> None:
    op = created(gnt, master, "--net 1:mac=aa:00:00:00:00:05 --net 0:mac=auto,bridge=br5 --net 2:bridge=auto")
    assert op["nics"] == [{"mac": "auto", "bridge": "br5"}, {"mac": "aa:00:00:00:00:05"}, {}]


def test_without_nics_there_is_one_with_defaults(gnt: Gnt, master: Master) -> None:
    assert created(gnt, master, "")["nics"] == [{}]
    assert "nics" not in created(gnt, master, "--no-nics")


def test_everything_that_an_instance_is_made_of_reaches_the_opcode(gnt: Gnt, master: Master) -> None:
    op = created(
        gnt,
        master,
        "-t file --disk 0:size=10g --disk 1:size=512,mode=ro -o busybox+default -n node1 -B memory=1g,vcpus=2 "
        "-H kvm:accel=tcg,no_acpi -O hostname=web,motd=a\\\\,b --tags blue,green --force --force-variant "
        "--no-conflicts-check -g default",
    )
    del op["reason"]
    assert op == {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": "web1",
        "disk_template": "file",
        "disks": [{"size": 10240}, {"size": 512, "mode": "ro"}],
        "nics": [{}],
        "os_type": "busybox+default",
        "pnode": "node1",
        "group_name": "default",
        "beparams": {"memory": 1024, "vcpus": "2"},
        "hypervisor": "kvm",
        "hvparams": {"accel": "tcg", "acpi": False},
        "osparams": {"hostname": "web", "motd": "a,b"},
        "tags": ["blue", "green"],
        "force": True,
        "force_variant": True,
        "conflicts_check": False,
    }


def test_the_short_size_makes_one_disk(gnt: Gnt, master: Master) -> None:
    assert created(gnt, master, "-s 1.5g")["disks"] == [{"size": 1536}]


def test_what_is_not_installed_is_not_started(gnt: Gnt, master: Master) -> None:
    assert created(gnt, master, "--no-start")["start"] is False
    op = created(gnt, master, "--no-install")
    assert op["no_install"] is True
    assert op["start"] is False


@pytest.mark.parametrize("hypervisor", ["-H", "--hypervisor-parameters", "--hypervisor"])
def test_the_seeds_word_for_the_hypervisor_is_known(gnt: Gnt, master: Master, hypervisor: str) -> None:
    op = created(gnt, master, f"{hypervisor} kvm:kernel_path=/k")
    assert (op["hypervisor"], op["hvparams"]) == ("kvm", {"kernel_path": "/k"})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("-s 0", "'0' is not a size"),
        ("-s -5g", "'-5g' is not a size"),
        ("--disk 0:size=-1", "'-1' is not a size"),
        ("-s 1g --disk 0:size=1g", "exclude each other"),
        ("--no-nics --net 0:ip=pool", "exclude each other"),
        ("--net 1:ip=pool", "start at 0"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(gnt: Gnt, master: Master, options: str, complaint: str) -> None:
    ran = gnt(f"gnt-instance add {options} web1")
    assert ran.code == 1
    assert ran.err.startswith("Failure: prerequisites not met for this operation:\nerror type: wrong_input, error")
    assert complaint in ran.err
    assert not master.requests


def test_starting_stopping_and_rebooting_have_their_opcodes(gnt: Gnt, master: Master) -> None:
    gnt("gnt-instance up --paused --no-remember -H accel=tcg web1")
    gnt("gnt-instance stop --timeout 5 -f web1")
    gnt("gnt-instance reboot -t full --shutdown-timeout 7 --ignore-secondaries web1")
    expected: list[dict[str, object]] = [
        {"OP_ID": "OP_INSTANCE_STARTUP", "startup_paused": True, "no_remember": True, "hvparams": {"accel": "tcg"}},
        {"OP_ID": "OP_INSTANCE_SHUTDOWN", "timeout": 5, "force": True},
        {
            "OP_ID": "OP_INSTANCE_REBOOT",
            "reboot_type": "full",
            "shutdown_timeout": 7,
            "ignore_secondaries": True,
        },
    ]
    assert [{key: op[key] for key in fields} for op, fields in zip(master.ops, expected, strict=True)] == expected


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ("--all", None),
        ("--primary node1", ["|", ["=", "pnode", "node1"]]),
        ("--secondary node1", ["|", ["=[]", "snodes", "node1"]]),
        (
            "--node n1 n2",
            ["|", ["=", "pnode", "n1"], ["=", "pnode", "n2"], ["=[]", "snodes", "n1"], ["=[]", "snodes", "n2"]],
        ),
        ("--tags blue", ["|", ["=[]", "tags", "blue"]]),
    ],
)
def test_instances_may_be_chosen_by_node_or_tag(gnt: Gnt, master: Master, options: str, where: object) -> None:
    master.answers["Query"] = table("name:Instance:text", rows=[["web1"], ["web2"]])
    assert gnt(f"gnt-instance start --force-multiple {options}").code == 0
    assert master.requests[0] == ("Query", ["instance", ["name"], where])
    assert [op["instance_name"] for op in master.ops] == ["web1", "web2"]


def test_tags_of_nodes_choose_the_instances_there(gnt: Gnt, master: Master) -> None:
    master.answers["Query"] = lambda what, *_: table("name:Name:text", rows=[["node1" if what == "node" else "web1"]])
    assert gnt("gnt-instance start --force-multiple --pri-node-tags rack1").code == 0
    assert [arguments for _, arguments in master.requests[:2]] == [
        ["node", ["name"], ["|", ["=[]", "tags", "rack1"]]],
        ["instance", ["name"], ["|", ["=", "pnode", "node1"]]],
    ]


@pytest.mark.parametrize("command", ["startup --force", "shutdown", "reboot"])
def test_the_question_about_several_instances_names_the_option_that_skips_it(gnt: Gnt, command: str) -> None:
    ran = gnt(f"gnt-instance {command} web1 web2")
    assert (ran.code, "--force-multiple skips the question" in ran.err) == (13, True)


@pytest.mark.parametrize("options", ["", "--all web1", "--all --node web1", "--tags blue"])
def test_choosing_nothing_or_twice_is_refused(gnt: Gnt, master: Master, options: str) -> None:
    master.answers["Query"] = table("name:Instance:text", rows=[])
    assert gnt(f"gnt-instance stop {options}").code == 1
    assert not master.ops


@pytest.mark.parametrize("line", ["gnt-instance remove web1", "gnt-instance stop web1 web2"])
def test_a_destructive_command_aborts_without_a_terminal_to_confirm_it(
    gnt: Gnt, master: Master, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gantry.cli.output.terminal.TTY", "/nonexistent")
    ran = gnt(line)
    assert ran.code == 13
    assert ran.err.endswith("Operation aborted\n")
    assert not master.ops


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("YES", 0), ("n", 13), ("", 13), ("?\ny", 0)])
def test_the_question_is_asked_on_the_terminal(
    gnt: Gnt, master: Master, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    ours, theirs = os.openpty()
    monkeypatch.setattr("gantry.cli.output.terminal.TTY", os.ttyname(theirs))
    os.write(ours, f"{answer}\n".encode())
    assert gnt("gnt-instance remove web1").code == code
    output = b""
    while b"This removes the instance web1" not in output:
        output += os.read(ours, 4096)
    assert len(master.ops) == (0 if code else 1)
    os.close(ours)
    os.close(theirs)


CONSOLE = {"instance": "web1", "kind": "socat", "command": ["socat", "STDIO", "UNIX:/a b"], "message": "Ctrl-] leaves"}


def test_a_console_on_another_node_is_reached_by_ssh(gnt: Gnt, master: Master) -> None:
    master.results["OP_INSTANCE_CONSOLE"] = {**CONSOLE, "host": "192.0.2.99"}
    ran = gnt("gnt-instance console --show-cmd web1")
    assert ran.out == "ssh -t 192.0.2.99 -- 'socat STDIO '\"'\"'UNIX:/a b'\"'\"''\n"


def test_a_console_on_this_node_replaces_the_command(
    root: Path, gnt: Gnt, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "lib/ssconf/ssconf_node_primary_ips").write_text("node1 127.0.0.1\n")
    master.results["OP_INSTANCE_CONSOLE"] = {**CONSOLE, "host": "node1"}
    ran: list[list[str]] = []

    def execute(_: str, words: list[str]) -> None:
        ran.append(words)
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("gantry.cli.programs.instance.os.execvp", execute)
    done = gnt("gnt-instance console web1")
    assert ran == [["socat", "STDIO", "UNIX:/a b"]]
    assert done.out == "Ctrl-] leaves\n"
    assert done.err == "Failure: cannot run socat: No such file or directory; --show-cmd prints the command\n"


@pytest.mark.parametrize(
    ("kind", "how"), [("socat", "Ctrl-] leaves"), ("xl", "Ctrl-] leaves"), ("chroot", "exit leaves")]
)
def test_a_console_says_how_to_leave_it(
    gnt: Gnt, master: Master, monkeypatch: pytest.MonkeyPatch, kind: str, how: str
) -> None:
    master.results["OP_INSTANCE_CONSOLE"] = {"instance": "web1", "kind": kind, "command": ["true"]}
    monkeypatch.setattr("gantry.cli.programs.instance.os.execvp", lambda *_: None)
    done = gnt("gnt-instance console web1")
    assert done.out == ""
    assert f"{how} the console\n" in done.err
    assert gnt("gnt-instance console --show-cmd web1") == (0, "true\n", "")


@pytest.mark.parametrize(
    ("options", "is_said"),
    [
        ("--net add:network=net1,ip0=pool,ip1=pool", True),
        ("--net add:network=net1,ip=192.0.2.4", True),
        ("--net 0:modify,ip1=192.0.2.10", True),
        ("--net 0:modify,ip1=none", False),
        ("--net add:link=br0", False),
        ("--net 1:remove", False),
        ("-B vcpus=2", False),
    ],
)
def test_addresses_that_the_guest_configures_itself_are_said(
    gnt: Gnt, master: Master, options: str, is_said: bool
) -> None:
    ran = gnt(f"gnt-instance modify {options} web1")
    assert ran.code == 0
    assert ("the guest configures the addresses" in ran.err) == is_said
    assert "configures" not in gnt(f"gnt-instance modify --submit {options} web1").err


def test_an_instance_without_a_console_says_why(gnt: Gnt, master: Master) -> None:
    master.results["OP_INSTANCE_CONSOLE"] = {"instance": "web1", "kind": "message", "message": "it is not running"}
    assert gnt("gnt-instance console web1") == (1, "", "Failure: it is not running\n")


NIC = [None, "n-1", ["192.0.2.1", "2001:db8::1"], "aa:00:00:00:00:01", "bridged", "br0", "", "w-1", {"name": "net1"}]
INFO = {
    "name": "web1",
    "config_state": "up",
    "run_state": "up",
    "pnode": "node1",
    "pnode_group_name": "default",
    "pnode_group_uuid": "u-1",
    "snodes": [],
    "os": "busybox",
    "nics": [
        [None, "n-1", ["192.0.2.1", "2001:db8::1"], "aa:00:00:00:00:01", "bridged", "br0", "", "w-1", {"name": "net1"}]
    ],
    "disk_template": "file",
    "disks": [{"dev_type": "file", "size": 1024, "mode": "rw", "logical_id": ["file", "/srv/d"], "uuid": "d-1"}],
    "hypervisor": "kvm",
    "hv_actual": {"accel": "tcg", "acpi": True},
    "hv_instance": {"accel": "tcg"},
    "be_actual": {"vcpus": 1},
    "be_instance": {},
    "serial_no": 3,
    "ctime": 1700000000.5,
    "mtime": 1700000000.5,
    "uuid": "i-1",
}


def test_info_loads_as_yaml_under_the_known_words(gnt: Gnt, master: Master) -> None:
    master.results["OP_INSTANCE_QUERY_DATA"] = {"web1": INFO}
    ran = gnt("gnt-instance info web1")
    assert ran.code == 0
    (info,) = yaml.safe_load(ran.out)
    assert info["Instance name"] == "web1"
    assert info["State"] == "configured to be up, actual state is up"
    assert info["Hypervisor parameters"] == {"accel": "tcg", "acpi": "default (True)"}
    assert info["NICs"][0] | {"IP": ["192.0.2.1", "2001:db8::1"], "network": "net1"} == info["NICs"][0]
    assert info["Disks"][0]["disk/0"] == "file, size 1.0G"
    assert master.ops[0]["instances"] == ["web1"]


def test_info_of_all_instances_needs_an_option(gnt: Gnt, master: Master) -> None:
    master.results["OP_INSTANCE_QUERY_DATA"] = {}
    assert gnt("gnt-instance info").code == 1
    assert gnt("gnt-instance info --all --static") == (0, "[]\n", "")
    assert master.ops[0]["static"] is True


def test_the_master_reports_an_instance_that_does_not_exist(gnt: Gnt, master: Master) -> None:
    master.results["OP_INSTANCE_QUERY_DATA"] = Fault("OpPrereqError", "no instance web9", "unknown_entity")
    assert gnt("gnt-instance info web9").code == 1
