"""Watch cache: the current objects of a collection, and its last events, from which watches resume.

``store`` adds durable changes, ``read`` reads them. Objects are kept as the JSON that clients get, with the fields that
are needed without parsing it.

Invariant: events are in the order of their versions; all events after version ``floor`` are present.
"""

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from gantry.kubernetes.apiserver import status_errors

MAX_EVENTS = 10_000
"""Number of events kept, unless they are too large; at twice as many the older ones are dropped."""
MAX_EVENT_BYTES = 64 << 20
"""Bytes of the objects in the events kept; at twice as many the older ones are dropped."""


class Key(msgspec.Struct, frozen=True, order=True, gc=False):
    """Key of an object: the title of its collection (``title`` of ``status_errors``), namespace and name."""

    title: str
    namespace: str
    name: str


class Item(msgspec.Struct, frozen=True, gc=False):
    """A version of an object; ``owners`` are the UIDs of its owners, ``body`` is its stored JSON."""

    key: Key
    version: int
    uid: str
    labels: dict[str, str]
    owners: tuple[str, ...]
    is_deleting: bool
    body: bytes
    finalizers: tuple[str, ...] = ()


Predicate = Callable[[Item], bool]
"""Returns whether an object matches a request."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """A change: the old object (None: created), and the new one, or the last version of a deleted one."""

    old: Item | None
    item: Item
    gone: bool

    def event_type(self, matches: Predicate) -> str:
        """Return the event type for a watch of these objects: ADDED, MODIFIED, DELETED, or empty for no event."""
        before = self.old is not None and matches(self.old)
        after = not self.gone and matches(self.item)
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
        """Return an object, None if it does not exist."""
        return self._items.get(namespace, {}).get(name)

    def items(self, namespace: str = "") -> Iterator[Item]:
        """Yield the objects of a namespace, or all."""
        if namespace:
            yield from self._items.get(namespace, {}).values()
        else:
            for by_name in self._items.values():
                yield from by_name.values()

    def load(self, item: Item) -> None:
        """Add an object from before the first event."""
        self._items.setdefault(item.key.namespace, {})[item.key.name] = item

    def add_event(self, item: Item, *, gone: bool) -> Event:
        """Add a durable change; ``wake`` then wakes the watches."""
        key = item.key
        event = Event(self.get(key.namespace, key.name), item, gone)
        if gone:
            by_name = self._items[key.namespace]
            del by_name[key.name]
            if not by_name:
                del self._items[key.namespace]
        else:
            self.load(item)
        self._events.append(event)
        self._bytes += len(item.body)
        if len(self._events) >= 2 * MAX_EVENTS or self._bytes >= 2 * MAX_EVENT_BYTES:
            self._shorten()
        return event

    def _shorten(self) -> None:
        """Drop the oldest events until the others are within the limits."""
        count = 0
        while len(self._events) - count > MAX_EVENTS or self._bytes > MAX_EVENT_BYTES:
            self._bytes -= len(self._events[count].item.body)
            count += 1
        self.floor = self._events[count - 1].item.version
        del self._events[:count]

    def since(self, version: int) -> list[Event]:
        """Return the events after a version; StatusError 410 if they have been dropped."""
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
        """Wake everything that waits for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Return at the next change."""
        await self._changed.wait()
