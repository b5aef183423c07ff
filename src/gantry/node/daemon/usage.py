"""What this node and its guests use, read once a minute and kept for a day, for pictures of the last hours.

Who asks gets the newest values at once, whatever the guests are doing. The values of a day are in memory, 56 bytes for
each of them, and in a file from time to time, so that a restart of the daemon loses minutes at most. The cluster's
state does not have them: a node that is lost takes them with it, and an instance that moves begins again elsewhere.
"""

import array
import asyncio
import contextlib
import logging
from collections.abc import Iterator

import msgspec

from gantry import errors
from gantry.node import call_table, drivers
from gantry.rpc import calls
from gantry.runtime import interface

log = logging.getLogger(__name__)

PERIOD_SECONDS = 60.0
DAY = 1440
"""How many values of a name are kept."""
SAVE_EVERY = 10
"""Rounds between two writes of the file."""

PROCESSOR = "/proc/stat"
NETWORK = "/proc/net/dev"
DISKS = "/proc/diskstats"
MEMORY = "/proc/meminfo"
TICKS_PER_SECOND = 100
"""The unit of ``/proc/stat`` on every Linux of this processor (USER_HZ, proc(5))."""
SECTOR_BYTES = 512
_FIELDS = 7


class Recorder:
    """Reads and keeps the values; ``run`` does so until it is canceled."""

    def __init__(self, runtime: interface.Runtime, registry: drivers.Registry, path: str) -> None:
        self._runtime = runtime
        self._registry = registry
        self._path = path
        self._series: dict[str, array.array[float]] = {}
        self._newest: tuple[calls.Usage, ...] = ()

    def add_to(self, table: call_table.Table) -> None:
        """Add the calls about usage."""
        table.add(calls.UsageNow, self._now)
        table.add(calls.UsageHistory, self._history)

    async def run(self) -> None:
        """Read once a minute; what was kept by the daemon before is read first."""
        self._load()
        rounds = 0
        try:
            while True:
                rounds += 1
                try:
                    await self.read()
                    if rounds % SAVE_EVERY == 0:
                        await self._save()
                except Exception:  # a figure in a form of its own, or a full disk, must not end the others for good
                    log.exception("what this node uses could not be read or kept")
                await self._runtime.clock.sleep(PERIOD_SECONDS)
        finally:
            with contextlib.suppress(OSError):
                await asyncio.shield(self._save())

    async def read(self) -> None:
        """Read the present values of the node and all guests."""
        now, values = self._runtime.clock.now(), [self._node()]
        for name, hypervisor in self._registry.hypervisors.items():
            try:
                values += await hypervisor.usage()
            except (errors.GantryError, OSError) as error:
                log.debug("the guests of %s cannot be measured: %s", name, error)
        self._newest = tuple(msgspec.structs.replace(usage, time=now) for usage in values)
        for usage in self._newest:
            series = self._series.setdefault(usage.name, array.array("d"))
            series.extend(msgspec.structs.astuple(usage)[1:])
            del series[: -DAY * _FIELDS]
        self._forget(now - DAY * PERIOD_SECONDS)

    def _forget(self, before: float) -> None:
        """Forget what has not been here for a day."""
        for name, series in list(self._series.items()):
            if series[-_FIELDS] < before:
                del self._series[name]

    async def _now(self, call: calls.UsageNow) -> tuple[calls.Usage, ...]:
        return self._newest

    async def _history(self, call: calls.UsageHistory) -> tuple[calls.Usage, ...]:
        return tuple(usage for usage in self._values(call.name) if usage.time > call.since)

    def _values(self, name: str) -> Iterator[calls.Usage]:
        series = self._series.get(name, array.array("d"))
        for start in range(0, len(series), _FIELDS):
            time, processor, *amounts = series[start : start + _FIELDS]
            yield calls.Usage(name, time, processor, *map(int, amounts))

    def _load(self) -> None:
        try:
            stored = msgspec.msgpack.decode(self._runtime.disk.read(self._path), type=dict[str, bytes])
        except (OSError, msgspec.DecodeError):
            return
        for name, content in stored.items():
            if content and len(content) % (8 * _FIELDS) == 0:
                self._series[name] = array.array("d", content)

    async def _save(self) -> None:
        content = msgspec.msgpack.encode({name: series.tobytes() for name, series in self._series.items()})
        await self._runtime.disk.write(self._path, content, sync=False)

    def _node(self) -> calls.Usage:
        """Return the values of the machine; 0 for what its kernel does not say."""
        received, sent = self._traffic()
        read, written = self._storage()
        return calls.Usage(
            name=calls.OF_NODE,
            processor=self._busy(),
            memory=self._memory(),
            read=read,
            written=written,
            received=received,
            sent=sent,
        )

    def _lines(self, path: str) -> list[list[str]]:
        disk = self._runtime.disk
        return [line.split() for line in disk.read(path).decode().splitlines()] if disk.exists(path) else []

    def _busy(self) -> float:
        """Return the seconds in which a processor was not idle, of all processors; guests count once, as user time."""
        for word, *ticks in self._lines(PROCESSOR):
            if word == "cpu":
                user, nice, system, _idle, _waiting, irq, softirq, *_ = map(int, ticks)
                return (user + nice + system + irq + softirq) / TICKS_PER_SECOND
        return 0.0

    def _memory(self) -> int:
        amounts = {words[0]: int(words[1]) * 1024 for words in self._lines(MEMORY) if len(words) > 1}
        return amounts.get("MemTotal:", 0) - amounts.get("MemAvailable:", 0)

    def _traffic(self) -> tuple[int, int]:
        """Return the bytes of the physical interfaces; those of bridges and taps would count a second time."""
        received = sent = 0
        for name, *counters in self._lines(NETWORK)[2:]:
            interface_name = name.rstrip(":")
            if self._runtime.disk.exists(f"/sys/class/net/{interface_name}/device"):
                received, sent = received + int(counters[0]), sent + int(counters[8])
        return received, sent

    def _storage(self) -> tuple[int, int]:
        """Return the bytes of whole physical disks; partitions and volumes on them would count a second time."""
        read = written = 0
        for words in self._lines(DISKS):
            if self._runtime.disk.exists(f"/sys/block/{words[2]}/device"):
                read, written = read + int(words[5]) * SECTOR_BYTES, written + int(words[9]) * SECTOR_BYTES
        return read, written
