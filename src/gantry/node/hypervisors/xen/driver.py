"""The hypervisors ``xen-pvm`` and ``xen-hvm``: domains of Xen, controlled by ``xl``.

Life cycle of a guest: its record and configuration are written, xl builds the domain and connects its disks and NICs
with Xen's own scripts. From then on the guest does not depend on the node daemon. If a guest powers off or crashes, Xen
keeps the domain until the next ``info``, which destroys the domain and records how the guest ended. If a guest reboots,
xl starts it again; meanwhile there is no domain, so a guest counts as ended only after it was absent for a while.

A method that changes a guest holds the guest's lock; ``info`` does not wait for it. The other modules do the work.
"""

from collections.abc import Collection, Mapping

import msgspec

from gantry import errors
from gantry.node import drivers
from gantry.node.hypervisors.xen import (
    devices,
    domains,
    guests,
    machine,
    migration,
    power,
    records,
    requirements,
    visibility,
)
from gantry.node.os import stream_tls
from gantry.rpc import calls
from gantry.runtime import bytestream, interface, paths


class Xen:
    """One of the two Xen hypervisors of a node; ``parts`` has the drivers of its disks and NICs."""

    def __init__(
        self,
        kind: str,
        runtime: interface.Runtime,
        folders: paths.Paths,
        *,
        parts: drivers.Registry,
        secure: bool = True,
        program: str = domains.XL,
    ) -> None:
        self._kind = kind
        self._drivers = parts
        self._xl = xl = domains.Xl(runtime, program)
        self._requirements = requirements.Requirements(runtime, xl, kind=kind)
        self._records = guest_records = records.Records(runtime.disk, f"{folders.instances}/{kind}")
        self._power = power.Power(runtime.clock, xl)
        tls = stream_tls.Contexts(runtime.disk, folders, secure=secure)
        self._migrations = migration.Migrations(runtime, xl=xl, guest_records=guest_records, tls=tls)
        self._guests = guests.Guests(
            xl,
            guest_records=guest_records,
            parts=parts,
            guest_requirements=self._requirements,
            migrations=self._migrations,
            guest_power=self._power,
        )
        self._locks = self._guests.locks
        self._devices = devices.Devices(runtime, xl, parts=parts, hypervisor_guests=self._guests)
        self._visibility = visibility.Visibility(
            kind,
            runtime.clock,
            guest_records=guest_records,
            hypervisor_guests=self._guests,
            migrations=self._migrations,
        )

    async def validate(self, hvparams: Mapping[str, calls.Value]) -> None:
        """Check the files in the parameters, and that this node's Xen supports this hypervisor."""
        await self._requirements.check(hvparams)

    async def start(self, instance: calls.Instance, *, paused: bool) -> None:
        """Build a domain unless it exists; after a failure nothing remains."""
        async with self._locks[instance.name]:
            record, domain = await self._guests.look(instance.name)
            if record is not None and record.incoming:
                raise errors.WrongStateError(
                    f"a migration of instance {instance.name} to node {self._drivers.node} is not finished",
                    hint="clean up with gnt-instance migrate --cleanup",
                )
            if domain is not None and record is None:
                raise errors.ExistsError(
                    f"node {self._drivers.node} has a domain {instance.name} that Gantry did not start",
                    hint=f"end it there with xl destroy {instance.name}",
                )
            if domain is not None and not domain.ended:
                return
            await self._guests.end(instance.name)
            await self._guests.build(records.record_of(instance), *(["-p"] if paused else []))

    async def stop(self, name: str, *, timeout: float) -> None:
        """Request a power-off for ``timeout`` seconds, then destroy the domain, unless Gantry did not start it."""
        async with self._locks[name]:
            record, domain = await self._guests.look(name)
            if record is None:
                await self._records.forget(name)
                return
            if domain is not None and not (domain.paused or domain.ended or domain.suspended):
                await self._power.press("shutdown", name, timeout=timeout, until=lambda now: now is None or now.ended)
            await self._guests.end(name)

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Restart a guest: ``soft`` waits ``timeout`` seconds for a reboot by the guest, then rebuilds its domain."""
        async with self._locks[name]:
            record, before = await self._guests.running(name)
            if kind == "soft" and not before.paused:
                rebooted = await self._power.press(
                    "reboot", name, timeout=timeout, until=lambda now: now is not None and now.number != before.number
                )
                if rebooted:
                    return
            await self._power.destroy(name)
            await self._guests.build(record)

    async def plug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Plug a paravirtual NIC in."""
        async with self._locks[instance.name]:
            await self._devices.plug_nic(instance.name, nic)

    async def unplug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Unplug a NIC; do nothing if the guest does not run."""
        async with self._locks[instance.name]:
            await self._devices.unplug_nic(instance.name, nic)

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Reconnect a NIC's interface on the node."""
        async with self._locks[instance.name]:
            return await self._devices.update_nic(instance, nic)

    async def plug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Plug an active disk in."""
        async with self._locks[instance.name]:
            await self._devices.plug_disk(instance.name, disk)

    async def unplug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Unplug a disk; do nothing if the guest does not run."""
        async with self._locks[instance.name]:
            await self._devices.unplug_disk(instance.name, disk)

    async def resize_disk(self, instance: calls.Instance, disk: calls.Disk) -> bool:
        """Record the new size; the guest sees a file's new size only at its next start."""
        async with self._locks[instance.name]:
            return await self._devices.resize_disk(instance.name, disk)

    async def balloon(self, instance: calls.Instance, memory: int) -> int:
        """Change the guest's memory and return its memory in MiB afterwards."""
        async with self._locks[instance.name]:
            return await self._devices.balloon(instance, memory)

    async def migration_info(self, instance: calls.Instance) -> str:
        """Return the record of a running guest."""
        record, _ = await self._guests.running(instance.name)
        return msgspec.json.encode(record).decode()

    async def accept(self, instance: calls.Instance, info: str, *, address: str, mirror: bool) -> calls.Reception:
        """Listen for a domain; after a failure nothing remains."""
        name = instance.name
        if mirror:
            raise errors.InvalidError(f"instance {name}: Xen cannot copy disks while a guest runs")
        async with self._locks[name]:
            present, domain = await self._guests.look(name)
            if domain is not None and not (present and present.incoming):
                raise errors.ExistsError(f"instance {name} already runs on node {self._drivers.node}")
            try:
                record = records.at_target(msgspec.json.decode(info, type=records.Record), instance)
            except msgspec.MsgspecError as error:
                raise errors.InvalidError(f"instance {name}: the migration info is not valid: {error}") from None
            await self._guests.end(name)
            try:
                await self._guests.prepare(record)
                return await self._migrations.listen(name, address=address)
            except errors.GantryError:
                await self._guests.end(name)
                raise

    async def migrate(self, instance: calls.Instance, reception: calls.Reception, *, live: bool) -> None:
        """Begin to send a domain, which is stopped meanwhile, even if ``live`` (``migration`` explains why)."""
        del live
        async with self._locks[instance.name]:
            record, _ = await self._guests.running(instance.name)
            if not record.left and not self._migrations.is_sending(instance.name):
                self._migrations.send(record, reception)

    async def migration_status(self, instance: calls.Instance, *, wait: float) -> calls.MigrationStatus:
        """Return the progress of an outgoing migration."""
        return await self._migrations.status(self._existing(instance.name), wait=wait)

    def _existing(self, name: str) -> records.Record:
        """Return the record of a guest, which may be stopped between two nodes; HypervisorError if there is none."""
        record = self._records.get(name)
        if record is None:
            raise errors.HypervisorError(f"instance {name} does not run on node {self._drivers.node}")
        return record

    async def cancel_migration(self, instance: calls.Instance) -> calls.MigrationStatus:
        """Cancel an outgoing migration."""
        async with self._locks[instance.name]:
            self._existing(instance.name)
            await self._migrations.cancel(instance.name)
            record = self._existing(instance.name)
            if not record.left:
                await self._migrations.resume(instance.name)
            return await self._migrations.status(record, wait=0.0)

    async def finalize_source(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration on the source node: destroy the domain, or let it continue."""
        async with self._locks[instance.name]:
            record = self._records.get(instance.name)
            if record is None:
                return
            if success and not record.left:
                raise errors.WrongStateError(
                    f"instance {instance.name} still runs on node {self._drivers.node}",
                    hint="clean up with gnt-instance migrate --cleanup",
                )
            if success:
                await self._guests.end(instance.name)
                return
            await self._migrations.cancel(instance.name)
            await self._migrations.resume(instance.name)
            self._migrations.forget(instance.name)
            await self._records.write(msgspec.structs.replace(record, left=False))

    async def finalize_target(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration on the target node: let a domain that has arrived continue, or remove it."""
        async with self._locks[instance.name]:
            record = self._records.get(instance.name)
            if not success:
                if record is not None and record.incoming:
                    await self._guests.end(instance.name)
                return
            record, _ = await self._guests.running(instance.name)
            if not record.incoming:
                return
            if not record.arrived:
                raise errors.WrongStateError(
                    f"instance {instance.name} has not arrived",
                    hint="it still runs on the source node; clean up with gnt-instance migrate --cleanup",
                )
            await self._migrations.resume(instance.name)
            await self._records.write(msgspec.structs.replace(record, incoming=False, arrived=False))

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Describe a guest; clean up after a guest that has ended."""
        if self._records.get(name) is None:
            return None
        return await self._visibility.describe(name, await self._xl.find(name))

    async def machine(self, name: str) -> calls.Instance | None:
        """Return the machine in the record of a domain."""
        record, domain = await self._guests.look(name)
        return record.instance if record and domain and not domain.ended else None

    async def running(self, names: Collection[str] | None = None) -> tuple[calls.RunningInstance, ...]:
        """Return the running guests, all or those of some names, without incoming ones."""
        recorded = [name for name in self._records.names() if names is None or name in names]
        domains_by_name = await self._xl.all() if recorded else {}
        instances = [await self._visibility.describe(name, domains_by_name.get(name)) for name in recorded]
        return tuple(each for each in instances if each is not None and each.state not in ("incoming", "arrived"))

    async def endings(self) -> tuple[calls.Ending, ...]:
        """Return how guests ended that ended by themselves."""
        await self.running()
        return self._records.endings()

    async def usage(self) -> tuple[calls.Usage, ...]:
        """Return none: this driver does not measure its guests."""
        return ()

    async def console(self, name: str) -> calls.Console:
        """Return how to reach Xen's console, which is a serial line in an HVM guest."""
        try:
            await self._guests.running(name)
        except errors.HypervisorError as error:
            return calls.Console(instance=name, kind="message", message=error.message)
        kind = "pv" if self._kind == machine.PARAVIRTUAL else "serial"
        return calls.Console(
            instance=name, kind="xl", host=self._drivers.node, command=("xl", "console", "-t", kind, name)
        )

    async def connect_console(self, name: str, kind: str) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Raise WrongStateError: its console needs a terminal on the node."""
        await self._guests.running(name)
        raise errors.WrongStateError(
            f"instance {name}: a console of the hypervisor {self._kind} needs a terminal",
            hint=f"gnt-instance console {name}",
        )

    async def verify(self) -> list[str]:
        """Return a fault if Xen does not run here, or does not support this hypervisor."""
        try:
            await self._requirements.check_xen()
        except errors.GantryError as error:
            return [str(error)]
        return []

    async def memory(self) -> tuple[int, int] | None:
        """Return Xen's memory; the node's kernel knows only that of its own domain."""
        return await self._requirements.memory()
