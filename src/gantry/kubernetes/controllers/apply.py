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
from gantry.kubernetes.claims import actions, cache
from gantry.kubernetes.controllers import client, events, reflector

log = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=meta.Resource)


class ChangedError(errors.WrongStateError):
    """An object of the decision has changed: decide again."""


class ForeignError(errors.WrongStateError):
    """The object is outside our scope (watch filter): leave it alone."""


class Cluster(Protocol):
    """Reserves addresses in a cluster (``cluster_sync``); GantryError, ChangedError if an address has another owner."""

    async def reserve(self, action: actions.Reserve) -> None:
        """Reserve an address."""
        ...

    async def release(self, action: actions.Release) -> None:
        """Release a reservation."""
        ...


class Carrier:
    """Applies actions; ``version_of`` returns the version in which a group is read."""

    def __init__(
        self,
        server: client.Client,
        seen: cache.Index,
        *,
        scope: reflector.Scope,
        listener: reflector.Listener,
        recorder: events.Recorder,
        version_of: Callable[[str], str],
        cluster: Cluster | None = None,
    ) -> None:
        self._server = server
        self._index = seen
        self._scope = scope
        self._listener = listener
        self._recorder = recorder
        self._version_of = version_of
        self._cluster = cluster

    async def carry(self, steps: tuple[actions.Action, ...]) -> None:
        """Apply actions in order, up to the first that fails."""
        for action in steps:
            if isinstance(action, actions.Report):
                self._recorder.add(action)
            elif isinstance(action, actions.Create):
                await self._create(action)
            elif isinstance(action, actions.Reserve | actions.Release):
                await self._book(action)
            else:
                await self._change(action)

    async def _book(self, action: actions.Reserve | actions.Release) -> None:
        if self._cluster is None:
            raise errors.InternalError(f"no cluster is configured to reserve an address for {action.reservation.claim}")
        if isinstance(action, actions.Reserve):
            await self._cluster.reserve(action)
        else:
            await self._check(action)
            for ref in action.unless:
                body = await self._server.find(self._path(ref))
                if body and action.is_refuted(definitions.decode(body)):
                    self._met(action, body)
            await self._cluster.release(action)

    async def create(self, made: meta.Resource) -> None:
        """Create an object; ChangedError if it exists, which is then put into the cache."""
        path = self._path(made.ref, made.api_version)
        try:
            self._note(await self._server.exchange("POST", path.rpartition("/")[0], made), made.ref)
        except client.RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            await self._look(made.ref, path)
            raise ChangedError(f"{made.ref} already exists") from None

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

    async def _create(self, action: actions.Create) -> None:
        address = action.address
        try:
            answer = await self._server.exchange("POST", self._collection(address), address)
        except client.RefusedError as error:
            if error.reason == "AlreadyExists":
                await self._collided(action)
            raise
        self._note(answer, address.ref)

    async def _collided(self, action: actions.Create) -> NoReturn:
        """Handle an address object whose name exists already; always raise ChangedError."""
        ref = action.address.ref
        log.info("%s for %s already exists", ref, action.claim)
        body = await self._server.find(self._path(ref, action.address.api_version))
        try:
            found = definitions.decode(body) if body else None
        except errors.InvalidError as error:
            log.warning("%s cannot be read: %s", ref, error)
            self._listener.touched(self._index.taken(action))
            raise ChangedError(f"{ref} already exists") from None
        existing = found if isinstance(found, ipam.IPAddress | capi.IPAddress) else None
        self._listener.touched(self._index.collided(action, existing))
        raise ChangedError(f"{ref} already exists")

    async def _change(self, action: actions.Patch | actions.Delete) -> None:
        await self._check(action)
        path = self._path(action.ref, action.api_version)
        try:
            if isinstance(action, actions.Patch):
                where = f"{path}/{action.subresource}" if action.subresource else path
                answer = await self._server.exchange("PATCH", where, action.body, content_type=client.MERGE)
            else:
                answer = await self._server.exchange("DELETE", path, _with_uid(action.uid))
        except client.RefusedError as error:
            if 400 <= error.http_status < 429 and error.http_status not in (401, 403):
                await self._look(action.ref, path)
            raise
        if isinstance(action, actions.Delete) and client.is_status(answer):
            self._listener.gone(action.ref)
            return
        found = self._note(answer, action.ref)
        if isinstance(action, actions.Delete) and action.finalizer in found.metadata.finalizers:
            step = actions.without_finalizer(found, action.finalizer)
            await self._change(msgspec.structs.replace(step, absent=action.absent, current=action.current))

    async def _check(self, action: actions.Patch | actions.Delete | actions.Release) -> None:
        """Check the preconditions ``absent`` and ``current``; ChangedError, ForeignError."""
        for ref in action.absent:
            body = await self._server.find(self._path(ref))
            if body and self._index.hinders(action, definitions.decode(body)):
                self._met(action, body)
        if action.current is None:
            return
        ref = action.current.ref
        body = await self._server.find(self._path(ref))
        if body is None:
            self._listener.gone(ref)
            raise ChangedError(f"{ref} no longer exists")
        if client.head(body).resource_version != action.current.resource_version:
            self._met(action, body)

    def _met(self, action: actions.Patch | actions.Delete | actions.Release, body: bytes) -> NoReturn:
        found = definitions.decode(body)
        if not self._scope.wants(found):
            raise ForeignError(f"{found.ref} is outside the watch filter")
        self._listener.seen(found)
        self._listener.touched(self._index.met(action, found))
        raise ChangedError(f"{found.ref} exists or has changed")

    async def _look(self, ref: meta.Ref, path: str) -> None:
        body = await self._server.find(path)
        if body is None:
            self._listener.gone(ref)
        else:
            self._note(body, ref)

    def _note(self, body: bytes, ref: meta.Ref) -> meta.Resource:
        """Put an answered object into the cache."""
        known = definitions.by_kind(ref.group, ref.kind)
        found = meta.decode(body, known.resource) if known else definitions.decode(body)
        self._listener.seen(found)
        return found

    def _path(self, ref: meta.Ref, api_version: str = "") -> str:
        found = definitions.by_kind(ref.group, ref.kind)
        if found is None:
            raise errors.InvalidError(f"unknown kind {ref.kind} in group {ref.group}")
        said = api_version or f"{ref.group}/{self._version_of(ref.group)}"
        return client.path(ref, plural=found.plural, api_version=said)

    def _collection(self, address: actions.Address) -> str:
        return self._path(address.ref, address.api_version).rpartition("/")[0]


def _with_uid(uid: str) -> schema.Json:
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
