"""The hypervisor ``kvm``: QEMU processes, commanded over QMP, with /dev/kvm or QEMU's own emulation.

Life of a guest: what a dead predecessor left is cleared, NICs are plugged, the record is written, QEMU is started and
must answer on its control socket. From then on it lives without the node daemon: ``guest_records`` tells what runs. It
ends by ``stop``, by itself, or by a crash; the next look at it notices, takes its taps and files away, and remembers
how.

Whoever changes a guest holds its lock. A look does not wait for that lock (a stop may take minutes): it then reports
what it can see without asking QEMU, which serves one client at a time. The work is done by the parts: ``launch``,
``power``, ``hotplug``, ``balloon``, ``migration``, ``storage_migration``.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.node import drivers
from gantry.node.hypervisors import guest_slots
from gantry.node.hypervisors.kvm import (
    accelerator_probe,
    balloon,
    blockdev_args,
    command_line,
    console,
    guest_records,
    hotplug,
    launch,
    migration,
    power,
    requirements,
    storage_migration,
)
from gantry.rpc import calls
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)

NAME = launch.NAME
MIB = 1 << 20


class Kvm:
    """The hypervisor ``kvm`` of one node; ``parts`` has the drivers of its disks and NICs."""

    def __init__(
        self,
        runtime: interface.Runtime,
        folders: paths.Paths,
        *,
        parts: drivers.Registry,
        accelerators: accelerator_probe.Accelerators,
    ) -> None:
        self._parts = parts
        self._accelerators = accelerators
        self._demands = requirements.Demands(runtime)
        self._guests = guest_records.Guests(runtime, folders.instances)
        self._power = power.Power(runtime, self._guests)
        self._launcher = launch.Launcher(
            runtime, parts, known=self._guests, buttons=self._power, logs=f"{folders.log}/{NAME}"
        )
        self._hotplug = hotplug.Hotplug(runtime, self._guests)
        self._balloon = balloon.Balloon(runtime, self._guests)
        self._migration = migration.Migration(runtime, self._guests)
        self._mirrors = storage_migration.Mirrors(runtime, self._guests, self._migration)
        self._consoles = console.Consoles(runtime, self._guests)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def validate(self, hvparams: Mapping[str, calls.Value]) -> None:
        """Check what parameters demand of the node, and that the accelerator works."""
        await self._demands.check(hvparams)
        await self._accelerators.choose(str(hvparams.get("accel", "auto")))

    async def start(self, instance: calls.Instance, *, paused: bool) -> None:
        """Start an instance unless it runs; nothing of it stays when that fails."""
        async with self._locks[instance.name]:
            if self._guests.pid(instance.name) is None:
                await self.validate(instance.hvparams)
                accelerator = await self._accelerators.choose(str(instance.hvparams.get("accel", "auto")))
                kind = await self._demands.kind(instance.hvparams)
                record = launch.record_of(instance, accelerator=accelerator, kind=kind)
                await self._launcher.run(record, paused=paused)
            elif self._running(instance.name).incoming:
                raise errors.WrongStateError(
                    f"a migration of instance {instance.name} waits on node {self._parts.node}",
                    hint="gnt-instance migrate --cleanup clears up",
                )

    async def stop(self, name: str, *, timeout: float) -> None:
        """Press the power button for ``timeout`` seconds, then end QEMU, then kill it."""
        async with self._locks[name]:
            pid = self._guests.pid(name)
            if pid is not None:
                reacts = (await self._power.state(name)) in ("running", "migrating")
                await self._power.off(name, pid, timeout=timeout if reacts else 0.0)
            await self._launcher.clear(name)

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Restart the guest inside its QEMU: ``soft`` lets it shut down first, ``hard`` is the reset button.

        A soft reboot of a guest that does not react becomes a hard one after ``timeout`` seconds.
        """
        async with self._locks[name]:
            await self._power.reset(self._running(name), patience=timeout if kind == "soft" else 0.0)

    async def plug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Make a tap and plug it in; nothing of it stays when that fails."""
        async with self._locks[instance.name]:
            record, driver, device = self._running(instance.name), self._parts.nic(nic.mode), guest_slots.nic_name(nic)
            known = record.plug(driver.interface_name(nic))
            if known and await self._hotplug.has(record.name, known.device):
                return
            machine = record.instance or instance
            tap = await driver.plug(machine, nic)
            try:
                plugged = record.with_nic(nic, tap, device=device)
                await self._guests.remember(plugged)
                card = command_line.nic_device(machine, nic, place=plugged.places.get(device), kind=record.kind)
                await self._hotplug.plug_nic(record.name, command_line.netdev(machine, nic, tap), card)
            except errors.GantryError:
                await driver.unplug(tap)
                await self._guests.remember(record.without(tap))
                raise

    async def unplug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Take a NIC out of the guest, then its tap away; a guest that does not run has none."""
        async with self._locks[instance.name]:
            if self._guests.pid(instance.name) is None:
                return
            record = self._running(instance.name)
            known = record.plug(self._parts.nic(nic.mode).interface_name(nic))
            if known is None:
                return
            await self._hotplug.unplug_nic(record.name, known.device)
            await self._parts.nic(known.mode).unplug(known.interface)
            await self._guests.remember(record.without(known.interface))

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Connect the tap anew and remember it; the guest does not notice."""
        async with self._locks[instance.name]:
            driver, record = self._parts.nic(nic.mode), self._running(instance.name)
            known = record.plug(driver.interface_name(nic))
            if known is None:
                return False
            await driver.update(instance, nic)
            await self._guests.remember(record.with_nic(nic, known.interface, device=known.device))
            return True

    async def plug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Plug an active disk in; nothing of it stays when that fails."""
        async with self._locks[instance.name]:
            record, name = self._running(instance.name), guest_slots.disk_name(disk)
            machine = record.machine()
            if await self._hotplug.has(record.name, name):
                return
            if not record.hotplug or guest_slots.disk_bus(machine) == "ide":
                raise errors.HypervisorError(
                    f"instance {instance.name} cannot take disks while it runs",
                    hint="its machine or disk_type takes none; the change waits for the next start",
                )
            plugged = record.with_disk(disk)
            node = blockdev_args.node(machine, disk, self._parts.disk_path(disk))
            device = blockdev_args.device(machine, disk, place=plugged.places[name], bus=command_line.bus(record.kind))
            await self._guests.remember(plugged)
            try:
                await self._hotplug.plug_disk(record.name, node, device)
            except errors.GantryError:
                await self._guests.remember(record)
                raise

    async def unplug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Take a disk out of the guest; a guest that does not run has none."""
        async with self._locks[instance.name]:
            if self._guests.pid(instance.name) is None:
                return
            record = self._running(instance.name)
            without = record.without_disk(disk)
            await self._hotplug.unplug_disk(record.name, guest_slots.disk_name(disk))
            await self._guests.remember(without)

    async def resize_disk(self, instance: calls.Instance, disk: calls.Disk) -> bool:
        """Tell the guest of the size that a disk has now."""
        async with self._locks[instance.name]:
            record, name = self._running(instance.name), guest_slots.disk_name(disk)
            if not await self._hotplug.has(record.name, name):
                return False
            await self._hotplug.resize_disk(record.name, name, size=disk.size * MIB)
            await self._guests.remember(record.with_disk(disk))
            return True

    async def balloon(self, instance: calls.Instance, memory: int) -> int:
        """Give the guest more or less memory, and return what it has then."""
        async with self._locks[instance.name]:
            record = self._running(instance.name)
            started_with = int(record.machine().beparams["maxmem"])
            least = min(int(instance.beparams["minmem"]), started_with)
            reached = await self._balloon.resize(record.name, memory, least=least, most=started_with)
            await self._guests.remember(msgspec.structs.replace(record, memory=reached))
            return reached

    def _running(self, name: str) -> guest_records.Record:
        record = self._guests.record(name)
        if record is None or self._guests.pid(name) is None:
            raise errors.HypervisorError(f"instance {name} does not run on node {self._parts.node}")
        return record

    async def migration_info(self, instance: calls.Instance) -> str:
        """Return the record of a running guest, with which its target builds the same machine."""
        record = self._running(instance.name)
        if record.machine().hvparams.get("use_chroot"):
            raise errors.WrongStateError(f"instance {instance.name} runs with use_chroot and cannot be migrated live")
        return msgspec.json.encode(record).decode()

    async def accept(self, instance: calls.Instance, info: str, *, address: str, mirror: bool) -> calls.Reception:
        """Build the machine that a guest runs on elsewhere, and listen for it; nothing of it stays when that fails."""
        async with self._locks[instance.name]:
            await self._make_room(instance.name)
            try:
                record = launch.at_target(guest_records.read(info), instance)
            except msgspec.MsgspecError as error:
                raise errors.InvalidError(f"instance {instance.name}: this is no migration info: {error}") from None
            await self.validate({**record.machine().hvparams, "accel": record.accelerator})
            await self._launcher.run(record)
            try:
                reception = await self._migration.listen(instance, address=address)
                if not mirror:
                    return reception
                disks = await self._mirrors.export(record, address=address, port=reception.port + 1)
                return msgspec.structs.replace(reception, disk_port=disks)
            except errors.GantryError:
                await self._end(instance.name)
                raise

    async def _make_room(self, name: str) -> None:
        """End what an earlier attempt left here; ExistsError when the guest runs here."""
        if self._guests.pid(name) is None:
            return
        if not self._running(name).incoming:
            raise errors.ExistsError(f"instance {name} runs on node {self._parts.node} already")
        await self._end(name)

    async def _end(self, name: str) -> None:
        pid = self._guests.pid(name)
        if pid is not None:
            await self._power.kill(name, pid)
        await self._launcher.clear(name)

    async def migrate(self, instance: calls.Instance, reception: calls.Reception, *, live: bool) -> None:
        """Begin to send a guest to its target."""
        async with self._locks[instance.name]:
            record = self._running(instance.name)
            if self._mirrors.running(record.name) or not (await self._migration.status(record.name)).final:
                return
            if await self._migration.has_left(record.name):
                return
            self._mirrors.forget(record.name)
            await self._migration.prepare(instance, reception)
            if reception.disk_port:
                speed = int(instance.hvparams.get("migration_bandwidth", 32)) * MIB
                self._mirrors.begin(record, reception, live=live, speed=speed)
            else:
                await self._migration.send(record.name, reception, live=live)

    async def migration_status(self, instance: calls.Instance, *, wait: float) -> calls.MigrationStatus:
        """Tell how far the sending of a guest is."""
        name = self._running(instance.name).name
        copying = await self._mirrors.status(name, wait=wait)
        return copying or await self._migration.status(name, wait=wait)

    async def cancel_migration(self, instance: calls.Instance) -> calls.MigrationStatus:
        """Give the sending of a guest up."""
        async with self._locks[instance.name]:
            name = self._running(instance.name).name
            was_copying = self._mirrors.running(name)
            ended = await self._migration.cancel(name)
            await self._mirrors.cancel(name)
            if was_copying and ended.status == "none":
                return calls.MigrationStatus(status="cancelled")
            return ended

    async def finalize_source(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration here: clear what is left of the guest, or let it go on."""
        async with self._locks[instance.name]:
            pid = self._guests.pid(instance.name)
            if pid is None:
                await self._launcher.clear(instance.name)
            elif not success:
                await self._migration.cancel(instance.name)
                await self._mirrors.cancel(instance.name)
                await self._migration.resume(instance.name)
            elif not await self._migration.has_left(instance.name):
                raise errors.WrongStateError(
                    f"instance {instance.name} has not left node {self._parts.node}",
                    hint="it still runs there; gnt-instance migrate --cleanup clears up",
                )
            else:
                await self._mirrors.cancel(instance.name)
                await self._power.off(instance.name, pid, timeout=0.0)
                await self._launcher.clear(instance.name)

    async def finalize_target(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration here: let the guest that arrived go on, or clear what waits."""
        async with self._locks[instance.name]:
            record = self._guests.record(instance.name)
            if not success:
                if record is not None and record.incoming:
                    await self._end(instance.name)
                return
            record = self._running(instance.name)
            if record.incoming:
                await self._migration.take_over(record.name)
                memory = await self._balloon.size(record.name)
                await self._guests.remember(msgspec.structs.replace(record, incoming=False, memory=memory))

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Describe a running instance; clears away what is left of one that died, writes an older record anew."""
        record, lock = self._guests.record(name), self._locks[name]
        if record is None:
            return None
        if self._guests.pid(name) is None:
            if not lock.locked():
                async with lock:
                    await self._notice_death(name)
            return None
        if record.version != guest_records.VERSION and not lock.locked():
            async with lock:
                await self._guests.remember(self._guests.record(name) or record)
        if lock.locked():
            state = "incoming" if record.incoming else "running"
        else:
            state = await self._power.state(name, incoming=record.incoming)
        return calls.RunningInstance(
            name=name,
            uuid=record.uuid,
            hypervisor=NAME,
            memory=record.memory,
            vcpus=record.vcpus,
            state=state,
            accelerator=record.accelerator,
            hotplug=record.hotplug,
        )

    async def _notice_death(self, name: str) -> None:
        record = self._guests.record(name)
        if record is None or self._guests.pid(name) is not None:
            return
        if record.incoming:
            await self._launcher.clear(name)
            return
        ending = await self._launcher.bury(record)
        logger.warning("instance %s ended by itself: %s%s", name, ending.how, f": {ending.said}" if ending.said else "")

    async def running(self) -> tuple[calls.RunningInstance, ...]:
        """List what runs, without what a migration still brings."""
        found = await asyncio.gather(*(self.info(name) for name in self._guests.names()))
        return tuple(one for one in found if one is not None and one.state not in ("incoming", "arrived"))

    async def endings(self) -> tuple[calls.Ending, ...]:
        """List how guests ended that nobody stopped."""
        await self.running()
        found = (self._guests.ending(name) for name in self._guests.ended())
        return tuple(ending for ending in found if ending is not None)

    async def console(self, name: str) -> calls.Console:
        """Tell how to reach the console: serial, VNC or SPICE."""
        return await self._consoles.find(name)

    async def verify(self) -> list[str]:
        """Complain when no accelerator works."""
        found = await self._accelerators.current()
        return [] if found.accelerator else [f"{NAME}: {found.reason}"]

    async def memory(self) -> tuple[int, int] | None:
        """Return None."""
        return None
