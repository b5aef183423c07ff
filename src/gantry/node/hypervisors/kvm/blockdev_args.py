"""QEMU's JSON for disks, CD-ROMs and floppies of a guest, for the command line and for plugging in. Pure.

A disk is a node of QEMU's block layer, which opens the file or device, and a device, which the guest sees. Both are
named after the disk's UUID (``hypervisors.guest_slots``), so a disk keeps its name when other disks are removed.
"""

from gantry.node.hypervisors import guest_slots
from gantry.rpc import calls

Options = dict[str, object]

DEVICES = {
    "paravirtual": "virtio-blk-pci",
    "ide": "ide-hd",
    "scsi": "scsi-hd",
    "scsi-hd": "scsi-hd",
    "scsi-block": "scsi-block",
    "scsi-generic": "scsi-generic",
}
CONTROLLERS = {"lsi": "lsi53c895a", "megasas": "megasas", "virtio-scsi-pci": "virtio-scsi-pci"}
CACHES: dict[str, Options] = {"none": {"direct": True}}


def text(instance: calls.Instance, parameter: str) -> str:
    """Return a hypervisor parameter as text; empty for the value ``default``."""
    value = str(instance.hvparams.get(parameter, ""))
    return "" if value == "default" else value


def node(instance: calls.Instance, disk: calls.Disk, path: str) -> Options:
    """Return the block layer's node for a disk whose path is ``path``."""
    file: Options = {
        "driver": "host_device" if path.startswith("/dev/") else "file",
        "filename": path,
        "discard": text(instance, "disk_discard") or "unmap",
    }
    aio = text(instance, "disk_aio")
    if aio not in ("", "threads"):
        file["aio"] = aio
    options: Options = {
        "driver": disk.params.get("format", "raw"),
        "node-name": guest_slots.disk_name(disk),
        "read-only": disk.mode == "ro",
        "file": file,
    }
    cache = CACHES.get(text(instance, "disk_cache"))
    if cache:
        options["cache"] = cache
        file["cache"] = cache
    return options


def device(instance: calls.Instance, disk: calls.Disk, *, slot: int | None, bus: str) -> Options:
    """Return the device of a disk; ``bus`` is the machine's PCI bus, ``slot`` the disk's slot (``guest_slots``)."""
    name = guest_slots.disk_name(disk)
    kind = text(instance, "disk_type") or "paravirtual"
    options: Options = {"driver": DEVICES[kind], "drive": name, "id": f"dev-{name}"}
    if text(instance, "disk_cache") == "writethrough" and kind not in ("scsi-block", "scsi-generic"):
        options["write-cache"] = "off"
    if slot is None:
        return options
    if guest_slots.disk_bus(instance) == "pci":
        return options | {"bus": bus, "addr": f"{slot:#x}"}
    return options | {"bus": "scsi.0", "scsi-id": slot}


def controller(instance: calls.Instance) -> list[Options]:
    """Return the SCSI controller; empty if no device is on SCSI."""
    on_scsi = guest_slots.disk_bus(instance) == "scsi" or text(instance, "cdrom_disk_type").startswith("scsi")
    if not on_scsi:
        return []
    kind = text(instance, "scsi_controller_type") or "lsi"
    return [{"driver": CONTROLLERS[kind], "id": "scsi", "addr": f"{guest_slots.SCSI:#x}"}]


def removable(instance: calls.Instance) -> list[tuple[Options, Options]]:
    """Return node and device of each CD-ROM and floppy."""
    drives: list[tuple[Options, Options]] = []
    drive = "scsi-cd" if text(instance, "cdrom_disk_type").startswith("scsi") else "ide-cd"
    for name, parameter in (("cdrom", "cdrom_image_path"), ("cdrom2", "cdrom2_image_path")):
        if path := text(instance, parameter):
            drives.append((_image(name, path, writable=False), {"driver": drive, "drive": name, "id": f"dev-{name}"}))
    if path := text(instance, "floppy_image_path"):
        drives.append((_image("floppy", path, writable=True), {"driver": "floppy", "drive": "floppy"}))
    return drives


def _image(name: str, path: str, *, writable: bool) -> Options:
    kind = "host_device" if path.startswith("/dev/") else "file"
    return {"driver": "raw", "node-name": name, "read-only": not writable, "file": {"driver": kind, "filename": path}}
