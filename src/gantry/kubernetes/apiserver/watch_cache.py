"""One collection: its objects as they are, and the last changes of them, which watches resume from.

Who calls it: ``store`` enters what has been stored, ``read`` looks. Objects are kept as the bytes that clients get,
with the few things beside that are looked at in passing.

Invariant: events are in the order of their versions; all after ``floor`` are there, and none before it is promised.
"""

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from gantry.kubernetes.apiserver import status_errors

KEPT = 10_000
"""Events that a collection keeps, if they are not too large; it drops the older ones when it has twice as many."""
ROOM = 64 << 20
"""Bytes of objects in the events that it keeps; it drops the older ones at twice as many."""


class Key(msgspec.Struct, frozen=True, order=True, gc=False):
    """Which object: the title of its collection (``status_errors.title``), namespace and name."""

    title: str
    namespace: str
    name: str


class Item(msgspec.Struct, frozen=True, gc=False):
    """An object of a version; ``owners`` are the UIDs of those that own it, ``body`` is its JSON as stored."""

    key: Key
    version: int
    uid: str
    labels: dict[str, str]
    owners: tuple[str, ...]
    is_deleting: bool
    body: bytes
    finalizers: tuple[str, ...] = ()


Wanted = Callable[[Item], bool]
"""Tells whether an object is one of those asked for."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """A change: what there was before (None: nothing), and the object now, or as it was when it went."""

    old: Item | None
    item: Item
    gone: bool

    def seen(self, wanted: Wanted) -> str:
        """Return what it is to somebody who watches for some objects: ADDED, MODIFIED, DELETED or nothing."""
        before = self.old is not None and wanted(self.old)
        after = not self.gone and wanted(self.item)
        if before and after:
            return "MODIFIED"
        return "ADDED" if after else "DELETED" if before else ""


class Collection:
    """The objects of a kind."""

    def __init__(self) -> None:
        self.floor = 0
        self._items: dict[str, dict[str, Item]] = {}
        self._events: list[Event] = []
        self._bytes = 0
        self._changed = asyncio.Event()

    def get(self, namespace: str, name: str) -> Item | None:
        """Return an object."""
        return self._items.get(namespace, {}).get(name)

    def items(self, namespace: str = "") -> Iterator[Item]:
        """Yield the objects of a namespace, or all."""
        if namespace:
            yield from self._items.get(namespace, {}).values()
        else:
            for inside in self._items.values():
                yield from inside.values()

    def load(self, item: Item) -> None:
        """Take an object that has been there before the first event."""
        self._items.setdefault(item.key.namespace, {})[item.key.name] = item

    def enter(self, item: Item, *, gone: bool) -> Event:
        """Take a change that has been stored; those who wait for one are told by ``wake``."""
        key = item.key
        event = Event(self.get(key.namespace, key.name), item, gone)
        if gone:
            inside = self._items[key.namespace]
            del inside[key.name]
            if not inside:
                del self._items[key.namespace]
        else:
            self.load(item)
        self._events.append(event)
        self._bytes += len(item.body)
        if len(self._events) >= 2 * KEPT or self._bytes >= 2 * ROOM:
            self._shorten()
        return event

    def _shorten(self) -> None:
        """Drop the oldest events, until the rest is within bounds."""
        count = 0
        while len(self._events) - count > KEPT or self._bytes > ROOM:
            self._bytes -= len(self._events[count].item.body)
            count += 1
        self.floor = self._events[count - 1].item.version
        del self._events[:count]

    def since(self, version: int) -> list[Event]:
        """Return the events after a version; StatusError 410 when they are no longer known."""
        if version < self.floor:
            raise status_errors.expired(f"too old resource version: {version} ({self.floor})")
        low, high = 0, len(self._events)
        while low < high:
            middle = (low + high) // 2
            if self._events[middle].item.version <= version:
                low = middle + 1
            else:
                high = middle
        return self._events[low:]

    def wake(self) -> None:
        """Let everybody look who waits for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Return at the next change."""
        await self._changed.wait()
