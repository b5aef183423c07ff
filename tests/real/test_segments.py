"""Guests in VXLAN segments of two nodes: those of one reach each other, those of another do not."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from tests.real import cables, machines

from gantry.rpc import calls

pytestmark = machines.NEEDS

RED, BLUE = (calls.Segment(network_type="vxlan", segmentation_id=number) for number in (7001, 7002))
FIRST_IP, SECOND_IP, THIRD_IP = "10.9.0.1", "10.9.0.2", "10.9.0.3"


@pytest.fixture
async def lab() -> AsyncIterator[machines.Lab]:
    async with machines.lab() as running_lab:
        system = system_path(running_lab)
        os.makedirs(os.path.dirname(system))
        cables.make_system(system)
        yield running_lab


def system_path(lab: machines.Lab) -> str:
    return f"{lab.nodes[0].folders.shared_file_storage}/guests/{cables.DISK}"


def ip(node: machines.Node, *words: str) -> str:
    done = subprocess.run(["ip", "-n", node.namespace, *words], check=True, capture_output=True, text=True)
    return done.stdout


def segment_devices(node: machines.Node) -> list[str]:
    """Return the devices that a node made for segments, without what they are upon."""
    names = [line.split()[1].rstrip(":").split("@")[0] for line in ip(node, "-oneline", "link").splitlines()]
    return sorted(name.split("-")[0] for name in names if name.startswith(("gb", "gp")))


def vm(lab: machines.Lab, name: str, nics: list[calls.Nic], *addresses: str) -> calls.Instance:
    return cables.guest(name, nics, addresses, system=system_path(lab), kernel=str(machines.GUEST))


async def says(node: machines.Node, name: str, command_and_output: tuple[str, str]) -> None:
    """Type a command into a guest until it prints the expected text."""
    command, until = command_and_output
    socket = node.guests.files(name).serial
    words = cables.ask(command, until=until, socket=socket, python=sys.executable, script=str(cables.ASK))
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


async def test_guests_of_a_segment_reach_each_other_and_no_others(lab: machines.Lab) -> None:
    first, second = lab.nodes
    first_vm = vm(lab, "one", [cables.card(1, link="br0", segment=RED)], FIRST_IP)
    second_vm = vm(lab, "two", [cables.card(2, link="br0", segment=RED)], SECOND_IP)
    third_vm = vm(lab, "three", [cables.card(3, link="br0", segment=BLUE)], THIRD_IP)
    await asyncio.gather(
        *(
            node.kvm.start(each, paused=False)
            for node, each in ((first, first_vm), (second, second_vm), (second, third_vm))
        )
    )
    await says(first, "one", cables.reaches(SECOND_IP, size=1422))
    await says(first, "one", ("cat /sys/class/net/eth0/mtu", "1450"))
    await says(second, "three", cables.reaches(THIRD_IP))
    await says(second, "three", cables.misses(SECOND_IP))
    await says(first, "one", cables.misses(THIRD_IP))
    assert (segment_devices(first), segment_devices(second)) == (
        ["gbx7001", "gpx7001"],
        ["gbx7001", "gbx7002", "gpx7001", "gpx7002"],
    )

    await first.kvm.plug_nic(first_vm, cables.card(4, link="br0", segment=BLUE, index=1))
    await says(first, "one", ("ip link set eth1 up && ip addr add 10.9.1.4/24 dev eth1 && echo do''ne", "done"))
    await says(second, "three", ("ip addr add 10.9.1.3/24 dev eth0; echo do''ne", "done"))
    await says(first, "one", cables.reaches("10.9.1.3"))
    await first.kvm.unplug_nic(first_vm, cables.card(4, link="br0", segment=BLUE, index=1))
    assert segment_devices(first) == ["gbx7001", "gpx7001"]

    for node in lab.nodes:
        node.restart()
    for node, each in ((first, first_vm), (second, second_vm), (second, third_vm)):
        await node.kvm.stop(each.name, timeout=0)
    assert (segment_devices(first), segment_devices(second)) == ([], [])
    assert [node.remains() for node in lab.nodes] == [[], []]


async def test_a_guest_takes_its_segment_along_when_it_migrates(lab: machines.Lab) -> None:
    first, second = lab.nodes
    first_vm = vm(lab, "one", [cables.card(1, link="br0", segment=RED)], FIRST_IP)
    second_vm = vm(lab, "two", [cables.card(2, link="br0", segment=RED)], SECOND_IP)
    await asyncio.gather(first.kvm.start(first_vm, paused=False), second.kvm.start(second_vm, paused=False))
    await says(second, "two", cables.reaches(FIRST_IP))
    info = await second.kvm.migration_info(second_vm)
    reception = await first.kvm.accept(second_vm, info, address=first.address, mirror=False)
    await second.kvm.migrate(second_vm, reception, live=True)
    async with asyncio.timeout(machines.TIMEOUT):
        while not (status := await second.kvm.migration_status(second_vm, wait=10)).final:
            pass
    assert status.status == "completed", status
    await first.kvm.finalize_target(second_vm, success=True)
    await second.kvm.finalize_source(second_vm, success=True)
    assert (segment_devices(first), segment_devices(second)) == (["gbx7001", "gpx7001"], [])
    await says(first, "two", cables.reaches(FIRST_IP))
    await first.kvm.update_nic(second_vm, cables.card(2, link="br0", segment=BLUE))
    await says(first, "two", cables.misses(FIRST_IP))
    for name in ("one", "two"):
        await first.kvm.stop(name, timeout=0)
    assert segment_devices(first) == []
