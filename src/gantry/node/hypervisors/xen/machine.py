"""A domain as xl's configuration file has it. Pure.

Every value is quoted so that xl reads it back as it is; a disk or NIC is a list of words with commas between them, so
that a value with a comma is refused there. A guest that powers off or crashes is kept until the node daemon has looked
at it (``preserve``); one that reboots is started again by xl.
"""

from collections.abc import Iterable, Mapping, Sequence

from gantry import errors
from gantry.node.hypervisors.kvm import affinity
from gantry.node.hypervisors.xen import records
from gantry.rpc import calls

PARAVIRTUAL, FULL = "xen-pvm", "xen-hvm"
VNC_FIRST = 5900
# MiB of a guest's memory that its graphics card gets
VIDEO = 8
# What stands for the node's own Xen, wherever that lies (contracts/hypervisor-parameters.md#defaults).
OWN_FIRMWARE, OWN_DEVICE_MODEL = "hvmloader", "qemu-dm"

Lines = dict[str, str | int | Sequence[str]]


def configuration(record: records.Record, paths: Sequence[str], *, password: str = "") -> str:
    """Return the configuration of a domain, whose disks are found at ``paths``; InvalidError."""
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
            *(disk(record, one, path) for one, path in zip(instance.disks, paths, strict=True)),
            *_cdrom(instance),
        ],
        "vif": [",".join(nic(instance, one)) for one in instance.nics],
    }
    return "".join(f"{name} = {_value(value)}\n" for name, value in lines.items() if value != "")


def _value(value: str | int | Sequence[str]) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    return f"[{', '.join(map(_quoted, value))}]"


def _quoted(text: str) -> str:
    """Return text as xl's parser reads it back; InvalidError for what it has no way to write."""
    mark = "'" if '"' in text else '"'
    if mark in text or not text.isprintable():
        raise errors.InvalidError(f"Xen's configuration cannot hold {text!r}", hint="leave out one kind of quotes")
    return mark + text.replace("\\", "\\\\") + mark


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
    found: Lines = {"cpuid": _text(instance, "cpuid")}
    return found if mask == affinity.ALL else found | {"cpus": lists[0] if len(lists) == 1 else lists}


def _paravirtual(instance: calls.Instance) -> Lines:
    found: Lines = {"type": "pv"}
    if instance.hvparams["use_bootloader"]:
        found |= {
            "bootloader": _text(instance, "bootloader_path"),
            "bootloader_args": _text(instance, "bootloader_args"),
        }
    else:
        found |= {"kernel": _text(instance, "kernel_path"), "ramdisk": _text(instance, "initrd_path")}
    return found | {"root": _text(instance, "root_path"), "extra": _text(instance, "kernel_args")}


def _full(instance: calls.Instance, password: str) -> Lines:
    given = instance.hvparams
    found: Lines = {
        "type": "hvm",
        "boot": _text(instance, "boot_order"),
        "serial": "pty",
        "videoram": VIDEO,
        "soundhw": _text(instance, "soundhw"),
        "pci": [one for one in _text(instance, "pci_pass").split(";") if one],
        **_vnc(instance, password),
    }
    for line, parameter in {"acpi": "acpi", "pae": "pae", "viridian": "viridian", "localtime": "use_localtime"}.items():
        found[line] = int(bool(given[parameter]))
    if own := foreign(given, "kernel_path", OWN_FIRMWARE):
        found["firmware_override"] = own
    if own := foreign(given, "device_model", OWN_DEVICE_MODEL):
        found |= {"device_model_version": "qemu-xen", "device_model_override": own}
    return found


def foreign(hvparams: Mapping[str, calls.Value], parameter: str, own: str) -> str:
    """Return the path that a parameter names in place of what the node's Xen has as ``own``; empty for that."""
    path = str(hvparams.get(parameter, ""))
    return "" if path.rpartition("/")[2] == own else path


def _vnc(instance: calls.Instance, password: str) -> Lines:
    """Return the VNC server: at the instance's own port, else at the first free display."""
    address = _text(instance, "vnc_bind_address")
    if not address:
        return {"vnc": 0}
    found: Lines = {"vnc": 1, "vnclisten": address, "vncpasswd": password}
    if instance.network_port > VNC_FIRST:
        return found | {"vncunused": 0, "vncdisplay": instance.network_port - VNC_FIRST}
    return found | {"vncunused": 1}


def device(record: records.Record, disk: calls.Disk) -> str:
    """Return the name of a disk in its domain."""
    return f"{record.instance.hvparams['blockdev_prefix']}{chr(ord('a') + record.places[disk.uuid])}"


def disk(record: records.Record, disk: calls.Disk, path: str) -> str:
    """Return a disk that is found at ``path``; the path comes last, and may hold anything."""
    kind = disk.params.get("format", "raw")
    access = "ro" if disk.mode == "ro" else "rw"
    return f"format={kind},vdev={device(record, disk)},access={access},target={path}"


def _cdrom(instance: calls.Instance) -> Iterable[str]:
    if path := _text(instance, "cdrom_image_path"):
        yield f"format=raw,vdev=hd{chr(ord('a') + records.CDROM)},access=ro,devtype=cdrom,target={path}"


def nic(instance: calls.Instance, nic: calls.Nic) -> list[str]:
    """Return the words of a NIC; InvalidError for a value with a comma."""
    words = [f"mac={nic.mac}"]
    if nic.mode == "bridged":
        words.append(f"bridge={nic.link}")
    elif nic.addresses:
        words.append(f"ip={' '.join(address.ip for address in nic.addresses)}")
    own = "" if nic.mode == "bridged" else "vif-route"
    if script := _text(instance, "vif_script") or own:
        words.append(f"script={script}")
    if instance.hypervisor == FULL:
        words += ["type=ioemu", f"model={_text(instance, 'nic_type')}"] if emulated(instance) else ["type=vif"]
    if wrong := [word for word in words if "," in word]:
        raise errors.InvalidError(f"NIC {nic.index} of instance {instance.name}: Xen takes no comma in {wrong[0]}")
    return words


def check_nic(instance: calls.Instance, nic: calls.Nic) -> None:
    """Raise EnvironmentFaultError for a NIC that Xen's own scripts cannot connect."""
    if nic.vlan or nic.mtu:
        raise errors.EnvironmentFaultError(
            f"NIC {nic.index}: Xen's own script puts no NIC into a VLAN or segment",
            hint="give each VLAN a bridge of its own, or run the instance under kvm",
        )
    if nic.mode == "bridged" or _text(instance, "vif_script"):
        return
    if wrong := [address.ip for address in nic.addresses if ":" in address.ip]:
        raise errors.EnvironmentFaultError(
            f"NIC {nic.index}: Xen's own script vif-route does not route {wrong[0]}",
            hint="name a script that routes IPv6 as vif_script, or give the NIC a bridge",
        )


def emulated(instance: calls.Instance) -> bool:
    """Tell whether the NICs of a domain are emulated beside being paravirtual."""
    wanted = (_text(instance, "vif_type"), _text(instance, "nic_type") == "paravirtual")
    return instance.hypervisor == FULL and wanted == ("ioemu", False)
