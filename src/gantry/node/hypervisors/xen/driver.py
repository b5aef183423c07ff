"""The hypervisors ``xen-pvm`` and ``xen-hvm``: domains of Xen, commanded by ``xl``.

Life of a guest: its record and its configuration are written, xl builds the domain, and connects its disks and NICs by
Xen's own scripts. From then on it lives without the node daemon. A guest that powers off or crashes is kept by Xen
until the next look at it, which destroys the domain and remembers how it ended. One that reboots is started again by
xl; meanwhile there is no domain, so a guest counts as gone only when it was not there for a while.

Whoever changes a guest holds its lock; a look does not wait for it. The work is done by the parts.
"""

from collections.abc import Mapping

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
from gantry.runtime import interface, paths


class Xen:
    """One of both hypervisors of a node; ``parts`` has the drivers of its disks and NICs."""

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
        self._parts = parts
        self._xl = xl = domains.Xl(runtime, program)
        self._wants = requirements.Wants(runtime, xl, kind=kind)
        self._records = known = records.Records(runtime.disk, f"{folders.instances}/{kind}")
        self._power = power.Power(runtime.clock, xl)
        tls = stream_tls.Contexts(runtime.disk, folders, secure=secure)
        self._passage = migration.Passage(runtime, xl=xl, known=known, tls=tls)
        self._guests = guests.Guests(
            xl, known=known, parts=parts, demands=self._wants, ways=self._passage, buttons=self._power
        )
        self._locks = self._guests.locks
        self._devices = devices.Devices(runtime, xl, parts=parts, known=self._guests)
        self._sight = visibility.Sight(kind, runtime.clock, known=known, household=self._guests, ways=self._passage)

    async def validate(self, hvparams: Mapping[str, calls.Value]) -> None:
        """Check the files that parameters name, and that Xen runs here and can do this kind of guest."""
        await self._wants.check(hvparams)

    async def start(self, instance: calls.Instance, *, paused: bool) -> None:
        """Build a domain unless it is there; nothing of it stays when that fails."""
        async with self._locks[instance.name]:
            record, found = await self._guests.look(instance.name)
            if record is not None and record.incoming:
                raise errors.WrongStateError(
                    f"a migration of instance {instance.name} waits on node {self._parts.node}",
                    hint="gnt-instance migrate --cleanup clears up",
                )
            if found is not None and record is None:
                raise errors.ExistsError(
                    f"node {self._parts.node} has a domain {instance.name} which was not started by Gantry",
                    hint=f"xl destroy {instance.name} ends it there",
                )
            if found is not None and not found.ended:
                return
            await self._guests.end(instance.name)
            await self._guests.build(records.record_of(instance), *(["-p"] if paused else []))

    async def stop(self, name: str, *, timeout: float) -> None:
        """Ask a guest to power off for ``timeout`` seconds, then destroy its domain; others' domains are left alone."""
        async with self._locks[name]:
            record, found = await self._guests.look(name)
            if record is None:
                await self._records.forget(name)
                return
            if found is not None and not (found.paused or found.ended or found.suspended):
                await self._power.press("shutdown", name, timeout=timeout, until=lambda now: now is None or now.ended)
            await self._guests.end(name)

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Restart a guest: ``soft`` lets it do so by itself for ``timeout`` seconds, else its domain is built anew."""
        async with self._locks[name]:
            record, before = await self._guests.running(name)
            if kind == "soft" and not before.paused:
                again = await self._power.press(
                    "reboot", name, timeout=timeout, until=lambda now: now is not None and now.number != before.number
                )
                if again:
                    return
            await self._power.cut(name)
            await self._guests.build(record)

    async def plug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Plug a paravirtual NIC in."""
        async with self._locks[instance.name]:
            await self._devices.plug_nic(instance.name, nic)

    async def unplug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Take a NIC out; a guest that does not run has none."""
        async with self._locks[instance.name]:
            await self._devices.unplug_nic(instance.name, nic)

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Connect the node's end of a NIC anew."""
        async with self._locks[instance.name]:
            return await self._devices.update_nic(instance, nic)

    async def plug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Plug an active disk in."""
        async with self._locks[instance.name]:
            await self._devices.plug_disk(instance.name, disk)

    async def unplug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Take a disk out; a guest that does not run has none."""
        async with self._locks[instance.name]:
            await self._devices.unplug_disk(instance.name, disk)

    async def resize_disk(self, instance: calls.Instance, disk: calls.Disk) -> bool:
        """Remember the new size; of a file only a start tells the guest."""
        async with self._locks[instance.name]:
            return await self._devices.resize_disk(instance.name, disk)

    async def balloon(self, instance: calls.Instance, memory: int) -> int:
        """Give the guest more or less memory, and return what it has then."""
        async with self._locks[instance.name]:
            return await self._devices.balloon(instance, memory)

    async def migration_info(self, instance: calls.Instance) -> str:
        """Return the record of a running guest."""
        record, _ = await self._guests.running(instance.name)
        return msgspec.json.encode(record).decode()

    async def accept(self, instance: calls.Instance, info: str, *, address: str, mirror: bool) -> calls.Reception:
        """Wait for a domain; nothing of it stays when that fails."""
        name = instance.name
        if mirror:
            raise errors.InvalidError(f"instance {name}: Xen copies no disks while a guest runs")
        async with self._locks[name]:
            present, found = await self._guests.look(name)
            if found is not None and not (present and present.incoming):
                raise errors.ExistsError(f"instance {name} runs on node {self._parts.node} already")
            try:
                record = records.at_target(msgspec.json.decode(info, type=records.Record), instance)
            except msgspec.MsgspecError as error:
                raise errors.InvalidError(f"instance {name}: this is no migration info: {error}") from None
            await self._guests.end(name)
            try:
                await self._guests.prepare(record)
                return await self._passage.listen(name, address=address)
            except errors.GantryError:
                await self._guests.end(name)
                raise

    async def migrate(self, instance: calls.Instance, reception: calls.Reception, *, live: bool) -> None:
        """Begin to send a domain, which stands still meanwhile, ``live`` or not (``migration`` says why)."""
        del live
        async with self._locks[instance.name]:
            record, _ = await self._guests.running(instance.name)
            if not record.left and not self._passage.sends(instance.name):
                self._passage.send(record, reception)

    async def migration_status(self, instance: calls.Instance, *, wait: float) -> calls.MigrationStatus:
        """Tell how far the sending of a domain is."""
        return await self._passage.status(self._needed(instance.name), wait=wait)

    def _needed(self, name: str) -> records.Record:
        """Return the record of a guest, which may stand still between two nodes; HypervisorError when there is none."""
        record = self._records.get(name)
        if record is None:
            raise errors.HypervisorError(f"instance {name} does not run on node {self._parts.node}")
        return record

    async def cancel_migration(self, instance: calls.Instance) -> calls.MigrationStatus:
        """Give the sending of a domain up."""
        async with self._locks[instance.name]:
            self._needed(instance.name)
            await self._passage.cancel(instance.name)
            record = self._needed(instance.name)
            if not record.left:
                await self._passage.resume(instance.name)
            return await self._passage.status(record, wait=0.0)

    async def finalize_source(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration here: destroy what is left of a domain, or let it go on."""
        async with self._locks[instance.name]:
            record = self._records.get(instance.name)
            if record is None:
                return
            if success and not record.left:
                raise errors.WrongStateError(
                    f"instance {instance.name} has not left node {self._parts.node}",
                    hint="it still runs there; gnt-instance migrate --cleanup clears up",
                )
            if success:
                await self._guests.end(instance.name)
                return
            await self._passage.cancel(instance.name)
            await self._passage.resume(instance.name)
            self._passage.forget(instance.name)
            await self._records.remember(msgspec.structs.replace(record, left=False))

    async def finalize_target(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration here: let a domain that arrived go on, or clear what waits."""
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
                    hint="it goes on at the source; gnt-instance migrate --cleanup clears up",
                )
            await self._passage.resume(instance.name)
            await self._records.remember(msgspec.structs.replace(record, incoming=False, arrived=False))

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Describe a guest; clears away what is left of one that ended."""
        if self._records.get(name) is None:
            return None
        return await self._sight.describe(name, await self._xl.find(name))

    async def running(self) -> tuple[calls.RunningInstance, ...]:
        """List what runs, without what a migration still brings."""
        names = self._records.names()
        present = await self._xl.all() if names else {}
        found = [await self._sight.describe(name, present.get(name)) for name in names]
        return tuple(one for one in found if one is not None and one.state not in ("incoming", "arrived"))

    async def endings(self) -> tuple[calls.Ending, ...]:
        """List how guests ended that nobody stopped."""
        await self.running()
        return self._records.endings()

    async def console(self, name: str) -> calls.Console:
        """Tell how to reach the console: that of Xen, which an HVM guest has as a serial line."""
        try:
            await self._guests.running(name)
        except errors.HypervisorError as error:
            return calls.Console(instance=name, kind="message", message=error.message)
        kind = "pv" if self._kind == machine.PARAVIRTUAL else "serial"
        return calls.Console(
            instance=name, kind="xl", host=self._parts.node, command=("xl", "console", "-t", kind, name)
        )

    async def verify(self) -> list[str]:
        """Complain when Xen does not run here, or cannot do this kind of guest."""
        try:
            await self._wants.check_xen()
        except errors.GantryError as error:
            return [str(error)]
        return []

    async def memory(self) -> tuple[int, int] | None:
        """Return what Xen has, of which the kernel of the node sees only its own domain's."""
        return await self._wants.memory()
