"""The files of Xen's domains, from which a restarted daemon recognizes its own domains.

    <instances>/<hypervisor>/<name>/
        record          a Record in JSON, written before xl runs
        config          the domain's configuration, which xl reads again when the guest reboots; may contain a password
        ended           only this file, after a guest ended that ``stop`` did not stop (calls.Ending)

Gantry does not change a domain without a record: it did not start it.
"""

from collections.abc import Sequence

import msgspec

from gantry import errors
from gantry.node.hypervisors import guest_slots
from gantry.rpc import calls
from gantry.runtime import interface

MAX_DISKS = 26
CDROM = 2
"""The letter, counted from 0, of the CD-ROM drive among disks with the prefix ``hd``."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a domain: ``instance`` with the changes since its start, ``memory`` after ballooning.

    ``letters`` are those of its disks, counted from 0, by UUID. A domain that is ``incoming`` waits for the end of a
    migration, and has ``arrived`` when it is complete; a domain that has ``left`` is stopped here and complete on the
    target node.
    """

    instance: calls.Instance
    memory: int
    letters: dict[str, int] = msgspec.field(default_factory=dict, name="places")
    incoming: bool = False
    arrived: bool = False
    left: bool = False

    def with_disk(self, disk: calls.Disk) -> "Record":
        """Return the record with a new or changed disk; NoRoomError."""
        instance = msgspec.structs.replace(self.instance, disks=(*_without(self.instance.disks, disk), disk))
        return msgspec.structs.replace(self, instance=instance, letters=with_letter(self.letters, instance, disk))

    def without_disk(self, disk: calls.Disk) -> "Record":
        """Return the record without a disk."""
        instance = msgspec.structs.replace(self.instance, disks=_without(self.instance.disks, disk))
        letters = {uuid: letter for uuid, letter in self.letters.items() if uuid != disk.uuid}
        return msgspec.structs.replace(self, instance=instance, letters=letters)

    def with_nics(self, removed: calls.Nic, *replacement: calls.Nic) -> "Record":
        """Return the record without a NIC, or with ``replacement`` in its stead."""
        nics = (*_without(self.instance.nics, removed), *replacement)
        return msgspec.structs.replace(self, instance=msgspec.structs.replace(self.instance, nics=nics))


def _without(devices: Sequence[guest_slots.Device], removed: guest_slots.Device) -> tuple[guest_slots.Device, ...]:
    return tuple(device for device in devices if device.uuid != removed.uuid)


def with_letter(letters: dict[str, int], instance: calls.Instance, disk: calls.Disk) -> dict[str, int]:
    """Return the letters with one for a disk, which keeps a letter that it has; NoRoomError."""
    if disk.uuid in letters:
        return letters
    used = {*letters.values(), *([CDROM] if instance.hvparams.get("blockdev_prefix") == "hd" else [])}
    free = next((letter for letter in range(MAX_DISKS) if letter not in used), None)
    if free is None:
        raise errors.NoRoomError(f"instance {instance.name} has {len(letters)} disks, the maximum for Xen")
    return {**letters, disk.uuid: free}


def record_of(instance: calls.Instance) -> Record:
    """Return the record of an instance that is to start."""
    letters: dict[str, int] = {}
    for disk in instance.disks:
        letters = with_letter(letters, instance, disk)
    return Record(instance=instance, memory=int(instance.beparams["maxmem"]), letters=letters)


def at_target(source: Record, local: calls.Instance) -> Record:
    """Return the record of an incoming domain: that of its source node, with the disks and NICs of this node."""
    disks, nics = {disk.uuid: disk for disk in local.disks}, {nic.uuid: nic for nic in local.nics}
    instance = msgspec.structs.replace(
        source.instance,
        disks=tuple(disks.get(disk.uuid, disk) for disk in source.instance.disks),
        nics=tuple(nics.get(nic.uuid, nic) for nic in source.instance.nics),
        network_port=local.network_port,
    )
    return msgspec.structs.replace(source, instance=instance, incoming=True, arrived=False, left=False)


class Records:
    """The records of a hypervisor of a node, in ``folder``."""

    def __init__(self, disk: interface.Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder

    def config(self, name: str) -> str:
        """Return the path of xl's configuration of a domain."""
        return f"{self._folder}/{name}/config"

    def names(self, file: str = "record") -> list[str]:
        """Return the names of the domains that have a record, including ended domains, or the file ``file``."""
        if not self._disk.exists(self._folder):
            return []
        return [name for name in self._disk.names(self._folder) if self._disk.exists(f"{self._folder}/{name}/{file}")]

    def get(self, name: str) -> Record | None:
        """Return the record of a domain; None if there is none."""
        try:
            return msgspec.json.decode(self._disk.read(f"{self._folder}/{name}/record"), type=Record)
        except FileNotFoundError:
            return None

    async def write(self, record: Record, config: str = "") -> None:
        """Write a record, and the configuration unless that is empty."""
        folder = f"{self._folder}/{record.instance.name}"
        await self._disk.make_directory(folder, mode=0o700)
        if config:
            await self._disk.write(f"{folder}/config", config.encode(), mode=0o600, sync=False)
        await self._disk.write(f"{folder}/record", msgspec.json.encode(record), sync=False)

    async def forget(self, name: str) -> None:
        """Remove all files of a domain."""
        await self._disk.remove_tree(f"{self._folder}/{name}")

    async def write_ending(self, ending: calls.Ending) -> None:
        """Replace all files of a domain by the record of how the guest ended."""
        await self.forget(ending.name)
        await self._disk.make_directory(f"{self._folder}/{ending.name}", mode=0o700)
        await self._disk.write(f"{self._folder}/{ending.name}/ended", msgspec.json.encode(ending), sync=False)

    def endings(self) -> tuple[calls.Ending, ...]:
        """Return how guests ended that ended by themselves."""
        paths = [f"{self._folder}/{name}/ended" for name in self.names("ended")]
        return tuple(msgspec.json.decode(self._disk.read(path), type=calls.Ending) for path in paths)
