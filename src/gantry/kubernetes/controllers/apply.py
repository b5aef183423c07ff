"""Apply: perform the actions of a decision, one request after the other, and update the cache from the answers.

The controllers call it. Each answered object goes into the cache at once, because its watch event may come much later;
after a failed request the object is read again, so that the next decision is based on its current state.

Errors: RefusedError and UnknownError of ``client``; ChangedError if an object has changed since the decision.
"""

import logging
from collections.abc import Callable
from typing import NoReturn, Protocol, TypeVar

import msgspec

from gantry import errors
from gantry.kubernetes.api import capi, definitions, ipam, meta, schema
from gantry.kubernetes.claims import actions, cache, cluster_reservations
from gantry.kubernetes.controllers import client, events, reflector

log = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=meta.Resource)


class ChangedError(errors.WrongStateError):
    """An object of the decision has changed: decide again."""


class ForeignError(errors.WrongStateError):
    """The object is outside our scope (watch filter): leave it alone."""


class ClusterRefusedError(errors.ExecutionError):
    """The cluster answered that it does not carry out a reservation or release; other requests may succeed."""


class Cluster(Protocol):
    """Reserves addresses in a cluster (``cluster_sync``).

    GantryError if it cannot be reached, ClusterRefusedError, ChangedError if an address has another owner.
    """

    async def reserve(self, action: actions.Reserve) -> None:
        """Reserve an address."""
        ...

    async def release(self, action: actions.Release) -> None:
        """Release a reservation."""
        ...


class Applier:
    """Applies actions, as an ``actions.Executor``; ``version_of`` returns the version in which a group is read."""

    def __init__(
        self,
        server: client.Client,
        objects: cache.Cache,
        *,
        scope: reflector.Scope,
        listener: reflector.Listener,
        recorder: events.Recorder,
        version_of: Callable[[str], str],
        cluster: Cluster | None = None,
    ) -> None:
        self._server = server
        self._cache = objects
        self._scope = scope
        self._listener = listener
        self._recorder = recorder
        self._version_of = version_of
        self._cluster = cluster

    async def apply(self, steps: tuple[actions.Action, ...]) -> None:
        """Apply actions in order, up to the first that fails."""
        await actions.carry_out(steps, self)

    def report(self, action: actions.Report) -> None:
        """Write an Event; see ``actions.Executor``."""
        self._recorder.add(action)

    async def reserve(self, action: actions.Reserve) -> None:
        """Reserve an address; see ``actions.Executor``."""
        await self._cluster_of(action.reservation).reserve(action)

    async def release(self, action: actions.Release) -> None:
        """Release a reservation; see ``actions.Executor``."""
        cluster = self._cluster_of(action.reservation)
        await self._check_preconditions(action)
        for ref in action.unless:
            body = await self._server.find(self._path(ref))
            if body and action.is_needed_by(definitions.decode(body)):
                self._handle_existing(action, body)
        await cluster.release(action)

    def _cluster_of(self, reservation: cluster_reservations.Reservation) -> Cluster:
        if self._cluster is None:
            raise errors.InternalError(f"no cluster is configured to reserve an address for {reservation.claim}")
        return self._cluster

    async def create(self, new: meta.Resource) -> None:
        """Create an object; ChangedError if it exists, which is then put into the cache."""
        path = self._path(new.ref, new.api_version)
        try:
            self._update_cache(await self._server.exchange("POST", path.rpartition("/")[0], new), new.ref)
        except client.RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            await self._refresh(new.ref, path)
            raise ChangedError(f"{new.ref} already exists") from None

    async def create_plain(self, plural: str, body: schema.Json) -> None:
        """Create an object of a core kind, unless it exists."""
        namespace = msgspec.convert(body["metadata"], meta.ObjectMeta).namespace
        try:
            await self._server.send("POST", f"/api/v1/namespaces/{namespace}/{plural}", body)
        except client.RefusedError as error:
            if error.reason != "AlreadyExists":
                raise

    async def find(self, ref: meta.Ref, api_version: str) -> meta.Resource | None:
        """Read an object from the server, None if it does not exist."""
        body = await self._server.find(self._path(ref, api_version))
        return definitions.decode(body) if body else None

    async def read(self, path: str, kind: type[Kind]) -> Kind:
        """Read the object of a foreign kind at a path; NotFoundError."""
        body = await self._server.find(path)
        if body is None:
            raise errors.NotFoundError(f"{path.rpartition('/namespaces/')[2]} does not exist")
        return meta.decode(body, kind)

    async def create_address(self, action: actions.Create) -> None:
        """Create an address object; see ``actions.Executor``."""
        address = action.address
        try:
            answer = await self._server.exchange("POST", self._collection(address), address)
        except client.RefusedError as error:
            if error.reason == "AlreadyExists":
                await self._handle_collision(action)
            raise
        self._update_cache(answer, address.ref)

    async def _handle_collision(self, action: actions.Create) -> NoReturn:
        """Handle an address object whose name exists already; always raise ChangedError."""
        ref = action.address.ref
        log.info("%s for %s already exists", ref, action.claim)
        answer = await self._server.find(self._path(ref, action.address.api_version))
        try:
            current = definitions.decode(answer) if answer else None
        except errors.InvalidError as error:
            log.warning("%s cannot be read: %s", ref, error)
            self._listener.requeue(self._cache.handle_unreadable(action))
            raise ChangedError(f"{ref} already exists") from None
        existing = current if isinstance(current, ipam.IPAddress | capi.IPAddress) else None
        self._listener.requeue(self._cache.handle_collision(action, existing))
        raise ChangedError(f"{ref} already exists")

    async def change(self, action: actions.Patch | actions.Delete) -> None:
        """Patch or delete an object; see ``actions.Executor``."""
        await self._check_preconditions(action)
        path = self._path(action.ref, action.api_version)
        try:
            if isinstance(action, actions.Patch):
                where = f"{path}/{action.subresource}" if action.subresource else path
                answer = await self._server.exchange("PATCH", where, action.body, content_type=client.MERGE)
            else:
                answer = await self._server.exchange("DELETE", path, _delete_options(action.uid))
        except client.RefusedError as error:
            if 400 <= error.http_status < 429 and error.http_status not in (401, 403):
                await self._refresh(action.ref, path)
            raise
        if isinstance(action, actions.Delete) and client.is_status(answer):
            self._listener.on_delete(action.ref)
            return
        current = self._update_cache(answer, action.ref)
        if isinstance(action, actions.Delete) and action.finalizer in current.metadata.finalizers:
            step = actions.without_finalizer(current, action.finalizer)
            await self.change(msgspec.structs.replace(step, absent=action.absent, current=action.current))

    async def _check_preconditions(self, action: actions.Patch | actions.Delete | actions.Release) -> None:
        """Check the preconditions ``absent`` and ``current``; ChangedError, ForeignError."""
        for ref in action.absent:
            body = await self._server.find(self._path(ref))
            if body and self._cache.is_blocking(action, definitions.decode(body)):
                self._handle_existing(action, body)
        if action.current is None:
            return
        ref = action.current.ref
        body = await self._server.find(self._path(ref))
        if body is None:
            self._listener.on_delete(ref)
            raise ChangedError(f"{ref} no longer exists")
        if client.head(body).resource_version != action.current.resource_version:
            self._handle_existing(action, body)

    def _handle_existing(self, action: actions.Patch | actions.Delete | actions.Release, body: bytes) -> NoReturn:
        current = definitions.decode(body)
        if not self._scope.wants(current):
            raise ForeignError(f"{current.ref} is outside the watch filter")
        self._listener.on_update(current)
        self._listener.requeue(self._cache.handle_existing(action, current))
        raise ChangedError(f"{current.ref} exists or has changed")

    async def _refresh(self, ref: meta.Ref, path: str) -> None:
        body = await self._server.find(path)
        if body is None:
            self._listener.on_delete(ref)
        else:
            self._update_cache(body, ref)

    def _update_cache(self, body: bytes, ref: meta.Ref) -> meta.Resource:
        """Put an answered object into the cache."""
        definition = definitions.by_kind(ref.group, ref.kind)
        current = meta.decode(body, definition.resource) if definition else definitions.decode(body)
        self._listener.on_update(current)
        return current

    def _path(self, ref: meta.Ref, api_version: str = "") -> str:
        definition = definitions.by_kind(ref.group, ref.kind)
        if definition is None:
            raise errors.InvalidError(f"unknown kind {ref.kind} in group {ref.group}")
        version = api_version or f"{ref.group}/{self._version_of(ref.group)}"
        return client.path(ref, plural=definition.plural, api_version=version)

    def _collection(self, address: actions.Address) -> str:
        return self._path(address.ref, address.api_version).rpartition("/")[0]


def _delete_options(uid: str) -> schema.Json:
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
