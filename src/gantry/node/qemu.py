"""The command line of QEMU for an instance. Pure: all that it needs comes in a ``Machine``.

Disks are named after their index (``disk0``), NICs after their UUID, which stays when others go: so a NIC is found
when it is to be unplugged. Values that a name may hold go as JSON, where the option takes it, because QEMU's own
syntax gives commas a meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.rpc import calls

DISK_DEVICES = {"paravirtual": "virtio-blk-pci", "ide": "ide-hd", "scsi": "scsi-hd"}
NIC_DEVICES = {"paravirtual": "virtio-net-pci", "e1000": "e1000", "rtl8139": "rtl8139"}
BOOT_ORDERS = {"disk": "c", "cdrom": "d", "network": "n"}
# Below 16 MiB a guest starts slowly; QEMU's default costs each guest 20 to 40 MiB more.
ACCELERATORS = {"tcg": "tcg,tb-size=32", "kvm": "kvm"}
SOCKET_PATH_LIMIT = 107
VNC_DISPLAYS = 99


@dataclass(frozen=True)
class Sockets:
    """The files of one running guest below its folder; the names are short because a socket's path may not be long."""

    folder: str

    @property
    def control(self) -> str:
        """QMP."""
        return f"{self.folder}/qmp"

    @property
    def serial(self) -> str:
        """The serial console."""
        return f"{self.folder}/serial"

    @property
    def monitor(self) -> str:
        """QEMU's monitor, for people."""
        return f"{self.folder}/monitor"

    @property
    def pid(self) -> str:
        """The file that QEMU keeps its process id in."""
        return f"{self.folder}/pid"


@dataclass(frozen=True)
class Machine:
    """An instance with what the node adds: accelerator, files, the path of each disk, the tap of each NIC."""

    instance: calls.Instance
    accelerator: str
    files: Sockets
    disks: tuple[str, ...]
    taps: tuple[str, ...]
    paused: bool = False

    def text(self, parameter: str) -> str:
        """Return a hypervisor parameter as text; the word ``default`` counts as not set."""
        value = str(self.instance.hvparams.get(parameter, ""))
        return "" if value == "default" else value

    def flag(self, parameter: str) -> bool:
        """Return a hypervisor parameter that is a truth value."""
        return bool(self.instance.hvparams.get(parameter, False))


def can_hotplug(instance: calls.Instance) -> bool:
    """Tell whether NICs can be plugged into the running guest: the PCI bus of machine ``pc`` takes them, over ACPI."""
    machine = str(instance.hvparams.get("machine_version") or "pc")
    return machine.startswith("pc") and "q35" not in machine and bool(instance.hvparams.get("acpi", False))


def nic_name(nic: calls.Nic) -> str:
    """Return the name of a NIC in QEMU: of its netdev, and with ``dev-`` in front of its device."""
    return f"nic-{nic.uuid}"


def nic_model(instance: calls.Instance) -> str:
    """Return QEMU's name for the model of an instance's NICs."""
    return NIC_DEVICES[str(instance.hvparams.get("nic_type") or "paravirtual")]


def check_folder(files: Sockets) -> None:
    """Raise HypervisorError when the guest's sockets would have names that are too long."""
    length = len(files.monitor.encode())
    if length > SOCKET_PATH_LIMIT:
        raise errors.HypervisorError(
            f"the path of a control socket would have {length} bytes, {SOCKET_PATH_LIMIT} is the most: {files.monitor}",
            hint="give the instance a shorter name, or the node a shorter root folder",
        )


def arguments(machine: Machine) -> list[str]:
    """Return program and arguments."""
    instance = machine.instance
    return [
        machine.text("kvm_path"),
        *("-name", instance.name.replace(",", ",,"), "-uuid", instance.uuid, "-pidfile", machine.files.pid),
        *("-accel", ACCELERATORS[machine.accelerator], "-machine", _machine(machine)),
        *("-m", str(instance.beparams["maxmem"]), "-smp", str(instance.beparams["vcpus"])),
        *("-nodefaults", "-no-user-config", "-display", "none"),
        *("-rtc", "base=localtime" if machine.flag("use_localtime") else "base=utc"),
        *("-boot", f"order={BOOT_ORDERS[machine.text('boot_order') or 'disk']}"),
        *("-device", "virtio-rng-pci"),
        *(("-cpu", machine.text("cpu_type")) if machine.text("cpu_type") else ()),
        *(("-no-reboot",) if machine.text("reboot_behavior") == "exit" else ()),
        *(("-S",) if machine.paused else ()),
        *_control(machine),
        *_kernel(machine),
        *_disks(machine),
        *_cdrom(machine),
        *_nics(machine),
        *_vnc(machine),
    ]


def _machine(machine: Machine) -> str:
    return f"{machine.text('machine_version') or 'pc'},acpi={'on' if machine.flag('acpi') else 'off'}"


def _json(value: Mapping[str, object]) -> str:
    return msgspec.json.encode(value).decode()


def _socket(name: str, path: str) -> list[str]:
    return ["-chardev", f"socket,id={name},path={path.replace(',', ',,')},server=on,wait=off"]


def _control(machine: Machine) -> list[str]:
    files = machine.files
    control = [*_socket("qmp", files.control), "-mon", "chardev=qmp,mode=control"]
    control += [*_socket("monitor", files.monitor), "-mon", "chardev=monitor,mode=readline"]
    if machine.flag("serial_console"):
        control += [*_socket("serial", files.serial), "-serial", "chardev:serial"]
    return control


def _kernel(machine: Machine) -> list[str]:
    kernel, initrd = machine.text("kernel_path"), machine.text("initrd_path")
    if not kernel:
        return []
    words = [f"root={machine.text('root_path')}", machine.text("kernel_args")]
    if machine.flag("serial_console"):
        words.append(f"console=ttyS0,{machine.text('serial_speed')}")
    # An emulated guest on a loaded machine otherwise finds its timer not working and panics.
    words.append("no_timer_check")
    return ["-kernel", kernel, *(("-initrd", initrd) if initrd else ()), "-append", " ".join(filter(None, words))]


def _disks(machine: Machine) -> list[str]:
    kind = machine.text("disk_type") or "paravirtual"
    found: list[str] = ["-device", "lsi53c895a,id=scsi"] if kind == "scsi" and machine.disks else []
    for disk, path in zip(machine.instance.disks, machine.disks, strict=True):
        name = f"disk{disk.index}"
        device: dict[str, object] = {"driver": DISK_DEVICES[kind], "drive": name, "id": f"dev-{name}"}
        if machine.text("disk_cache") == "writethrough":
            device["write-cache"] = "off"
        file = {"driver": "file", "filename": path, "discard": "unmap"}
        drive: dict[str, object] = {"driver": "raw", "node-name": name, "read-only": disk.mode == "ro", "file": file}
        if machine.text("disk_cache") == "none":
            drive["cache"] = {"direct": True}
        found += ["-blockdev", _json(drive), "-device", _json(device)]
    return found


def _cdrom(machine: Machine) -> list[str]:
    path = machine.text("cdrom_image_path")
    if not path:
        return []
    file = {"driver": "file", "filename": path}
    drive = {"driver": "raw", "node-name": "cdrom", "read-only": True, "file": file}
    return ["-blockdev", _json(drive), "-device", "ide-cd,drive=cdrom"]


def _nics(machine: Machine) -> list[str]:
    model = nic_model(machine.instance)
    found: list[str] = []
    for nic, tap in zip(machine.instance.nics, machine.taps, strict=True):
        name = nic_name(nic)
        found += ["-netdev", f"tap,id={name},ifname={tap},script=no,downscript=no"]
        found += ["-device", f"{model},netdev={name},mac={nic.mac},id=dev-{name}"]
    return found


def _vnc(machine: Machine) -> list[str]:
    """Return the VNC server: a socket in a folder, or the first free display of an address."""
    address = machine.text("vnc_bind_address")
    if not address:
        return []
    if address.startswith("/"):
        where = f"unix:{address.replace(',', ',,')}/{machine.instance.name}.vnc"
    else:
        where = f"{f'[{address}]' if ':' in address else address}:0,to={VNC_DISPLAYS}"
    return ["-vnc", where, "-device", "VGA"]
