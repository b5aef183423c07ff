"""Reflector: lists and watches the objects of one kind, and passes them to a listener.

``controllers`` runs one for each kind. ::

    list (in pages) --> watch from its version --> end: watch from the last version
         ^                      |
         +---- 410: too old ----+        silence, failures: back off, then from the last version

An optional kind that the server does not have counts as listed, and is looked up again every minute. Known objects are
not dropped after a single 404, because a server that has just started does not have all kinds yet.

Invariant: after ``synced``, the listener has the server's objects, possibly slightly stale.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Protocol
from urllib import parse

import msgspec

from gantry import errors
from gantry.kubernetes.api import definitions, meta
from gantry.kubernetes.controllers import client, metrics, rate_limit
from gantry.runtime import interface

log = logging.getLogger(__name__)

PAGE_SIZE = 500
SILENCE_SECONDS = 100.0
"""Seconds without data after which a watch is restarted; servers send a bookmark every minute."""
WATCH_SECONDS = 300
"""Minimum seconds requested as timeout of a watch; up to twice as many, at random."""
VERSION_TOO_LARGE = 504
"""Status of a server that does not have our version yet, and never will if it was restored from a backup."""
MISSING_SECONDS = 60.0
"""Seconds until a missing kind is looked up again, and until the objects of a kind that disappeared are dropped."""


class Listener(Protocol):
    """Receives the objects."""

    def on_update(self, resource: meta.Resource) -> None:
        """Handle the current state of an object."""
        ...

    def on_delete(self, ref: meta.Ref) -> None:
        """Handle the deletion of an object."""
        ...

    def knows(self, ref: meta.Ref, version: str) -> bool:
        """Return whether an object is known in this version or a newer one."""
        ...

    def requeue(self, pools: set[meta.Ref]) -> None:
        """Queue pools that have work."""
        ...


class Scope(msgspec.Struct, frozen=True):
    """Which objects are watched: of one namespace or all; pools and claims only with a label, if one is set.

    The label is ``cluster.x-k8s.io/watch-filter``, as of all Cluster API providers.
    """

    namespace: str = ""
    watch_filter: str = ""

    def filters(self, kind: str) -> bool:
        """Return whether objects of a kind need the label; addresses do not, or they would be allocated twice."""
        return bool(self.watch_filter) and kind in ("IPPool", "IPClaim", "IPAddressClaim")

    def wants(self, resource: meta.Resource) -> bool:
        """Return whether an object is in scope."""
        labels = resource.metadata.labels
        return not self.filters(resource.kind) or labels.get(meta.WATCH_LABEL) == self.watch_filter


class _List(msgspec.Struct, frozen=True):
    class Meta(msgspec.Struct, frozen=True, rename="camel"):
        """Metadata of a list; ``continue`` is the token of the next page."""

        resource_version: str = ""
        further: str = msgspec.field(default="", name="continue")

    metadata: Meta = Meta()
    items: list[msgspec.Raw] | None = None


class _Group(msgspec.Struct, frozen=True):
    class Version(msgspec.Struct, frozen=True):
        """A version that a group is served in."""

        version: str = ""

    versions: tuple[Version, ...] = ()


class Reflector:
    """Reflector of one kind; ``synced`` is set after the first list, ``version`` is the API version it reads."""

    def __init__(
        self,
        runtime: interface.Runtime,
        server: client.Client,
        definition: definitions.Definition,
        *,
        scope: Scope,
        listener: Listener,
        counts: metrics.Metrics,
    ) -> None:
        self._runtime = runtime
        self._server = server
        self._definition = definition
        self._scope = scope
        self._listener = listener
        self._counts = counts
        self._refs: set[meta.Ref] = set()
        self._version_seen = ""
        self._is_listed = False
        self._missing_since: float | None = None
        self._failures = 0
        self.version = definition.versions[0]
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if not self._is_listed:
                    await self._list()
                await self._watch()
                continue
            except client.RefusedError as error:
                await self._handle_refusal(error)
            except client.UnknownError as error:
                log.info("watching %s: %s", self._definition.plural, error)
                await self._back_off()

    async def _handle_refusal(self, error: client.RefusedError) -> None:
        """Handle an error answer: list again if our version is too old."""
        name = self._definition.plural
        if error.http_status == 404:
            await self._handle_missing()
            return
        level = logging.INFO if error.http_status == 410 or error.http_status >= 429 else logging.WARNING
        log.log(level, "watching %s: %s", name, error)
        if error.http_status < 429 or error.http_status == VERSION_TOO_LARGE:
            self._is_listed = False
        await self._back_off(error.retry_after)

    async def _back_off(self, least: float = 0.0) -> None:
        self._failures += 1
        await self._runtime.clock.sleep(max(least, rate_limit.back_off(self._runtime.random, self._failures)))

    async def _handle_missing(self) -> None:
        now = self._runtime.clock.monotonic()
        self._is_listed = False
        if self._missing_since is None:
            self._missing_since = now
        if self._definition.is_ours:
            if not self._failures:
                log.error("the API server has no %s: install the custom resource definitions", self._definition.plural)
            await self._back_off()
            return
        if self._refs and now - self._missing_since < MISSING_SECONDS:
            await self._back_off()
            return
        self._replace(set())
        self.synced.set()
        await self._runtime.clock.sleep(MISSING_SECONDS)

    async def _list(self) -> None:
        self.version = await self._choose_version()
        self._counts.count("gantry_kube_lists_total", kind=self._kind)
        query, refs = {"limit": str(PAGE_SIZE)}, set[meta.Ref]()
        while True:
            page = client.decode(await self._server.exchange("GET", self._path(query)), _List)
            is_older = _version_number(page.metadata.resource_version) < _version_number(self._version_seen)
            for body in page.items or ():
                if item := self._read(bytes(body)):
                    if is_older:
                        # The server was restored from a backup, so newer versions that we have seen no longer exist.
                        self._listener.on_delete(item.ref)
                    refs.add(item.ref)
                    self._listener.on_update(item)
                else:
                    refs |= self._known_ref(bytes(body))
            if not page.metadata.further:
                break
            query["continue"] = page.metadata.further
        self._replace(refs)
        self._version_seen, self._is_listed = page.metadata.resource_version, True
        self._failures, self._missing_since = 0, None
        if not self.synced.is_set():
            log.info("%s: %d listed", self._definition.plural, len(refs))
            self.synced.set()

    async def _watch(self) -> None:
        self._counts.count("gantry_kube_watches_total", kind=self._kind)
        time = WATCH_SECONDS + self._runtime.random.below(WATCH_SECONDS)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version_seen,
            "timeoutSeconds": str(time),
        }
        started = self._runtime.clock.monotonic()
        async with contextlib.aclosing(self._server.watch(self._path(query), silence=SILENCE_SECONDS)) as events:
            async for event in events:
                self._failures = 0
                self._handle_event(event)
        if self._runtime.clock.monotonic() - started < 1:
            # Back off from a server that ends each watch at once.
            await self._back_off()

    def _handle_event(self, event: client.Event) -> None:
        """Pass an event on, unless the answer to our own request has already shown it."""
        head = client.head(event.body)
        self._version_seen = head.resource_version or self._version_seen
        if event.type == "BOOKMARK":
            return
        count = len(self._refs)
        ref = meta.Ref(self._definition.group, self._definition.kind, head.namespace, head.name)
        if event.type == "DELETED":
            self._refs.discard(ref)
            self._listener.on_delete(ref)
        elif self._listener.knows(ref, head.resource_version):
            self._refs.add(ref)
        elif current := self._read(bytes(event.body)):
            self._refs.add(ref)
            self._listener.on_update(current)
        if len(self._refs) != count:
            self._counts.set("gantry_kube_objects", len(self._refs), kind=self._kind)

    def _replace(self, refs: set[meta.Ref]) -> None:
        """Replace the set of known objects after a list."""
        for ref in self._refs - refs:
            self._listener.on_delete(ref)
        self._refs = refs
        self._counts.set("gantry_kube_objects", len(refs), kind=self._kind)

    def _read(self, body: bytes) -> meta.Resource | None:
        """Decode an object, None if it cannot be read; list items may lack ``apiVersion`` and ``kind``."""
        try:
            item = meta.decode(body, self._definition.resource)
            if item.kind:
                return item
            return msgspec.structs.replace(item, api_version=self._api_version, kind=self._definition.kind)
        except errors.InvalidError as error:
            log.warning("ignoring unreadable object of %s: %s", self._definition.plural, error)
            self._counts.count("gantry_kube_unreadable_total", kind=self._kind)
            return None

    def _known_ref(self, body: bytes) -> set[meta.Ref]:
        """Return an unreadable object if it is known: an address remains in use while its object exists."""
        try:
            head = meta.decode(body, meta.Resource).metadata
        except errors.InvalidError:
            return set()
        ref = meta.Ref(self._definition.group, self._definition.kind, head.namespace, head.name)
        return {ref} & self._refs

    async def _choose_version(self) -> str:
        """Return the first API version that we support and the server serves."""
        group = self._definition.group
        group_versions = client.convert(await self._server.get(f"/apis/{group}"), _Group)
        offered = {item.version for item in group_versions.versions}
        version = next((item for item in self._definition.versions if item in offered), None)
        if version is None:
            raise client.RefusedError(404, "NotFound", f"the server has no supported version of {group}")
        return version

    def _path(self, query: Mapping[str, str]) -> str:
        parameters = dict(query)
        if self._scope.filters(self._definition.kind):
            parameters["labelSelector"] = f"{meta.WATCH_LABEL}={self._scope.watch_filter}"
        return f"{self._definition.path(self.version, self._scope.namespace)}?{parse.urlencode(parameters)}"

    @property
    def _api_version(self) -> str:
        return f"{self._definition.group}/{self.version}"

    @property
    def _kind(self) -> str:
        return f"{self._definition.plural}.{self._definition.group}"


def _version_number(version: str) -> int:
    """Return a resource version as a number, 0 if it is not a number."""
    return int(version) if version.isdecimal() else 0
