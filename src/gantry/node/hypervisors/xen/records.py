"""What is remembered of Xen's domains as files, so that a restarted daemon finds those that are ours.

    <instances>/<hypervisor>/<name>/
        record          a Record in JSON, written before xl is called
        config          the domain's configuration, which xl reads again when the guest reboots; it may hold a password
        ended           alone: how a guest ended that nobody stopped (calls.Ending)

A domain without a record is somebody else's, and left alone.
"""

from collections.abc import Sequence

import msgspec

from gantry import errors
from gantry.node.hypervisors import guest_slots
from gantry.rpc import calls
from gantry.runtime import interface

LETTERS = 26
# Where the CD-ROM drive is among disks that are called hd.
CDROM = 2


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A domain as it is: ``instance`` with what was plugged in since its start, ``memory`` as it was ballooned.

    ``places`` are the letters of its disks, counted from 0, by UUID. One that is ``incoming`` waits for the end of a
    migration, and has ``arrived`` when it is complete; one that ``left`` stands still and is complete elsewhere.
    """

    instance: calls.Instance
    memory: int
    places: dict[str, int] = {}
    incoming: bool = False
    arrived: bool = False
    left: bool = False

    def with_disk(self, disk: calls.Disk) -> "Record":
        """Return the record after a disk was plugged in or changed; NoRoomError."""
        instance = msgspec.structs.replace(self.instance, disks=(*_others(self.instance.disks, disk), disk))
        return msgspec.structs.replace(self, instance=instance, places=placed(self.places, instance, disk))

    def without_disk(self, disk: calls.Disk) -> "Record":
        """Return the record after a disk was taken out."""
        instance = msgspec.structs.replace(self.instance, disks=_others(self.instance.disks, disk))
        places = {uuid: place for uuid, place in self.places.items() if uuid != disk.uuid}
        return msgspec.structs.replace(self, instance=instance, places=places)

    def with_nics(self, gone: calls.Nic, *instead: calls.Nic) -> "Record":
        """Return the record after a NIC was plugged in or changed, or without ``instead`` taken out."""
        nics = (*_others(self.instance.nics, gone), *instead)
        return msgspec.structs.replace(self, instance=msgspec.structs.replace(self.instance, nics=nics))


def _others(devices: Sequence[guest_slots.Device], gone: guest_slots.Device) -> tuple[guest_slots.Device, ...]:
    return tuple(one for one in devices if one.uuid != gone.uuid)


def placed(taken: dict[str, int], instance: calls.Instance, disk: calls.Disk) -> dict[str, int]:
    """Return the letters of disks after one got its own, which it keeps; NoRoomError."""
    if disk.uuid in taken:
        return taken
    used = {*taken.values(), *([CDROM] if instance.hvparams.get("blockdev_prefix") == "hd" else [])}
    free = next((place for place in range(LETTERS) if place not in used), None)
    if free is None:
        raise errors.NoRoomError(f"instance {instance.name} has {len(taken)} disks, and Xen has no more letters")
    return {**taken, disk.uuid: free}


def record_of(instance: calls.Instance) -> Record:
    """Return the record of an instance that is to start."""
    places: dict[str, int] = {}
    for disk in instance.disks:
        places = placed(places, instance, disk)
    return Record(instance=instance, memory=int(instance.beparams["maxmem"]), places=places)


def at_target(sent: Record, here: calls.Instance) -> Record:
    """Return the record of a domain that comes from another node: as it was there, with the disks and NICs of here."""
    disks, nics = {disk.uuid: disk for disk in here.disks}, {nic.uuid: nic for nic in here.nics}
    instance = msgspec.structs.replace(
        sent.instance,
        disks=tuple(disks.get(disk.uuid, disk) for disk in sent.instance.disks),
        nics=tuple(nics.get(nic.uuid, nic) for nic in sent.instance.nics),
        network_port=here.network_port,
    )
    return msgspec.structs.replace(sent, instance=instance, incoming=True, arrived=False, left=False)


class Records:
    """The records of one hypervisor of a node, in ``folder``."""

    def __init__(self, disk: interface.Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder

    def config(self, name: str) -> str:
        """Return where xl's configuration of a domain is."""
        return f"{self._folder}/{name}/config"

    def names(self, file: str = "record") -> list[str]:
        """List the domains that left a record, ended ones among them; with ``ended`` those that left but that."""
        if not self._disk.exists(self._folder):
            return []
        return [name for name in self._disk.names(self._folder) if self._disk.exists(f"{self._folder}/{name}/{file}")]

    def get(self, name: str) -> Record | None:
        """Return what is remembered of a domain."""
        try:
            return msgspec.json.decode(self._disk.read(f"{self._folder}/{name}/record"), type=Record)
        except FileNotFoundError:
            return None

    async def remember(self, record: Record, config: str = "") -> None:
        """Write a record, and a configuration that goes with it."""
        folder = f"{self._folder}/{record.instance.name}"
        await self._disk.make_directory(folder, mode=0o700)
        if config:
            await self._disk.write(f"{folder}/config", config.encode(), mode=0o600, sync=False)
        await self._disk.write(f"{folder}/record", msgspec.json.encode(record), sync=False)

    async def forget(self, name: str) -> None:
        """Remove all files of a domain."""
        await self._disk.remove_tree(f"{self._folder}/{name}")

    async def note(self, ending: calls.Ending) -> None:
        """Remember how a guest ended, and nothing else of it."""
        await self.forget(ending.name)
        await self._disk.make_directory(f"{self._folder}/{ending.name}", mode=0o700)
        await self._disk.write(f"{self._folder}/{ending.name}/ended", msgspec.json.encode(ending), sync=False)

    def endings(self) -> tuple[calls.Ending, ...]:
        """List how guests ended that nobody stopped."""
        paths = [f"{self._folder}/{name}/ended" for name in self.names("ended")]
        return tuple(msgspec.json.decode(self._disk.read(path), type=calls.Ending) for path in paths)
