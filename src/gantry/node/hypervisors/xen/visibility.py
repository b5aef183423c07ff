"""Determines the state of Xen's guests: running, migrating, or ended by themselves. ``driver`` calls it.

It does not wait for a guest's lock, and cleans up after a guest only if the lock is free.
"""

import logging

from gantry import errors
from gantry.node.hypervisors.xen import domains, guests, migration, records
from gantry.rpc import calls
from gantry.runtime import interface

logger = logging.getLogger(__name__)

REBOOT_TIMEOUT_SECONDS = 60.0
"""How long a rebooting guest may be without a domain."""


class Visibility:
    """The states of a hypervisor's guests; ``kind`` is the hypervisor's name."""

    def __init__(
        self,
        kind: str,
        clock: interface.Clock,
        *,
        guest_records: records.Records,
        hypervisor_guests: guests.Guests,
        migrations: migration.Migrations,
    ) -> None:
        self._kind = kind
        self._clock = clock
        self._records = guest_records
        self._guests = hypervisor_guests
        self._migrations = migrations
        self._missing_since: dict[str, float] = {}

    async def describe(self, name: str, domain: domains.Domain | None) -> calls.RunningInstance | None:
        """Describe a guest, whose domain is ``domain`` or None; clean up after a guest that has ended."""
        record = self._records.get(name)
        if record is None:
            return None
        lock = self._guests.locks[name]
        if not lock.locked() and self._is_over(record, domain):
            async with lock:
                await self._handle_end(name)
            return None
        return calls.RunningInstance(
            name=name,
            uuid=record.instance.uuid,
            hypervisor=self._kind,
            memory=record.memory,
            vcpus=int(record.instance.beparams["vcpus"]),
            state=self._state(record, domain),
            hotplug=True,
        )

    def _state(self, record: records.Record, domain: domains.Domain | None) -> str:
        if record.incoming:
            return "arrived" if record.arrived else "incoming"
        if record.left:
            return "migrated"
        if self._migrations.is_sending(record.instance.name):
            return "migrating"
        return "paused" if domain is not None and domain.paused else "running"

    def _is_over(self, record: records.Record, domain: domains.Domain | None) -> bool:
        """Return whether a guest has ended; a guest without a domain for a short time may be rebooting."""
        name = record.instance.name
        if record.incoming and not record.arrived:
            return domain is None and not self._migrations.is_receiving(name)
        if domain is not None and not domain.rebooting:
            self._missing_since.pop(name, None)
            return domain.ended
        if domain is not None and not self._must_restart(record, domain):
            return True
        since = self._missing_since.setdefault(name, self._clock.monotonic())
        return self._clock.monotonic() - since >= REBOOT_TIMEOUT_SECONDS

    def _must_restart(self, record: records.Record, domain: domains.Domain) -> bool:
        return domain.rebooting and record.instance.hvparams["reboot_behavior"] == "reboot"

    async def _handle_end(self, name: str) -> None:
        """Clean up after a guest that ended by itself and record how; rebuild a rebooting guest unless xl does."""
        record, domain = await self._guests.look(name)
        if record is None or not self._is_over(record, domain):
            return
        await self._guests.end(name)
        self._missing_since.pop(name, None)
        if domain is not None and self._must_restart(record, domain):
            # xl does not watch a domain that was saved once, such as one whose migration failed.
            logger.info("instance %s reboots", name)
            try:
                await self._guests.build(record)
            except errors.GantryError as error:
                await self._record_ending(record, how="unknown", message=error.message)
        elif not record.incoming:
            await self._record_ending(record, how=domain.how if domain else "unknown")

    async def _record_ending(self, record: records.Record, *, how: str, message: str = "") -> None:
        name, uuid = record.instance.name, record.instance.uuid
        logger.warning("instance %s ended by itself: %s%s", name, how, f": {message}" if message else "")
        await self._records.write_ending(
            calls.Ending(name=name, uuid=uuid, hypervisor=self._kind, how=how, time=self._clock.now(), said=message)
        )
