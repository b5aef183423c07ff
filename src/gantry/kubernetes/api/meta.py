"""What all Kubernetes objects share: metadata, owners, conditions, and how an object is read and written.

Who calls it: the modules of the kinds, ``kubernetes.claims``, and the Kubernetes door. Objects are frozen structs; a
change is a patch that is sent to an API server, never an edit in place. ``read`` is lenient, because what is out
there was accepted by other definitions in other years: unknown fields are passed over, a null is an absent field, and a
status that somebody edited into nonsense counts as none, for nothing relies on a status.

Invariant: an object is known by its ``Ref``; group and kind are in it, since two groups have an ``IPAddress``.
"""

import datetime
import functools
from typing import Annotated, TypeVar

import msgspec

from gantry import errors
from gantry.kubernetes.api import schema

CLUSTER_LABEL = "cluster.x-k8s.io/cluster-name"
PROVIDER_LABEL = "cluster.x-k8s.io/provider"
WATCH_LABEL = "cluster.x-k8s.io/watch-filter"
PAUSED = "cluster.x-k8s.io/paused"
COLLECTOR = ("foregroundDeletion", "orphan")
"""Finalizers that the API server's garbage collection sets by itself; they say nothing about use."""

TIME = "%Y-%m-%dT%H:%M:%SZ"


class Ref(msgspec.Struct, frozen=True, order=True, gc=False):
    """Which object: ``name`` in ``namespace``, of a kind in an API group, whatever the version."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Plain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A part of an object."""


class OwnerReference(Plain, frozen=True, gc=False):
    """Who owns an object; it goes when all its owners have gone."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False

    @property
    def group(self) -> str:
        """The API group of the owner."""
        return self.api_version.rpartition("/")[0]


class ObjectMeta(Plain, frozen=True):
    """Name, identity, life and marks of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(Plain, frozen=True):
    """One answer about the state of an object (``metav1.Condition``)."""

    type: Annotated[str, schema.Rule(required=True, max_length=316)] = ""
    status: Annotated[str, schema.Rule(required=True, enum=("True", "False", "Unknown"))] = ""
    reason: Annotated[str, schema.Rule(max_length=1024)] = ""
    message: Annotated[str, schema.Rule(max_length=32768)] = ""
    last_transition_time: Annotated[str, schema.Rule(format="date-time")] = ""
    observed_generation: Annotated[int, schema.Rule(format="int64", minimum=0)] = 0


class ObjectReference(Plain, frozen=True, gc=False):
    """An object that a field names, as ``core/v1`` has it."""

    name: str = ""
    namespace: str = ""
    kind: str = ""
    api_version: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class Resource(Plain, frozen=True):
    """An object with metadata; each kind adds its spec and its status."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def ref(self) -> Ref:
        """What the object is known by."""
        group, slash, _ = self.api_version.rpartition("/")
        return Ref(group if slash else "", self.kind, self.metadata.namespace, self.metadata.name)

    @property
    def is_deleting(self) -> bool:
        """Tell whether it has been deleted and waits for its finalizers."""
        return bool(self.metadata.deletion_timestamp)

    @property
    def is_paused(self) -> bool:
        """Tell whether its own annotation stops all work on it; any value does."""
        return PAUSED in self.metadata.annotations

    @property
    def is_gone(self) -> bool:
        """Tell whether it is the last that will be seen of the object: deleted, and nobody holds it."""
        return self.is_deleting and not self.metadata.finalizers

    def written(self) -> schema.Json:
        """Return the object as JSON, without what is empty."""
        return msgspec.json.decode(msgspec.json.encode(self), type=schema.Json)


Kind = TypeVar("Kind", bound=Resource)


def read(body: object, kind: type[Kind]) -> Kind:
    """Return the object that a JSON value says; InvalidError names the field that cannot be read."""
    clean = _without_nulls(body)
    try:
        return msgspec.convert(clean, kind)
    except msgspec.ValidationError as error:
        if isinstance(clean, dict) and "`$.status" in str(error):
            return read({key: value for key, value in clean.items() if key != "status"}, kind)
        raise errors.InvalidError(f"{kind.__name__} cannot be read: {error}") from None


def decode(text: bytes, kind: type[Kind]) -> Kind:
    """Return the object that JSON says, as ``read`` does; InvalidError. Nearly all has no null: it is read at once."""
    try:
        if b"null" not in text:
            found: Kind = _decoder(kind).decode(text)
            return found
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return read(msgspec.json.decode(text), kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.InvalidError(f"{kind.__name__} cannot be read: {error}") from None


@functools.cache
def _decoder(kind: type[Kind]) -> msgspec.json.Decoder[Kind]:
    return msgspec.json.Decoder(kind)


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value if one is not None]
    return value


def stamp(now: datetime.datetime) -> str:
    """Return a moment as Kubernetes writes it: UTC, to the second."""
    return now.astimezone(datetime.UTC).strftime(TIME)


def moment(text: str) -> datetime.datetime | None:
    """Return the moment that a text says, None if it says none."""
    try:
        read_as = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return read_as if read_as.tzinfo else read_as.replace(tzinfo=datetime.UTC)


def with_condition(
    conditions: tuple[Condition, ...], new: Condition, *, now: datetime.datetime
) -> tuple[Condition, ...]:
    """Return conditions with one set, others untouched; its time moves only when its status does."""
    old = next((one for one in conditions if one.type == new.type), None)
    since = old.last_transition_time if old and old.status == new.status else ""
    dated = msgspec.structs.replace(new, last_transition_time=since or stamp(now))
    return tuple(dated if one.type == new.type else one for one in conditions) + (() if old else (dated,))
