"""The events of the cluster, read from the master once, however many pages follow them.

While somebody follows, one task waits for the master's next events; ``KEPT`` of them stay in memory, encoded, for those
who read slowly or come back after a lost connection. Whoever is further behind, or is ahead of a master that begins
with an earlier serial, gets ``None``: what happened meanwhile is not known, and the present state has to be read again.
"""

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import AsyncGenerator
from typing import NamedTuple

import msgspec

from gantry import errors
from gantry.rpc import luxi
from gantry.runtime import interface

log = logging.getLogger(__name__)

KEPT = 2000
"""How many events are kept in memory."""

WAIT_SECONDS = 60.0
"""How long a request to the master waits for an event."""

RETRY_SECONDS = 1.0
"""The wait until a master that does not answer is asked again."""

AT_ONCE = 1000
"""The events of one answer of the master."""

END = (1 << 63) - 1
"""A serial that no event reaches: the answer has the newest serial, and no events."""


class Event(NamedTuple):
    """An event: its serial, all of it as JSON, and whether it may change what users see (``OF_READING``)."""

    serial: int
    content: bytes
    is_of_reading: bool


OF_READING = frozenset({"cluster", "access", "token"})
"""The kinds of objects on which it depends what a user sees: the setting, and what gives rights."""


class _Kind(msgspec.Struct):
    kind: str


class _Numbered(msgspec.Struct):
    """The part of an event that the feed reads."""

    serial: int
    changes: tuple[_Kind, ...] = ()


class _Answer(msgspec.Struct):
    """The master's answer: the next events, and the newest serial."""

    events: list[msgspec.Raw]
    serial: int


class Feed:
    """The newest events; they are read from the master as long as anybody follows them."""

    def __init__(self, master: luxi.Caller, clock: interface.Clock) -> None:
        self._master = master
        self._clock = clock
        self._newest: deque[Event] = deque(maxlen=KEPT)
        self._serial = 0
        """The serial of the last event that was read; 0 before the first answer."""
        self._news = asyncio.Event()
        self._followers = 0
        self._task: asyncio.Task[None] | None = None

    async def follow(self, after: int | None) -> AsyncGenerator[int | Event | None, None]:
        """Yield the serial from which on the events follow, then each event; None where events are missing.

        They follow the serial ``after``; without it, the last one that was read: with the first of several followers at
        the same time, that is now; after a time without followers, where the last of them left.
        """
        async with self._following():
            while not self._serial:
                await self._news.wait()
            position = self._serial if after is None else after
            yield position
            while True:
                news = self._news
                if not self._has(position):
                    position = self._serial
                    yield None
                first = self._serial - len(self._newest)
                for event in list(itertools.islice(self._newest, max(0, position - first), None)):
                    position = event.serial
                    yield event
                await news.wait()

    def _has(self, serial: int) -> bool:
        """Return whether all events after a serial are in memory."""
        return self._serial - len(self._newest) <= serial <= self._serial

    @contextlib.asynccontextmanager
    async def _following(self) -> AsyncGenerator[None, None]:
        self._followers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._read())
        try:
            yield
        finally:
            self._followers -= 1
            if not self._followers:
                self._task.cancel()
                self._task = None

    async def _read(self) -> None:
        """Read events until nobody follows them; those that happened while nobody did are read if they are few."""
        is_behind, is_pruned = True, False
        # All events, for all followers: ``event_stream`` asks the master which of them a user may see.
        luxi.USER.set(None)
        while True:
            try:
                if is_behind:
                    newest = (await self._master.call(_Answer, "WaitForEvents", END, 1, 0.0)).serial
                    if is_pruned or not 0 <= newest - self._serial <= KEPT:
                        self._begin_at(newest)
                    is_behind = is_pruned = False
                answer = await self._master.call(_Answer, "WaitForEvents", self._serial, AT_ONCE, WAIT_SECONDS)
            except errors.GantryError as error:
                log.info("the events cannot be read: %s", error)
                is_behind, is_pruned = True, isinstance(error, errors.PrunedError)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            if answer.events:
                self._add(answer.events)
            elif answer.serial < self._serial:
                self._begin_at(answer.serial)

    def _begin_at(self, serial: int) -> None:
        """Continue after a serial; the events before it are not known."""
        self._newest.clear()
        self._serial = serial
        self._wake()

    def _add(self, contents: list[msgspec.Raw]) -> None:
        for content in contents:
            event = msgspec.json.decode(content, type=_Numbered)
            self._serial = event.serial
            is_of_reading = any(change.kind in OF_READING for change in event.changes)
            self._newest.append(Event(self._serial, bytes(content), is_of_reading))
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
