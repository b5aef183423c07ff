"""Real QEMU processes with parameters that today's users set: each starts, or says what is missing."""

import asyncio
import os
import pwd
import shutil
from collections.abc import AsyncIterator

import pytest
from tests import ports
from tests.node import samples

from gantry import errors
from gantry.node import drivers
from gantry.node.daemon import wiring
from gantry.node.hypervisors.kvm import accelerator_probe, guest_records, requirements
from gantry.rpc import calls
from gantry.runtime import paths

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        shutil.which(accelerator_probe.QEMU) is None, reason=f"{accelerator_probe.QEMU} is not installed"
    ),
]

OVMF = "/usr/share/OVMF/OVMF_CODE_4M.fd"


class KvmDriver:
    def __init__(self, folders: paths.Paths) -> None:
        self.runtime = samples.runtime()
        accelerators = accelerator_probe.Accelerators(self.runtime, folders, bootid="")
        self.registry = wiring.registry(self.runtime, folders, accelerators=accelerators)
        self.kvm: drivers.Hypervisor = self.registry.hypervisor("kvm")
        self.guests = guest_records.Guests(self.runtime, folders.instances)

    def remains(self) -> list[str]:
        return os.listdir(os.path.dirname(self.guests.files("vm1").folder))

    async def status(self, name: str) -> str:
        async with self.guests.control(name) as control:
            return (await control.status()).status


@pytest.fixture
async def node(folders: paths.Paths) -> AsyncIterator[KvmDriver]:
    new_node = KvmDriver(folders)
    try:
        yield new_node
    finally:
        for running in await new_node.kvm.running():
            await new_node.kvm.stop(running.name, timeout=0)


async def started(node: KvmDriver, folders: paths.Paths, hvparams: dict[str, calls.Value], *, port: int = 0) -> None:
    disks = (samples.disk(folders), samples.disk(folders, index=1))
    for disk in disks:
        await node.registry.block_device("file").create(disk, owner="vm1")
    vm = samples.instance(hvparams=samples.kvm(**hvparams), disks=disks, network_port=port)
    await node.kvm.validate(vm.hvparams)
    await node.kvm.start(vm, paused=False)
    assert await node.status("vm1") == "running"


@pytest.mark.parametrize(
    "hvparams",
    [
        {"machine_version": "q35", "cpu_type": "qemu64", "cpu_cores": 1, "cpu_mask": "0"},
        {"disk_type": "ide", "nic_type": "e1000"},
        {"disk_type": "scsi", "boot_order": "cdrom:disk"},
        {"disk_type": "scsi-hd", "scsi_controller_type": "megasas"},
        {"disk_type": "scsi", "scsi_controller_type": "virtio-scsi-pci", "machine_version": "q35"},
        {"disk_cache": "none", "disk_aio": "native", "disk_discard": "ignore"},
        {"disk_cache": "writethrough", "disk_aio": "threads"},
        {"vga": "std", "usb_mouse": "tablet", "usb_devices": "usb-kbd", "soundhw": "ac97"},
        {"vga": "cirrus", "soundhw": "hda", "use_guest_agent": True, "keymap": ""},
        {"keymap": "de-ch", "vnc_bind_address": "127.0.0.1"},
        {"use_chroot": True},
        {"kvm_extra": "-global 'kvm-pit.lost_tick_policy=discard'"},
        {"acpi": False, "use_localtime": True, "reboot_behavior": "exit"},
    ],
    ids=lambda parameters: ",".join(parameters),
)
async def test_a_guest_starts_with(node: KvmDriver, folders: paths.Paths, hvparams: dict[str, calls.Value]) -> None:
    await started(node, folders, hvparams)


async def test_images_of_every_kind_are_put_in(node: KvmDriver, folders: paths.Paths) -> None:
    images: dict[str, calls.Value] = {}
    for name in ("cdrom_image_path", "cdrom2_image_path", "floppy_image_path"):
        images[name] = f"{folders.srv}/{name}"
        samples.write(f"{folders.srv}/{name}", "\0" * (1440 << 10))
    await started(node, folders, images)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_guest_runs_as_the_user_it_shall_run_as(node: KvmDriver, folders: paths.Paths) -> None:
    await started(node, folders, {"security_model": "user", "security_domain": "nobody"})
    pid = node.guests.pid("vm1")
    assert pid is not None
    assert os.stat(f"/proc/{pid}").st_uid == pwd.getpwnam("nobody").pw_uid
    await node.kvm.stop("vm1", timeout=0)
    assert node.remains() == []


async def test_vnc_with_a_password_is_the_console_of_a_guest_without_a_serial_one(
    node: KvmDriver, folders: paths.Paths
) -> None:
    samples.write(f"{folders.etc}/secret", "secret")
    await started(
        node,
        folders,
        {"vnc_bind_address": "127.0.0.1", "vnc_password_file": f"{folders.etc}/secret", "serial_console": False},
    )
    console = await node.kvm.console("vm1")
    assert (console.kind, console.host) == ("vnc", "127.0.0.1")
    assert console.port == console.display + 5900


async def test_spice_is_served_at_the_port_of_the_instance(node: KvmDriver, folders: paths.Paths) -> None:
    parameters: dict[str, calls.Value] = {"spice_bind": "127.0.0.1", "serial_console": False}
    with pytest.raises(errors.InvalidError, match="spice_bind needs a network port, and instance vm1 has none"):
        await started(node, folders, parameters)
    port = ports.free()
    await started(node, folders, parameters, port=port)
    console = await node.kvm.console("vm1")
    assert (console.kind, console.host, console.port) == ("spice", "127.0.0.1", port)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


@pytest.mark.skipif(not os.path.exists(OVMF), reason="ovmf is not installed")
async def test_a_guest_boots_with_uefi_and_with_variables_of_its_own(node: KvmDriver, folders: paths.Paths) -> None:
    await started(node, folders, {"firmware": "uefi", "firmware_path": OVMF})
    own, fresh = node.guests.files("vm1").firmware, requirements.variables_path(OVMF)
    assert os.stat(own).st_size == os.stat(fresh).st_size


@pytest.mark.parametrize(
    ("hvparams", "message"),
    [
        ({"firmware": "uefi", "firmware_path": "/no_CODE.fd"}, "has no file /no_CODE.fd; install the package ovmf"),
        ({"security_model": "user", "security_domain": "nobody-at-all"}, "has no user nobody-at-all"),
        ({"security_model": "user"}, "has no user without a name"),
        ({"security_model": "pool"}, "the cluster has none; use security_model=user"),
        ({"disk_aio": "native"}, "requires disk_cache=none"),
        ({"initrd_path": "/etc/passwd"}, "requires kernel_path"),
        ({"vnc_tls": True}, "vnc_tls requires vnc_x509_path"),
        ({"vnc_password_file": "/nothing"}, "vnc_password_file: there is no file /nothing"),
        ({"mem_path": "/nothing"}, "mem_path: there is no file /nothing"),
        ({"cpu_mask": "0-x"}, "'0-x' is not a list of processors"),
        ({"kvm_extra": "'"}, "kvm_extra: No closing quotation"),
        ({"floppy_image_path": "/etc/passwd", "machine_version": "q35"}, "machine type q35 has no floppy drive"),
        ({"machine_version": "pc35"}, "does not support machine type pc35"),
        ({"keymap": "/etc/passwd"}, "keymap: /etc/passwd is a path, not a keyboard"),
        ({"keymap": "..\\secret"}, "is a path, not a keyboard"),
    ],
)
async def test_what_this_node_cannot_give_is_refused(
    node: KvmDriver, hvparams: dict[str, calls.Value], message: str
) -> None:
    with pytest.raises(errors.GantryError) as refused:
        await node.kvm.validate(samples.kvm(**hvparams))
    assert message in str(refused.value)


async def test_a_mask_for_another_number_of_processors_is_refused_and_nothing_stays(
    node: KvmDriver, folders: paths.Paths
) -> None:
    with pytest.raises(errors.InvalidError, match="cpu_mask has 2 lists, instance vm1 1 virtual processors"):
        await started(node, folders, {"cpu_mask": "0:all"})
    assert await node.kvm.running() == ()
    assert node.remains() == []


@pytest.mark.skipif(os.path.exists(requirements.VHOST), reason="this machine has vhost-net")
async def test_a_missing_vhost_module_is_named(node: KvmDriver) -> None:
    with pytest.raises(errors.EnvironmentFaultError, match="vhost_net: node node1 has no /dev/vhost-net; load"):
        await node.kvm.validate(samples.kvm(vhost_net=True))
