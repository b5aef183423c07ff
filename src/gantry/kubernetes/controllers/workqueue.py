"""Queues of keys: each key that was added is worked on, by one worker at a time, and again if it was added meanwhile.

Who calls it: ``controllers``, with pools as keys: one worker for each pool at most. A key that fails is worked on again
after a pause, which grows with its failures.
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


class Queue(Generic[KeyT]):
    """Keys, and when each is due."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self._runtime = runtime
        self._due: dict[KeyT, float] = {}
        # Keys of one moment come in the order they were added: they need not have one of their own.
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
        """Let a key be worked on in so many seconds, or before if it is due before."""
        due = self._runtime.clock.monotonic() + after
        if due < self._due.get(key, due + 1):
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._numbers), key))
            self._changed.set()

    async def run(self, work: Callable[[KeyT], Awaitable[None]], *, workers: int) -> None:
        """Work on keys as they are due, on so many at once, until cancelled; what was under way is due again then."""
        slots = asyncio.Semaphore(workers)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await slots.acquire()
                    key = await self._next()
                    group.create_task(self._one(key, work, slots))
        finally:
            for key in list(self._running):
                self._running.discard(key)
                self.add(key)

    async def _one(self, key: KeyT, work: Callable[[KeyT], Awaitable[None]], slots: asyncio.Semaphore) -> None:
        try:
            await work(key)
            self._failures.pop(key, None)
        except errors.GantryError as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            log.warning("%s: %s", key, error)
            self.add(key, after=rate_limit.pause(self._runtime.random, failures))
        self._running.discard(key)
        self._changed.set()
        slots.release()

    async def _next(self) -> KeyT:
        """Return the next key that is due and not being worked on."""
        while True:
            self._changed.clear()
            key, wait = self._ready()
            if key is not None:
                del self._due[key]
                self._running.add(key)
                return key
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _ready(self) -> tuple[KeyT | None, float | None]:
        """Return a key that can be worked on, or else in how many seconds there is one; None: when one is added."""
        now = self._runtime.clock.monotonic()
        held: list[tuple[float, int, KeyT]] = []
        found: KeyT | None = None
        while self._heap and found is None:
            due, number, key = self._heap[0]
            if self._due.get(key) == due and due > now:
                break
            heapq.heappop(self._heap)
            if self._due.get(key) != due:
                continue
            if key in self._running:
                held.append((due, number, key))
            else:
                found = key
        wait = self._heap[0][0] - now if self._heap else None
        for entry in held:
            heapq.heappush(self._heap, entry)
        return found, wait
