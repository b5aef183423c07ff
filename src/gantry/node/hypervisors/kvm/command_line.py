"""The command line of QEMU for an instance. Pure: a ``Machine`` has all of its input.

``blockdev_args`` has the disks, ``display_args`` the graphics, ``hypervisors.guest_slots`` the slots on the buses.
Devices are named after their UUIDs, which do not depend on other devices, and each has a fixed slot, so a guest has the
same devices after a migration. Values from users are passed as JSON where an option supports that, because commas have
a meaning in QEMU's own syntax.
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
# With less than 16 MiB for translated code a guest starts slowly; QEMU's default costs each guest 20 to 40 MiB more.
ACCELERATORS = {"tcg": "tcg,tb-size=32", "kvm": "kvm"}
SOCKET_PATH_LIMIT = 107
BALLOON = "balloon"


@dataclass(frozen=True)
class Sockets:
    """The files of a running guest in its folder; the names are short because a socket's path must be short."""

    folder: str

    @property
    def control(self) -> str:
        """The socket of QMP."""
        return f"{self.folder}/qmp"

    @property
    def serial(self) -> str:
        """The socket of the serial console."""
        return f"{self.folder}/serial"

    @property
    def monitor(self) -> str:
        """The socket of QEMU's monitor, for administrators."""
        return f"{self.folder}/monitor"

    @property
    def agent(self) -> str:
        """The socket of the QEMU guest agent's channel."""
        return f"{self.folder}/agent"

    @property
    def pid(self) -> str:
        """QEMU's PID file, which QEMU removes at a regular exit."""
        return f"{self.folder}/pid"

    @property
    def firmware(self) -> str:
        """The variables of the UEFI firmware."""
        return f"{self.folder}/efi"

    @property
    def chroot(self) -> str:
        """The empty folder for ``use_chroot``."""
        return f"{self.folder}/root"


@dataclass(frozen=True)
class Machine:
    """An instance, with the values that the node adds.

    These are accelerator, versioned machine type, files, the path of each disk, the tap of each NIC, and the slots of
    both. A machine that is ``incoming`` waits for a migration.
    """

    instance: calls.Instance
    accelerator: str
    files: Sockets
    disks: tuple[str, ...]
    taps: tuple[str, ...]
    slots: Mapping[str, int] = field(default_factory=dict)
    kind: str = "pc"
    paused: bool = False
    incoming: bool = False

    def text(self, parameter: str) -> str:
        """Return a hypervisor parameter as text; empty for the value ``default``."""
        return blockdev_args.text(self.instance, parameter)

    def flag(self, parameter: str) -> bool:
        """Return a Boolean hypervisor parameter."""
        return bool(self.instance.hvparams.get(parameter, False))


def bus(kind: str) -> str:
    """Return the name of a machine type's PCI bus."""
    return "pcie.0" if "q35" in kind else "pci.0"


def can_hotplug(instance: calls.Instance) -> bool:
    """Return whether devices can be plugged into the running guest: machine type ``pc`` supports that, with ACPI."""
    machine = str(instance.hvparams.get("machine_version") or "pc")
    return machine.startswith("pc") and "q35" not in machine and bool(instance.hvparams.get("acpi", False))


def nic_model(instance: calls.Instance) -> str:
    """Return QEMU's name for the model of an instance's NICs."""
    kind = blockdev_args.text(instance, "nic_type") or "paravirtual"
    return NIC_DEVICES.get(kind, kind)


def _queues(instance: calls.Instance) -> int:
    queues = int(instance.hvparams.get("virtio_net_queues", 1))
    return queues if nic_model(instance) == NIC_DEVICES["paravirtual"] else 1


def netdev(instance: calls.Instance, nic: calls.Nic, tap: str) -> dict[str, str | int | bool]:
    """Return the netdev of a NIC, which opens the tap."""
    options: dict[str, str | int | bool] = {"type": "tap", "id": guest_slots.nic_name(nic), "ifname": tap}
    options |= {"script": "no", "downscript": "no"}
    if _queues(instance) > 1:
        options["queues"] = _queues(instance)
    if nic_model(instance) == NIC_DEVICES["paravirtual"]:
        if instance.hvparams.get("vhost_net"):
            options["vhost"] = True
        if not instance.hvparams.get("vnet_hdr", True):
            options["vnet_hdr"] = False
    return options


def nic_device(instance: calls.Instance, nic: calls.Nic, *, slot: int | None, kind: str) -> blockdev_args.Options:
    """Return the device of a NIC, which the guest sees."""
    model, name = nic_model(instance), guest_slots.nic_name(nic)
    options: blockdev_args.Options = {"driver": model, "netdev": name, "mac": nic.mac, "id": f"dev-{name}"}
    if (queues := _queues(instance)) > 1:
        options |= {"mq": True, "vectors": 2 * queues + 2}
    if nic.mtu and model == NIC_DEVICES["paravirtual"]:
        options["host_mtu"] = nic.mtu  # other models cannot report an MTU to the guest
    return options if slot is None else options | {"bus": bus(kind), "addr": f"{slot:#x}"}


def check_folder(files: Sockets) -> None:
    """Raise HypervisorError if the paths of the guest's sockets would be too long."""
    length = len(files.monitor.encode())
    if length > SOCKET_PATH_LIMIT:
        raise errors.HypervisorError(
            f"the path of a control socket would have {length} bytes, the maximum is {SOCKET_PATH_LIMIT}: "
            + files.monitor,
            hint="rename the instance to a shorter name, or use a shorter root folder on the node",
        )


def arguments(machine: Machine) -> list[str]:
    """Return QEMU's program and arguments."""
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
        # An incoming guest stays stopped until ``finalize_target``, so that it runs on a single node only.
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
    """Return the size of the memory as QEMU's option.

    Before QEMU 9.0, emulation (tcg) loses a guest's writes during a migration. QEMU reads the dirty bitmap in blocks of
    256 KiB and clears it without notifying the emulated processor, which then does not mark these pages dirty again. If
    the size is not a multiple of 256 KiB, QEMU reads page by page and notifies the processor.
    """
    size = int(machine.instance.beparams["maxmem"])
    page_by_page = machine.accelerator == "tcg" and not machine.text("mem_path")
    return f"{size * 1024 + 8}k" if page_by_page else str(size)


def _processors(machine: Machine) -> str:
    hvparams = machine.instance.hvparams
    counts = {part: int(hvparams.get(f"cpu_{part}", 0)) for part in ("sockets", "cores", "threads")}
    parts = [f"{part}={count}" for part, count in counts.items() if count]
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
    options: list[str] = []
    if machine.text("security_model") == "user":
        options += ["-runas", machine.text("security_domain")]
    if machine.flag("use_chroot"):
        options += ["-chroot", machine.files.chroot]
    if path := machine.text("mem_path"):
        size = int(machine.instance.beparams["maxmem"]) << 20
        memory = {"qom-type": "memory-backend-file", "id": "memory", "mem-path": path, "size": size}
        options += ["-object", _json(memory)]
    return options


def _firmware(machine: Machine) -> list[str]:
    if machine.text("firmware") != "uefi":
        return []
    parts = (("efi-code", machine.text("firmware_path"), True), ("efi-variables", machine.files.firmware, False))
    options: list[str] = []
    for unit, (name, path, read_only) in enumerate(parts):
        file = {"driver": "file", "filename": path}
        options += ["-blockdev", _json({"driver": "raw", "node-name": name, "read-only": read_only, "file": file})]
        options += ["-machine", f"pflash{unit}={name}"]
    return options


def _kernel(machine: Machine) -> list[str]:
    kernel, initrd = machine.text("kernel_path"), machine.text("initrd_path")
    if not kernel:
        return []
    words = [f"root={machine.text('root_path')}", machine.text("kernel_args")]
    if machine.flag("serial_console"):
        words.append(f"console=ttyS0,{machine.text('serial_speed')}")
    # Without this an emulated guest on a loaded machine may conclude that its timer does not work, and panic.
    words.append("no_timer_check")
    return ["-kernel", kernel, *(("-initrd", initrd) if initrd else ()), "-append", " ".join(filter(None, words))]


def _drives(machine: Machine) -> list[str]:
    instance = machine.instance
    options: list[str] = []
    for controller in blockdev_args.controller(instance):
        options += ["-device", _json(controller | {"bus": bus(machine.kind)})]
    for disk, path in zip(instance.disks, machine.disks, strict=True):
        slot = machine.slots.get(guest_slots.disk_name(disk))
        device = blockdev_args.device(instance, disk, slot=slot, bus=bus(machine.kind))
        options += ["-blockdev", _json(blockdev_args.node(instance, disk, path)), "-device", _json(device)]
    for node, device in blockdev_args.removable(instance):
        options += ["-blockdev", _json(node), "-device", _json(device)]
    return options


def _nics(machine: Machine) -> list[str]:
    instance = machine.instance
    options: list[str] = []
    for nic, tap in zip(instance.nics, machine.taps, strict=True):
        backend = netdev(instance, nic, tap)
        words = [f"{name}={_word(value)}" for name, value in backend.items() if name != "type"]
        device = nic_device(instance, nic, slot=machine.slots.get(guest_slots.nic_name(nic)), kind=machine.kind)
        options += ["-netdev", ",".join(["tap", *words]), "-device", _json(device)]
    return options


def _word(value: str | int | bool) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
