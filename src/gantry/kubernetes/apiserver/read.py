"""Reads: one object, lists in pages, and watches (contract: kubernetes 3.4, S12 and S13).

Who calls it: the application. A list is of one moment, and the pages that follow the first are of the same; a watch
tells every change after a version, in order, or that it no longer can (410, as an event), after which a client lists
anew. What waits is the client's connection: nothing is queued for a watch, it reads the collection's own history.
"""

import asyncio
import base64
import binascii
import contextlib
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable

import msgspec

from gantry.kubernetes.api import schema
from gantry.kubernetes.apiserver import content_types, resources, selectors, status_errors, store, watch_cache
from gantry.runtime import interface

PAGES = 64
"""Lists in pages that can be gone on with at the same time; the oldest is forgotten for the next."""

PAGE_LIFE = 300.0
"""Seconds that a list in pages can be gone on with."""

BOOKMARK = 60.0
"""Seconds of silence after which a watch that takes bookmarks gets one."""

WATCH = 300
"""Seconds that a watch lasts which does not say so itself, at least; twice as many at most."""

WATCHES = 1000
"""Watches at the same time; who comes later is told to come again."""

EXACT = "Exact"
_NUMBER = re.compile("[0-9]{0,18}")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What a list or a watch asks for."""

    labels: str = ""
    fields: str = ""
    version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    timeout: int = 0
    bookmarks: bool = False
    initial: bool = False


class _Page(msgspec.Struct, frozen=True):
    version: int
    rest: list[watch_cache.Item]
    until: float


class Reader:
    """Shows objects of a store."""

    def __init__(self, runtime: interface.Runtime, objects: store.Store) -> None:
        self._clock = runtime.clock
        self._random = runtime.random
        self._store = objects
        self._pages: OrderedDict[str, _Page] = OrderedDict()
        self._watches = 0

    def one(self, target: resources.Target) -> watch_cache.Item:
        """Return an object; StatusError 404."""
        found = self._store.get(watch_cache.Key(status_errors.title(target.definition), target.namespace, target.name))
        if found is None:
            raise status_errors.missing(target.definition, target.name)
        return found

    def matching(self, target: resources.Target, query: Query) -> list[watch_cache.Item]:
        """Return the objects of a collection that selectors want, by namespace and name."""
        wanted = selectors.wanted(target, query.labels, query.fields)
        collection = self._store.collection(status_errors.title(target.definition))
        return sorted(filter(wanted, collection.items(target.namespace)), key=lambda one: one.key)

    def many(self, target: resources.Target, query: Query, view: content_types.View) -> bytes:
        """Return a list, or a page of one; StatusError 400, 410."""
        page = self._continued(query.token) if query.token else self._begun(target, query)
        metadata: schema.Json = {"resourceVersion": str(page.version)}
        shown, rest = page.rest, page.rest[query.limit :]
        if query.limit and rest:
            shown = page.rest[: query.limit]
            metadata |= {"continue": self._keep(_Page(page.version, rest, page.until)), "remainingItemCount": len(rest)}
        return view.many(shown, metadata)

    def _begun(self, target: resources.Target, query: Query) -> _Page:
        version = number(query.version, "resourceVersion")
        if version > self._store.version or (query.match == EXACT and version != self._store.version):
            raise status_errors.expired(
                f"the resource version {version} cannot be listed, the last is {self._store.version}"
            )
        return _Page(self._store.version, self.matching(target, query), self._clock.monotonic() + PAGE_LIFE)

    def _continued(self, token: str) -> _Page:
        try:
            name = base64.urlsafe_b64decode(token).decode()
        except (binascii.Error, ValueError):
            raise status_errors.bad("continue key is not valid") from None
        self._forget()
        if name not in self._pages:
            raise status_errors.expired("The provided continue parameter is too old. Start a new list without it.")
        return self._pages[name]

    def _keep(self, page: _Page) -> str:
        name = self._random.uuid()
        self._pages[name] = page
        self._forget()
        return base64.urlsafe_b64encode(name.encode()).decode()

    def _forget(self) -> None:
        """Drop the pages that are too many or too old: they hold objects as they were."""
        now = self._clock.monotonic()
        while self._pages and (len(self._pages) > PAGES or next(iter(self._pages.values())).until < now):
            self._pages.popitem(last=False)

    def watch(self, target: resources.Target, query: Query, view: content_types.View) -> AsyncGenerator[bytes, None]:
        """Return the lines of a watch; StatusError 400 for what cannot be watched at all."""
        wanted = selectors.wanted(target, query.labels, query.fields)
        version = number(query.version, "resourceVersion")
        return self._counted(self._lines(target, query, view, wanted=wanted, version=version))

    async def _counted(self, lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        if self._watches >= WATCHES:
            yield _ended(status_errors.StatusError(429, f"there are {WATCHES} watches already; try again later"))
            return
        self._watches += 1
        try:
            async with contextlib.aclosing(lines):
                async for line in lines:
                    yield line
        finally:
            self._watches -= 1

    async def _lines(
        self,
        target: resources.Target,
        query: Query,
        view: content_types.View,
        *,
        wanted: watch_cache.Wanted,
        version: int,
    ) -> AsyncGenerator[bytes, None]:
        collection = self._store.collection(status_errors.title(target.definition))
        ends = self._clock.monotonic() + (query.timeout or WATCH + self._random.below(WATCH))
        if version == 0 or query.initial:
            version = self._store.version
            listed = sorted(filter(wanted, collection.items(target.namespace)), key=lambda one: one.key)
            yield b"".join(view.event("ADDED", one.body) for one in listed)
            if query.initial and query.bookmarks:
                yield view.bookmark(version, initial=True)
        elif version > self._store.version:
            yield _ended(status_errors.expired(f"too large resource version: {version} ({self._store.version})"))
            return
        while True:
            try:
                events = collection.since(version)
            except status_errors.StatusError as error:
                yield _ended(error)
                return
            version = events[-1].item.version if events else version
            lines = b"".join(_told(events, wanted, view))
            if lines:
                yield lines
                continue
            left = ends - self._clock.monotonic()
            if left > 0 and await self._waited(collection, min(left, BOOKMARK)):
                continue
            if query.bookmarks:
                # All up to the version of the store has been told; of this collection there is nothing newer.
                version = self._store.version
                yield view.bookmark(version)
            if left <= BOOKMARK:
                return

    async def _waited(self, collection: watch_cache.Collection, seconds: float) -> bool:
        """Wait for a change; tell whether there was one in time."""
        try:
            async with asyncio.timeout(seconds):
                await collection.changed()
        except TimeoutError:
            return False
        return True


def _told(events: Iterable[watch_cache.Event], wanted: watch_cache.Wanted, view: content_types.View) -> Iterable[bytes]:
    for event in events:
        kind = event.seen(wanted)
        if kind:
            yield view.event(kind, event.item.body)


def _ended(error: status_errors.StatusError) -> bytes:
    return b'{"type":"ERROR","object":%s}\n' % content_types.ENCODE(status_errors.body(error))


def number(text: str, name: str) -> int:
    """Return a parameter that is a number, 0 if it is empty; StatusError 400."""
    if not _NUMBER.fullmatch(text):
        raise status_errors.bad(f'Invalid value: "{text:.40}": {name} has to be a number')
    return int(text or "0")
