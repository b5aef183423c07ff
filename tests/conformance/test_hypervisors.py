"""What every hypervisor keeps; a new driver joins ``DRIVERS``. The guests of kvm have no disk: they sit in firmware."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable

import pytest
from tests.node import samples
from tests.node.hypervisors import chroots
from tests.node.hypervisors.xen import stand_in

from gantry import errors
from gantry.node import drivers
from gantry.node.hypervisors import chroot, fake
from gantry.node.hypervisors.kvm import accelerator_probe, migration
from gantry.node.hypervisors.kvm import driver as kvm_driver
from gantry.node.hypervisors.xen import machine
from gantry.node.network import segment_bridges, taps
from gantry.rpc import calls
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime

TIMEOUT_SECONDS = 120.0
PROMPT = b"(qemu) "

Make = Callable[[paths.Paths, str], drivers.Hypervisor]


def make_kvm(folders: paths.Paths, namespace: str) -> drivers.Hypervisor:
    runtime = samples.runtime(namespace=namespace)
    accelerators = accelerator_probe.Accelerators(runtime, folders, bootid="")
    bridged = taps.Bridged(runtime, folders.etc, segments=segment_bridges.Segments(runtime))
    parts = drivers.Registry(RealRuntime("node1"), nics={"bridged": bridged})
    return kvm_driver.Kvm(runtime, folders, parts=parts, accelerators=accelerators)


DRIVERS: dict[str, Make] = {
    "fake": lambda folders, _: fake.Fake(RealRuntime().disk, folders.instances),
    "kvm": make_kvm,
    machine.PARAVIRTUAL: lambda folders, _: stand_in.driver(machine.PARAVIRTUAL, folders),
    machine.FULL: lambda folders, _: stand_in.driver(machine.FULL, folders),
    chroot.NAME: lambda folders, _: chroots.driver(folders),
}
PARAMETERS: dict[str, Callable[[], dict[str, calls.Value]]] = {
    "fake": dict,
    "kvm": samples.kvm,
    machine.PARAVIRTUAL: lambda: stand_in.parameters(machine.PARAVIRTUAL),
    machine.FULL: lambda: stand_in.parameters(machine.FULL),
    chroot.NAME: lambda: {"init_script": "/ganeti-chroot"},
}


class Case:
    """A driver with its folders, the network namespace of its guests, and instances for it."""

    def __init__(self, kind: str, folders: paths.Paths, namespace: str) -> None:
        self.kind = kind
        self._folders = folders
        self._namespace = namespace
        self.driver = self.restarted()
        self.other = DRIVERS[kind](paths.Paths.below(f"{folders.lib}/other"), namespace)

    def instance(self, name: str = "vm1", *nics: calls.Nic) -> calls.Instance:
        disks = (chroots.disk(self._folders, owner=name),) if self.kind == chroot.NAME else ()
        return samples.instance(self.kind, name=name, hvparams=PARAMETERS[self.kind](), disks=disks, nics=nics)

    def needs_machine(self) -> None:
        """Skip a test of what only a machine has: processors, memory, and devices of its own."""
        if self.kind == chroot.NAME:
            pytest.skip("a folder tree is no machine")

    def needs_nics(self) -> None:
        self.needs_machine()
        if self.kind == "kvm" and not self._namespace:
            pytest.skip("network namespaces need root and the ip command")

    def delay_arrivals(self, patch: pytest.MonkeyPatch) -> None:
        """Let what is sent from now on take longer than a test looks at it; a fake guest moves only when asked."""
        if self.kind == "kvm":
            patch.setattr(migration, "MIB", 1 << 10)
        elif self.kind != "fake":
            (stand_in.folder(self._folders) / "slow").touch()

    async def unplug(self, driver: drivers.Hypervisor, plugged: calls.Nic) -> None:
        """Unplug a NIC; a guest that sits in its firmware releases it when it is reset."""
        work = asyncio.create_task(driver.unplug_nic(self.instance(), plugged))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not (await asyncio.wait([work], timeout=0.1))[0]:
                if self.kind == "kvm":
                    await self._reset()
            await work

    async def _reset(self) -> None:
        """Press the reset button and wait for QEMU, which discards unread commands of a closed connection."""
        reader, monitor = await asyncio.open_unix_connection(f"{self._folders.instances}/vm1/monitor")
        await reader.readuntil(PROMPT)
        monitor.write(b"system_reset\n")
        await reader.readuntil(PROMPT)
        monitor.close()

    def restarted(self) -> drivers.Hypervisor:
        """Return a new driver, as after a restart of the node daemon."""
        return DRIVERS[self.kind](self._folders, self._namespace)


@pytest.fixture(
    params=[
        *("fake", machine.PARAVIRTUAL),
        pytest.param(machine.FULL, marks=pytest.mark.slow),  # the driver of Xen again, with other devices
        *(pytest.param(name, marks=pytest.mark.real) for name in ("kvm", chroot.NAME)),
    ],
)
async def case(request: pytest.FixtureRequest) -> AsyncIterator[Case]:
    if request.param == "kvm" and shutil.which(accelerator_probe.QEMU) is None:
        pytest.skip(f"{accelerator_probe.QEMU} is not installed")
    if request.param == chroot.NAME and not chroots.NEEDED:
        pytest.skip("mounting needs root, loop devices, busybox and fuser")
    real = request.param == "kvm" and samples.HAS_NAMESPACES
    with (
        samples.namespace() if real else contextlib.nullcontext("") as namespace,
        tempfile.TemporaryDirectory(prefix="g") as root,  # short: a socket's path ends at 107 bytes
    ):
        new_case = Case(request.param, paths.Paths.below(root), namespace)
        try:
            yield new_case
        finally:
            for driver in (new_case.driver, new_case.other):
                for name in ("vm1", *(running.name for running in await driver.running())):
                    await driver.stop(name, timeout=0)


async def test_what_is_started_runs_and_what_is_stopped_does_not(case: Case) -> None:
    assert await case.driver.running() == ()
    assert await case.driver.info("vm1") is None
    await case.driver.start(case.instance(), paused=False)
    info = await case.driver.info("vm1")
    assert info is not None
    assert (info.name, info.uuid, info.hypervisor) == ("vm1", samples.UUID, case.kind)
    assert (info.memory, info.vcpus, info.state) == (16, 1, "running")
    assert await case.driver.running() == (info,)
    await case.driver.stop("vm1", timeout=0)
    assert await case.driver.running() == ()


async def test_the_machine_of_what_runs_is_what_was_started_with_its_present_devices(case: Case) -> None:
    assert await case.driver.machine("vm1") is None
    await case.driver.start(case.instance(), paused=False)
    machine = await case.restarted().machine("vm1")
    assert machine is not None
    assert (machine.name, machine.uuid, machine.disks) == ("vm1", samples.UUID, case.instance().disks)
    assert machine.nics == case.instance().nics
    await case.driver.stop("vm1", timeout=0)
    assert await case.driver.machine("vm1") is None


async def test_starting_what_runs_and_stopping_what_does_not_are_no_errors(case: Case) -> None:
    await case.driver.stop("vm1", timeout=0)
    for _ in range(2):
        await case.driver.start(case.instance(), paused=False)
    assert len(await case.driver.running()) == 1
    for _ in range(2):
        await case.driver.stop("vm1", timeout=0)


async def test_instances_do_not_disturb_each_other(case: Case) -> None:
    await asyncio.gather(*(case.driver.start(case.instance(name), paused=False) for name in ("b", "a")))
    assert [running.name for running in await case.driver.running()] == ["a", "b"]
    assert [running.name for running in await case.driver.running({"b", "c"})] == ["b"]
    assert await case.driver.running(()) == ()
    await case.driver.stop("a", timeout=0)
    assert [running.name for running in await case.driver.running()] == ["b"]


async def test_a_paused_start_is_reported_as_paused(case: Case) -> None:
    case.needs_machine()
    await case.driver.start(case.instance(), paused=True)
    info = await case.driver.info("vm1")
    assert info is not None
    assert info.state == "paused"


async def test_a_restarted_driver_finds_running_instances(case: Case) -> None:
    await case.driver.start(case.instance(), paused=False)
    again = case.restarted()
    assert await again.running() == await case.driver.running()
    await again.stop("vm1", timeout=0)
    assert await case.driver.running() == ()


@pytest.mark.parametrize("kind", ["soft", "hard"])
async def test_a_rebooted_instance_still_runs(case: Case, kind: str) -> None:
    await case.driver.start(case.instance(), paused=False)
    await case.driver.reboot("vm1", kind=kind, timeout=0.2)
    info = await case.driver.info("vm1")
    assert info is not None
    assert info.state == "running"


async def test_what_does_not_run_cannot_be_rebooted(case: Case) -> None:
    with pytest.raises(errors.HypervisorError, match="vm1 does not run"):
        await case.driver.reboot("vm1", kind="hard", timeout=0)


async def test_a_console_is_a_command_or_says_why_not(case: Case) -> None:
    assert (await case.driver.console("vm1")).message
    await case.driver.start(case.instance(), paused=False)
    console = await case.driver.console("vm1")
    assert bool(console.command) != bool(console.message)


async def test_a_console_is_connected_or_says_why_not(case: Case) -> None:
    with pytest.raises(errors.GantryError, match="vm1 does not run"):
        await case.driver.connect_console("vm1", "serial")
    await case.driver.start(case.instance(), paused=False)
    if case.kind == "kvm":
        _, writer = await case.driver.connect_console("vm1", "serial")
        writer.close()
        return
    with pytest.raises(errors.WrongStateError, match="instance vm1"):
        await case.driver.connect_console("vm1", "serial")


async def test_parameters_that_the_node_can_follow_are_accepted(case: Case) -> None:
    await case.driver.validate(case.instance().hvparams)


async def test_a_nic_is_plugged_in_and_taken_out_while_the_instance_runs(case: Case) -> None:
    case.needs_nics()
    first, second = samples.nic(), samples.nic(index=1)
    await case.driver.start(case.instance("vm1", first), paused=False)
    info = await case.driver.info("vm1")
    assert info is not None
    assert info.hotplug
    assert not await case.driver.update_nic(case.instance(), second)
    for _ in range(2):
        await case.driver.plug_nic(case.instance(), second)
    assert await case.driver.update_nic(case.instance(), second)
    for plugged in (first, second):  # one that was there at the start, and one that was not
        for _ in range(2):
            await case.unplug(case.driver, plugged)
        assert not await case.driver.update_nic(case.instance(), plugged)
    await case.driver.plug_nic(case.instance(), second)
    assert await case.driver.update_nic(case.instance(), second)


async def test_a_restarted_driver_finds_the_nics(case: Case) -> None:
    case.needs_nics()
    await case.driver.start(case.instance("vm1", samples.nic()), paused=False)
    await case.driver.plug_nic(case.instance(), samples.nic(index=1))
    again = case.restarted()
    await again.plug_nic(case.instance(), samples.nic(index=1))
    await case.unplug(again, samples.nic(index=1))
    assert not await again.update_nic(case.instance(), samples.nic(index=1))
    assert await again.update_nic(case.instance(), samples.nic())


async def test_nics_of_what_does_not_run_are_gone_and_cannot_be_plugged_in(case: Case) -> None:
    case.needs_machine()
    await case.driver.unplug_nic(case.instance(), samples.nic())
    with pytest.raises(errors.HypervisorError, match="vm1 does not run"):
        await case.driver.plug_nic(case.instance(), samples.nic())
    with pytest.raises(errors.HypervisorError, match="vm1 does not run"):
        await case.driver.update_nic(case.instance(), samples.nic())


async def begin(case: Case, vm: calls.Instance) -> None:
    """Begin to send a running instance from the driver to the other one."""
    info = await case.driver.migration_info(vm)
    reception = await case.other.accept(vm, info, address="127.0.0.1", mirror=False)
    await case.driver.migrate(vm, reception, live=True)


async def ended(case: Case, vm: calls.Instance) -> calls.MigrationStatus:
    async with asyncio.timeout(60):
        while not (status := await case.driver.migration_status(vm, wait=1)).final:
            assert status.transferred <= status.total
    return status


async def states(case: Case) -> tuple[str, str]:
    here, there = await case.driver.info("vm1"), await case.other.info("vm1")
    return (here.state if here else "", there.state if there else "")


async def test_an_instance_moves_and_runs_in_one_place_at_any_time(case: Case) -> None:
    case.needs_machine()
    vm = case.instance()
    await case.driver.start(vm, paused=False)
    assert (await case.driver.migration_status(vm, wait=0)).status == "none"
    await begin(case, vm)
    assert (await ended(case, vm)).status == "completed"
    assert await states(case) == ("migrated", await arrived(case))
    assert await case.other.running() == ()
    for _ in range(2):
        await case.other.finalize_target(vm, success=True)
    for _ in range(2):
        await case.driver.finalize_source(vm, success=True)
    assert await states(case) == ("", "running")
    assert [running.name for running in await case.other.running()] == ["vm1"]


async def arrived(case: Case) -> str:
    """Return the target's state of an instance that has arrived; the fake hypervisor reports it as incoming."""
    state = (await states(case))[1]
    assert state in ("arrived", "incoming")
    return state


async def test_a_migration_that_is_not_to_be_goes_back(case: Case) -> None:
    case.needs_machine()
    vm = case.instance()
    await case.driver.start(vm, paused=False)
    await begin(case, vm)
    assert (await ended(case, vm)).status == "completed"
    for _ in range(2):
        await case.other.finalize_target(vm, success=False)
        await case.driver.finalize_source(vm, success=False)
    assert await states(case) == ("running", "")
    await begin(case, vm)
    assert (await ended(case, vm)).status == "completed"


async def test_a_migration_can_be_given_up(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.needs_machine()
    vm = case.instance()
    await case.driver.start(vm, paused=False)
    case.delay_arrivals(monkeypatch)
    await begin(case, vm)
    with pytest.raises(errors.WrongStateError):
        await case.driver.finalize_source(vm, success=True)
    assert (await case.driver.cancel_migration(vm)).final
    await case.other.finalize_target(vm, success=False)
    await case.driver.finalize_source(vm, success=False)
    assert await states(case) == ("running", "")


async def test_what_runs_at_the_target_is_not_overrun_and_what_waits_there_is_not_started(case: Case) -> None:
    case.needs_machine()
    vm = case.instance()
    await case.driver.start(vm, paused=False)
    info = await case.driver.migration_info(vm)
    await case.other.start(vm, paused=False)
    with pytest.raises(errors.ExistsError, match="vm1"):
        await case.other.accept(vm, info, address="127.0.0.1", mirror=False)
    await case.other.finalize_target(vm, success=False)
    assert await states(case) == ("running", "running")
    await case.other.stop("vm1", timeout=0)
    for _ in range(2):
        await case.other.accept(vm, info, address="127.0.0.1", mirror=False)
    with pytest.raises(errors.WrongStateError, match="vm1"):
        await case.other.start(vm, paused=False)
    with pytest.raises(errors.InvalidError, match="the migration info is not valid"):
        await case.other.accept(vm, "{}", address="127.0.0.1", mirror=False)


async def test_what_does_not_run_cannot_be_moved_and_is_finished_already(case: Case) -> None:
    case.needs_machine()
    vm = case.instance()
    with pytest.raises(errors.HypervisorError, match="vm1 does not run"):
        await case.driver.migration_info(vm)
    with pytest.raises(errors.HypervisorError, match="vm1 does not run"):
        await case.driver.migration_status(vm, wait=0)
    with pytest.raises(errors.HypervisorError, match="vm1 does not run"):
        await case.driver.finalize_target(vm, success=True)
    await case.driver.finalize_source(vm, success=True)
    await case.driver.finalize_target(vm, success=False)


async def test_memory_stays_between_its_bounds(case: Case) -> None:
    case.needs_machine()
    vm = case.instance()
    with pytest.raises(errors.HypervisorError, match="vm1 does not run"):
        await case.driver.balloon(vm, 16)
    await case.driver.start(vm, paused=False)
    for outside in (15, 17):
        with pytest.raises(errors.InvalidError, match="vm1 can have 16 to 16 MiB"):
            await case.driver.balloon(vm, outside)
    assert await case.driver.balloon(vm, 16) == 16


async def test_disks_of_what_does_not_run_are_gone_and_cannot_be_plugged_in(case: Case) -> None:
    case.needs_machine()
    disk = calls.Disk(index=0, uuid="d15c0000-0000-4000-8000-000000000000", dev_type="file", size=4)
    await case.driver.unplug_disk(case.instance(), disk)
    for change in (case.driver.plug_disk, case.driver.resize_disk):
        with pytest.raises(errors.HypervisorError, match="vm1 does not run"):
            await change(case.instance(), disk)
    await case.driver.start(case.instance(), paused=False)
    assert not await case.driver.resize_disk(case.instance(), disk)


async def test_an_instance_that_was_stopped_has_no_ending(case: Case) -> None:
    await case.driver.start(case.instance(), paused=False)
    await case.driver.stop("vm1", timeout=0)
    assert await case.driver.endings() == ()


async def test_what_a_running_instance_uses_can_be_read_unless_its_driver_does_not_measure(case: Case) -> None:
    assert await case.driver.usage() == ()
    await case.driver.start(case.instance(), paused=False)
    used = await case.driver.usage()
    assert [each.name for each in used] == (["vm1"] if case.kind in ("fake", "kvm") else [])
    assert all(each.memory > 0 for each in used)
    await case.driver.stop("vm1", timeout=0)
    assert await case.driver.usage() == ()
