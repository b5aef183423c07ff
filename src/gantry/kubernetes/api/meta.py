"""Common parts of Kubernetes objects: metadata, owner references, conditions, reading and writing.

Objects are frozen structs; a change is a patch sent to an API server, never an edit in place. ``read`` is lenient,
because stored objects may have been accepted by other or older definitions: unknown fields are ignored, a null is an
absent field, and an invalid status is ignored, since no decision relies on a status.

Invariant: the identity of an object is its ``Ref``, with group and kind, since two groups have an ``IPAddress``.
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
COLLECTOR_FINALIZERS = ("foregroundDeletion", "orphan")
"""Finalizers of the API server's garbage collector; they do not mean that an object is in use."""

TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class Ref(msgspec.Struct, frozen=True, order=True, gc=False):
    """Identity of an object: API group, kind, namespace (empty for cluster scope) and name, without the version."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Plain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of the structs inside objects: camel case, defaults omitted."""


class OwnerReference(Plain, frozen=True, gc=False):
    """An owner of an object, which is garbage-collected when all of its owners are gone."""

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
    """``metav1.ObjectMeta``, without managed fields."""

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
    """A status condition (``metav1.Condition``)."""

    type: Annotated[str, schema.Rule(required=True, max_length=316)] = ""
    status: Annotated[str, schema.Rule(required=True, enum=("True", "False", "Unknown"))] = ""
    reason: Annotated[str, schema.Rule(max_length=1024)] = ""
    message: Annotated[str, schema.Rule(max_length=32768)] = ""
    last_transition_time: Annotated[str, schema.Rule(format="date-time")] = ""
    observed_generation: Annotated[int, schema.Rule(format="int64", minimum=0)] = 0


class ObjectReference(Plain, frozen=True, gc=False):
    """A reference to an object (``core/v1`` ObjectReference)."""

    name: str = ""
    namespace: str = ""
    kind: str = ""
    api_version: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class Resource(Plain, frozen=True):
    """An object; each kind adds its spec and its status."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def ref(self) -> Ref:
        """The identity of the object."""
        group, slash, _ = self.api_version.rpartition("/")
        return Ref(group if slash else "", self.kind, self.metadata.namespace, self.metadata.name)

    @property
    def is_deleting(self) -> bool:
        """Whether the object has a deletion timestamp."""
        return bool(self.metadata.deletion_timestamp)

    @property
    def is_paused(self) -> bool:
        """Whether the object has the pause annotation of Cluster API, with any value."""
        return PAUSED in self.metadata.annotations

    @property
    def is_gone(self) -> bool:
        """Whether the object is deleted and has no finalizer left, so that the server removes it."""
        return self.is_deleting and not self.metadata.finalizers

    def to_json(self) -> schema.Json:
        """Return the object as JSON, without default values."""
        return msgspec.json.decode(msgspec.json.encode(self), type=schema.Json)


Kind = TypeVar("Kind", bound=Resource)


def read(body: object, kind: type[Kind]) -> Kind:
    """Convert a JSON value into an object; InvalidError names the invalid field."""
    clean = _without_nulls(body)
    try:
        return msgspec.convert(clean, kind)
    except msgspec.ValidationError as error:
        if isinstance(clean, dict) and "`$.status" in str(error):
            return read({key: value for key, value in clean.items() if key != "status"}, kind)
        raise errors.InvalidError(f"{kind.__name__} cannot be read: {errors.readable(str(error))}") from None


def decode(text: bytes, kind: type[Kind]) -> Kind:
    """Decode an object from JSON like ``read``; InvalidError. Without a null, which is usual, one pass is enough."""
    try:
        if b"null" not in text:
            decoded: Kind = _decoder(kind).decode(text)
            return decoded
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return read(msgspec.json.decode(text), kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.InvalidError(f"{kind.__name__} cannot be read: {errors.readable(str(error))}") from None


@functools.cache
def _decoder(kind: type[Kind]) -> msgspec.json.Decoder[Kind]:
    return msgspec.json.Decoder(kind)


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def stamp(now: datetime.datetime) -> str:
    """Format a time as Kubernetes does: UTC, in seconds."""
    return now.astimezone(datetime.UTC).strftime(TIME_FORMAT)


def moment(text: str) -> datetime.datetime | None:
    """Parse a time; None if it is invalid."""
    try:
        parsed = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.UTC)


def with_condition(
    conditions: tuple[Condition, ...], new: Condition, *, now: datetime.datetime
) -> tuple[Condition, ...]:
    """Return the conditions with one set; its transition time changes only with its status."""
    old = next((condition for condition in conditions if condition.type == new.type), None)
    since = old.last_transition_time if old and old.status == new.status else ""
    dated = msgspec.structs.replace(new, last_transition_time=since or stamp(now))
    return tuple(dated if condition.type == new.type else condition for condition in conditions) + (
        () if old else (dated,)
    )
