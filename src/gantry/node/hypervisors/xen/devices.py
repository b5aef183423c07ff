"""NICs, disks and memory of a running domain, put in and taken out by ``xl``. ``driver`` calls, holding the lock."""

import msgspec

from gantry import errors
from gantry.node import drivers
from gantry.node.hypervisors.xen import domains, guests, machine
from gantry.rpc import calls
from gantry.runtime import interface

INTERFACES = "/sys/class/net"
BALLOON_LIMIT = 20.0
POLL = 0.5
# MiB that Xen's and the guest's idea of its memory may differ by
SLACK = 2


class Devices:
    """The devices of one hypervisor's guests."""

    def __init__(
        self, runtime: interface.Runtime, xl: domains.Xl, *, parts: drivers.Registry, known: guests.Guests
    ) -> None:
        self._clock = runtime.clock
        self._disk = runtime.disk
        self._xl = xl
        self._parts = parts
        self._guests = known

    async def plug_nic(self, name: str, nic: calls.Nic) -> None:
        """Plug a paravirtual NIC in."""
        record, _ = await self._guests.running(name)
        if nic.mac not in await self._xl.nics(name):
            machine.check_nic(record.instance, nic)
            await self._parts.nic(nic.mode).validate(nic)
            words = machine.nic(record.instance, nic)
            await self._xl.succeed(
                "network-attach", name, *words, what=f"NIC {nic.index} of {name} cannot be plugged in"
            )
        await self._guests.write(record.with_nics(nic, nic))

    async def unplug_nic(self, name: str, nic: calls.Nic) -> None:
        """Take a NIC out; a guest that does not run has none."""
        record, found = await self._guests.look(name)
        if record is None or found is None:
            return
        if nic.mac in await self._xl.nics(name):
            await self._xl.succeed(
                "network-detach", name, nic.mac, what=f"NIC {nic.index} of {name} cannot be taken out"
            )
        await self._guests.write(record.with_nics(nic))

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Connect the node's end of a NIC anew; an emulated one has two, until its guest has taken the other."""
        record, found = await self._guests.running(instance.name)
        machine.check_nic(record.instance, nic)
        number = (await self._xl.nics(found.name)).get(nic.mac)
        if number is None:
            return False
        if record.instance.hvparams.get("vif_script"):
            raise errors.HypervisorError(
                f"NIC {nic.index} of instance {found.name} is connected by its vif_script alone",
                hint="with --no-hotplug the change waits for the next start",
            )
        own = f"vif{found.number}.{number}"
        for end in (own, *(end for end in (f"{own}-emu",) if self._disk.exists(f"{INTERFACES}/{end}"))):
            await self._parts.nic(nic.mode).update(instance, nic, interface=end)
        await self._guests.write(record.with_nics(nic, nic))
        return True

    async def plug_disk(self, name: str, disk: calls.Disk) -> None:
        """Plug an active disk in."""
        record, _ = await self._guests.running(name)
        if disk.uuid in record.places:
            return
        plugged = record.with_disk(disk)
        words = machine.disk(plugged, disk, self._parts.disk_path(disk))
        await self._xl.succeed("block-attach", name, words, what=f"disk {disk.index} of {name} cannot be plugged in")
        await self._guests.write(plugged)

    async def unplug_disk(self, name: str, disk: calls.Disk) -> None:
        """Take a disk out; a guest that does not run has none."""
        record, found = await self._guests.look(name)
        if record is None or found is None or disk.uuid not in record.places:
            return
        device = machine.device(record, disk)
        await self._xl.succeed("block-detach", name, device, what=f"disk {disk.index} of {name} cannot be taken out")
        await self._guests.write(record.without_disk(disk))

    async def resize_disk(self, name: str, disk: calls.Disk) -> bool:
        """Remember the new size; Xen sees by itself that a block device has grown, of a file only a start tells it."""
        record, _ = await self._guests.running(name)
        if disk.uuid not in record.places or not self._parts.disk_path(disk).startswith("/dev/"):
            return False
        await self._guests.write(record.with_disk(disk))
        return True

    async def balloon(self, instance: calls.Instance, memory: int) -> int:
        """Give a guest more or less memory, and return what it has then; Xen cannot tell what it uses."""
        record, found = await self._guests.running(instance.name)
        most = int(record.instance.beparams["maxmem"])
        least = min(int(instance.beparams["minmem"]), most)
        if not least <= memory <= most:
            raise errors.InvalidError(
                f"instance {found.name} can have {least} to {most} MiB while it runs, not {memory}",
                hint="minmem is the least, what it was started with (maxmem) the most",
            )
        await self._xl.succeed("mem-set", found.name, f"{memory}m", what=f"memory of {found.name} cannot be set")
        hidden = machine.VIDEO if record.instance.hypervisor == machine.FULL else 0
        reached = await self._reached(found.name, memory, hidden=hidden)
        await self._guests.write(msgspec.structs.replace(record, memory=reached))
        return reached

    async def _reached(self, name: str, memory: int, *, hidden: int) -> int:
        """Wait for a guest, of whose memory Xen does not show ``hidden`` MiB once it balloons."""
        limit = self._clock.monotonic() + BALLOON_LIMIT
        while True:
            has = (await self._guests.running(name))[1].memory
            if memory - hidden - SLACK <= has <= memory + SLACK:
                return memory
            if self._clock.monotonic() >= limit:
                await self._xl.run("mem-set", name, f"{has}m")
                raise errors.HypervisorError(
                    f"instance {name} has {has} MiB, and did not come to {memory} MiB",
                    hint="its guest needs Xen's balloon driver, and memory that it can give back",
                )
            await self._clock.sleep(POLL)
