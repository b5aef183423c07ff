"""Real QEMU processes whose guests sit in their firmware, with taps in a network namespace made for the test."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
from tests.node import samples

from gantry import errors
from gantry.node import drivers
from gantry.node.daemon import wiring
from gantry.node.hypervisors.kvm import accelerator_probe, guest_records
from gantry.rpc import calls
from gantry.runtime import paths

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        shutil.which(accelerator_probe.QEMU) is None, reason=f"{accelerator_probe.QEMU} is not installed"
    ),
]


class KvmDrivers:
    """The drivers of a node whose programs run in a namespace, and a view of what is left behind."""

    def __init__(self, folders: paths.Paths, namespace: str) -> None:
        self.folders = folders
        self.namespace = namespace
        self.runtime = samples.runtime(namespace=namespace)
        accelerators = accelerator_probe.Accelerators(self.runtime, folders, bootid="")
        self.registry = wiring.registry(self.runtime, folders, accelerators=accelerators)
        self.kvm: drivers.Hypervisor = self.registry.hypervisor("kvm")
        self.guests = guest_records.Guests(self.runtime, folders.instances)

    def taps(self) -> list[str]:
        done = subprocess.run(["ip", "-n", self.namespace, "-o", "link"], capture_output=True, check=True, text=True)
        return [line.split()[1].rstrip(":") for line in done.stdout.splitlines() if ": gnt" in line]

    def remains(self) -> list[str]:
        return os.listdir(self.folders.instances) if os.path.exists(self.folders.instances) else []

    def pid(self) -> int:
        pid = self.guests.pid("vm1")
        assert pid is not None
        return pid


@pytest.fixture
async def node(folders: paths.Paths, namespace: str) -> AsyncIterator[KvmDrivers]:
    new_node = KvmDrivers(folders, namespace)
    try:
        yield new_node
    finally:
        for running in await new_node.kvm.running():
            await new_node.kvm.stop(running.name, timeout=0)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - it waits for another program
            await asyncio.sleep(0.02)


async def test_a_guest_gets_its_disks_and_nics_and_takes_them_along_when_it_stops(
    node: KvmDrivers, folders: paths.Paths
) -> None:
    disk = samples.disk(folders)
    await node.registry.block_device("file").create(disk, owner="vm1")
    vm = samples.instance(disks=(disk,), nics=(samples.nic(), samples.nic(index=1)))
    await node.kvm.start(vm, paused=False)
    assert len(node.taps()) == 2
    assert node.taps()
    arguments = node.runtime.processes.command_line(node.pid())
    assert any(disk.logical_id[-1] in argument for argument in arguments)
    await node.kvm.stop("vm1", timeout=0)
    assert (node.taps(), node.remains()) == ([], [])
    assert await node.registry.block_device("file").find(disk)


async def test_a_guest_that_died_is_noticed_and_cleared_away(node: KvmDrivers) -> None:
    await node.kvm.start(samples.instance(nics=(samples.nic(),)), paused=False)
    pid = node.pid()
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not node.runtime.processes.alive(pid))
    assert await node.kvm.running() == ()
    (ending,) = await node.kvm.endings()
    assert (ending.name, ending.how) == ("vm1", "crashed")
    assert (node.taps(), os.listdir(node.guests.files("vm1").folder)) == ([], ["ended"])
    await node.kvm.start(samples.instance(nics=(samples.nic(),)), paused=False)
    assert await node.kvm.endings() == ()
    assert node.pid() != pid


async def test_a_process_that_got_the_id_of_a_dead_guest_is_not_taken_for_it(node: KvmDrivers) -> None:
    await node.kvm.start(samples.instance(), paused=False)
    files = node.guests.files("vm1")
    pid = node.pid()
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not node.runtime.processes.alive(pid))
    samples.write(files.pid, f"{os.getpid()}\n")
    await node.kvm.stop("vm1", timeout=0)
    assert await node.kvm.info("vm1") is None


async def test_a_guest_that_ignores_the_power_button_is_ended_after_the_timeout(node: KvmDrivers) -> None:
    await node.kvm.start(samples.instance(), paused=False)
    pid = node.pid()
    await node.kvm.stop("vm1", timeout=0.3)
    await until(lambda: not node.runtime.processes.alive(pid))


async def test_a_qemu_that_hangs_is_killed(node: KvmDrivers, monkeypatch: pytest.MonkeyPatch) -> None:
    await node.kvm.start(samples.instance(nics=(samples.nic(),)), paused=False)
    monkeypatch.setattr("gantry.node.hypervisors.kvm.power.ANSWER_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr("gantry.node.hypervisors.kvm.power.QUIT_TIMEOUT_SECONDS", 0.0)
    pid = node.pid()
    os.kill(pid, signal.SIGSTOP)
    info = await node.kvm.info("vm1")
    assert info is not None
    await node.kvm.stop("vm1", timeout=0)
    await until(lambda: not node.runtime.processes.alive(pid))
    assert (node.taps(), node.remains()) == ([], [])


async def test_a_start_that_fails_says_what_qemu_said_and_leaves_nothing(node: KvmDrivers) -> None:
    vm = samples.instance(hvparams=samples.kvm(cpu_type="nonsense"), nics=(samples.nic(),))
    with pytest.raises(
        errors.HypervisorError, match=r"exited immediately: .*unable to find CPU model.*log/kvm/vm1.log"
    ):
        await node.kvm.start(vm, paused=False)
    assert (node.taps(), node.remains()) == ([], [])


async def test_a_machine_that_qemu_does_not_know_is_refused_with_the_nearest_name(node: KvmDrivers) -> None:
    parameters = samples.kvm(machine_version="pc-i440fx-7.22")
    with pytest.raises(
        errors.InvalidError, match=r"QEMU of node node1 does not support machine type .*did you mean pc-i440fx-7.2\?"
    ):
        await node.kvm.validate(parameters)


async def test_the_machine_type_is_fixed_while_the_guest_runs(node: KvmDrivers) -> None:
    await node.kvm.start(samples.instance(), paused=False)
    record = node.guests.record("vm1")
    assert record is not None
    assert re.fullmatch(r"pc-i440fx-\d+\.\d+", record.kind)


async def test_a_missing_bridge_stops_the_start_before_qemu_runs(node: KvmDrivers) -> None:
    vm = samples.instance(nics=(samples.nic(), samples.nic(index=1, link="br9")))
    with pytest.raises(errors.EnvironmentFaultError, match="no bridge br9"):
        await node.kvm.start(vm, paused=False)
    assert (node.taps(), node.remains()) == ([], [])


async def test_a_missing_disk_is_what_qemu_says(node: KvmDrivers, folders: paths.Paths) -> None:
    with pytest.raises(errors.HypervisorError, match="No such file or directory"):
        await node.kvm.start(samples.instance(disks=(samples.disk(folders),)), paused=False)


@pytest.mark.parametrize("parameter", ["kernel_path", "cdrom_image_path", "kvm_path"])
async def test_a_file_that_a_parameter_names_must_be_there(node: KvmDrivers, parameter: str) -> None:
    with pytest.raises(errors.InvalidError, match=f"{parameter}: there is no file /nothing on node node1"):
        await node.kvm.validate(samples.kvm(**{parameter: "/nothing"}))


async def test_a_guest_whose_serial_console_is_a_socket_can_be_read(node: KvmDrivers) -> None:
    await node.kvm.start(samples.instance(), paused=False)
    console = await node.kvm.console("vm1")
    if shutil.which("socat") is None:
        assert "install the package socat" in console.message
        return
    assert (console.kind, console.host) == ("socat", "node1")
    assert console.command[-1] == f"UNIX-CONNECT:{node.guests.files('vm1').serial}"
    assert "serial" in os.listdir(node.guests.files("vm1").folder)


async def test_one_program_at_a_time_is_connected_to_a_serial_console(node: KvmDrivers) -> None:
    with pytest.raises(errors.WrongStateError, match="instance vm1 does not run"):
        await node.kvm.connect_console("vm1", "serial")
    await node.kvm.start(samples.instance(), paused=False)
    _, writer = await node.kvm.connect_console("vm1", "serial")
    with pytest.raises(errors.NotUniqueError, match="a program on node node1 has the serial console of instance vm1"):
        await node.kvm.connect_console("vm1", "serial")
    writer.close()
    reader, writer = await node.kvm.connect_console("vm1", "serial")
    await node.kvm.stop("vm1", timeout=0)
    async with asyncio.timeout(60):
        while await reader.read(1 << 16):  # until QEMU closes it
            pass
    writer.close()


async def test_a_console_that_a_guest_was_started_without_is_named(node: KvmDrivers) -> None:
    await node.kvm.start(samples.instance(hvparams=samples.kvm(serial_console=False)), paused=False)
    with pytest.raises(errors.WrongStateError, match="vm1 was started without a serial console"):
        await node.kvm.connect_console("vm1", "serial")
    with pytest.raises(errors.WrongStateError, match="vm1 was started without VNC"):
        await node.kvm.connect_console("vm1", "vnc")


@pytest.mark.parametrize("where", ["127.0.0.1", "0.0.0.0", "folder"])
async def test_vnc_is_reached_wherever_it_listens_and_asks_for_its_password(
    node: KvmDrivers, folders: paths.Paths, where: str, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    address = folders.run if where == "folder" else where
    with samples.entered(node.namespace):
        vm = samples.instance(hvparams=samples.kvm(vnc_bind_address=address, vnc_password_file=str(password)))
        await node.kvm.start(vm, paused=False)
        reader, writer = await node.kvm.connect_console("vm1", "vnc")
        async with asyncio.timeout(60):
            assert await reader.readuntil(b"\n") == b"RFB 003.008\n"
            writer.write(b"RFB 003.008\n")
            # The only way in is that of a password (RFC 6143, section 7.2.2).
            assert await reader.read(2) == bytes([1, 2])
        writer.close()


async def test_vnc_with_its_own_encryption_is_refused(node: KvmDrivers) -> None:
    await node.kvm.start(samples.instance(hvparams=samples.kvm(vnc_bind_address="127.0.0.1")), paused=False)
    record = node.guests.record("vm1")
    assert record
    assert record.instance
    tls = msgspec.structs.replace(record.instance, hvparams={**record.instance.hvparams, "vnc_tls": True})
    await node.guests.write(msgspec.structs.replace(record, instance=tls))
    with pytest.raises(errors.WrongStateError, match="VNC of instance vm1 is encrypted"):
        await node.kvm.connect_console("vm1", "vnc")


async def test_the_accelerator_and_resources_of_an_instance_are_reported(node: KvmDrivers) -> None:
    await node.kvm.start(samples.instance(memory=24), paused=False)
    assert await node.kvm.info("vm1") == calls.RunningInstance(
        name="vm1",
        uuid=samples.UUID,
        hypervisor="kvm",
        memory=24,
        vcpus=1,
        state="running",
        accelerator="tcg",
        hotplug=True,
        devices=(),
    )


async def test_a_nic_that_a_guest_does_not_release_stays_with_its_tap(
    node: KvmDrivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gantry.node.hypervisors.kvm.hotplug.RELEASE_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr("gantry.node.hypervisors.kvm.hotplug.REQUEST_INTERVAL_SECONDS", 0.1)
    vm, nic = samples.instance(nics=(samples.nic(),)), samples.nic()
    await node.kvm.start(vm, paused=False)
    with pytest.raises(errors.HypervisorError, match=r"vm1 did not release the NIC within .* --no-hotplug"):
        await node.kvm.unplug_nic(vm, nic)
    assert len(node.taps()) == 1
    assert await node.kvm.update_nic(vm, nic)


async def test_a_nic_that_cannot_be_plugged_in_leaves_nothing(node: KvmDrivers) -> None:
    q35 = samples.instance(hvparams=samples.kvm(machine_version="q35"), nics=(samples.nic(),))
    await node.kvm.start(q35, paused=False)
    info = await node.kvm.info("vm1")
    assert info is not None
    assert not info.hotplug
    with pytest.raises(errors.HypervisorError, match="does not support hotplugging"):
        await node.kvm.plug_nic(q35, samples.nic(index=1))
    with pytest.raises(errors.EnvironmentFaultError, match="no bridge br9"):
        await node.kvm.plug_nic(q35, samples.nic(index=1, link="br9"))
    assert len(node.taps()) == 1
    record = node.guests.record("vm1")
    assert record is not None
    assert [nic.uuid for nic in record.nics] == [samples.nic().uuid]


async def test_a_guest_in_an_empty_root_folder_is_not_touched_by_a_hot_change(node: KvmDrivers) -> None:
    vm = samples.instance(hvparams=samples.kvm(use_chroot=True), nics=(samples.nic(),))
    await node.kvm.start(vm, paused=False)
    info = await node.kvm.info("vm1")
    assert info is not None
    assert not info.hotplug
    with pytest.raises(errors.HypervisorError, match=r"NICs cannot be plugged into instance vm1 .* use_chroot"):
        await node.kvm.plug_nic(vm, samples.nic(index=1))
    assert len(node.taps()) == 1
    assert info.devices == (samples.nic().mac,)


def close_to_others(path: Path) -> None:
    """Let only root open a file, in folders that everybody may search."""
    path.chmod(0o600)
    for folder in path.parents[:4]:
        folder.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_guest_of_another_user_gets_a_disk_that_only_root_may_open(node: KvmDrivers) -> None:
    hvparams = samples.kvm(security_model="user", security_domain="nobody")
    await node.kvm.start(samples.instance(hvparams=hvparams), paused=False)
    disk = samples.disk(node.folders)
    await node.registry.block_device("file").create(disk, owner="vm1")
    close_to_others(Path(disk.logical_id[-1]))
    await node.kvm.plug_disk(samples.instance(hvparams=hvparams), disk)
    info = await node.kvm.info("vm1")
    assert info is not None
    assert info.devices == (disk.uuid,)


async def test_what_a_daemon_plugged_in_another_one_takes_away(node: KvmDrivers, folders: paths.Paths) -> None:
    vm = samples.instance(nics=(samples.nic(),))
    await node.kvm.start(vm, paused=False)
    await node.kvm.plug_nic(vm, samples.nic(index=1))
    assert len(node.taps()) == 2
    later = KvmDrivers(folders, node.namespace)
    await later.kvm.stop("vm1", timeout=0)
    assert (node.taps(), node.remains()) == ([], [])


def _record_of_version(version: int, current: dict[str, object]) -> dict[str, object]:
    """Return the record of a running guest as a daemon of an earlier version would have written it."""
    fields = ("name", "uuid", "memory", "vcpus", "accelerator", "ends_on_reboot", "hotplug")
    nics = current["nics"]
    assert isinstance(nics, list)
    if version == 0:
        old: list[object] = [[nic["mode"], nic["interface"]] for nic in nics]
    elif version == 1:
        old = [{**nic, "ip": nic["ip"][0] if nic["ip"] else ""} for nic in nics]
    else:
        old = nics
    numbered = {"version": version} if version else {}
    return {**{name: current[name] for name in fields if name in current}, "nics": old, **numbered}


@pytest.mark.promise("networks-73")
@pytest.mark.parametrize("version", range(guest_records.VERSION))
async def test_the_file_of_a_running_guest_is_rewritten_in_the_current_form(node: KvmDrivers, version: int) -> None:
    bare = msgspec.structs.replace(samples.nic(index=1), addresses=())
    vm = samples.instance(nics=(samples.nic(), bare))
    await node.kvm.start(vm, paused=False)
    path = f"{node.guests.files('vm1').folder}/record"
    current = json.loads(samples.read(path))
    samples.write(path, json.dumps(_record_of_version(version, current)))
    assert await node.kvm.info("vm1") is not None
    rewritten = json.loads(samples.read(path))
    assert rewritten["version"] == guest_records.VERSION
    first, second = current["nics"]
    if version == 0:
        expected: list[object] = [
            {
                "mode": nic["mode"],
                "interface": nic["interface"],
                "device": f"nic{index}",
                "uuid": "",
                "mac": "",
                "ip": [],
            }
            for index, nic in enumerate((first, second))
        ]
    else:
        expected = [{**first, "ip": first["ip"][:1] if version == 1 else first["ip"]}, second]
    assert rewritten["nics"] == expected
    await node.kvm.stop("vm1", timeout=0)
    assert (node.taps(), node.remains()) == ([], [])


@pytest.mark.promise("networks-73")
async def test_a_guest_that_an_older_daemon_started_is_taken_over(node: KvmDrivers) -> None:
    vm, nic = samples.instance(nics=(samples.nic(),)), samples.nic()
    await node.kvm.start(vm, paused=False)
    path = f"{node.guests.files('vm1').folder}/record"
    record = json.loads(samples.read(path))
    record["version"] = 1
    record["nics"][0]["ip"] = "192.0.2.7"
    samples.write(path, json.dumps(record))
    info = await node.kvm.info("vm1")
    assert info is not None
    rewritten = json.loads(samples.read(path))
    assert rewritten["version"] == guest_records.VERSION
    assert rewritten["nics"][0]["ip"] == ["192.0.2.7"]
    assert await node.kvm.update_nic(vm, nic)
    assert json.loads(samples.read(path))["nics"][0]["ip"] == [address.ip for address in samples.ADDRESSES]
    await node.kvm.stop("vm1", timeout=0)
    assert (node.taps(), node.remains()) == ([], [])
