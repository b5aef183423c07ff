"""Work queue: processes each key by one worker at a time, and again if it was added meanwhile.

The controllers use it, as Kubernetes controllers use client-go's. A key whose work fails is requeued with exponential
back-off.
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from gantry import errors
from gantry.kubernetes.controllers import rate_limit
from gantry.runtime import interface

log = logging.getLogger(__name__)


KeyT = TypeVar("KeyT", bound=Hashable)


class WorkQueue(Generic[KeyT]):
    """Keys with their due times."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self._runtime = runtime
        self._due: dict[KeyT, float] = {}
        # Keys of the same time are in the order they were added; keys need not be comparable.
        self._heap: list[tuple[float, int, KeyT]] = []
        self._numbers = itertools.count()
        self._running: set[KeyT] = set()
        self._failures: dict[KeyT, int] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._due

    def add(self, key: KeyT, *, after: float = 0.0) -> None:
        """Queue a key after a delay in seconds, unless it is due earlier."""
        due = self._runtime.clock.monotonic() + after
        if due < self._due.get(key, due + 1):
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._numbers), key))
            self._changed.set()

    async def run(self, work: Callable[[KeyT], Awaitable[None]], *, workers: int) -> None:
        """Process due keys, ``workers`` at a time, until cancelled; then the keys in progress are queued again."""
        slots = asyncio.Semaphore(workers)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await slots.acquire()
                    key = await self._next()
                    group.create_task(self._process(key, work, slots))
        finally:
            for key in list(self._running):
                self._running.discard(key)
                self.add(key)

    async def _process(self, key: KeyT, work: Callable[[KeyT], Awaitable[None]], slots: asyncio.Semaphore) -> None:
        try:
            await work(key)
            self._failures.pop(key, None)
        except errors.GantryError as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            log.warning("%s: %s; will retry", key, error)
            self.add(key, after=rate_limit.back_off(self._runtime.random, failures))
        self._running.discard(key)
        self._changed.set()
        slots.release()

    async def _next(self) -> KeyT:
        """Return the next key that is due and not in progress."""
        while True:
            self._changed.clear()
            key, wait = self._next_due()
            if key is not None:
                del self._due[key]
                self._running.add(key)
                return key
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _next_due(self) -> tuple[KeyT | None, float | None]:
        """Return a due key, or else the seconds until one is due; None if only ``add`` can change that."""
        now = self._runtime.clock.monotonic()
        skipped: list[tuple[float, int, KeyT]] = []
        ready: KeyT | None = None
        while self._heap and ready is None:
            due, number, key = self._heap[0]
            if self._due.get(key) == due and due > now:
                break
            heapq.heappop(self._heap)
            if self._due.get(key) != due:
                continue
            if key in self._running:
                skipped.append((due, number, key))
            else:
                ready = key
        wait = self._heap[0][0] - now if self._heap else None
        for entry in skipped:
            heapq.heappush(self._heap, entry)
        return ready, wait
