"""How far changes were acknowledged, as far as a node has heard: so that a candidate whose disk went back is found out.

    lib/acknowledged    epoch and serial of the furthest record (``rpc.calls.reach``), and of the furthest of an earlier
                        epoch, on stable storage
    run/acknowledged    the same in memory, so that it outlives a restored disk

Each call of the master tells it (``daemon.server``), to candidates and to all other nodes. What a call says counts at
once; the files follow a moment later, at most once in ``INTERVAL_SECONDS``, so that no call waits for a disk. A node
whose power fails may so have forgotten the last second; it never reports more than was acknowledged.
"""

import asyncio
import logging

from gantry.rpc.calls import reach
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 1.0
"""Least time between two writes."""


class Acknowledged:
    """The furthest acknowledged record that a node has heard of."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths) -> None:
        self._disk = runtime.disk
        self._clock = runtime.clock
        self._folders = folders
        self._furthest: reach.Reach | None = None
        # The furthest of an earlier master: a copy here may end with its records.
        self._former = reach.UNKNOWN
        self._news = asyncio.Event()
        self._failing = False

    def furthest(self) -> reach.Reach:
        """Return epoch and serial; zeros if nothing is known."""
        if self._furthest is None:
            positions, faults = reach.read_all(self._disk, self._folders)
            self._furthest = max(positions, default=reach.UNKNOWN)
            self._former = max((each for each in positions if each[0] < self._furthest[0]), default=reach.UNKNOWN)
            for fault in faults:
                logger.error("%s; this node does not know any more what was acknowledged before", fault)
        return self._furthest

    def note(self, position: reach.Reach) -> None:
        """Take note of a position that the master reports."""
        known = self.furthest()
        if position > known:
            self._former = known if known[0] < position[0] else self._former
            self._furthest = position
            self._news.set()

    def is_any_between(self, after: reach.Reach, until: reach.Reach) -> bool:
        """Return whether a record after one and up to another, of the newest epochs, is known as acknowledged."""
        return any(after < position <= until for position in (self.furthest(), self._former))

    async def keep(self) -> None:
        """Write the files when there is news; runs until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self._write(self.furthest(), self._former)
            await self._clock.sleep(INTERVAL_SECONDS)

    async def _write(self, *positions: reach.Reach) -> None:
        on_disk, in_memory = reach.files(self._folders)
        content = reach.encode(*positions)
        try:
            await self._disk.write(in_memory, content, mode=0o444, sync=False)
            await self._disk.write(on_disk, content, mode=0o444)
            self._failing = False
        except OSError as error:
            self._news.set()
            if not self._failing:
                logger.error("%s cannot be written, will retry: %s", on_disk, error.strerror or error)
            self._failing = True

    async def forget(self) -> None:
        """Remove the files, because the node leaves its cluster."""
        self._furthest = self._former = reach.UNKNOWN
        self._news.clear()
        for path in reach.files(self._folders):
            if self._disk.exists(path):
                await self._disk.remove(path)
