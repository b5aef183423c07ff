"""Looking at Xen's domains: what runs, what moves, and how a guest ended that nobody stopped.

A look does not wait for a guest's lock, and clears away only what nobody is busy with. ``driver`` calls.
"""

import logging

from gantry import errors
from gantry.node.hypervisors.xen import domains, guests, migration, records
from gantry.rpc import calls
from gantry.runtime import interface

logger = logging.getLogger(__name__)

# seconds that a guest which reboots may be without a domain
ABSENCE = 60.0


class Sight:
    """The looks at one hypervisor's guests; ``kind`` is its name."""

    def __init__(
        self,
        kind: str,
        clock: interface.Clock,
        *,
        known: records.Records,
        household: guests.Guests,
        ways: migration.Passage,
    ) -> None:
        self._kind = kind
        self._clock = clock
        self._records = known
        self._guests = household
        self._passage = ways
        self._missed: dict[str, float] = {}

    async def describe(self, name: str, found: domains.Domain | None) -> calls.RunningInstance | None:
        """Describe a guest with the domain that was found; clears away what is left of one that ended."""
        record = self._records.get(name)
        if record is None:
            return None
        lock = self._guests.locks[name]
        if not lock.locked() and self._is_over(record, found):
            async with lock:
                await self._bury(name)
            return None
        return calls.RunningInstance(
            name=name,
            uuid=record.instance.uuid,
            hypervisor=self._kind,
            memory=record.memory,
            vcpus=int(record.instance.beparams["vcpus"]),
            state=self._state(record, found),
            hotplug=True,
        )

    def _state(self, record: records.Record, found: domains.Domain | None) -> str:
        if record.incoming:
            return "arrived" if record.arrived else "incoming"
        if record.left:
            return "migrated"
        if self._passage.sends(record.instance.name):
            return "migrating"
        return "paused" if found is not None and found.paused else "running"

    def _is_over(self, record: records.Record, found: domains.Domain | None) -> bool:
        """Tell whether a guest has ended; one that is without a domain only for a while may be rebooting."""
        name = record.instance.name
        if record.incoming and not record.arrived:
            return found is None and not self._passage.receives(name)
        if found is not None and not found.rebooting:
            self._missed.pop(name, None)
            return found.ended
        if found is not None and not self._wants_again(record, found):
            return True
        since = self._missed.setdefault(name, self._clock.monotonic())
        return self._clock.monotonic() - since >= ABSENCE

    def _wants_again(self, record: records.Record, found: domains.Domain) -> bool:
        return found.rebooting and record.instance.hvparams["reboot_behavior"] == "reboot"

    async def _bury(self, name: str) -> None:
        """Clear away a guest that ended by itself, and remember how; build one anew that reboots and is left alone."""
        record, found = await self._guests.look(name)
        if record is None or not self._is_over(record, found):
            return
        await self._guests.end(name)
        self._missed.pop(name, None)
        if found is not None and self._wants_again(record, found):
            # xl watches no domain any more that was saved once, as one is that a migration gave back.
            logger.info("instance %s reboots", name)
            try:
                await self._guests.build(record)
            except errors.GantryError as error:
                await self._note(record, how="unknown", said=error.message)
        elif not record.incoming:
            await self._note(record, how=found.how if found else "unknown")

    async def _note(self, record: records.Record, *, how: str, said: str = "") -> None:
        name, uuid = record.instance.name, record.instance.uuid
        logger.warning("instance %s ended by itself: %s%s", name, how, f": {said}" if said else "")
        await self._records.note(
            calls.Ending(name=name, uuid=uuid, hypervisor=self._kind, how=how, time=self._clock.now(), said=said)
        )
