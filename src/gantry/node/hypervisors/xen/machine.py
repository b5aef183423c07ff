"""A domain's configuration file for xl. Pure.

Every value is quoted so that xl reads it back unchanged; a disk or NIC is a list of words separated by commas, so a
word with a comma is refused there. Xen keeps a domain that powers off or crashes until the node daemon has noticed
(``preserve``); xl restarts a guest that reboots.
"""

from collections.abc import Iterable, Mapping, Sequence

from gantry import errors
from gantry.node.hypervisors.kvm import affinity
from gantry.node.hypervisors.xen import records
from gantry.rpc import calls

PARAVIRTUAL, FULL = "xen-pvm", "xen-hvm"
VNC_FIRST = 5900
VIDEO_MIB = 8
"""How much of a guest's memory its graphics card uses."""
# Values that stand for the files of the node's Xen, wherever they are (contracts/hypervisor-parameters.md#defaults).
OWN_FIRMWARE, OWN_DEVICE_MODEL = "hvmloader", "qemu-dm"

Lines = dict[str, str | int | Sequence[str]]


def configuration(record: records.Record, paths: Sequence[str], *, password: str = "") -> str:
    """Return the configuration of a domain whose disks have the paths ``paths``; InvalidError."""
    instance = record.instance
    lines: Lines = {
        "name": instance.name,
        "uuid": instance.uuid,
        "memory": record.memory,
        "maxmem": int(instance.beparams["maxmem"]),
        "vcpus": int(instance.beparams["vcpus"]),
        "cpu_weight": int(instance.hvparams["cpu_weight"]),
        "cap": int(instance.hvparams["cpu_cap"]),
        "on_poweroff": "preserve",
        "on_crash": "preserve",
        "on_watchdog": "preserve",
        "on_reboot": "restart" if instance.hvparams["reboot_behavior"] == "reboot" else "preserve",
        **_processors(instance),
        **(_paravirtual(instance) if instance.hypervisor == PARAVIRTUAL else _full(instance, password)),
        "disk": [
            *(disk(record, each, path) for each, path in zip(instance.disks, paths, strict=True)),
            *_cdrom(instance),
        ],
        "vif": [",".join(nic(instance, each)) for each in instance.nics],
    }
    return "".join(f"{name} = {_value(value)}\n" for name, value in lines.items() if value != "")


def _value(value: str | int | Sequence[str]) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    return f"[{', '.join(map(_quoted, value))}]"


def _quoted(text: str) -> str:
    """Return text quoted for xl's parser; InvalidError for text that xl's syntax cannot express."""
    quote = "'" if '"' in text else '"'
    if quote in text or not text.isprintable():
        raise errors.InvalidError(
            f"Xen's configuration cannot contain {text!r}", hint="use only one kind of quotes and printable characters"
        )
    return quote + text.replace("\\", "\\\\") + quote


def _text(instance: calls.Instance, parameter: str) -> str:
    return str(instance.hvparams.get(parameter, ""))


def _processors(instance: calls.Instance) -> Lines:
    mask = _text(instance, "cpu_mask") or affinity.ALL
    lists = affinity.parse(mask)
    vcpus = int(instance.beparams["vcpus"])
    if len(lists) > 1 and len(lists) != vcpus:
        raise errors.InvalidError(
            f"cpu_mask has {len(lists)} lists, instance {instance.name} {vcpus} virtual processors"
        )
    lines: Lines = {"cpuid": _text(instance, "cpuid")}
    return lines if mask == affinity.ALL else lines | {"cpus": lists[0] if len(lists) == 1 else lists}


def _paravirtual(instance: calls.Instance) -> Lines:
    lines: Lines = {"type": "pv"}
    if instance.hvparams["use_bootloader"]:
        lines |= {
            "bootloader": _text(instance, "bootloader_path"),
            "bootloader_args": _text(instance, "bootloader_args"),
        }
    else:
        lines |= {"kernel": _text(instance, "kernel_path"), "ramdisk": _text(instance, "initrd_path")}
    return lines | {"root": _text(instance, "root_path"), "extra": _text(instance, "kernel_args")}


def _full(instance: calls.Instance, password: str) -> Lines:
    hvparams = instance.hvparams
    lines: Lines = {
        "type": "hvm",
        "boot": _text(instance, "boot_order"),
        "serial": "pty",
        "videoram": VIDEO_MIB,
        "soundhw": _text(instance, "soundhw"),
        "pci": [device for device in _text(instance, "pci_pass").split(";") if device],
        **_vnc(instance, password),
    }
    for line, parameter in {"acpi": "acpi", "pae": "pae", "viridian": "viridian", "localtime": "use_localtime"}.items():
        lines[line] = int(bool(hvparams[parameter]))
    if path := override(hvparams, "kernel_path", OWN_FIRMWARE):
        lines["firmware_override"] = path
    if path := override(hvparams, "device_model", OWN_DEVICE_MODEL):
        lines |= {"device_model_version": "qemu-xen", "device_model_override": path}
    return lines


def override(hvparams: Mapping[str, calls.Value], parameter: str, own: str) -> str:
    """Return the path in a parameter; empty if its file name is ``own``, which means the file of the node's Xen."""
    path = str(hvparams.get(parameter, ""))
    return "" if path.rpartition("/")[2] == own else path


def _vnc(instance: calls.Instance, password: str) -> Lines:
    """Return the lines for the VNC server: at the instance's own port, else at the first free display."""
    address = _text(instance, "vnc_bind_address")
    if not address:
        return {"vnc": 0}
    lines: Lines = {"vnc": 1, "vnclisten": address, "vncpasswd": password}
    if instance.network_port > VNC_FIRST:
        return lines | {"vncunused": 0, "vncdisplay": instance.network_port - VNC_FIRST}
    return lines | {"vncunused": 1}


def device(record: records.Record, disk: calls.Disk) -> str:
    """Return the name of a disk in its domain."""
    return f"{record.instance.hvparams['blockdev_prefix']}{chr(ord('a') + record.letters[disk.uuid])}"


def disk(record: records.Record, disk: calls.Disk, path: str) -> str:
    """Return the words for a disk with the path ``path``, which is the last word and may contain any characters."""
    kind = disk.params.get("format", "raw")
    access = "ro" if disk.mode == "ro" else "rw"
    return f"format={kind},vdev={device(record, disk)},access={access},target={path}"


def _cdrom(instance: calls.Instance) -> Iterable[str]:
    if path := _text(instance, "cdrom_image_path"):
        yield f"format=raw,vdev=hd{chr(ord('a') + records.CDROM)},access=ro,devtype=cdrom,target={path}"


def nic(instance: calls.Instance, nic: calls.Nic) -> list[str]:
    """Return the words for a NIC; InvalidError for a value with a comma."""
    words = [f"mac={nic.mac}"]
    if nic.mode == "bridged":
        words.append(f"bridge={nic.link}")
    elif nic.addresses:
        words.append(f"ip={' '.join(address.ip for address in nic.addresses)}")
    default_script = "" if nic.mode == "bridged" else "vif-route"
    if script := _text(instance, "vif_script") or default_script:
        words.append(f"script={script}")
    if instance.hypervisor == FULL:
        words += ["type=ioemu", f"model={_text(instance, 'nic_type')}"] if emulated(instance) else ["type=vif"]
    if wrong := [word for word in words if "," in word]:
        raise errors.InvalidError(
            f"NIC {nic.index} of instance {instance.name}: Xen does not allow a comma in {wrong[0]}"
        )
    return words


def check_nic(instance: calls.Instance, nic: calls.Nic) -> None:
    """Raise EnvironmentFaultError for a NIC that Xen's own scripts cannot connect."""
    if nic.vlan or nic.mtu:
        raise errors.EnvironmentFaultError(
            f"NIC {nic.index}: Xen's own script cannot connect a NIC to a VLAN or segment",
            hint="create a bridge for each VLAN, or run the instance under kvm",
        )
    if nic.mode == "bridged" or _text(instance, "vif_script"):
        return
    if wrong := [address.ip for address in nic.addresses if ":" in address.ip]:
        raise errors.EnvironmentFaultError(
            f"NIC {nic.index}: Xen's own script vif-route does not route {wrong[0]}",
            hint="set vif_script to a script that routes IPv6, or use a NIC of mode bridged",
        )


def emulated(instance: calls.Instance) -> bool:
    """Return whether a domain's NICs are emulated in addition to being paravirtual."""
    paravirtual = _text(instance, "nic_type") == "paravirtual"
    return instance.hypervisor == FULL and _text(instance, "vif_type") == "ioemu" and not paravirtual
