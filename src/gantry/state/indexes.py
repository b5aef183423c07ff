"""Indexes of the state: from a property of objects, as a node's UUID, to the objects that have the property.

An index is a persistent map in ``Content``, under the name ``field``. The classes here describe which entries an object
has in an index; ``kinds`` lists the indexes of each kind of object, ``draft`` enters and removes objects.
"""

# The persistent maps take no type parameters when the program runs.
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rpds import HashTrieMap, HashTrieSet

from gantry import errors
from gantry.model import cluster as clusters
from gantry.model import instance, network

T = TypeVar("T", contravariant=True)
K = TypeVar("K")
V = TypeVar("V")


class Maps:
    """The collections and indexes of a draft: an attribute for each, under its name in ``Content``.

    The class declares only the collections in which an error looks up the owner of a key.
    """

    nodes: HashTrieMap[str, clusters.Node]
    networks: HashTrieMap[str, network.Network]
    instances: HashTrieMap[str, instance.Instance]
    ports: HashTrieMap[str, network.Port]


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
        index: HashTrieMap[str, HashTrieSet[str]] = getattr(maps, self.field)
        for key, uuid in entries:
            index = index.insert(key, (index.get(key) or HashTrieSet()).insert(uuid))
        setattr(maps, self.field, index)

    def remove(self, maps: Maps, value: T) -> None:
        """Remove the entries of an object, and keys whose set becomes empty."""
        entries = self.entries(value)
        if not entries:
            return
        index: HashTrieMap[str, HashTrieSet[str]] = getattr(maps, self.field)
        for key, uuid in entries:
            uuids = (index.get(key) or HashTrieSet()).discard(uuid)
            index = index.insert(key, uuids) if uuids else index.discard(key)
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
        index: HashTrieMap[K, V] = getattr(maps, self.field)
        conflict = self.conflict
        for key, owner in entries:
            if conflict is not None and key in index:
                raise conflict(maps, key, index[key])
            index = index.insert(key, owner)
        setattr(maps, self.field, index)

    def remove(self, maps: Maps, value: T) -> None:
        """Remove the entries of an object."""
        entries = self.entries(value)
        if not entries:
            return
        index: HashTrieMap[K, V] = getattr(maps, self.field)
        for key, _ in entries:
            index = index.discard(key)
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
