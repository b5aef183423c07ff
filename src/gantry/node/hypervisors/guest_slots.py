"""Allocates the slots of a guest's disks and NICs on its buses. Pure.

After a migration a guest must have each device in the same slot as before, including those that were plugged in while
it ran. So each device gets a slot once, by its name, and the guest's record keeps it (``kvm.guest_records``). A slot is
a slot of the PCI bus or an id on the SCSI bus; disks on IDE have none, as they are never plugged or unplugged. The
devices that every machine has are in fixed slots below ``kvm_pci_reservations``.
"""

from collections.abc import Mapping
from typing import TypeVar

from gantry import errors
from gantry.rpc import calls

VGA, RANDOM, BALLOON, SCSI, USB, SOUND, CHANNELS, AGENT = 2, 3, 4, 5, 6, 7, 8, 9
PCI_SLOTS = 31  # on q35 the last slot belongs to the chip set
SCSI_IDS = 7

Slots = Mapping[str, int]
Device = TypeVar("Device", calls.Disk, calls.Nic)


def disk_name(disk: calls.Disk) -> str:
    """Return the name of a disk's block node in QEMU; the device's name is ``dev-`` and this name.

    QEMU allows 31 characters.
    """
    return f"disk-{disk.uuid.replace('-', '')[-24:]}"


def nic_name(nic: calls.Nic) -> str:
    """Return the name of a NIC's netdev in QEMU; the device's name is ``dev-`` and this name."""
    return f"nic-{nic.uuid}"


def disk_bus(instance: calls.Instance) -> str:
    """Return the kind of bus that an instance's disks are on: ``pci``, ``scsi`` or ``ide``."""
    kind = str(instance.hvparams.get("disk_type") or "paravirtual")
    return {"paravirtual": "pci", "ide": "ide"}.get(kind, "scsi")


def assign(instance: calls.Instance) -> dict[str, int]:
    """Return the slots of all disks and NICs of an instance that is to start, by device name; NoRoomError."""
    slots: dict[str, int] = {}
    for disk in instance.disks:
        slots = with_disk(slots, instance, disk)
    for nic in instance.nics:
        slots = with_nic(slots, instance, nic)
    return slots


def with_disk(slots: Slots, instance: calls.Instance, disk: calls.Disk) -> dict[str, int]:
    """Return the slots with one for a disk; NoRoomError."""
    bus, name = disk_bus(instance), disk_name(disk)
    if bus == "ide" or name in slots:
        return dict(slots)
    if bus == "pci":
        return _with_pci(slots, instance, name)
    used = {slot for other, slot in slots.items() if other.startswith("disk-")}
    return _allocate(slots, name, range(SCSI_IDS), used, instance=instance)


def with_nic(slots: Slots, instance: calls.Instance, nic: calls.Nic) -> dict[str, int]:
    """Return the slots with one for a NIC; NoRoomError."""
    name = nic_name(nic)
    return dict(slots) if name in slots else _with_pci(slots, instance, name)


def _with_pci(slots: Slots, instance: calls.Instance, name: str) -> dict[str, int]:
    on_pci = ("nic-", "disk-") if disk_bus(instance) == "pci" else ("nic-",)
    used = {slot for other, slot in slots.items() if other.startswith(on_pci)}
    first = int(instance.hvparams.get("kvm_pci_reservations", 12))
    return _allocate(slots, name, range(first, PCI_SLOTS), used, instance=instance)


def _allocate(
    slots: Slots, name: str, candidates: range, used: set[int], *, instance: calls.Instance
) -> dict[str, int]:
    free = next((slot for slot in candidates if slot not in used), None)
    if free is None:
        raise errors.NoRoomError(
            f"instance {instance.name} has no free slot for another device", hint=f"its bus has {len(candidates)}"
        )
    return {**slots, name: free}
