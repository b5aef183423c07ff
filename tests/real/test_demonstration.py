"""The demonstration as a new user runs it: three nodes, a real virtual machine, three addresses that answer."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real import demonstration
from tests.real.demonstration import FIXED, IPV4, IPV6, NAME, Demo

from gantry.doors import console

pytestmark = demonstration.NEEDS


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with demonstration.up("gt") as demo:
        yield demo


@pytest.mark.round
@pytest.mark.promise("networks-4", "networks-6", "networks-40")
def test_the_virtual_machine_answers_on_three_addresses_of_two_subnets(demo: Demo) -> None:
    for address in (IPV4, IPV6, FIXED):
        demo.wait(address)
    assert demo.gnt("gnt-instance", "list", "--no-headers", "-o", "status,nic.ips", NAME).split() == [
        "running",
        f"{IPV4}/{IPV6}/{FIXED}",
    ]


@pytest.mark.round
def test_each_step_is_shown_before_it_runs_and_the_end_says_what_to_try(demo: Demo) -> None:
    for step in ("gnt-cluster init", "gnt-node add", "gnt-network add", "gnt-network connect", "gnt-instance add"):
        assert f"\n$ {step}" in demo.said
    assert "gnt-instance console" in demo.said
    assert "make demo-down" in demo.said
    assert ("https://localhost:" in demo.said) is bool(console.built_files())


@pytest.mark.round
def test_a_shell_on_a_node_is_that_of_a_machine_of_its_own(demo: Demo) -> None:
    assert demo.on(3, "hostname") == "node3\n"
    assert demo.on(3, "cat", "/var/lib/gantry/ssconf/ssconf_node_list").split() == ["node1", "node2", "node3"]
    assert demo.on(3, "gnt-cluster", "getmaster") == "node1\n"
    assert "GANTRY_ROOT" not in demo.on(3, "env")
    demo.on(3, "bash", "-c", "echo word > /etc/gantry/word && scp /etc/gantry/word node2:")
    answer = demo.script("shell", "3", "ssh", "node2", "hostname; pwd; cat ~/word /etc/gantry/word", check=False)
    assert answer.stdout.splitlines() == ["node2", f"{demo.folder}/node2/root", "word"]
    assert "/etc/gantry/word" in answer.stderr  # node2 has none
    assert not demo.on(2, "bash", "-c", "ls -A /run/systemd 2>/dev/null || true")


def test_commands_that_use_ssh_reach_the_other_nodes(demo: Demo) -> None:
    assert [
        line for line in demo.gnt("gnt-cluster", "command", "hostname").splitlines() if line.startswith("node")
    ] == [line for name in ("node2", "node3", "node1") for line in (f"node: {name}", name)]
    demo.on(1, "bash", "-c", "echo 1 > /etc/gantry/copied && gnt-cluster copyfile /etc/gantry/copied")
    assert demo.on(3, "cat", "/etc/gantry/copied") == "1\n"


def test_a_second_demonstration_says_that_one_is_up(demo: Demo) -> None:
    second = demo.script("up", check=False)
    assert second.returncode != 0
    assert "a demo is up since" in second.stderr
    assert len(second.stderr.splitlines()) == 1


def test_the_accelerator_that_a_guest_really_runs_with_is_known(demo: Demo) -> None:
    accelerator = demo.gnt("gnt-node", "list", "--no-headers", "-o", "accelerator", "node2").strip()
    assert accelerator in ("kvm", "tcg")
    assert f"accelerator: {accelerator}" in demo.gnt("gnt-node", "info", "node2")
    command = (Path("/proc") / _qemu(demo) / "cmdline").read_text().split("\0")
    assert any(word.startswith(accelerator) for word in command)


def _qemu(demo: Demo) -> str:
    return (demo.guest / "pid").read_text().strip()


@pytest.mark.round
def test_verify_finds_nothing_wrong(demo: Demo) -> None:
    assert "ERROR" not in demo.gnt("gnt-cluster", "verify")


def test_a_virtual_machine_that_dies_is_noticed_and_can_be_started_again(demo: Demo) -> None:
    os.kill(int(_qemu(demo)), 9)
    demo.wait(IPV4, answer=False)
    assert "ERROR_down" in demo.gnt("gnt-instance", "list", "-o", "status", NAME)
    assert "EINSTANCEDOWN" in demo.script("gnt", "gnt-cluster", "verify", "--error-codes", check=False).stdout
    demo.gnt("gnt-instance", "start", NAME)
    demo.wait(IPV6)


def test_stop_start_and_reboot_of_the_guest(demo: Demo) -> None:
    demo.gnt("gnt-instance", "stop", NAME)
    assert "ADMIN_down" in demo.gnt("gnt-instance", "list", "-o", "status", NAME)
    assert not demo.answers(IPV4)
    demo.gnt("gnt-instance", "start", NAME)
    demo.wait(IPV4)
    demo.gnt("gnt-instance", "reboot", "-t", "full", NAME)
    demo.wait(IPV4)


def test_the_console_leads_to_the_guest(demo: Demo) -> None:
    demo.wait(IPV4)
    command = shlex.split(demo.gnt("gnt-instance", "console", "--show-cmd", NAME))
    assert command[:3] == ["ssh", "-t", "node2"]
    assert command[-1].endswith(f" UNIX-CONNECT:/run/gantry/instances/{NAME}/serial")
    assert demo.console("echo $((6 * 7))-$(hostname)", until="42-hello.example")


@pytest.mark.promise("networks-14")
def test_removing_the_instance_gives_its_addresses_back(demo: Demo) -> None:
    disks = demo.node / "srv/file-storage" / NAME
    assert disks.exists()
    before = _reserved(demo)
    demo.gnt("gnt-instance", "remove", "-f", NAME)
    demo.wait(IPV4, answer=False)
    assert _reserved(demo) == before - 2
    assert not disks.exists()
    assert demo.gnt("gnt-instance", "list", "--no-headers") == ""


def _reserved(demo: Demo) -> int:
    return int(demo.gnt("gnt-network", "list", "--no-headers", "-o", "reserved_count", demonstration.NETWORK))
