from collections.abc import Callable
from typing import ParamSpec

import msgspec
import pytest
from tests.node import samples

from gantry import errors
from gantry.node.hypervisors import guest_slots
from gantry.node.hypervisors.kvm import command_line
from gantry.rpc import calls
from gantry.runtime import paths

FOLDERS = paths.Paths.below("/r")
FILES = command_line.Sockets("/r/run/instances/vm1")

Options = ParamSpec("Options")


def words(
    hvparams: dict[str, calls.Value] | None = None,
    *,
    disks: tuple[calls.Disk, ...] = (),
    nics: tuple[calls.Nic, ...] = (),
    accelerator: str = "tcg",
    paused: bool = False,
    incoming: bool = False,
) -> list[str]:
    vm = samples.instance(hvparams=samples.kvm(**(hvparams or {})), disks=disks, nics=nics)
    paths = tuple(disk.logical_id[-1] for disk in disks)
    taps = tuple(f"tap{nic.index}" for nic in nics)
    machine = command_line.Machine(
        vm,
        accelerator,
        FILES,
        disks=paths,
        taps=taps,
        slots=guest_slots.assign(vm),
        kind=str(vm.hvparams["machine_version"]),
        paused=paused,
        incoming=incoming,
    )
    return command_line.arguments(machine)


def joined(words_of: Callable[Options, list[str]]) -> Callable[Options, str]:
    return lambda *args, **options: " ".join(words_of(*args, **options))


arguments = joined(words)


def test_text_for_the_guest_stays_one_argument() -> None:
    hostile = "x -drive file=/etc/shadow,format=raw '-S' \"-S\""
    line = words({"kernel_path": "/k", "kernel_args": hostile, "root_path": "-S", "cpu_type": "max -S"})
    assert line[line.index("-append") + 1] == f"root=-S {hostile} console=ttyS0,38400 no_timer_check"
    assert line[line.index("-cpu") + 1] == "max -S"
    assert not {"-drive", "-S", "'-S'"} & {*line}


def test_a_machine_has_memory_processors_identity_and_control_sockets() -> None:
    line = arguments()
    assert line.startswith("/usr/bin/qemu-system-x86_64 -name vm1 -uuid 7a0c5b9e-6a31-4a3c-9d45-3f0c4d2b1e01")
    for part in (
        "-accel tcg,tb-size=32",
        "-machine pc,acpi=on",
        "-m 16392k -smp 1",
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
        ("boot_order", "cdrom:disk", "-boot order=dc"),
        ("vnc_bind_address", "127.0.0.1", "-vnc 127.0.0.1:0,to=99 -device VGA,addr=0x2"),
        ("vga", "cirrus", "-device cirrus-vga,addr=0x2"),
        ("usb_mouse", "tablet", "-device qemu-xhci,id=usb,addr=0x6 -device usb-tablet"),
        ("usb_devices", "usb-kbd usb-mouse", "-device usb-kbd -device usb-mouse"),
        ("soundhw", "hda", "-device intel-hda,addr=0x7 -device hda-duplex"),
        ("cpu_cores", 2, "-smp 1,cores=2"),
        ("use_chroot", True, "-chroot /r/run/instances/vm1/root"),
        ("use_guest_agent", True, "name=org.qemu.guest_agent.0"),
        ("mem_path", "/huge", '"mem-path":"/huge","size":16777216}'),
        ("kvm_extra", "-global 'a b'", " -global a b"),
        ("firmware", "uefi", '"filename":"/r/run/instances/vm1/efi"}} -machine pflash1=efi-variables'),
        ("floppy_image_path", "/floppy", '"drive":"floppy"'),
        ("spice_bind", "127.0.0.1", "-spice port=0,addr=127.0.0.1,disable-ticketing=on,playback-compression=on"),
        ("vnc_bind_address", "::1", "-vnc [::1]:0,to=99"),
        ("vnc_bind_address", "/run/vnc", "-vnc unix:/run/vnc/vm1.vnc"),
        ("cdrom_image_path", "/iso", '"filename":"/iso"}} -device {"driver":"ide-cd","drive":"cdrom"'),
    ],
)
def test_a_parameter_has_its_option(parameter: str, value: calls.Value, part: str) -> None:
    assert part in arguments({parameter: value})
    assert part not in arguments()


def test_a_guest_without_serial_console_has_no_socket_for_it() -> None:
    assert "serial" not in arguments({"serial_console": False})


def test_a_kernels_command_line_has_root_and_console() -> None:
    line = arguments({"kernel_path": "/k", "initrd_path": "/i", "kernel_args": "ro quiet", "root_path": "/dev/vda"})
    assert "-kernel /k -initrd /i -append root=/dev/vda ro quiet console=ttyS0,38400 no_timer_check" in line


def test_each_disk_becomes_a_device_of_the_wanted_kind_with_a_place_of_its_own() -> None:
    disks = (samples.disk(FOLDERS), samples.disk(FOLDERS, index=1))
    line = arguments(disks=disks)
    names = [guest_slots.disk_name(disk) for disk in disks]
    for name, slot in zip(names, ("0xc", "0xd"), strict=True):
        device = f'"driver":"virtio-blk-pci","drive":"{name}","id":"dev-{name}","bus":"pci.0","addr":"{slot}"'
        assert device in line
        assert len(name) <= 31
    assert f'"filename":"{disks[1].logical_id[-1]}"' in line
    assert '"driver":"ide-hd"' in arguments({"disk_type": "ide"}, disks=disks)
    scsi = arguments({"disk_type": "scsi"}, disks=disks)
    assert '"driver":"lsi53c895a","id":"scsi"' in scsi
    assert f'"driver":"scsi-hd","drive":"{names[1]}","id":"dev-{names[1]}","bus":"scsi.0","scsi-id":1' in scsi
    assert '"driver":"virtio-scsi-pci"' in arguments(
        {"disk_type": "scsi", "scsi_controller_type": "virtio-scsi-pci"}, disks=disks
    )
    assert '"bus":"pcie.0"' in arguments({"machine_version": "q35"}, disks=disks)


def test_a_block_device_is_opened_as_one() -> None:
    disk = msgspec.structs.replace(samples.disk(FOLDERS), logical_id=("vg", "/dev/vg/disk"))
    assert '"driver":"host_device","filename":"/dev/vg/disk"' in arguments(disks=(disk,))


def test_how_disks_are_read_is_passed_on() -> None:
    disks = (samples.disk(FOLDERS),)
    assert '"aio":"io_uring"' in arguments({"disk_aio": "io_uring"}, disks=disks)
    assert "aio" not in arguments(disks=disks)
    assert '"discard":"ignore"' in arguments({"disk_discard": "ignore"}, disks=disks)


def test_more_devices_than_the_bus_holds_are_refused() -> None:
    first = samples.disk(FOLDERS)
    many = tuple(msgspec.structs.replace(first, index=n, uuid=f"{n:032x}") for n in range(20))
    with pytest.raises(errors.NoRoomError, match="vm1 has no free slot for another device"):
        arguments(disks=many)


def test_the_cache_mode_of_disks_is_passed_on() -> None:
    disks = (samples.disk(FOLDERS),)
    assert '"cache":{"direct":true}' in arguments({"disk_cache": "none"}, disks=disks)
    assert '"write-cache":"off"' in arguments({"disk_cache": "writethrough"}, disks=disks)
    assert "cache" not in arguments({"disk_cache": "default"}, disks=disks)


def test_each_nic_becomes_a_device_on_its_tap() -> None:
    nics = (samples.nic(), samples.nic(index=1))
    line = arguments(nics=nics)
    name = guest_slots.nic_name(nics[1])
    assert f"tap,id={name},ifname=tap1,script=no,downscript=no -device" in line
    assert f'"driver":"virtio-net-pci","netdev":"{name}","mac":"aa:00:00:00:00:01","id":"dev-{name}"' in line
    assert '"driver":"e1000","netdev":"nic-' in arguments({"nic_type": "e1000"}, nics=nics)
    fast = arguments({"virtio_net_queues": 2, "vhost_net": True, "vnet_hdr": False}, nics=nics[:1])
    assert "queues=2,vhost=on,vnet_hdr=off" in fast
    assert '"mq":true,"vectors":6' in fast
    assert "queues" not in arguments({"virtio_net_queues": 2, "nic_type": "e1000"}, nics=nics)


def test_a_guest_gets_the_mtu_only_from_a_model_that_supports_it() -> None:
    nics = (msgspec.structs.replace(samples.nic(), mtu=1450),)
    assert '"host_mtu":1450' in arguments(nics=nics)
    assert "host_mtu" not in arguments({"nic_type": "e1000"}, nics=nics)
    assert "host_mtu" not in arguments(nics=(samples.nic(),))


def test_a_place_is_kept_when_other_devices_come_and_go() -> None:
    vm = samples.instance(disks=(samples.disk(FOLDERS),), nics=(samples.nic(), samples.nic(index=1)))
    slots = guest_slots.assign(vm)
    del slots[guest_slots.nic_name(vm.nics[0])]
    again = guest_slots.with_disk(slots, vm, samples.disk(FOLDERS, index=2))
    assert again[guest_slots.nic_name(vm.nics[1])] == slots[guest_slots.nic_name(vm.nics[1])]
    assert sorted(again.values()) == [12, 13, 14]


def test_vnc_and_spice_are_protected_as_the_parameters_say() -> None:
    secured = arguments(
        {"vnc_bind_address": "::", "vnc_password_file": "/pw", "vnc_tls": True, "vnc_x509_path": "/x", "keymap": "de"}
    )
    assert "-vnc [::]:0,to=99,password-secret=vnc-password,tls-creds=vnc-tls -k de" in secured
    assert "secret,id=vnc-password,file=/pw" in secured
    assert "tls-creds-x509,id=vnc-tls,dir=/x,endpoint=server,verify-peer=off" in secured
    spice = arguments({"spice_bind": "::1", "spice_use_tls": True, "vnc_x509_path": "/x", "spice_ip_version": 6})
    assert "tls-port=0,addr=::1,disable-ticketing=on,x509-dir=/x,tls-ciphers=HIGH" in spice
    assert "ipv6=on" in spice
    assert "-device qxl-vga,addr=0x2" in spice


def test_a_machine_that_waits_for_a_migration_stands_still() -> None:
    assert " -S -incoming defer " in arguments(incoming=True)


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
    assert command_line.can_hotplug(samples.instance(hvparams=samples.kvm(**hvparams))) is can


def test_a_paused_guest_is_started_so() -> None:
    assert " -S " in arguments(paused=True)
    assert " -S " not in arguments()


def test_a_name_that_would_make_a_socket_path_too_long_is_refused_before_anything_starts() -> None:
    command_line.check_folder(command_line.Sockets("/" + "x" * 98))
    with pytest.raises(errors.HypervisorError, match=r"108 bytes.*shorter name"):
        command_line.check_folder(command_line.Sockets("/" + "x" * 99))


def test_only_an_emulated_guest_has_a_size_that_keeps_its_writes_while_it_is_migrated() -> None:
    assert " -m 16 -smp" in arguments(accelerator="kvm")
    assert " -m 16392k -smp" in arguments(accelerator="tcg")
