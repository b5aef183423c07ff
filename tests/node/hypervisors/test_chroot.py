"""Instances that are folder trees: what their scripts do wrong, and what is left of them."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest
from tests.node import samples
from tests.node.hypervisors import chroots

from gantry import errors
from gantry.rpc import calls
from gantry.runtime import paths

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not chroots.NEEDED, reason="mounting needs root, loop devices, busybox and fuser"),
]

NAME = "vm1"


class ChrootDriver:
    def __init__(self, folders: paths.Paths) -> None:
        self.folders = folders
        self.chroot = chroots.driver(folders)
        self.processes = samples.runtime().processes
        self.root = f"{folders.instances}/chroot/{NAME}/root"

    def instance(self, *marks: str, **hvparams: calls.Value) -> calls.Instance:
        hvparams = {"init_script": "/ganeti-chroot", **hvparams}
        return samples.instance("chroot", hvparams=hvparams, disks=(chroots.disk(self.folders, *marks),))

    def messages(self) -> list[str]:
        with open(f"{self.root}/said") as file:
            return file.read().split()

    def remains(self) -> list[str]:
        folder = f"{self.folders.instances}/chroot"
        return os.listdir(folder) if os.path.exists(folder) else []


@pytest.fixture
async def node(folders: paths.Paths) -> AsyncIterator[ChrootDriver]:
    new_node = ChrootDriver(folders)
    yield new_node
    await new_node.chroot.stop(NAME, timeout=0)


async def test_an_instance_is_what_its_script_starts_and_ends_with_it(node: ChrootDriver) -> None:
    await node.chroot.start(node.instance(), paused=False)
    assert node.messages() == ["start"]
    await node.chroot.reboot(NAME, kind="soft", timeout=10)
    assert node.messages() == ["start", "stop", "start"]
    console = await node.chroot.console(NAME)
    assert console.command == ("chroot", node.root)
    done = await node.processes.run([*console.command, "/bin/busybox", "echo", "inside"])
    assert done.stdout == b"inside\n"
    await node.chroot.stop(NAME, timeout=10)
    assert node.remains() == []


async def test_what_does_not_stop_by_itself_is_killed(node: ChrootDriver) -> None:
    await node.chroot.start(node.instance("stubborn"), paused=False)
    await node.chroot.stop(NAME, timeout=0.2)
    assert node.remains() == []


async def test_a_script_that_fails_leaves_nothing_and_is_quoted(node: ChrootDriver) -> None:
    with pytest.raises(errors.HypervisorError, match=r"/ganeti-chroot start of instance vm1 failed .*: it is broken"):
        await node.chroot.start(node.instance("broken"), paused=False)
    assert node.remains() == []


@pytest.mark.parametrize(
    ("hvparams", "message"),
    [
        ({"init_script": "/nothing"}, "/nothing start of instance vm1 failed"),
        ({"init_script": "relative"}, "'relative' is not an absolute path inside the disk"),
        ({"init_script": "/../bin/sh"}, "is not an absolute path inside the disk"),
    ],
)
async def test_a_script_that_is_not_there_is_refused(
    node: ChrootDriver, hvparams: dict[str, calls.Value], message: str
) -> None:
    with pytest.raises(errors.GantryError) as refused:
        await node.chroot.start(node.instance(**hvparams), paused=False)
    assert message in str(refused.value)
    assert node.remains() == []


async def test_a_disk_without_a_file_system_and_an_instance_without_a_disk_are_refused(node: ChrootDriver) -> None:
    vm = node.instance()
    os.truncate(vm.disks[0].logical_id[1], 0)
    os.truncate(vm.disks[0].logical_id[1], 16 << 20)
    with pytest.raises(errors.HypervisorError, match="disk 0 of instance vm1 cannot be mounted on node node1"):
        await node.chroot.start(vm, paused=False)
    with pytest.raises(errors.InvalidError, match="vm1 has no disk"):
        await node.chroot.start(samples.instance("chroot", hvparams=vm.hvparams), paused=False)
    assert node.remains() == []


async def test_an_instance_whose_disk_somebody_unmounts_has_ended(node: ChrootDriver) -> None:
    await node.chroot.start(node.instance(), paused=False)
    # Who is killed ends a moment later, and may have started another before.
    async with asyncio.timeout(60):
        while (await node.processes.run(["umount", node.root])).code:
            await node.processes.run(["fuser", "-s", "-k", "-M", "-m", node.root])
    assert await node.chroot.running() == ()
    (ending,) = await node.chroot.endings()
    assert (ending.name, ending.how) == (NAME, "unknown")
    await node.chroot.start(node.instance(), paused=False)
    assert await node.chroot.endings() == ()


async def test_what_has_no_processors_cannot_pause_move_or_take_devices(node: ChrootDriver) -> None:
    vm = node.instance()
    with pytest.raises(errors.WrongStateError, match="cannot start paused"):
        await node.chroot.start(vm, paused=True)
    await node.chroot.start(vm, paused=False)
    with pytest.raises(
        errors.WrongStateError, match="vm1 cannot be migrated: hypervisor chroot does not support migration"
    ):
        await node.chroot.migration_info(vm)
    with pytest.raises(errors.HypervisorError, match="chroot cannot limit the memory to 8 MiB"):
        await node.chroot.balloon(vm, 8)
    with pytest.raises(errors.HypervisorError, match="chroot cannot add disk 0 while the instance runs"):
        await node.chroot.plug_disk(vm, vm.disks[0])
    with pytest.raises(errors.HypervisorError, match="chroot cannot remove the first disk"):
        await node.chroot.unplug_disk(vm, vm.disks[0])
    info = await node.chroot.info(NAME)
    assert info is not None
    assert not info.hotplug
