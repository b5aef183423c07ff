"""Garbage collector: deletes dependents of deleted owners, the content of deleted Namespaces, and old Events.

It observes each stored change and processes the affected objects one by one; at the start it checks all objects once,
so a crash loses no work. Owners are identified by UID (contracts/kubernetes-api.md#deletion). An owner of a kind that
is not served here may exist elsewhere and counts as existing.

    Background      delete the owner at once, then dependents without other owners
    Foreground      delete the dependents, wait for those with blockOwnerDeletion, then delete the owner
    Orphan          remove the owner reference from the dependents, then delete the owner
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

EVENT_SECONDS = 3600.0
"""Seconds that an Event stays after its last change."""

CHECK_SECONDS = 30.0
"""Seconds between two checks for old Events."""

RETRY_SECONDS = 5.0
"""Seconds to wait before a retry after the store has failed."""

_NAMESPACES = resources.NAMESPACES.plural


class GarbageCollector:
    """Garbage collection; ``open`` after the store, ``close`` before it."""

    def __init__(
        self, runtime: interface.Runtime, objects: store.Store, writer: write.Writer, rules: admission.Admission
    ) -> None:
        self._clock = runtime.clock
        self._store = objects
        self._writer = writer
        self._rules = rules
        self._key_by_uid: dict[str, watch_cache.Key] = {}
        self._dependents: dict[str, dict[watch_cache.Key, None]] = {}
        self._queue: dict[watch_cache.Key, None] = {}
        self._events: deque[tuple[float, watch_cache.Key, int]] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Check all stored objects, create the default namespaces, and start."""
        self._store.observer = self._observe
        for item in self._store.all_items():
            self._add_item(item)
        self._enqueue(item.key for item in self._store.all_items() if item.owners or _awaits_collector(item))
        self._task = asyncio.create_task(self._run())
        for name in resources.DEFAULT_NAMESPACES:
            if self._store.get(watch_cache.Key(_NAMESPACES, "", name)) is None:
                target = resources.Target(resources.NAMESPACES, "v1")
                await self._writer.create(target, {"metadata": {"name": name}}, write.Options(manager="gantry"))

    async def close(self) -> None:
        """Stop."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _add_item(self, item: watch_cache.Item) -> None:
        self._key_by_uid[item.uid] = item.key
        for owner in item.owners:
            self._dependents.setdefault(owner, {})[item.key] = None
        if item.key.title == resources.EVENTS.plural:
            self._events.append((self._clock.monotonic(), item.key, item.version))
        self._rules.update(item, gone=False)

    def _remove_item(self, item: watch_cache.Item) -> None:
        for owner in item.owners:
            owned = self._dependents.get(owner, {})
            owned.pop(item.key, None)
            if not owned:
                self._dependents.pop(owner, None)

    def _observe(self, event: watch_cache.Event) -> None:
        """Observe a stored change."""
        item = event.item
        if event.old:
            self._remove_item(event.old)
        if event.gone:
            self._key_by_uid.pop(item.uid, None)
            self._rules.update(event.old or item, gone=True)
            affected = [
                *self._dependents.get(item.uid, ()),
                *(self._key_by_uid[owner] for owner in item.owners if owner in self._key_by_uid),
            ]
            namespace = self._store.get(watch_cache.Key(_NAMESPACES, "", item.key.namespace))
            self._enqueue(affected + ([namespace.key] if namespace and namespace.is_deleting else []))
        else:
            self._add_item(item)
            if _awaits_collector(item) or (item.owners and item.owners != (event.old.owners if event.old else ())):
                self._enqueue([item.key])

    def _enqueue(self, keys: Iterable[watch_cache.Key]) -> None:
        self._queue.update(dict.fromkeys(keys))
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wait()
            try:
                await self._expire()
                while self._queue:
                    await self._process(next(iter(self._queue)))
            except errors.StorageError as error:
                log.error("garbage collection failed, will retry: %s", error)
                await self._clock.sleep(RETRY_SECONDS)
                self._wake.set()

    async def _wait(self) -> None:
        """Wait for work, at most until the next check for old Events."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CHECK_SECONDS):
                await self._wake.wait()
        self._wake.clear()

    async def _expire(self) -> None:
        while self._events and self._events[0][0] < self._clock.monotonic() - EVENT_SECONDS:
            _, key, version = self._events.popleft()
            item = self._store.current(key)
            if item and item.version == version:
                await self._writer.remove(item)

    async def _process(self, key: watch_cache.Key) -> None:
        """Process an object that is being deleted or has lost an owner; ignore StatusError, it has changed again."""
        del self._queue[key]
        item = self._store.get(key)
        if item is None:
            return
        try:
            if item.is_deleting:
                await self._continue_deletion(item)
            elif not all(self._owner_exists(item, uid) for uid in item.owners):
                await self._remove_missing_owners(item)
        except status_errors.StatusError as refusal:
            log.info("%s %s/%s: %s", key.title, key.namespace, key.name, refusal)
        except errors.StorageError:
            self._queue[key] = None
            raise

    def _owner_exists(self, item: watch_cache.Item, uid: str) -> bool:
        """Return whether an owner exists, in the namespace of the object or cluster-scoped."""
        key = self._key_by_uid.get(uid)
        return key is not None and key.namespace in ("", item.key.namespace)

    def _owner_may_exist(self, item: watch_cache.Item, owner: schema.Json) -> bool:
        """Return whether an owner exists, or is of a kind that is not served."""
        uid = str(owner["uid"])
        if uid in self._key_by_uid:
            return self._owner_exists(item, uid)
        return not resources.is_served(str(owner["apiVersion"]).rpartition("/")[0], str(owner["kind"]))

    async def _remove_missing_owners(self, item: watch_cache.Item) -> None:
        """Remove the references to owners that are gone; delete the object if no other owner is left."""
        owners = _owners(item)
        missing = [owner for owner in owners if not self._owner_may_exist(item, owner)]
        if missing == owners:
            await self._delete(item.key)
            return
        for owner in missing:
            await self._writer.remove_owner(write.target_of(item.key), str(owner["uid"]))

    async def _continue_deletion(self, item: watch_cache.Item) -> None:
        """Continue the deletion of an object that waits for the garbage collector."""
        finalizers = item.finalizers
        dependents = [key for key in list(self._dependents.get(item.uid, ())) if self._store.get(key)]
        target = write.target_of(item.key)
        if write.ORPHAN in finalizers:
            await asyncio.gather(*(self._writer.remove_owner(write.target_of(key), item.uid) for key in dependents))
            await self._writer.remove_finalizer(target, write.ORPHAN)
        elif write.FOREGROUND in finalizers:
            blocking = [key for key in dependents if self._blocks(key, item.uid)]
            await asyncio.gather(*map(self._delete, dependents))
            if not blocking:
                await self._writer.remove_finalizer(target, write.FOREGROUND)
        elif item.key.title == _NAMESPACES:
            content = [entry for entry in self._store.all_items() if entry.key.namespace == item.key.name]
            await asyncio.gather(*(self._delete(entry.key) for entry in content))
            if not content and not finalizers:
                await self._writer.remove(item)

    def _blocks(self, key: watch_cache.Key, owner: str) -> bool:
        item = self._store.get(key)
        return item is not None and any(ref["uid"] == owner and ref.get("blockOwnerDeletion") for ref in _owners(item))

    async def _delete(self, key: watch_cache.Key) -> None:
        item = self._store.get(key)
        if item is None or item.is_deleting:
            return
        options = write.Deletion(preconditions=write.Deletion.Preconditions(uid=item.uid))
        await self._writer.delete(write.target_of(key), options)


def _awaits_collector(item: watch_cache.Item) -> bool:
    """Return whether the deletion of an object waits for the garbage collector."""
    is_ours = item.key.title == _NAMESPACES or not {write.ORPHAN, write.FOREGROUND}.isdisjoint(item.finalizers)
    return item.is_deleting and is_ours


def _owners(item: watch_cache.Item) -> list[schema.Json]:
    return metadata.owners(metadata.of(resources.value(item.body)))
