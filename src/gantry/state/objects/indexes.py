"""Indexes of the state: from a property of objects, as a node's UUID, to the objects that have the property.

An index is a persistent map in ``Content``, under the name ``field``. The classes here describe which entries an object
has in an index; ``kinds`` lists the indexes of each kind of object, ``draft`` enters and removes objects.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from immutables import Map

from gantry import errors
from gantry.model import cluster as clusters
from gantry.model import instance, network

T = TypeVar("T", contravariant=True)
K = TypeVar("K")
V = TypeVar("V")

Uuids = Map[str, None]
"""A set of UUIDs."""
_NO_UUIDS: Uuids = Map()


class Maps:
    """The collections and indexes of a draft: an attribute for each, under its name in ``Content``.

    The class declares only the collections in which an error looks up the owner of a key.
    """

    nodes: Map[str, clusters.Node]
    networks: Map[str, network.Network]
    instances: Map[str, instance.Instance]
    ports: Map[str, network.Port]


class Index(ABC, Generic[T]):
    """The entries of objects of one kind in the index ``field`` of ``Content``."""

    field: str

    @abstractmethod
    def add(self, maps: Maps, value: T) -> None:
        """Add the entries of an object; raises NotUniqueError or ExistsError for a key that has an owner."""

    @abstractmethod
    def remove(self, maps: Maps, value: T) -> None:
        """Remove the entries of an object."""


@dataclass(frozen=True)
class SetIndex(Index[T]):
    """An index from a key to a set of UUIDs; ``entries`` returns the key and UUID of each entry of an object."""

    field: str
    entries: Callable[[T], Sequence[tuple[str, str]]]

    def add(self, maps: Maps, value: T) -> None:
        """Add the entries of an object."""
        entries = self.entries(value)
        if not entries:
            return
        index: Map[str, Uuids] = getattr(maps, self.field)
        for key, uuid in entries:
            index = index.set(key, index.get(key, _NO_UUIDS).set(uuid, None))
        setattr(maps, self.field, index)

    def remove(self, maps: Maps, value: T) -> None:
        """Remove the entries of an object, and keys whose set becomes empty."""
        entries = self.entries(value)
        if not entries:
            return
        index: Map[str, Uuids] = getattr(maps, self.field)
        for key, uuid in entries:
            uuids = index[key].delete(uuid)
            index = index.set(key, uuids) if uuids else index.delete(key)
        setattr(maps, self.field, index)


@dataclass(frozen=True)
class UniqueIndex(Index[T], Generic[T, K, V]):
    """An index from a key to its only owner; ``entries`` returns the key and owner of each entry of an object.

    ``conflict`` returns the error for a key that has an owner. Without it the last owner of a key replaces the earlier
    one.
    """

    field: str
    entries: Callable[[T], Sequence[tuple[K, V]]]
    conflict: Callable[[Maps, K, V], errors.GantryError] | None = None

    def add(self, maps: Maps, value: T) -> None:
        """Add the entries of an object; raises the error of ``conflict``."""
        entries = self.entries(value)
        if not entries:
            return
        index: Map[K, V] = getattr(maps, self.field)
        conflict = self.conflict
        for key, owner in entries:
            if conflict is not None and key in index:
                raise conflict(maps, key, index[key])
            index = index.set(key, owner)
        setattr(maps, self.field, index)

    def remove(self, maps: Maps, value: T) -> None:
        """Remove the entries of an object."""
        entries = self.entries(value)
        if not entries:
            return
        index: Map[K, V] = getattr(maps, self.field)
        for key, _ in entries:
            # Without a conflict, another owner may have removed its entry of this key before.
            if key in index:
                index = index.delete(key)
        setattr(maps, self.field, index)


@dataclass(frozen=True)
class Reference(Generic[T]):
    """A field of an object that names objects of another kind.

    ``to`` is the collection of those objects, ``uuids`` returns their UUIDs. ``users`` are the indexes that find the
    objects which name a UUID; without any the whole collection is searched when an object of ``to`` is deleted, so it
    must be small. ``relation``, ``noun`` and ``hint`` are for the error about such a deletion: "network net1 is in use
    by port p". ``noun`` is that of the kind if it is empty.
    """

    to: str
    uuids: Callable[[T], Iterable[str]]
    users: tuple[str, ...] = ()
    relation: str = "is in use by"
    noun: str = ""
    hint: str = ""
