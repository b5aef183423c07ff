"""The demonstration as a new user runs it: three nodes, a real virtual machine, three addresses that answer."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real import demonstration
from tests.real.demonstration import FIXED, IPV4, IPV6, NAME, Demo

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
    command = demo.gnt("gnt-instance", "console", "--show-cmd", NAME).split()
    assert command[-1] == f"UNIX-CONNECT:{demo.guest}/serial"
    assert demo.console("echo $((6 * 7))-$(hostname)", until="42-web1.example")


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
    return int(demo.gnt("gnt-network", "list", "--no-headers", "-o", "reserved_count", "net1"))
