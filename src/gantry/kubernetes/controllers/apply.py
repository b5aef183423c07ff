"""The carrier: carries the actions of decisions out, one request after the other, and tells what was answered.

Who calls it: ``controllers``. Each object that the server answers is told at once, because its event may come much
later; what a failure says about an object is told too, so that the next decision knows more.

Errors: RefusedError and UnknownError as of ``client``; ChangedError when the world is not as it was decided about.
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
    """What was decided about has changed: decide again."""


class ForeignError(errors.WrongStateError):
    """What was met is not ours to care for: leave it."""


class Cluster(Protocol):
    """Who has addresses reserved (``cluster_sync``); both raise GantryError, ChangedError if another has one."""

    async def reserve(self, action: actions.Reserve) -> None:
        """Reserve an address."""
        ...

    async def release(self, action: actions.Release) -> None:
        """Give a reservation up."""
        ...


class Carrier:
    """Carries actions out; ``version_of`` says in which version a group is read."""

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
        """Carry steps out, up to the first that fails."""
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
            raise errors.InternalError(f"there is no cluster for {action.reservation.claim}")
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
        """Create an object; if one of its name is there, it is told."""
        path = self._path(made.ref, made.api_version)
        try:
            self._note(await self._server.exchange("POST", path.rpartition("/")[0], made), made.ref)
        except client.RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            await self._look(made.ref, path)
            raise ChangedError(f"{made.ref} is there") from None

    async def create_plain(self, plural: str, body: schema.Json) -> None:
        """Create an object of Kubernetes itself, unless it is there."""
        namespace = msgspec.convert(body["metadata"], meta.ObjectMeta).namespace
        try:
            await self._server.send("POST", f"/api/v1/namespaces/{namespace}/{plural}", body)
        except client.RefusedError as error:
            if error.reason != "AlreadyExists":
                raise

    async def find(self, ref: meta.Ref, api_version: str) -> meta.Resource | None:
        """Return an object as it is now, None if there is none."""
        body = await self._server.find(self._path(ref, api_version))
        return definitions.decode(body) if body else None

    async def read(self, path: str, kind: type[Kind]) -> Kind:
        """Return the object at a path, of a kind that is not ours; NotFoundError."""
        body = await self._server.find(path)
        if body is None:
            raise errors.NotFoundError(f"there is no {path.rpartition('/namespaces/')[2]}")
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
        """Tell whose the name is that was to be taken."""
        ref = action.address.ref
        log.info("%s for %s: the name is taken", ref, action.claim)
        body = await self._server.find(self._path(ref, action.address.api_version))
        try:
            found = definitions.decode(body) if body else None
        except errors.InvalidError as error:
            log.warning("%s: %s", ref, error)
            self._listener.touched(self._index.taken(action))
            raise ChangedError(f"the name of {ref} is taken") from None
        existing = found if isinstance(found, ipam.IPAddress | capi.IPAddress) else None
        self._listener.touched(self._index.collided(action, existing))
        raise ChangedError(f"the name of {ref} is taken")

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
        """Make sure that what should be absent is, and that what was seen is as it was."""
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
            raise ChangedError(f"{ref} has gone")
        if client.head(body).resource_version != action.current.resource_version:
            self._met(action, body)

    def _met(self, action: actions.Patch | actions.Delete | actions.Release, body: bytes) -> NoReturn:
        found = definitions.decode(body)
        if not self._scope.wants(found):
            raise ForeignError(f"{found.ref} is not ours")
        self._listener.seen(found)
        self._listener.touched(self._index.met(action, found))
        raise ChangedError(f"{found.ref} is there")

    async def _look(self, ref: meta.Ref, path: str) -> None:
        body = await self._server.find(path)
        if body is None:
            self._listener.gone(ref)
        else:
            self._note(body, ref)

    def _note(self, body: bytes, ref: meta.Ref) -> meta.Resource:
        """Tell of an object that was answered where ``ref`` is."""
        known = definitions.by_kind(ref.group, ref.kind)
        found = meta.decode(body, known.resource) if known else definitions.decode(body)
        self._listener.seen(found)
        return found

    def _path(self, ref: meta.Ref, api_version: str = "") -> str:
        found = definitions.by_kind(ref.group, ref.kind)
        if found is None:
            raise errors.InvalidError(f"no kind {ref.kind} of {ref.group} is known")
        said = api_version or f"{ref.group}/{self._version_of(ref.group)}"
        return client.path(ref, plural=found.plural, api_version=said)

    def _collection(self, address: actions.Address) -> str:
        return self._path(address.ref, address.api_version).rpartition("/")[0]


def _with_uid(uid: str) -> schema.Json:
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
