"""A guest's record and domain, for the other modules: finds them, builds and destroys the domain.

``driver``, ``devices`` and ``visibility`` use it; a caller that changes a guest holds the guest's lock.
"""

import asyncio
from collections import defaultdict

from gantry import errors
from gantry.node import drivers
from gantry.node.hypervisors.xen import domains, machine, migration, power, records, requirements


class Guests:
    """The guests of a hypervisor of a node; ``parts`` has the drivers of their disks."""

    def __init__(
        self,
        xl: domains.Xl,
        *,
        guest_records: records.Records,
        parts: drivers.Registry,
        guest_requirements: requirements.Requirements,
        migrations: migration.Migrations,
        guest_power: power.Power,
    ) -> None:
        self.locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._xl = xl
        self._records = guest_records
        self._drivers = parts
        self._requirements = guest_requirements
        self._migrations = migrations
        self._power = guest_power

    async def look(self, name: str) -> tuple[records.Record | None, domains.Domain | None]:
        """Return the record and the domain of a guest, None for each that does not exist."""
        return self._records.get(name), await self._xl.find(name)

    async def running(self, name: str) -> tuple[records.Record, domains.Domain]:
        """Return the record and the domain of a running guest; HypervisorError if it does not run."""
        record, domain = await self.look(name)
        if record is None or domain is None or domain.ended:
            raise errors.HypervisorError(f"instance {name} does not run on node {self._drivers.node}")
        return record, domain

    async def prepare(self, record: records.Record) -> None:
        """Check a domain's requirements on this node, then write its files; InvalidError, EnvironmentFaultError."""
        await self._requirements.check(record.instance.hvparams)
        for nic in record.instance.nics:
            machine.check_nic(record.instance, nic)
            await self._drivers.nic(nic.mode).validate(nic)
        await self.write(record)

    async def build(self, record: records.Record, *options: str) -> None:
        """Build a domain that does not exist; after a failure nothing remains."""
        name = record.instance.name
        await self.prepare(record)
        try:
            config = self._records.config(name)
            await self._xl.succeed("create", *options, config, failure=f"instance {name} cannot start", guest=name)
        except errors.GantryError:
            await self.end(name)
            raise

    async def write(self, record: records.Record) -> None:
        """Write a guest's record, and its configuration, which xl reads when the guest reboots."""
        disk_paths = [self._drivers.disk_path(disk) for disk in record.instance.disks]
        password = self._requirements.password(record.instance.hvparams)
        await self._records.write(record, machine.configuration(record, disk_paths, password=password))

    async def end(self, name: str) -> None:
        """Destroy a domain, if it exists, and remove all of its files."""
        await self._migrations.stop_listening(name)
        await self._migrations.cancel(name)
        self._migrations.forget(name)
        await self._power.destroy(name)
        await self._records.forget(name)
