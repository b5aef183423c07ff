"""Changes NICs, disks and memory of a running domain with ``xl``. ``driver`` calls it and holds the guest's lock."""

import msgspec

from gantry import errors
from gantry.node import drivers
from gantry.node.hypervisors.xen import domains, guests, machine
from gantry.rpc import calls
from gantry.runtime import interface

INTERFACES = "/sys/class/net"
BALLOON_TIMEOUT_SECONDS = 20.0
POLL_SECONDS = 0.5
TOLERANCE_MIB = 2
"""By how much Xen's and the guest's value of the guest's memory may differ."""


class Devices:
    """The devices of a hypervisor's guests."""

    def __init__(
        self, runtime: interface.Runtime, xl: domains.Xl, *, parts: drivers.Registry, hypervisor_guests: guests.Guests
    ) -> None:
        self._clock = runtime.clock
        self._disk = runtime.disk
        self._xl = xl
        self._drivers = parts
        self._guests = hypervisor_guests

    async def plug_nic(self, name: str, nic: calls.Nic) -> None:
        """Plug a paravirtual NIC in."""
        record, _ = await self._guests.running(name)
        if nic.mac not in await self._xl.nics(name):
            machine.check_nic(record.instance, nic)
            await self._drivers.nic(nic.mode).validate(nic)
            words = machine.nic(record.instance, nic)
            await self._xl.succeed(
                "network-attach", name, *words, failure=f"NIC {nic.index} of {name} cannot be plugged in"
            )
        await self._guests.write(record.with_nics(nic, nic))

    async def unplug_nic(self, name: str, nic: calls.Nic) -> None:
        """Unplug a NIC; do nothing if the guest does not run."""
        record, domain = await self._guests.look(name)
        if record is None or domain is None:
            return
        if nic.mac in await self._xl.nics(name):
            await self._xl.succeed(
                "network-detach", name, nic.mac, failure=f"NIC {nic.index} of {name} cannot be unplugged"
            )
        await self._guests.write(record.with_nics(nic))

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Reconnect a NIC's interface on the node; an emulated NIC has two, until its guest uses the other one."""
        record, domain = await self._guests.running(instance.name)
        machine.check_nic(record.instance, nic)
        number = (await self._xl.nics(domain.name)).get(nic.mac)
        if number is None:
            return False
        if record.instance.hvparams.get("vif_script"):
            raise errors.HypervisorError(
                f"NIC {nic.index} of instance {domain.name} cannot be changed while it runs: it has a vif_script",
                hint="with --no-hotplug the change applies at the next start",
            )
        vif, emulated = f"vif{domain.number}.{number}", f"vif{domain.number}.{number}-emu"
        for vif_name in (vif, *((emulated,) if self._disk.exists(f"{INTERFACES}/{emulated}") else ())):
            await self._drivers.nic(nic.mode).update(instance, nic, interface=vif_name)
        await self._guests.write(record.with_nics(nic, nic))
        return True

    async def plug_disk(self, name: str, disk: calls.Disk) -> None:
        """Plug an active disk in."""
        record, _ = await self._guests.running(name)
        if disk.uuid in record.letters:
            return
        plugged = record.with_disk(disk)
        words = machine.disk(plugged, disk, self._drivers.disk_path(disk))
        await self._xl.succeed("block-attach", name, words, failure=f"disk {disk.index} of {name} cannot be plugged in")
        await self._guests.write(plugged)

    async def unplug_disk(self, name: str, disk: calls.Disk) -> None:
        """Unplug a disk; do nothing if the guest does not run."""
        record, domain = await self._guests.look(name)
        if record is None or domain is None or disk.uuid not in record.letters:
            return
        device = machine.device(record, disk)
        await self._xl.succeed("block-detach", name, device, failure=f"disk {disk.index} of {name} cannot be unplugged")
        await self._guests.write(record.without_disk(disk))

    async def resize_disk(self, name: str, disk: calls.Disk) -> bool:
        """Record the new size; Xen itself notices that a block device has grown, but of a file only at a start."""
        record, _ = await self._guests.running(name)
        if disk.uuid not in record.letters or not self._drivers.disk_path(disk).startswith("/dev/"):
            return False
        await self._guests.write(record.with_disk(disk))
        return True

    async def balloon(self, instance: calls.Instance, memory: int) -> int:
        """Change a guest's memory and return its memory in MiB afterwards; Xen cannot report how much it uses."""
        record, domain = await self._guests.running(instance.name)
        most = int(record.instance.beparams["maxmem"])
        least = min(int(instance.beparams["minmem"]), most)
        if not least <= memory <= most:
            raise errors.InvalidError(
                f"instance {domain.name} can have {least} to {most} MiB while it runs, not {memory}",
                hint="the minimum is minmem, the maximum is maxmem at its start",
            )
        await self._xl.succeed("mem-set", domain.name, f"{memory}m", failure=f"memory of {domain.name} cannot be set")
        hidden = machine.VIDEO_MIB if record.instance.hypervisor == machine.FULL else 0
        reached = await self._reached(domain.name, memory, hidden=hidden)
        await self._guests.write(msgspec.structs.replace(record, memory=reached))
        return reached

    async def _reached(self, name: str, memory: int, *, hidden: int) -> int:
        """Wait until a guest reaches ``memory`` MiB, of which Xen does not report ``hidden`` MiB after ballooning."""
        limit = self._clock.monotonic() + BALLOON_TIMEOUT_SECONDS
        while True:
            current = (await self._guests.running(name))[1].memory
            if memory - hidden - TOLERANCE_MIB <= current <= memory + TOLERANCE_MIB:
                return memory
            if self._clock.monotonic() >= limit:
                await self._xl.run("mem-set", name, f"{current}m")
                raise errors.HypervisorError(
                    f"instance {name} has {current} MiB and did not reach {memory} MiB",
                    hint="its guest needs Xen's balloon driver, and memory that it can release",
                )
            await self._clock.sleep(POLL_SECONDS)
