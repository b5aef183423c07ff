"""The hypervisor ``kvm``: QEMU processes, controlled over QMP, with /dev/kvm or QEMU's own emulation.

Life cycle of a guest: the remains of a dead predecessor are removed, NICs are plugged, the record is written, QEMU is
started and must answer on its control socket. From then on the guest does not depend on the node daemon;
``guest_records`` finds it again. It ends by ``stop``, by itself, or by a crash. The next ``info`` notices an end by
itself or a crash, removes taps and files, and records how the guest ended.

A method that changes a guest holds the guest's lock. ``info`` does not wait for that lock (a stop may take minutes): if
the lock is held, it reports the state without querying QEMU, which serves one client at a time. The other modules do
the work: ``launch``, ``power``, ``hotplug``, ``balloon``, ``migration``, ``storage_migration``.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping

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
    usage,
)
from gantry.rpc import calls
from gantry.runtime import bytestream, interface, paths

logger = logging.getLogger(__name__)

NAME = launch.NAME
MIB = 1 << 20


class Kvm:
    """The hypervisor ``kvm`` of a node; ``parts`` has the drivers of its disks and NICs."""

    def __init__(
        self,
        runtime: interface.Runtime,
        folders: paths.Paths,
        *,
        parts: drivers.Registry,
        accelerators: accelerator_probe.Accelerators,
    ) -> None:
        self._drivers = parts
        self._accelerators = accelerators
        self._requirements = requirements.Requirements(runtime)
        self._guests = guest_records.Guests(runtime, folders.instances)
        self._power = power.Power(runtime, self._guests)
        self._launcher = launch.Launcher(
            runtime, parts, guests=self._guests, guest_power=self._power, logs=f"{folders.log}/{NAME}"
        )
        self._hotplug = hotplug.Hotplug(runtime, self._guests)
        self._balloon = balloon.Balloon(runtime, self._guests)
        self._migration = migration.Migration(runtime, self._guests)
        self._mirrors = storage_migration.Mirrors(runtime, self._guests, self._migration)
        self._consoles = console.Consoles(runtime, self._guests)
        self._meter = usage.Meter(runtime, self._guests)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def validate(self, hvparams: Mapping[str, calls.Value]) -> None:
        """Check parameters against the node, and that the accelerator works."""
        await self._requirements.check(hvparams)
        await self._accelerators.choose(str(hvparams.get("accel", "auto")))

    async def start(self, instance: calls.Instance, *, paused: bool) -> None:
        """Start an instance unless it runs; after a failure nothing remains."""
        async with self._locks[instance.name]:
            if self._guests.pid(instance.name) is None:
                await self.validate(instance.hvparams)
                accelerator = await self._accelerators.choose(str(instance.hvparams.get("accel", "auto")))
                kind = await self._requirements.kind(instance.hvparams)
                record = launch.record_of(instance, accelerator=accelerator, kind=kind)
                await self._launcher.run(record, paused=paused)
            elif self._running(instance.name).incoming:
                raise errors.WrongStateError(
                    f"a migration of instance {instance.name} to node {self._drivers.node} is not finished",
                    hint="clean up with gnt-instance migrate --cleanup",
                )

    async def stop(self, name: str, *, timeout: float) -> None:
        """Press the power button for ``timeout`` seconds, then end QEMU, then kill it."""
        async with self._locks[name]:
            pid = self._guests.pid(name)
            if pid is not None:
                responsive = (await self._power.state(name)) in ("running", "migrating")
                await self._power.off(name, pid, timeout=timeout if responsive else 0.0)
            await self._launcher.clear(name)

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Restart the guest inside its QEMU: ``soft`` lets it shut down first, ``hard`` presses the reset button.

        A soft reboot of a guest that does not react becomes a hard one after ``timeout`` seconds.
        """
        async with self._locks[name]:
            await self._power.reset(self._running(name), timeout_seconds=timeout if kind == "soft" else 0.0)

    async def plug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Create a tap and plug it in; after a failure nothing remains."""
        async with self._locks[instance.name]:
            record, driver, device = (
                self._running(instance.name),
                self._drivers.nic(nic.mode),
                guest_slots.nic_name(nic),
            )
            known = record.plug(driver.interface_name(nic))
            if known and await self._hotplug.has(record.name, known.device):
                return
            if not record.can_plug and record.hotplug:
                raise _cannot_plug(instance.name, "NICs")
            machine = record.instance or instance
            tap = await driver.plug(machine, nic)
            try:
                plugged = record.with_nic(nic, tap, device=device)
                await self._guests.write(plugged)
                options = command_line.nic_device(machine, nic, slot=plugged.slots.get(device), kind=record.kind)
                await self._hotplug.plug_nic(record.name, command_line.netdev(machine, nic, tap), options)
            except errors.GantryError:
                await driver.unplug(tap)
                await self._guests.write(record.without_nic(tap))
                raise

    async def unplug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Unplug a NIC from the guest, then remove its tap; do nothing if the guest does not run."""
        async with self._locks[instance.name]:
            if self._guests.pid(instance.name) is None:
                return
            record = self._running(instance.name)
            known = record.plug(self._drivers.nic(nic.mode).interface_name(nic))
            if known is None:
                return
            await self._hotplug.unplug_nic(record.name, known.device)
            await self._drivers.nic(known.mode).unplug(known.interface)
            await self._guests.write(record.without_nic(known.interface))

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Reconnect the tap and record the NIC; the guest does not notice."""
        async with self._locks[instance.name]:
            driver, record = self._drivers.nic(nic.mode), self._running(instance.name)
            known = record.plug(driver.interface_name(nic))
            if known is None:
                return False
            await driver.update(instance, nic)
            await self._guests.write(record.with_nic(nic, known.interface, device=known.device))
            return True

    async def plug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Plug an active disk in; after a failure nothing remains."""
        async with self._locks[instance.name]:
            record, name = self._running(instance.name), guest_slots.disk_name(disk)
            machine = record.machine()
            if await self._hotplug.has(record.name, name):
                return
            if not record.can_plug or guest_slots.disk_bus(machine) == "ide":
                raise _cannot_plug(instance.name, "disks")
            plugged, path = record.with_disk(disk), self._drivers.disk_path(disk)
            await self._guests.admit(record.name, path)
            node = blockdev_args.node(machine, disk, path)
            device = blockdev_args.device(machine, disk, slot=plugged.slots[name], bus=command_line.bus(record.kind))
            await self._guests.write(plugged)
            try:
                await self._hotplug.plug_disk(record.name, node, device)
            except errors.GantryError:
                await self._guests.write(record)
                raise

    async def unplug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Unplug a disk from the guest; do nothing if the guest does not run."""
        async with self._locks[instance.name]:
            if self._guests.pid(instance.name) is None:
                return
            record = self._running(instance.name)
            changed = record.without_disk(disk)
            await self._hotplug.unplug_disk(record.name, guest_slots.disk_name(disk))
            await self._guests.write(changed)

    async def resize_disk(self, instance: calls.Instance, disk: calls.Disk) -> bool:
        """Notify the guest of a disk's new size."""
        async with self._locks[instance.name]:
            record, name = self._running(instance.name), guest_slots.disk_name(disk)
            if not await self._hotplug.has(record.name, name):
                return False
            await self._hotplug.resize_disk(record.name, name, size=disk.size * MIB)
            await self._guests.write(record.with_disk(disk))
            return True

    async def balloon(self, instance: calls.Instance, memory: int) -> int:
        """Change the guest's memory and return its memory in MiB afterwards."""
        async with self._locks[instance.name]:
            record = self._running(instance.name)
            most = int(record.machine().beparams["maxmem"])
            least = min(int(instance.beparams["minmem"]), most)
            reached = await self._balloon.resize(record.name, memory, least=least, most=most)
            await self._guests.write(msgspec.structs.replace(record, memory=reached))
            return reached

    def _running(self, name: str) -> guest_records.Record:
        record = self._guests.record(name)
        if record is None or self._guests.pid(name) is None:
            raise errors.HypervisorError(f"instance {name} does not run on node {self._drivers.node}")
        return record

    async def migration_info(self, instance: calls.Instance) -> str:
        """Return the record of a running guest, from which the target node builds the same machine."""
        record = self._running(instance.name)
        if record.machine().hvparams.get("use_chroot"):
            raise errors.WrongStateError(f"instance {instance.name} runs with use_chroot and cannot be migrated live")
        return msgspec.json.encode(record).decode()

    async def accept(self, instance: calls.Instance, info: str, *, address: str, mirror: bool) -> calls.Reception:
        """Build the machine of a guest on another node, and listen for the guest; after a failure nothing remains."""
        async with self._locks[instance.name]:
            await self._end_incoming(instance.name)
            try:
                record = launch.at_target(guest_records.read(info), instance)
            except msgspec.MsgspecError as error:
                raise errors.InvalidError(
                    f"instance {instance.name}: the migration info is not valid: {error}"
                ) from None
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

    async def _end_incoming(self, name: str) -> None:
        """End the incoming guest of an earlier attempt; ExistsError if the guest runs here."""
        if self._guests.pid(name) is None:
            return
        if not self._running(name).incoming:
            raise errors.ExistsError(f"instance {name} already runs on node {self._drivers.node}")
        await self._end(name)

    async def _end(self, name: str) -> None:
        pid = self._guests.pid(name)
        if pid is not None:
            await self._power.kill(name, pid)
        await self._launcher.clear(name)

    async def migrate(self, instance: calls.Instance, reception: calls.Reception, *, live: bool) -> None:
        """Begin to send a guest to its target node."""
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
        """Return the progress of an outgoing migration."""
        name = self._running(instance.name).name
        copying = await self._mirrors.status(name, wait=wait)
        return copying or await self._migration.status(name, wait=wait)

    async def cancel_migration(self, instance: calls.Instance) -> calls.MigrationStatus:
        """Cancel an outgoing migration."""
        async with self._locks[instance.name]:
            name = self._running(instance.name).name
            was_copying = self._mirrors.running(name)
            ended = await self._migration.cancel(name)
            await self._mirrors.cancel(name)
            if was_copying and ended.status == "none":
                return calls.MigrationStatus(status="cancelled")
            return ended

    async def finalize_source(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration on the source node: clean up after the guest, or let it continue."""
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
                    f"instance {instance.name} still runs on node {self._drivers.node}",
                    hint="clean up with gnt-instance migrate --cleanup",
                )
            else:
                await self._mirrors.cancel(instance.name)
                await self._power.off(instance.name, pid, timeout=0.0)
                await self._launcher.clear(instance.name)

    async def finalize_target(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration on the target node: let the guest that has arrived continue, or remove it."""
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
                await self._guests.write(msgspec.structs.replace(record, incoming=False, memory=memory))

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Describe a running instance; clean up after a guest that has ended, rewrite a record of an older version."""
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
                await self._guests.write(self._guests.record(name) or record)
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
            hotplug=record.can_plug,
            devices=_devices(record.instance) if record.instance else None,
        )

    async def machine(self, name: str) -> calls.Instance | None:
        """Return the machine in the record of a running guest."""
        record = self._guests.record(name)
        return record.instance if record and self._guests.pid(name) is not None else None

    async def _notice_death(self, name: str) -> None:
        record = self._guests.record(name)
        if record is None or self._guests.pid(name) is not None:
            return
        if record.incoming:
            await self._launcher.clear(name)
            return
        ending = await self._launcher.record_ending(record)
        logger.warning("instance %s ended by itself: %s%s", name, ending.how, f": {ending.said}" if ending.said else "")

    async def running(self, names: Collection[str] | None = None) -> tuple[calls.RunningInstance, ...]:
        """Return the running guests, all or those of some names, without incoming ones."""
        recorded = self._guests.names()
        guests = await asyncio.gather(*(self.info(name) for name in recorded if names is None or name in names))
        return tuple(guest for guest in guests if guest is not None and guest.state not in ("incoming", "arrived"))

    async def endings(self) -> tuple[calls.Ending, ...]:
        """Return how guests ended that ended by themselves."""
        await self.running()
        endings = (self._guests.ending(name) for name in self._guests.ended())
        return tuple(ending for ending in endings if ending is not None)

    async def usage(self) -> tuple[calls.Usage, ...]:
        """Return what the running guests use."""
        return await self._meter.read(self._locks)

    async def console(self, name: str) -> calls.Console:
        """Return how to reach the console: serial, VNC or SPICE."""
        return await self._consoles.find(name)

    async def connect_console(self, name: str, kind: str) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to the serial console or to VNC."""
        return await self._consoles.connect(name, kind)

    async def verify(self) -> list[str]:
        """Return a fault if no accelerator works."""
        result = await self._accelerators.current()
        return [] if result.accelerator else [f"{NAME}: {result.reason}"]

    async def memory(self) -> tuple[int, int] | None:
        """Return None: the node's kernel manages the memory."""
        return None


def _cannot_plug(name: str, devices: str) -> errors.HypervisorError:
    return errors.HypervisorError(
        f"{devices} cannot be plugged into instance {name} while it runs",
        hint="its machine type, disk_type, use_chroot, or vhost_net with security_model=user does not support that; "
        "the change applies at the next start",
    )


def _devices(machine: calls.Instance) -> tuple[str, ...]:
    """Return the devices of a running machine, as ``calls.RunningInstance`` names them."""
    return tuple(sorted([*(nic.mac for nic in machine.nics), *(disk.uuid for disk in machine.disks)]))
