"""Xen's hypervisors where xl fails, guests do not listen, and other people have domains too: over the stand-in."""

import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest
from tests.node import samples
from tests.node.hypervisors.xen import stand_in

from gantry import errors
from gantry.node.hypervisors.xen import devices, domains, machine, records, visibility
from gantry.rpc import calls
from gantry.runtime import paths

NAME = "vm1"


class XenDriver:
    """A driver, and the folder of its stand-in."""

    def __init__(self, folders: paths.Paths, kind: str = machine.PARAVIRTUAL) -> None:
        self.kind = kind
        self.folders = folders
        self.xen = stand_in.driver(kind, folders)
        self.state = stand_in.folder(folders)
        self.state.mkdir(exist_ok=True)

    def instance(self, *, memory: int = 128, **changes: calls.Value) -> calls.Instance:
        return samples.instance(
            self.kind, hvparams=stand_in.parameters(self.kind, **changes), nics=(samples.nic(),), memory=memory
        )

    def domains(self) -> dict[str, dict[str, object]]:
        path = self.state / "domains"
        running_guest: dict[str, dict[str, object]] = json.loads(path.read_text()) if path.exists() else {}
        return running_guest

    def change(self, **values: object) -> None:
        """Do something to the guest behind the driver's back."""
        running_guest = self.domains()
        running_guest[NAME] |= values
        (self.state / "domains").write_text(json.dumps(running_guest))

    def config(self) -> str:
        return Path(f"{self.folders.instances}/{self.kind}/{NAME}/config").read_text()

    def remains(self) -> list[str]:
        folder = f"{self.folders.instances}/{self.kind}"
        return os.listdir(folder) if os.path.exists(folder) else []


@pytest.fixture
def node(folders: paths.Paths) -> XenDriver:
    return XenDriver(folders)


async def test_a_start_that_xl_refuses_leaves_nothing_and_says_why(node: XenDriver) -> None:
    (node.state / "fail").write_text("create not enough free memory")
    with pytest.raises(errors.HypervisorError, match=r"vm1 cannot start on node node1: not enough free memory$"):
        await node.xen.start(node.instance(), paused=False)
    assert node.remains() == []
    assert await node.xen.running() == ()


async def test_a_guest_that_does_not_listen_is_destroyed_when_its_time_is_over(node: XenDriver) -> None:
    (node.state / "deaf").touch()
    await node.xen.start(node.instance(), paused=False)
    await node.xen.stop(NAME, timeout=1)
    assert node.domains() == {}
    assert node.remains() == []


async def test_a_guest_that_does_not_reboot_by_itself_is_rebuilt_with_its_plugged_devices(node: XenDriver) -> None:
    (node.state / "deaf").touch()
    await node.xen.start(node.instance(), paused=False)
    await node.xen.plug_nic(node.instance(), samples.nic(index=1))
    before = node.domains()[NAME]["id"]
    await node.xen.reboot(NAME, kind="soft", timeout=1)
    assert node.domains()[NAME]["id"] != before
    assert node.domains()[NAME]["nics"] == [samples.nic().mac, samples.nic(index=1).mac]


@pytest.mark.parametrize(("reason", "how"), [(0, "shutdown"), (3, "crashed"), (4, "crashed")])
async def test_how_a_guest_ended_is_reported_until_it_starts_again(node: XenDriver, reason: int, how: str) -> None:
    await node.xen.start(node.instance(), paused=False)
    node.change(reason=reason)
    assert await node.xen.info(NAME) is None
    assert node.domains() == {}
    (ending,) = await stand_in.driver(node.kind, node.folders).endings()
    assert (ending.name, ending.uuid, ending.how) == (NAME, samples.UUID, how)
    await node.xen.start(node.instance(), paused=False)
    assert await node.xen.endings() == ()


async def test_a_guest_that_reboots_is_without_a_domain_for_a_while(
    node: XenDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.xen.start(node.instance(), paused=False)
    before = node.domains()
    (node.state / "domains").write_text("{}")
    running_guest = await node.xen.info(NAME)
    assert running_guest is not None
    assert running_guest.state == "running"
    (node.state / "domains").write_text(json.dumps(before))
    assert len(await node.xen.running()) == 1
    (node.state / "domains").write_text("{}")
    monkeypatch.setattr(visibility, "REBOOT_TIMEOUT_SECONDS", 0.0)
    assert await node.xen.info(NAME) is None
    (ending,) = await node.xen.endings()
    assert ending.how == "unknown"


async def test_a_rebooting_guest_that_xl_does_not_watch_is_rebuilt(
    node: XenDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.xen.start(node.instance(), paused=False)
    before = node.domains()[NAME]["id"]
    node.change(reason=domains.REBOOT)
    assert len(await node.xen.running()) == 1
    assert node.domains()[NAME]["id"] == before
    monkeypatch.setattr(visibility, "REBOOT_TIMEOUT_SECONDS", 0.0)
    await node.xen.running()
    assert [guest.state for guest in await node.xen.running()] == ["running"]
    assert node.domains()[NAME]["id"] != before
    assert await node.xen.endings() == ()


async def test_a_guest_that_shall_not_reboot_has_ended(node: XenDriver) -> None:
    await node.xen.start(node.instance(reboot_behavior="exit"), paused=False)
    node.change(reason=domains.REBOOT)
    assert await node.xen.running() == ()
    (ending,) = await node.xen.endings()
    assert ending.how == "shutdown"


async def test_domains_of_others_are_left_alone(node: XenDriver) -> None:
    await node.xen.start(node.instance(), paused=False)
    other = stand_in.driver(machine.FULL, node.folders)
    assert await other.running() == ()
    await other.stop(NAME, timeout=0)
    assert list(node.domains()) == [NAME]
    with pytest.raises(errors.ExistsError, match="node1 has a domain vm1 that Gantry did not start"):
        await other.start(XenDriver(node.folders, machine.FULL).instance(), paused=False)


@pytest.mark.slow
async def test_a_guest_goes_on_when_its_migration_breaks_off(node: XenDriver, tmp_path: Path) -> None:
    vm = node.instance()
    target = XenDriver(paths.Paths.below(str(tmp_path)))
    await node.xen.start(vm, paused=False)
    info = await node.xen.migration_info(vm)
    (node.state / "slow").touch()
    await node.xen.migrate(vm, await target.xen.accept(vm, info, address="127.0.0.1", mirror=False), live=True)
    async with asyncio.timeout(60):
        while node.domains()[NAME]["reason"] != domains.SUSPENDED:
            await node.xen.migration_status(vm, wait=0.1)
    running_guest = await node.xen.info(NAME)
    assert running_guest is not None
    assert running_guest.state == "migrating"
    assert (await node.xen.cancel_migration(vm)).status == "cancelled"
    assert node.domains()[NAME]["reason"] is None
    await target.xen.finalize_target(vm, success=False)
    assert target.remains() == []
    await node.xen.finalize_source(vm, success=False)
    assert [guest.state for guest in await node.xen.running()] == ["running"]


async def test_a_guest_that_cannot_be_restored_goes_on_at_its_source(node: XenDriver, tmp_path: Path) -> None:
    vm = node.instance()
    target = XenDriver(paths.Paths.below(str(tmp_path)))
    (target.state / "fail").write_text("restore out of memory")
    await node.xen.start(vm, paused=False)
    info = await node.xen.migration_info(vm)
    await node.xen.migrate(vm, await target.xen.accept(vm, info, address="127.0.0.1", mirror=False), live=False)
    status = await node.xen.migration_status(vm, wait=30)
    assert (status.status, "the log of the target's daemon may have the reason" in status.reason) == ("failed", True)
    with pytest.raises(errors.HypervisorError, match="does not run"):
        await target.xen.finalize_target(vm, success=True)
    await target.xen.finalize_target(vm, success=False)
    await node.xen.finalize_source(vm, success=False)
    assert [guest.state for guest in await node.xen.running()] == ["running"]
    assert node.domains()[NAME]["paused"] is False


async def test_memory_that_a_guest_does_not_release_is_reported(
    node: XenDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    vm = node.instance()
    await node.xen.start(vm, paused=False)
    monkeypatch.setattr(devices, "BALLOON_TIMEOUT_SECONDS", 0.0)
    low = samples.instance(node.kind, hvparams=vm.hvparams, memory=64)
    (node.state / "stiff").touch()
    with pytest.raises(errors.HypervisorError, match="vm1 has 128 MiB and did not reach 64 MiB"):
        await node.xen.balloon(low, 64)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (machine.PARAVIRTUAL, {"kernel_path": "/no"}, "kernel_path: there is no file /no on node node1"),
        (machine.PARAVIRTUAL, {"initrd_path": "/no"}, "initrd_path: there is no file /no"),
        (machine.PARAVIRTUAL, {"use_bootloader": True}, "use_bootloader requires bootloader_path"),
        (machine.PARAVIRTUAL, {"cpu_mask": "0-x"}, "'0-x' is not a list of processors"),
        (machine.FULL, {"kernel_path": "/no/loader"}, "kernel_path: there is no file /no/loader"),
        (machine.FULL, {"device_model": "/no/qemu"}, "device_model: there is no file /no/qemu"),
        (machine.FULL, {"cdrom_image_path": "/no.iso"}, "cdrom_image_path: there is no file /no.iso"),
        (machine.FULL, {"vnc_bind_address": "::1"}, "vnc_password_file: there is no file /etc/gantry/vnc-cluster"),
    ],
)
async def test_what_this_node_cannot_give_is_refused(
    folders: paths.Paths, kind: str, changes: dict[str, calls.Value], message: str
) -> None:
    with pytest.raises(errors.InvalidError) as refused:
        await XenDriver(folders, kind).xen.validate(stand_in.parameters(kind, **changes))
    assert message in str(refused.value)


async def test_a_node_without_xen_says_so(folders: paths.Paths) -> None:
    node = XenDriver(folders)
    assert await node.xen.verify() == []
    (node.state / "fail").write_text("info cannot open privcmd")
    assert await node.xen.verify() == ["Xen does not answer on node node1: cannot open privcmd"]
    os.unlink(f"{folders.run}/xl")
    (complaint,) = await node.xen.verify()
    assert "install the package xen-utils" in complaint


DISK = calls.Disk(index=0, uuid="d0", dev_type="file", size=4, mode="ro", params={"format": "qcow2"})


def written(kind: str, changes: dict[str, calls.Value], *, port: int = 0) -> list[str]:
    vm = samples.instance(
        kind, hvparams=stand_in.parameters(kind, **changes), disks=(DISK,), nics=(samples.nic(),), network_port=port
    )
    machine.check_nic(vm, samples.nic())
    return machine.configuration(records.record_of(vm), ["/disk,0"], password="secret").splitlines()


def test_the_configuration_of_a_paravirtual_guest() -> None:
    lines = written(
        machine.PARAVIRTUAL,
        {"kernel_path": "/boot/k", "kernel_args": 'a="b" \\', "cpu_mask": "0-1", "cpu_cap": 50},
    )
    for line in (
        'name = "vm1"', 'type = "pv"', "memory = 16", "cap = 50", 'cpus = "0-1"', 'kernel = "/boot/k"',
        "extra = 'a=\"b\" \\\\'", 'on_reboot = "restart"', 'on_crash = "preserve"',
        'disk = ["format=qcow2,vdev=sda,access=ro,target=/disk,0"]', 'vif = ["mac=aa:00:00:00:00:00,bridge=br0"]',
    ):  # fmt: skip
        assert line in lines
    assert not [line for line in lines if line.startswith(("ramdisk", "bootloader", "vnc", "cpuid"))]
    booted = written(
        machine.PARAVIRTUAL,
        {"use_bootloader": True, "bootloader_path": "/pygrub", "reboot_behavior": "exit"},
    )
    assert {'bootloader = "/pygrub"', 'on_reboot = "preserve"'} <= set(booted)


@pytest.mark.promise("cluster-147")
def test_the_configuration_of_a_guest_with_its_own_firmware() -> None:
    lines = written(
        machine.FULL,
        {"pae": False, "boot_order": "dc", "cdrom_image_path": "/cd.iso", "vnc_bind_address": "::1"},
        port=11004,
    )
    for line in (
        'type = "hvm"', "pae = 0", "acpi = 1", 'boot = "dc"', 'vnclisten = "::1"', "vncdisplay = 5104",
        'vncpasswd = "secret"', 'vif = ["mac=aa:00:00:00:00:00,bridge=br0,type=ioemu,model=rtl8139"]',
        'disk = ["format=qcow2,vdev=hda,access=ro,target=/disk,0", '
        '"format=raw,vdev=hdc,access=ro,devtype=cdrom,target=/cd.iso"]',
    ):  # fmt: skip
        assert line in lines
    assert not [line for line in lines if line.startswith(("kernel", "device_model", "firmware"))]
    own = written(
        machine.FULL,
        {
            "kernel_path": "/my/loader",
            "device_model": "/my/qemu",
            "nic_type": "paravirtual",
            "pci_pass": "01:00.0",
        },
    )
    assert {
        'firmware_override = "/my/loader"',
        'device_model_override = "/my/qemu"',
        "vnc = 0",
        'pci = ["01:00.0"]',
    } <= set(own)
    assert 'vif = ["mac=aa:00:00:00:00:00,bridge=br0,type=vif"]' in own


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel_args": "'\""}, "cannot contain"),
        ({"vif_script": "/a,b"}, "Xen does not allow a comma in script=/a,b"),
        ({"cpu_mask": "0:1"}, "cpu_mask has 2 lists, instance vm1 1 virtual processors"),
    ],
)
def test_what_xl_could_not_read_back_is_refused(changes: dict[str, calls.Value], message: str) -> None:
    with pytest.raises(errors.InvalidError) as refused:
        written(machine.PARAVIRTUAL, changes)
    assert message in str(refused.value)


def test_disks_leave_the_place_of_the_cd_rom_free_and_keep_theirs() -> None:
    disks = [calls.Disk(index=index, uuid=f"d{index}", dev_type="file", size=4) for index in range(30)]
    vm = samples.instance(machine.FULL, hvparams=stand_in.parameters(machine.FULL), disks=tuple(disks[:3]))
    record = records.record_of(vm)
    assert [machine.device(record, disk) for disk in disks[:3]] == ["hda", "hdb", "hdd"]
    record = record.without_disk(disks[1]).with_disk(disks[3]).with_disk(disks[4])
    assert [machine.device(record, disks[number]) for number in (2, 3, 4)] == ["hdd", "hdb", "hde"]
    with pytest.raises(errors.NoRoomError, match="the maximum for Xen"):
        records.record_of(samples.instance(machine.FULL, hvparams=vm.hvparams, disks=tuple(disks)))


async def test_a_nic_in_a_vlan_or_segment_is_refused_because_xens_script_would_not_put_it_there(
    node: XenDriver,
) -> None:
    inside = msgspec.structs.replace(samples.nic(index=1), vlan="5")
    tunnelled = msgspec.structs.replace(samples.nic(index=1), mtu=1450)
    await node.xen.start(node.instance(), paused=False)
    before = node.config()
    for guest in (inside, tunnelled):
        with pytest.raises(
            errors.EnvironmentFaultError, match="NIC 1: Xen's own script cannot connect a NIC to a VLAN"
        ):
            await node.xen.plug_nic(node.instance(), guest)
        with pytest.raises(errors.EnvironmentFaultError, match="cannot connect a NIC to a VLAN"):
            await node.xen.update_nic(node.instance(), guest)
        with pytest.raises(errors.EnvironmentFaultError, match="cannot connect a NIC to a VLAN"):
            await XenDriver(node.folders).xen.start(
                msgspec.structs.replace(node.instance(), name="vm2", nics=(guest,)), paused=False
            )
    assert node.config() == before
