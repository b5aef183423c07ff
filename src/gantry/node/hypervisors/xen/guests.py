"""What the parts of Xen's hypervisors share: a guest's record and its domain, building it, ending it.

``driver``, ``devices`` and ``visibility`` use it; whoever changes a guest holds its lock.
"""

import asyncio
from collections import defaultdict

from gantry import errors
from gantry.node import drivers
from gantry.node.hypervisors.xen import domains, machine, migration, power, records, requirements


class Guests:
    """The guests of one hypervisor of a node; ``parts`` has the drivers of their disks."""

    def __init__(
        self,
        xl: domains.Xl,
        *,
        known: records.Records,
        parts: drivers.Registry,
        demands: requirements.Wants,
        ways: migration.Passage,
        buttons: power.Power,
    ) -> None:
        self.locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._xl = xl
        self._records = known
        self._parts = parts
        self._wants = demands
        self._passage = ways
        self._power = buttons

    async def look(self, name: str) -> tuple[records.Record | None, domains.Domain | None]:
        """Return what is remembered of a guest, and its domain."""
        return self._records.get(name), await self._xl.find(name)

    async def running(self, name: str) -> tuple[records.Record, domains.Domain]:
        """Return the same of a guest that runs; HypervisorError."""
        record, found = await self.look(name)
        if record is None or found is None or found.ended:
            raise errors.HypervisorError(f"instance {name} does not run on node {self._parts.node}")
        return record, found

    async def prepare(self, record: records.Record) -> None:
        """Check all that a domain needs here, then write it down; InvalidError, EnvironmentFaultError."""
        await self._wants.check(record.instance.hvparams)
        for nic in record.instance.nics:
            machine.check_nic(record.instance, nic)
            await self._parts.nic(nic.mode).validate(nic)
        await self.write(record)

    async def build(self, record: records.Record, *options: str) -> None:
        """Build a domain that is not there; nothing of it stays when that fails."""
        name = record.instance.name
        await self.prepare(record)
        try:
            config = self._records.config(name)
            await self._xl.succeed("create", *options, config, what=f"instance {name} cannot start")
        except errors.GantryError:
            await self.end(name)
            raise

    async def write(self, record: records.Record) -> None:
        """Remember a guest, and write the configuration that xl reads when it reboots."""
        where = [self._parts.disk_path(disk) for disk in record.instance.disks]
        secret = self._wants.password(record.instance.hvparams)
        await self._records.remember(record, machine.configuration(record, where, password=secret))

    async def end(self, name: str) -> None:
        """Destroy a domain and forget all of it; nothing happens to one that is not there."""
        await self._passage.stop_listening(name)
        await self._passage.cancel(name)
        self._passage.forget(name)
        await self._power.cut(name)
        await self._records.forget(name)
