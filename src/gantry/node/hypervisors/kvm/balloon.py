"""Changes the memory of a running guest, by a balloon that the guest's own kernel inflates and deflates.

A guest that has less memory than it uses panics. So the balloon never leaves less than the guest reports as used, plus
a reserve; a guest without such a report keeps at least its ``minmem``. ``driver`` calls it and holds the guest's lock.
"""

from asyncio import timeout

import msgspec

from gantry import errors
from gantry.node.hypervisors.kvm import command_line, guest_records, qmp
from gantry.runtime import interface

STATISTICS_TIMEOUT_SECONDS = 4.0
STALL_TIMEOUT_SECONDS = 10.0
"""A guest whose memory has not changed for this long will not change it."""
POLL_SECONDS = 0.2
MIB = 1 << 20
RESERVE_MIB = 24
"""What a guest keeps beyond its used memory: with less, its kernel kills programs when another starts."""
PATH = f"/machine/peripheral/{command_line.BALLOON}"
UNKNOWN = (1 << 64) - 1
"""QEMU's value of a statistic that the guest does not report."""


class _Size(msgspec.Struct):
    actual: int


class _Numbers(msgspec.Struct):
    available: int = msgspec.field(default=UNKNOWN, name="stat-available-memory")


class _Statistics(msgspec.Struct):
    stats: _Numbers
    updated: int = msgspec.field(default=0, name="last-update")


class Balloon:
    """The balloons of running guests."""

    def __init__(self, runtime: interface.Runtime, guests: guest_records.Guests) -> None:
        self._clock = runtime.clock
        self._guests = guests

    async def size(self, name: str) -> int:
        """Return the present memory of a guest in MiB."""
        async with self._guests.control(name) as control:
            return await _actual(control)

    async def resize(self, name: str, memory: int, *, least: int, most: int) -> int:
        """Set a guest's memory to ``memory`` MiB and return its memory then (``calls.InstanceBalloonMemory``)."""
        if not least <= memory <= most:
            raise errors.InvalidError(
                f"instance {name} can have {least} to {most} MiB while it runs, not {memory}",
                hint="the minimum is minmem, the maximum is maxmem at its start",
            )
        async with self._guests.control(name) as control:
            await self._check_floor(control, name, memory)
            async with timeout(qmp.ANSWER_TIMEOUT_SECONDS):
                await control.execute("balloon", {"value": memory * MIB})
            reached = await self._reached(control, memory)
            if reached != memory:
                async with timeout(qmp.ANSWER_TIMEOUT_SECONDS):
                    await control.execute("balloon", {"value": reached * MIB})
                raise errors.HypervisorError(
                    f"instance {name} has {reached} MiB and did not reach {memory} MiB",
                    hint="its guest needs the virtio balloon driver, and memory that it can release",
                )
        return reached

    async def _check_floor(self, control: qmp.Connection, name: str, memory: int) -> None:
        actual = await _actual(control)
        if memory >= actual:
            return
        available = await self._available(control)
        floor = actual - available + RESERVE_MIB
        if available and memory < floor:
            raise errors.WrongStateError(
                f"instance {name} uses too much memory to be reduced to {memory} MiB",
                hint=f"the minimum is now {floor} MiB",
            )

    async def _available(self, control: qmp.Connection) -> int:
        """Return the memory that the guest could release, in MiB; 0 if the guest does not report it."""
        await _set_interval(control, 1)
        limit = self._clock.monotonic() + STATISTICS_TIMEOUT_SECONDS
        first = (await _statistics(control)).updated
        try:
            while self._clock.monotonic() < limit:
                report = await _statistics(control)
                if report.updated > first and report.stats.available != UNKNOWN:
                    return report.stats.available // MIB
                await self._clock.sleep(POLL_SECONDS)
        finally:
            await _set_interval(control, 0)
        return 0

    async def _reached(self, control: qmp.Connection, memory: int) -> int:
        actual, limit = await _actual(control), self._clock.monotonic() + STALL_TIMEOUT_SECONDS
        while actual != memory and self._clock.monotonic() < limit:
            await self._clock.sleep(POLL_SECONDS)
            before, actual = actual, await _actual(control)
            if before != actual:
                limit = self._clock.monotonic() + STALL_TIMEOUT_SECONDS
        return actual


async def _actual(control: qmp.Connection) -> int:
    async with timeout(qmp.ANSWER_TIMEOUT_SECONDS):
        return msgspec.json.decode(await control.execute("query-balloon"), type=_Size).actual // MIB


async def _statistics(control: qmp.Connection) -> _Statistics:
    async with timeout(qmp.ANSWER_TIMEOUT_SECONDS):
        answer = await control.execute("qom-get", {"path": PATH, "property": "guest-stats"})
    return msgspec.json.decode(answer, type=_Statistics)


async def _set_interval(control: qmp.Connection, seconds: int) -> None:
    async with timeout(qmp.ANSWER_TIMEOUT_SECONDS):
        await control.execute("qom-set", {"path": PATH, "property": "guest-stats-polling-interval", "value": seconds})
