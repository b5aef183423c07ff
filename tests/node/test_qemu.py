import pytest
from tests.node import samples

from gantry import errors
from gantry.node import qemu
from gantry.rpc import calls
from gantry.runtime import paths

FOLDERS = paths.Paths.below("/r")
FILES = qemu.Sockets("/r/run/instances/vm1")


def arguments(
    hvparams: dict[str, calls.Value] | None = None,
    *,
    disks: tuple[calls.Disk, ...] = (),
    nics: tuple[calls.Nic, ...] = (),
    accelerator: str = "tcg",
    paused: bool = False,
) -> str:
    vm = samples.instance(hvparams=samples.kvm(**(hvparams or {})), disks=disks, nics=nics)
    places = tuple(disk.logical_id[-1] for disk in disks)
    taps = tuple(f"tap{nic.index}" for nic in nics)
    return " ".join(qemu.arguments(qemu.Machine(vm, accelerator, FILES, disks=places, taps=taps, paused=paused)))


def test_a_machine_has_memory_processors_identity_and_control_sockets() -> None:
    line = arguments()
    assert line.startswith("/usr/bin/qemu-system-x86_64 -name vm1 -uuid 7a0c5b9e-6a31-4a3c-9d45-3f0c4d2b1e01")
    for part in (
        "-accel tcg,tb-size=32",
        "-machine pc,acpi=on",
        "-m 16 -smp 1",
        "-nodefaults -no-user-config -display none",
        "-pidfile /r/run/instances/vm1/pid",
        "socket,id=qmp,path=/r/run/instances/vm1/qmp,server=on,wait=off -mon chardev=qmp,mode=control",
        "socket,id=serial,path=/r/run/instances/vm1/serial,server=on,wait=off -serial chardev:serial",
        "-boot order=c",
        "-rtc base=utc",
    ):
        assert part in line


@pytest.mark.parametrize(
    "parameter, value, part",
    [
        ("acpi", False, "-machine pc,acpi=off"),
        ("machine_version", "pc-i440fx-7.2", "-machine pc-i440fx-7.2,acpi=on"),
        ("cpu_type", "qemu64,+svm", "-cpu qemu64,+svm"),
        ("boot_order", "network", "-boot order=n"),
        ("use_localtime", True, "-rtc base=localtime"),
        ("reboot_behavior", "exit", "-no-reboot"),
        ("vnc_bind_address", "127.0.0.1", "-vnc 127.0.0.1:0,to=99 -device VGA"),
        ("vnc_bind_address", "::1", "-vnc [::1]:0,to=99"),
        ("vnc_bind_address", "/run/vnc", "-vnc unix:/run/vnc/vm1.vnc"),
        ("cdrom_image_path", "/iso", '"filename":"/iso"}} -device ide-cd,drive=cdrom'),
    ],
)
def test_a_parameter_has_its_option(parameter: str, value: calls.Value, part: str) -> None:
    assert part in arguments({parameter: value})
    assert part not in arguments()


def test_a_guest_without_serial_console_has_no_socket_for_it() -> None:
    assert "serial" not in arguments({"serial_console": False})


def test_a_kernel_is_told_its_root_and_console() -> None:
    line = arguments({"kernel_path": "/k", "initrd_path": "/i", "kernel_args": "ro quiet", "root_path": "/dev/vda"})
    assert "-kernel /k -initrd /i -append root=/dev/vda ro quiet console=ttyS0,38400 no_timer_check" in line


def test_each_disk_becomes_a_device_of_the_wanted_kind() -> None:
    disks = (samples.disk(FOLDERS), samples.disk(FOLDERS, index=1))
    line = arguments(disks=disks)
    assert line.count('"driver":"virtio-blk-pci"') == 2
    assert '"drive":"disk1"' in line
    assert f'"filename":"{disks[1].logical_id[-1]}"' in line
    assert '"driver":"ide-hd"' in arguments({"disk_type": "ide"}, disks=disks)
    scsi = arguments({"disk_type": "scsi"}, disks=disks)
    assert "-device lsi53c895a,id=scsi" in scsi
    assert '"driver":"scsi-hd"' in scsi


def test_the_cache_mode_of_disks_is_passed_on() -> None:
    disks = (samples.disk(FOLDERS),)
    assert '"cache":{"direct":true}' in arguments({"disk_cache": "none"}, disks=disks)
    assert '"write-cache":"off"' in arguments({"disk_cache": "writethrough"}, disks=disks)
    assert "cache" not in arguments({"disk_cache": "default"}, disks=disks)


def test_each_nic_becomes_a_device_on_its_tap() -> None:
    line = arguments(nics=(samples.nic(), samples.nic(index=1)))
    name = qemu.nic_name(samples.nic(index=1))
    assert f"tap,id={name},ifname=tap1,script=no,downscript=no" in line
    assert f"virtio-net-pci,netdev={name},mac=aa:00:00:00:00:01,id=dev-{name}" in line
    assert "e1000,netdev=nic-" in arguments({"nic_type": "e1000"}, nics=(samples.nic(),))


@pytest.mark.parametrize(
    "hvparams, can",
    [
        ({}, True),
        ({"machine_version": "pc-i440fx-7.2"}, True),
        ({"machine_version": "q35"}, False),
        ({"machine_version": "pc-q35-7.2"}, False),
        ({"acpi": False}, False),
    ],
)
def test_a_machine_whose_bus_takes_no_devices_is_known(hvparams: dict[str, calls.Value], can: bool) -> None:
    assert qemu.can_hotplug(samples.instance(hvparams=samples.kvm(**hvparams))) is can


def test_a_paused_guest_is_started_so() -> None:
    assert " -S " in arguments(paused=True)
    assert " -S " not in arguments()


def test_a_name_that_would_make_a_socket_path_too_long_is_refused_before_anything_starts() -> None:
    qemu.check_folder(qemu.Sockets("/" + "x" * 98))
    with pytest.raises(errors.HypervisorError, match=r"108 bytes.*shorter name"):
        qemu.check_folder(qemu.Sockets("/" + "x" * 99))
