"""The command line of QEMU for an instance. Pure: all that it needs comes in a ``Machine``.

``blockdev_args`` makes the disks, ``display_args`` what people look at, ``hypervisors.guest_slots`` the places on the
buses. Devices are named after their UUID, which stays when others go, and each has a fixed place: so a guest finds its
devices again after a migration. Values that a name may hold go as JSON, where the option takes it, because QEMU's own
syntax gives commas a meaning.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from gantry import errors
from gantry.node.hypervisors import guest_slots
from gantry.node.hypervisors.kvm import blockdev_args, display_args
from gantry.rpc import calls

NIC_DEVICES = {"paravirtual": "virtio-net-pci"}
BOOT_ORDERS = {"disk": "c", "cdrom": "d", "network": "n", "floppy": "a"}
# Below 16 MiB a guest starts slowly; QEMU's default costs each guest 20 to 40 MiB more.
ACCELERATORS = {"tcg": "tcg,tb-size=32", "kvm": "kvm"}
SOCKET_PATH_LIMIT = 107
BALLOON = "balloon"


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
    def agent(self) -> str:
        """The channel of the QEMU guest agent."""
        return f"{self.folder}/agent"

    @property
    def pid(self) -> str:
        """The file that QEMU keeps its process id in; it removes it when it ends in good order."""
        return f"{self.folder}/pid"

    @property
    def firmware(self) -> str:
        """The variables of UEFI."""
        return f"{self.folder}/efi"

    @property
    def prison(self) -> str:
        """The empty folder of ``use_chroot``."""
        return f"{self.folder}/root"


@dataclass(frozen=True)
class Machine:
    """An instance with what the node adds.

    Accelerator, versioned machine type, files, the path of each disk, the tap of each NIC, the places of both. One that
    is ``incoming`` waits for a migration.
    """

    instance: calls.Instance
    accelerator: str
    files: Sockets
    disks: tuple[str, ...]
    taps: tuple[str, ...]
    places: Mapping[str, int] = field(default_factory=dict)
    kind: str = "pc"
    paused: bool = False
    incoming: bool = False

    def text(self, parameter: str) -> str:
        """Return a hypervisor parameter as text; the word ``default`` counts as not set."""
        return blockdev_args.text(self.instance, parameter)

    def flag(self, parameter: str) -> bool:
        """Return a hypervisor parameter that is a truth value."""
        return bool(self.instance.hvparams.get(parameter, False))


def bus(kind: str) -> str:
    """Return the name of a machine type's PCI bus."""
    return "pcie.0" if "q35" in kind else "pci.0"


def can_hotplug(instance: calls.Instance) -> bool:
    """Tell whether devices can be plugged into the running guest: the bus of machine ``pc`` takes them, over ACPI."""
    machine = str(instance.hvparams.get("machine_version") or "pc")
    return machine.startswith("pc") and "q35" not in machine and bool(instance.hvparams.get("acpi", False))


def nic_model(instance: calls.Instance) -> str:
    """Return QEMU's name for the model of an instance's NICs."""
    kind = blockdev_args.text(instance, "nic_type") or "paravirtual"
    return NIC_DEVICES.get(kind, kind)


def _queues(instance: calls.Instance) -> int:
    wanted = int(instance.hvparams.get("virtio_net_queues", 1))
    return wanted if nic_model(instance) == NIC_DEVICES["paravirtual"] else 1


def netdev(instance: calls.Instance, nic: calls.Nic, tap: str) -> dict[str, str | int | bool]:
    """Return QEMU's end of a tap."""
    found: dict[str, str | int | bool] = {"type": "tap", "id": guest_slots.nic_name(nic), "ifname": tap}
    found |= {"script": "no", "downscript": "no"}
    if _queues(instance) > 1:
        found["queues"] = _queues(instance)
    if nic_model(instance) == NIC_DEVICES["paravirtual"]:
        if instance.hvparams.get("vhost_net"):
            found["vhost"] = True
        if not instance.hvparams.get("vnet_hdr", True):
            found["vnet_hdr"] = False
    return found


def nic_device(instance: calls.Instance, nic: calls.Nic, *, place: int | None, kind: str) -> blockdev_args.Options:
    """Return the card that the guest sees."""
    name = guest_slots.nic_name(nic)
    found: blockdev_args.Options = {"driver": nic_model(instance), "netdev": name, "mac": nic.mac, "id": f"dev-{name}"}
    if (queues := _queues(instance)) > 1:
        found |= {"mq": True, "vectors": 2 * queues + 2}
    if nic.mtu and nic_model(instance) == NIC_DEVICES["paravirtual"]:
        found["host_mtu"] = nic.mtu  # other cards have no way to tell
    return found if place is None else found | {"bus": bus(kind), "addr": f"{place:#x}"}


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
        *("-m", _memory(machine), "-smp", _processors(machine)),
        *("-nodefaults", "-no-user-config", "-display", "none"),
        *("-rtc", "base=localtime" if machine.flag("use_localtime") else "base=utc"),
        *("-boot", f"order={_boot_order(machine)}"),
        *("-device", f"virtio-rng-pci,addr={guest_slots.RANDOM:#x}"),
        *("-device", f"virtio-balloon-pci,id={BALLOON},addr={guest_slots.BALLOON:#x}"),
        *(("-cpu", machine.text("cpu_type")) if machine.text("cpu_type") else ()),
        *(("-no-reboot",) if machine.text("reboot_behavior") == "exit" else ()),
        # One that a migration brings waits until it is told to go on: so it runs in one place only.
        *(("-S",) if machine.paused or machine.incoming else ()),
        *(("-incoming", "defer") if machine.incoming else ()),
        *_control(machine),
        *_confined(machine),
        *_firmware(machine),
        *_kernel(machine),
        *_drives(machine),
        *_nics(machine),
        *display_args.arguments(instance),
        *shlex.split(machine.text("kvm_extra")),
    ]


def _machine(machine: Machine) -> str:
    words = [machine.kind, f"acpi={'on' if machine.flag('acpi') else 'off'}"]
    return ",".join([*words, *(("memory-backend=memory",) if machine.text("mem_path") else ())])


def _memory(machine: Machine) -> str:
    """Return the size of the memory, in QEMU's words.

    Emulation of before QEMU 9.0 loses writes of a guest that is being migrated: it reads which pages changed a stretch
    of 256 KiB at a time, and does not tell the emulated processor, which then no longer says that it changes them. A
    size that is no whole number of such stretches makes it go page by page, and it tells.
    """
    size = int(machine.instance.beparams["maxmem"])
    odd = machine.accelerator == "tcg" and not machine.text("mem_path")
    return f"{size * 1024 + 8}k" if odd else str(size)


def _processors(machine: Machine) -> str:
    hvparams = machine.instance.hvparams
    wanted = {part: int(hvparams.get(f"cpu_{part}", 0)) for part in ("sockets", "cores", "threads")}
    parts = [f"{part}={count}" for part, count in wanted.items() if count]
    return ",".join([str(machine.instance.beparams["vcpus"]), *parts])


def _boot_order(machine: Machine) -> str:
    return "".join(BOOT_ORDERS[device] for device in (machine.text("boot_order") or "disk").split(":"))


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
    if machine.flag("use_guest_agent"):
        control += [*_socket("agent", files.agent)]
        control += ["-device", f"virtio-serial-pci,id=agents,addr={guest_slots.AGENT:#x}"]
        control += ["-device", "virtserialport,bus=agents.0,chardev=agent,name=org.qemu.guest_agent.0"]
    return control


def _confined(machine: Machine) -> list[str]:
    found: list[str] = []
    if machine.text("security_model") == "user":
        found += ["-runas", machine.text("security_domain")]
    if machine.flag("use_chroot"):
        found += ["-chroot", machine.files.prison]
    if path := machine.text("mem_path"):
        size = int(machine.instance.beparams["maxmem"]) << 20
        found += ["-object", _json({"qom-type": "memory-backend-file", "id": "memory", "mem-path": path, "size": size})]
    return found


def _firmware(machine: Machine) -> list[str]:
    if machine.text("firmware") != "uefi":
        return []
    parts = (("efi-code", machine.text("firmware_path"), True), ("efi-variables", machine.files.firmware, False))
    found: list[str] = []
    for unit, (name, path, fixed) in enumerate(parts):
        file = {"driver": "file", "filename": path}
        found += ["-blockdev", _json({"driver": "raw", "node-name": name, "read-only": fixed, "file": file})]
        found += ["-machine", f"pflash{unit}={name}"]
    return found


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


def _drives(machine: Machine) -> list[str]:
    instance = machine.instance
    found: list[str] = []
    for controller in blockdev_args.controller(instance):
        found += ["-device", _json(controller | {"bus": bus(machine.kind)})]
    for disk, path in zip(instance.disks, machine.disks, strict=True):
        place = machine.places.get(guest_slots.disk_name(disk))
        device = blockdev_args.device(instance, disk, place=place, bus=bus(machine.kind))
        found += ["-blockdev", _json(blockdev_args.node(instance, disk, path)), "-device", _json(device)]
    for node, device in blockdev_args.removable(instance):
        found += ["-blockdev", _json(node), "-device", _json(device)]
    return found


def _nics(machine: Machine) -> list[str]:
    instance = machine.instance
    found: list[str] = []
    for nic, tap in zip(instance.nics, machine.taps, strict=True):
        end = netdev(instance, nic, tap)
        words = [f"{name}={_word(value)}" for name, value in end.items() if name != "type"]
        device = nic_device(instance, nic, place=machine.places.get(guest_slots.nic_name(nic)), kind=machine.kind)
        found += ["-netdev", ",".join(["tap", *words]), "-device", _json(device)]
    return found


def _word(value: str | int | bool) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
