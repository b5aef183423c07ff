"""What the running guests of ``kvm`` use: processor time and memory of QEMU, disks as the guest sees them, taps.

A guest whose lock is held, because something is being done to it, has no values this time: QEMU serves one client at a
time, and must not be kept from its work. Nor has a guest whose QEMU does not answer: counters that were 0 for a moment
would seem to have begun again.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.node.hypervisors.kvm import guest_records
from gantry.rpc import calls
from gantry.runtime import interface

ANSWER_SECONDS = 2.0
"""How long a busy QEMU may take to answer."""
TICKS_PER_SECOND = 100
PAGE_BYTES = 4096
"""The units of ``/proc`` (proc(5)): USER_HZ, and the pages of this processor."""
USER, SYSTEM = 11, 12
"""Positions of the two processor times in ``/proc/PID/stat`` after the program's name, which ends with ``)``."""
RESIDENT = 1
"""Position of the resident pages in ``/proc/PID/statm``."""
NETWORK = "/sys/class/net"


class _Counters(msgspec.Struct):
    read: int = msgspec.field(default=0, name="rd_bytes")
    written: int = msgspec.field(default=0, name="wr_bytes")


class _Device(msgspec.Struct):
    """A device of the guest; those without a name in the machine are QEMU's own."""

    qdev: str = ""
    stats: _Counters = msgspec.field(default_factory=_Counters)


class Meter:
    """Reads what guests use."""

    def __init__(self, runtime: interface.Runtime, guests: guest_records.Guests) -> None:
        self._runtime = runtime
        self._guests = guests

    async def read(self, locks: Mapping[str, asyncio.Lock]) -> tuple[calls.Usage, ...]:
        """Return the usage of the running guests, without those that are locked."""
        names = [name for name in self._guests.names() if not (name in locks and locks[name].locked())]
        usages = await asyncio.gather(*map(self._of, names))
        return tuple(usage for usage in usages if usage)

    async def _of(self, name: str) -> calls.Usage | None:
        record, pid = self._guests.record(name), self._guests.pid(name)
        if record is None or pid is None or record.incoming:
            return None
        try:
            processor, memory = self._process(pid)
            disks = await self._disks(name)
        except (OSError, errors.GantryError, msgspec.DecodeError):
            return None  # it has just ended, or its QEMU is busy; a TimeoutError is an OSError too
        taps = [nic.interface for nic in record.nics]
        return calls.Usage(
            name=name,
            processor=processor,
            memory=memory,
            read=sum(each.stats.read for each in disks),
            written=sum(each.stats.written for each in disks),
            # What the tap sends, the guest receives.
            received=sum(self._statistic(tap, "tx_bytes") for tap in taps),
            sent=sum(self._statistic(tap, "rx_bytes") for tap in taps),
        )

    def _process(self, pid: int) -> tuple[float, int]:
        disk = self._runtime.disk
        times = disk.read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        pages = disk.read(f"/proc/{pid}/statm").split()
        return (int(times[USER]) + int(times[SYSTEM])) / TICKS_PER_SECOND, int(pages[RESIDENT]) * PAGE_BYTES

    async def _disks(self, name: str) -> list[_Device]:
        async with asyncio.timeout(ANSWER_SECONDS), self._guests.control(name) as control:
            answer = await control.execute("query-blockstats")
        devices = msgspec.json.decode(answer, type=list[_Device])
        return [device for device in devices if device.qdev]

    def _statistic(self, tap: str, name: str) -> int:
        try:
            return int(self._runtime.disk.read(f"{NETWORK}/{tap}/statistics/{name}"))
        except (OSError, ValueError):
            return 0
