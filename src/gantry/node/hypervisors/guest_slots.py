"""Where a guest's disks and NICs sit on its buses. Pure.

A guest that is migrated must find each device where it was, those too that were plugged in while it ran. So a place is
given to a device once, by its name, and remembered in the guest's record (``kvm.guest_records``). It is a slot of the
PCI bus, or a number on the SCSI bus; disks on IDE have none, they never come or go. What every machine has sits in
fixed slots below ``kvm_pci_reservations``.
"""

from collections.abc import Mapping
from typing import TypeVar

from gantry import errors
from gantry.rpc import calls

VGA, RANDOM, BALLOON, SCSI, USB, SOUND, CHANNELS, AGENT = 2, 3, 4, 5, 6, 7, 8, 9
PCI_SLOTS = 31  # the last one is the chip set's on q35
SCSI_NUMBERS = 7

Slots = Mapping[str, int]
Device = TypeVar("Device", calls.Disk, calls.Nic)


def disk_name(disk: calls.Disk) -> str:
    """Return the name of a disk in QEMU; its device's has ``dev-`` in front. QEMU takes 31 characters."""
    return f"disk-{disk.uuid.replace('-', '')[-24:]}"


def nic_name(nic: calls.Nic) -> str:
    """Return the name of a NIC in QEMU: of its netdev, and with ``dev-`` in front of its device."""
    return f"nic-{nic.uuid}"


def disk_bus(instance: calls.Instance) -> str:
    """Return the kind of bus that an instance's disks are on: ``pci``, ``scsi`` or ``ide``."""
    kind = str(instance.hvparams.get("disk_type") or "paravirtual")
    return {"paravirtual": "pci", "ide": "ide"}.get(kind, "scsi")


def assign(instance: calls.Instance) -> dict[str, int]:
    """Return the places of all disks and NICs of an instance that is to start; NoRoomError."""
    found: dict[str, int] = {}
    for disk in instance.disks:
        found = with_disk(found, instance, disk)
    for nic in instance.nics:
        found = with_nic(found, instance, nic)
    return found


def with_disk(taken: Slots, instance: calls.Instance, disk: calls.Disk) -> dict[str, int]:
    """Return the places after a disk got one; NoRoomError."""
    bus, name = disk_bus(instance), disk_name(disk)
    if bus == "ide" or name in taken:
        return dict(taken)
    if bus == "pci":
        return _with_pci(taken, instance, name)
    used = {number for other, number in taken.items() if other.startswith("disk-")}
    return _taken(taken, name, range(SCSI_NUMBERS), used, instance=instance)


def with_nic(taken: Slots, instance: calls.Instance, nic: calls.Nic) -> dict[str, int]:
    """Return the places after a NIC got one; NoRoomError."""
    name = nic_name(nic)
    return dict(taken) if name in taken else _with_pci(taken, instance, name)


def _with_pci(taken: Slots, instance: calls.Instance, name: str) -> dict[str, int]:
    on_pci = ("nic-", "disk-") if disk_bus(instance) == "pci" else ("nic-",)
    used = {number for other, number in taken.items() if other.startswith(on_pci)}
    first = int(instance.hvparams.get("kvm_pci_reservations", 12))
    return _taken(taken, name, range(first, PCI_SLOTS), used, instance=instance)


def _taken(taken: Slots, name: str, places: range, used: set[int], *, instance: calls.Instance) -> dict[str, int]:
    free = next((place for place in places if place not in used), None)
    if free is None:
        raise errors.NoRoomError(
            f"instance {instance.name} has no free place for another device", hint=f"it has {len(places)} of that kind"
        )
    return {**taken, name: free}
