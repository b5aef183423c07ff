"""The memory of a running guest, taken away and given back by a balloon that its own kernel inflates.

A guest that is left with less than it uses panics. So nobody goes below what the guest says it uses, with a reserve,
and a guest that says nothing keeps at least its ``minmem``. ``kvm`` calls, holding the guest's lock.
"""

from asyncio import timeout

import msgspec

from gantry import errors
from gantry.node.hypervisors.kvm import command_line, guest_records, qmp
from gantry.runtime import interface

STATISTICS_LIMIT = 4.0
# A guest that has not moved for this long will not.
PATIENCE = 10.0
POLL = 0.2
MIB = 1 << 20
# MiB that a guest keeps beyond what it uses: a kernel that has less kills programs when it starts one.
RESERVE = 24
PATH = f"/machine/peripheral/{command_line.BALLOON}"
# What QEMU says for a number that the guest has not told.
UNKNOWN = (1 << 64) - 1


class _Size(msgspec.Struct):
    actual: int


class _Numbers(msgspec.Struct):
    available: int = msgspec.field(default=UNKNOWN, name="stat-available-memory")


class _Statistics(msgspec.Struct):
    stats: _Numbers
    updated: int = msgspec.field(default=0, name="last-update")


class Balloon:
    """Commands to running guests."""

    def __init__(self, runtime: interface.Runtime, known: guest_records.Guests) -> None:
        self._clock = runtime.clock
        self._guests = known

    async def size(self, name: str) -> int:
        """Return what a guest has now, in MiB."""
        async with self._guests.control(name) as control:
            return await _actual(control)

    async def resize(self, name: str, memory: int, *, least: int, most: int) -> int:
        """Let a guest have ``memory`` MiB and return what it has then (``calls.InstanceBalloonMemory``)."""
        if not least <= memory <= most:
            raise errors.InvalidError(
                f"instance {name} can have {least} to {most} MiB while it runs, not {memory}",
                hint="minmem is the least, what it was started with (maxmem) the most",
            )
        async with self._guests.control(name) as control:
            await self._check_floor(control, name, memory)
            async with timeout(qmp.ANSWER_LIMIT):
                await control.execute("balloon", {"value": memory * MIB})
            reached = await self._reached(control, memory)
            if reached != memory:
                async with timeout(qmp.ANSWER_LIMIT):
                    await control.execute("balloon", {"value": reached * MIB})
                raise errors.HypervisorError(
                    f"instance {name} has {reached} MiB, and did not come to {memory} MiB",
                    hint="its guest needs the virtio balloon driver, and memory that it can give back",
                )
        return reached

    async def _check_floor(self, control: qmp.Connection, name: str, memory: int) -> None:
        actual = await _actual(control)
        if memory >= actual:
            return
        available = await self._available(control)
        floor = actual - available + RESERVE
        if available and memory < floor:
            raise errors.WrongStateError(
                f"instance {name} uses too much memory to be left with {memory} MiB",
                hint=f"{floor} MiB is the least now",
            )

    async def _available(self, control: qmp.Connection) -> int:
        """Return what the guest could give back, in MiB; 0 when it does not tell."""
        await _set_interval(control, 1)
        limit = self._clock.monotonic() + STATISTICS_LIMIT
        first = (await _statistics(control)).updated
        try:
            while self._clock.monotonic() < limit:
                told = await _statistics(control)
                if told.updated > first and told.stats.available != UNKNOWN:
                    return told.stats.available // MIB
                await self._clock.sleep(POLL)
        finally:
            await _set_interval(control, 0)
        return 0

    async def _reached(self, control: qmp.Connection, memory: int) -> int:
        actual, limit = await _actual(control), self._clock.monotonic() + PATIENCE
        while actual != memory and self._clock.monotonic() < limit:
            await self._clock.sleep(POLL)
            before, actual = actual, await _actual(control)
            if before != actual:
                limit = self._clock.monotonic() + PATIENCE
        return actual


async def _actual(control: qmp.Connection) -> int:
    async with timeout(qmp.ANSWER_LIMIT):
        return msgspec.json.decode(await control.execute("query-balloon"), type=_Size).actual // MIB


async def _statistics(control: qmp.Connection) -> _Statistics:
    async with timeout(qmp.ANSWER_LIMIT):
        told = await control.execute("qom-get", {"path": PATH, "property": "guest-stats"})
    return msgspec.json.decode(told, type=_Statistics)


async def _set_interval(control: qmp.Connection, seconds: int) -> None:
    async with timeout(qmp.ANSWER_LIMIT):
        await control.execute("qom-set", {"path": PATH, "property": "guest-stats-polling-interval", "value": seconds})
