"""A real guest moves between two nodes while it writes its disk and answers pings."""

import os
import signal
import socket
from collections.abc import AsyncIterator

import pytest
from tests.node import samples
from tests.real import machines

from gantry import errors
from gantry.rpc import calls

pytestmark = machines.NEEDS


@pytest.fixture
async def lab() -> AsyncIterator[machines.Lab]:
    async with machines.lab() as running_lab:
        yield running_lab


async def state(node: machines.Node) -> str:
    info = await node.kvm.info("vm1")
    return info.state if info else ""


async def test_a_guest_goes_there_and_back_and_loses_nothing(lab: machines.Lab) -> None:
    source = await lab.up()
    target = lab.nodes[1]
    for here, there in ((source, target), (target, source)):
        with lab.pinged() as gap:
            await lab.writes(here)
            await lab.send(here, there)
            status = await lab.finish(here, there)
            await lab.writes(there)
            await lab.answers()
            print(f"pause {gap():.0f} ms, QEMU's {status.downtime}, {status.seconds} s, {status.transferred >> 20} MiB")
        assert (await state(here), await state(there)) == ("", "running")
        assert here.remains() == []


async def test_it_runs_on_one_node_alone_and_both_tell_where_a_migration_stands(lab: machines.Lab) -> None:
    source = await lab.up()
    target = lab.nodes[1]
    await lab.send(source, target, bandwidth=1)
    with pytest.raises(errors.WrongStateError, match="still runs on node"):
        await source.kvm.finalize_source(lab.instance(source), success=True)
    with pytest.raises(errors.WrongStateError, match="has not arrived"):
        await target.kvm.finalize_target(lab.instance(target), success=True)
    assert (await state(source), await state(target)) == ("migrating", "incoming")
    await lab.hurry(source)
    status = await lab.ended(source)
    assert status.status == "completed", status
    for node in (source, target):  # both daemons die, and know it still
        node.restart()
    assert (await state(source), await state(target)) == ("migrated", "arrived")
    assert [guest.name for guest in await target.kvm.running()] == []
    with pytest.raises(errors.WrongStateError, match="a migration of instance vm1 to node node2 is not finished"):
        await target.kvm.start(lab.instance(target), paused=False)
    before = len(lab.written(source))
    await target.kvm.finalize_target(lab.instance(target), success=False)
    assert len(lab.written(source)) == before
    await source.kvm.finalize_source(lab.instance(source), success=False)
    await lab.writes(source)
    assert (await state(source), target.remains()) == ("running", [])


async def test_progress_is_reported_and_a_cancelled_migration_leaves_the_guest_on_its_node(
    lab: machines.Lab,
) -> None:
    source = await lab.up()
    target = lab.nodes[1]
    await lab.send(source, target, bandwidth=1)
    early = await source.kvm.migration_status(lab.instance(source), wait=0.3)
    later = await source.kvm.migration_status(lab.instance(source), wait=1.0)
    assert (early.status, later.status) == ("active", "active")
    assert early.transferred < later.transferred < later.total
    assert (await source.kvm.cancel_migration(lab.instance(source))).status == "cancelled"
    await target.kvm.finalize_target(lab.instance(target), success=False)
    await source.kvm.finalize_source(lab.instance(source), success=False)
    await lab.writes(source)
    assert (await state(source), target.remains()) == ("running", [])


async def test_a_target_that_dies_half_way_leaves_the_guest_running_at_the_source(lab: machines.Lab) -> None:
    source = await lab.up()
    target = lab.nodes[1]
    await lab.send(source, target, bandwidth=1)
    os.kill(target.pid, signal.SIGKILL)
    status = await lab.ended(source)
    assert status.status == "failed"
    assert status.reason
    await lab.writes(source)
    assert (await state(target), target.remains()) == ("", [])
    assert await target.kvm.endings() == ()
    await source.kvm.finalize_source(lab.instance(source), success=False)
    await lab.send(source, target)
    await lab.finish(source, target)
    await lab.writes(target)


async def test_a_target_whose_machine_dies_is_given_up_and_the_guest_runs_on(lab: machines.Lab) -> None:
    source = await lab.up()
    target = lab.nodes[1]
    await lab.send(source, target, bandwidth=1)
    lab.cut(target)
    status = await lab.ended(source)
    assert (status.status, bool(status.reason)) == ("failed", True)
    await lab.writes(source)
    await source.kvm.finalize_source(lab.instance(source), success=False)
    assert await state(source) == "running"


async def test_a_target_that_accepts_and_never_speaks_holds_up_neither_the_guest_nor_its_control(
    lab: machines.Lab,
) -> None:
    source = await lab.up()
    target = lab.nodes[1]
    vm = lab.instance(source)
    with samples.entered(target.namespace):
        silent = socket.create_server((target.address, 0))
    with silent:
        reception = calls.Reception(host=target.address, port=silent.getsockname()[1], secret="00" * 32)
        await source.kvm.migrate(vm, reception, live=True)
        assert (await source.kvm.migration_status(vm, wait=1.0)).status == "active"
        await lab.writes(source)
    status = await lab.ended(source)
    assert (status.status, bool(status.reason)) == ("failed", True)
    await source.kvm.finalize_source(vm, success=False)
    assert await state(source) == "running"


async def test_an_unreachable_target_is_reported_and_the_guest_never_stops(lab: machines.Lab) -> None:
    source = await lab.up()
    target = lab.nodes[1]
    reception = calls.Reception(host=target.address, port=1, secret="00" * 32)
    with pytest.raises(errors.HypervisorError, match=f"vm1: {target.address} port 1 cannot be reached: .*refused"):
        await source.kvm.migrate(lab.instance(source), reception, live=False)
    await lab.writes(source)
    assert await state(source) == "running"


async def test_another_secret_or_another_machine_does_not_get_in(lab: machines.Lab) -> None:
    source = await lab.up()
    target = lab.nodes[1]
    vm, there = lab.instance(source), lab.instance(target)
    info = await source.kvm.migration_info(vm)
    for wrong in (info, info.replace('"maxmem":128', '"maxmem":136')):
        reception = await target.kvm.accept(there, wrong, address=target.address, mirror=False)
        if wrong == info:
            reception = machines.with_secret(reception, "00" * 32)
        await source.kvm.migrate(vm, reception, live=True)
        status = await lab.ended(source)
        assert status.status == "failed"
        await target.kvm.finalize_target(there, success=False)
        await source.kvm.finalize_source(vm, success=False)
        await lab.writes(source)
        assert target.remains() == []


async def test_a_guest_that_stands_still_goes_as_well(lab: machines.Lab) -> None:
    source = await lab.up()
    await lab.send(source, lab.nodes[1], live=False)
    await lab.finish(source, lab.nodes[1])
    await lab.writes(lab.nodes[1])


async def test_what_was_plugged_in_on_the_way_is_found_again_and_the_balloon_too(lab: machines.Lab) -> None:
    source = await lab.up()
    target = lab.nodes[1]
    assert await source.kvm.balloon(lab.instance(source), 112) == 112
    for node in lab.nodes:
        lab.make_extra_disk(node)
    await source.kvm.plug_disk(lab.instance(source), lab.extra_disk(source))
    await source.kvm.plug_nic(lab.instance(source), machines.second_nic())
    await source.console("ls /sys/class/net /sys/block", until="vdc")
    await lab.send(source, target)
    await lab.finish(source, target)
    await lab.writes(target)
    info = await target.kvm.info("vm1")
    assert info is not None
    assert info.memory == 112
    await target.kvm.unplug_disk(lab.instance(target), lab.extra_disk(target))
    await target.kvm.unplug_nic(lab.instance(target), machines.second_nic())
    await lab.writes(target)
    assert len(target.taps()) == 1


async def test_disks_that_are_not_shared_are_copied_while_the_guest_writes_them() -> None:
    async with machines.lab(shared=False) as lab:
        source = await lab.up()
        target = lab.nodes[1]
        with lab.pinged() as gap:
            await lab.send(source, target, mirror=True)
            status = await lab.finish(source, target)
            await lab.writes(target)
            await lab.answers()
            print(f"pause with copied disks {gap():.0f} ms, QEMU's {status.downtime}, {status.seconds} s")
        assert len(lab.written(target)) > len(lab.written(source))
        assert source.remains() == []


async def test_a_copy_whose_target_is_a_dead_machine_is_given_up_and_the_guest_runs_on() -> None:
    async with machines.lab(shared=False) as lab:
        source = await lab.up()
        await lab.send(source, lab.nodes[1], mirror=True, bandwidth=1)
        lab.cut(lab.nodes[1])
        status = await lab.ended(source)
        assert status.status == "failed"
        await source.kvm.finalize_source(lab.instance(source), success=False)
        await lab.writes(source)
        assert await state(source) == "running"


async def test_a_copy_that_breaks_off_leaves_the_guest_running_at_the_source() -> None:
    async with machines.lab(shared=False) as lab:
        source = await lab.up()
        target = lab.nodes[1]
        await lab.send(source, target, mirror=True, bandwidth=1)
        os.kill(target.pid, signal.SIGKILL)
        status = await lab.ended(source)
        assert status.status == "failed"
        await source.kvm.finalize_source(lab.instance(source), success=False)
        await lab.writes(source)
        await lab.send(source, target, mirror=True)
        await lab.finish(source, target)
        await lab.writes(target)
