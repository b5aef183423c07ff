"""Disks, memory, reboots and deaths of a real guest, and a node daemon that restarts beside it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.real import machines

from gantry import errors

pytestmark = machines.NEEDS


@pytest.fixture
async def lab() -> AsyncIterator[machines.Lab]:
    async with machines.lab() as running_lab:
        yield running_lab


async def test_a_disk_is_attached_grown_and_detached_by_a_restarted_daemon(lab: machines.Lab) -> None:
    node = await lab.up()
    vm, disk = lab.instance(node), lab.extra_disk(node)
    lab.make_extra_disk(node)
    for _ in range(2):
        await node.kvm.plug_disk(vm, disk)
    await node.console("cat /sys/block/vdc/size", until="8192\r")
    os.truncate(disk.logical_id[-1], 6 << 20)
    assert await node.kvm.resize_disk(vm, msgspec.structs.replace(disk, size=6))
    await node.console("cat /sys/block/vdc/size", until="12288\r")
    node.restart()
    for _ in range(2):
        await node.kvm.unplug_disk(vm, disk)
    await node.console("ls /sys/block/vdc || echo gone", until="gone\r")
    assert not await node.kvm.resize_disk(vm, disk)
    await lab.writes(node)


async def test_a_disk_that_is_not_there_is_said_and_nothing_of_it_stays(lab: machines.Lab) -> None:
    node = await lab.up()
    vm, disk = lab.instance(node), lab.extra_disk(node)
    with pytest.raises(errors.HypervisorError, match="No such file"):
        await node.kvm.plug_disk(vm, disk)
    lab.make_extra_disk(node)
    await node.kvm.plug_disk(vm, disk)
    await node.console("ls /sys/block", until="vdc")


async def test_memory_is_taken_and_given_back_but_never_below_what_the_guest_uses(lab: machines.Lab) -> None:
    node = await lab.up()
    vm = lab.instance(node)
    assert await node.kvm.balloon(vm, 112) == 112
    info = await node.kvm.info("vm1")
    assert info is not None
    assert info.memory == 112
    with pytest.raises(errors.WrongStateError, match=r"be reduced to 64 MiB; the minimum is now \d+ MiB"):
        await node.kvm.balloon(vm, 64)
    for outside in (63, 129):
        with pytest.raises(errors.InvalidError, match="can have 64 to 128 MiB"):
            await node.kvm.balloon(vm, outside)
    assert await node.kvm.balloon(vm, 128) == 128
    await lab.writes(node)


@pytest.mark.parametrize("kind", ["soft", "hard"])
async def test_a_rebooted_guest_comes_up_again_in_its_qemu(lab: machines.Lab, kind: str) -> None:
    node = await lab.up()
    pid = node.pid
    listening = asyncio.create_task(node.console("", until="GUEST-UP"))
    await node.kvm.reboot("vm1", kind=kind, timeout=60)
    output = await listening
    assert ("GUEST-OFF" in output) is (kind == "soft")
    assert node.pid == pid
    await lab.answers()


async def test_a_guest_that_is_asked_to_stop_powers_off(lab: machines.Lab) -> None:
    node = await lab.up()
    listening = asyncio.create_task(node.console("", until="GUEST-OFF"))
    await node.kvm.stop("vm1", timeout=60)
    await listening
    assert (node.remains(), await node.kvm.endings()) == ([], ())


async def test_a_guest_shut_down_by_its_user_is_distinguished_from_a_killed_one(lab: machines.Lab) -> None:
    node = await lab.up()
    pid = node.pid
    await node.console("poweroff -f", until="Power")
    await machines.until(lambda: not node.runtime.processes.alive(pid), "the guest's end")
    (ending,) = await node.kvm.endings()
    assert (ending.name, ending.how) == ("vm1", "shutdown")
    await node.kvm.start(lab.instance(node), paused=False)
    assert await node.kvm.endings() == ()
    os.kill(node.pid, signal.SIGKILL)
    await machines.until(lambda: node.guests.pid("vm1") is None, "the guest's end")
    assert await node.kvm.running() == ()
    node.restart()
    (ending,) = await node.kvm.endings()
    assert ending.how == "crashed"
    assert node.taps() == []
    await node.kvm.stop("vm1", timeout=0)
    assert (node.remains(), await node.kvm.endings()) == ([], ())
