"""Read: get, list with pagination, and watch (contracts/kubernetes-api.md#lists, contracts/kubernetes-api.md#watches).

All pages of a list are of the same snapshot. A watch sends every change after a version, in order, or ends with a 410
ERROR event, after which the client lists again. There is no queue for a watch: it reads the events of the watch cache
as fast as its client receives them.
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

MAX_PAGED_LISTS = 64
"""Maximum number of paginated lists that can be continued; beyond it the oldest is dropped."""

CONTINUE_SECONDS = 300.0
"""Seconds for which a continue token is valid."""

BOOKMARK_SECONDS = 60.0
"""Seconds without an event after which a watch gets a bookmark, if it allows them."""

WATCH_SECONDS = 300
"""Minimum default timeout of a watch in seconds; the maximum is twice as much."""

MAX_WATCHES = 1000
"""Maximum concurrent watches; beyond it the server answers 429."""

EXACT = "Exact"
_NUMBER = re.compile("[0-9]{0,18}")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Query parameters of a list or a watch."""

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
    items: list[watch_cache.Item]
    until: float


class Reader:
    """Reads objects of a store."""

    def __init__(self, runtime: interface.Runtime, objects: store.Store) -> None:
        self._clock = runtime.clock
        self._random = runtime.random
        self._store = objects
        self._pages: OrderedDict[str, _Page] = OrderedDict()
        self._watches = 0

    def get_object(self, target: resources.Target) -> watch_cache.Item:
        """Return an object; StatusError 404."""
        item = self._store.get(watch_cache.Key(status_errors.title(target.definition), target.namespace, target.name))
        if item is None:
            raise status_errors.missing(target.definition, target.name)
        return item

    def select(self, target: resources.Target, query: Query) -> list[watch_cache.Item]:
        """Return the objects of a collection that match the selectors, sorted by namespace and name."""
        matches = selectors.predicate(target, query.labels, query.fields)
        collection = self._store.collection(status_errors.title(target.definition))
        return sorted(filter(matches, collection.items(target.namespace)), key=lambda item: item.key)

    def list_objects(self, target: resources.Target, query: Query, view: content_types.View) -> bytes:
        """Return a list, or a page of one; StatusError 400, 410."""
        page = self._continue(query.token) if query.token else self._first_page(target, query)
        metadata: schema.Json = {"resourceVersion": str(page.version)}
        page_items, remaining = page.items, page.items[query.limit :]
        if query.limit and remaining:
            page_items = page.items[: query.limit]
            metadata |= {
                "continue": self._store_page(_Page(page.version, remaining, page.until)),
                "remainingItemCount": len(remaining),
            }
        return view.encode_list(page_items, metadata)

    def _first_page(self, target: resources.Target, query: Query) -> _Page:
        version = parse_number(query.version, "resourceVersion")
        if version > self._store.version or (query.match == EXACT and version != self._store.version):
            raise status_errors.expired(
                f"resource version {version} is not available, current is {self._store.version}"
            )
        return _Page(self._store.version, self.select(target, query), self._clock.monotonic() + CONTINUE_SECONDS)

    def _continue(self, token: str) -> _Page:
        try:
            name = base64.urlsafe_b64decode(token).decode()
        except (binascii.Error, ValueError):
            raise status_errors.bad("continue key is not valid") from None
        self._drop_pages()
        if name not in self._pages:
            raise status_errors.expired("The provided continue parameter is too old. Start a new list without it.")
        return self._pages[name]

    def _store_page(self, page: _Page) -> str:
        name = self._random.uuid()
        self._pages[name] = page
        self._drop_pages()
        return base64.urlsafe_b64encode(name.encode()).decode()

    def _drop_pages(self) -> None:
        """Drop paginated lists that are too many or too old: they keep old objects in memory."""
        now = self._clock.monotonic()
        while self._pages and (len(self._pages) > MAX_PAGED_LISTS or next(iter(self._pages.values())).until < now):
            self._pages.popitem(last=False)

    def watch(self, target: resources.Target, query: Query, view: content_types.View) -> AsyncGenerator[bytes, None]:
        """Return the lines of a watch; StatusError 400 for invalid parameters."""
        matches = selectors.predicate(target, query.labels, query.fields)
        version = parse_number(query.version, "resourceVersion")
        return self._count_watch(self._lines(target, query, view, matches=matches, version=version))

    async def _count_watch(self, lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        if self._watches >= MAX_WATCHES:
            yield _error_line(
                status_errors.StatusError(429, f"too many watches, the maximum is {MAX_WATCHES}; try again later")
            )
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
        matches: watch_cache.Predicate,
        version: int,
    ) -> AsyncGenerator[bytes, None]:
        collection = self._store.collection(status_errors.title(target.definition))
        deadline = self._clock.monotonic() + (query.timeout or WATCH_SECONDS + self._random.below(WATCH_SECONDS))
        if version == 0 or query.initial:
            version = self._store.version
            items = sorted(filter(matches, collection.items(target.namespace)), key=lambda item: item.key)
            yield b"".join(view.encode_event("ADDED", item.body) for item in items)
            if query.initial and query.bookmarks:
                yield view.encode_bookmark(version, initial=True)
        elif version > self._store.version:
            yield _error_line(status_errors.expired(f"too large resource version: {version} ({self._store.version})"))
            return
        while True:
            try:
                events = collection.since(version)
            except status_errors.StatusError as error:
                yield _error_line(error)
                return
            version = events[-1].item.version if events else version
            lines = b"".join(_event_lines(events, matches, view))
            if lines:
                yield lines
                continue
            remaining = deadline - self._clock.monotonic()
            if remaining > 0 and await self._wait(collection, min(remaining, BOOKMARK_SECONDS)):
                continue
            if query.bookmarks:
                # All events of this collection up to the version of the store have been sent.
                version = self._store.version
                yield view.encode_bookmark(version)
            if remaining <= BOOKMARK_SECONDS:
                return

    async def _wait(self, collection: watch_cache.Collection, seconds: float) -> bool:
        """Wait for a change; return whether there was one in time."""
        try:
            async with asyncio.timeout(seconds):
                await collection.changed()
        except TimeoutError:
            return False
        return True


def _event_lines(
    events: Iterable[watch_cache.Event], matches: watch_cache.Predicate, view: content_types.View
) -> Iterable[bytes]:
    for event in events:
        kind = event.event_type(matches)
        if kind:
            yield view.encode_event(kind, event.item.body)


def _error_line(error: status_errors.StatusError) -> bytes:
    return b'{"type":"ERROR","object":%s}\n' % content_types.ENCODE(status_errors.body(error))


def parse_number(text: str, name: str) -> int:
    """Parse a numeric parameter, 0 if empty; StatusError 400."""
    if not _NUMBER.fullmatch(text):
        raise status_errors.bad(f'Invalid value: "{text:.40}": {name} must be a number')
    return int(text or "0")
