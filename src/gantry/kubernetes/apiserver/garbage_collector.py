"""What follows a deletion: objects whose owners have gone, what is in a Namespace, Events of an hour ago.

It is told of each stored change and looks at what that concerns, one object after the other; at the start it looks at
all once, so a kill loses nothing. Owners are known by their UID (contract: S7). One of a kind that is not
served here may be somewhere else: it counts as there.

    Background      the owner goes at once, then what it alone owned
    Foreground      first what it owned and what says that it blocks it, then the owner
    Orphan          first it is taken out of their owners, then it goes
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable

from gantry import errors
from gantry.kubernetes.api import schema
from gantry.kubernetes.apiserver import admission, metadata, resources, status_errors, store, watch_cache, write
from gantry.runtime import interface

log = logging.getLogger(__name__)

EVENT_LIFE = 3600.0
"""Seconds that an Event stays after its last change."""

ROUND = 30.0
"""Seconds between two looks at old Events."""

PAUSE = 5.0
"""Seconds of rest after the store has failed."""

_NAMESPACES = resources.NAMESPACES.plural


class Collector:
    """Garbage collection; ``open`` after the store, ``close`` before it."""

    def __init__(
        self, runtime: interface.Runtime, objects: store.Store, writer: write.Writer, rules: admission.Guard
    ) -> None:
        self._clock = runtime.clock
        self._store = objects
        self._writer = writer
        self._rules = rules
        self._there: dict[str, watch_cache.Key] = {}
        self._owned: dict[str, dict[watch_cache.Key, None]] = {}
        self._queue: dict[watch_cache.Key, None] = {}
        self._events: deque[tuple[float, watch_cache.Key, int]] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Look at all that is stored, make the first namespaces, and begin to work."""
        self._store.observer = self._see
        for item in self._store.everything():
            self._take(item)
        self._look(item.key for item in self._store.everything() if item.owners or _waits(item))
        self._task = asyncio.create_task(self._run())
        for name in resources.DEFAULT_NAMESPACES:
            if self._store.get(watch_cache.Key(_NAMESPACES, "", name)) is None:
                target = resources.Target(resources.NAMESPACES, "v1")
                await self._writer.create(target, {"metadata": {"name": name}}, write.Options(manager="gantry"))

    async def close(self) -> None:
        """End."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _take(self, item: watch_cache.Item) -> None:
        self._there[item.uid] = item.key
        for owner in item.owners:
            self._owned.setdefault(owner, {})[item.key] = None
        if item.key.title == resources.EVENTS.plural:
            self._events.append((self._clock.monotonic(), item.key, item.version))
        self._rules.see(item, gone=False)

    def _drop(self, item: watch_cache.Item) -> None:
        for owner in item.owners:
            owned = self._owned.get(owner, {})
            owned.pop(item.key, None)
            if not owned:
                self._owned.pop(owner, None)

    def _see(self, event: watch_cache.Event) -> None:
        """Take notice of a change that has been stored."""
        item = event.item
        if event.old:
            self._drop(event.old)
        if event.gone:
            self._there.pop(item.uid, None)
            self._rules.see(event.old or item, gone=True)
            concerned = [
                *self._owned.get(item.uid, ()),
                *(self._there[one] for one in item.owners if one in self._there),
            ]
            home = self._store.get(watch_cache.Key(_NAMESPACES, "", item.key.namespace))
            self._look(concerned + ([home.key] if home and home.is_deleting else []))
        else:
            self._take(item)
            if _waits(item) or (item.owners and item.owners != (event.old.owners if event.old else ())):
                self._look([item.key])

    def _look(self, keys: Iterable[watch_cache.Key]) -> None:
        self._queue.update(dict.fromkeys(keys))
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._waited()
            try:
                await self._expire()
                while self._queue:
                    await self._consider(next(iter(self._queue)))
            except errors.StorageError as error:
                log.error("what follows a deletion has to wait: %s", error)
                await self._clock.sleep(PAUSE)
                self._wake.set()

    async def _waited(self) -> None:
        """Wait for work, but no longer than to the next look at old Events."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ROUND):
                await self._wake.wait()
        self._wake.clear()

    async def _expire(self) -> None:
        while self._events and self._events[0][0] < self._clock.monotonic() - EVENT_LIFE:
            _, key, version = self._events.popleft()
            item = self._store.tip(key)
            if item and item.version == version:
                await self._writer.vanish(item)

    async def _consider(self, key: watch_cache.Key) -> None:
        """Do what an object's deletion, or that of its owners, asks for; a refusal means that it has changed again."""
        del self._queue[key]
        item = self._store.get(key)
        if item is None:
            return
        try:
            if item.is_deleting:
                await self._finish(item)
            elif not all(self._is_here(item, uid) for uid in item.owners):
                await self._bereave(item)
        except status_errors.StatusError as refusal:
            log.info("%s %s/%s: %s", key.title, key.namespace, key.name, refusal)
        except errors.StorageError:
            self._queue[key] = None
            raise

    def _is_here(self, item: watch_cache.Item, uid: str) -> bool:
        """Tell whether an owner is here, in the same namespace or in none."""
        found = self._there.get(uid)
        return found is not None and found.namespace in ("", item.key.namespace)

    def _may_be_there(self, item: watch_cache.Item, owner: schema.Json) -> bool:
        """Tell whether an owner is here, or of a kind that is not served."""
        uid = str(owner["uid"])
        if uid in self._there:
            return self._is_here(item, uid)
        return not resources.is_served(str(owner["apiVersion"]).rpartition("/")[0], str(owner["kind"]))

    async def _bereave(self, item: watch_cache.Item) -> None:
        """Take the owners away that have gone; the object goes with the last of them."""
        owners = _owners(item)
        gone = [one for one in owners if not self._may_be_there(item, one)]
        if gone == owners:
            await self._delete(item.key)
            return
        for one in gone:
            await self._writer.disown(write.target_of(item.key), str(one["uid"]))

    async def _finish(self, item: watch_cache.Item) -> None:
        """Go on with the deletion of an object that waits for us."""
        finalizers = item.finalizers
        owned = [one for one in list(self._owned.get(item.uid, ())) if self._store.get(one)]
        target = write.target_of(item.key)
        if write.ORPHAN in finalizers:
            await asyncio.gather(*(self._writer.disown(write.target_of(one), item.uid) for one in owned))
            await self._writer.release(target, write.ORPHAN)
        elif write.FOREGROUND in finalizers:
            blocking = [one for one in owned if self._blocks(one, item.uid)]
            await asyncio.gather(*map(self._delete, owned))
            if not blocking:
                await self._writer.release(target, write.FOREGROUND)
        elif item.key.title == _NAMESPACES:
            inside = [one for one in self._store.everything() if one.key.namespace == item.key.name]
            await asyncio.gather(*(self._delete(one.key) for one in inside))
            if not inside and not finalizers:
                await self._writer.vanish(item)

    def _blocks(self, key: watch_cache.Key, owner: str) -> bool:
        item = self._store.get(key)
        return item is not None and any(one["uid"] == owner and one.get("blockOwnerDeletion") for one in _owners(item))

    async def _delete(self, key: watch_cache.Key) -> None:
        item = self._store.get(key)
        if item is None or item.is_deleting:
            return
        how = write.Deletion(preconditions=write.Deletion.Preconditions(uid=item.uid))
        await self._writer.delete(write.target_of(key), how)


def _waits(item: watch_cache.Item) -> bool:
    """Tell whether an object that is being deleted waits for us."""
    ours = item.key.title == _NAMESPACES or not {write.ORPHAN, write.FOREGROUND}.isdisjoint(item.finalizers)
    return item.is_deleting and ours


def _owners(item: watch_cache.Item) -> list[schema.Json]:
    return metadata.owners(metadata.of(resources.value(item.body)))
