"""Managed fields: ``metadata.managedFields`` and server-side apply (contract: S10).

The granularity of fields is coarser than in Kubernetes: a label, an annotation, ``finalizers``, ``ownerReferences``, or
a top-level field of the spec, of the status, or of an object without either. A field manager owns the fields that it
applies; a field that it no longer applies is removed unless it has another manager. Applying a different value to a
field of another manager is a conflict; ``force`` takes the field over. Pure: the current time is an argument.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import msgspec

from gantry.kubernetes.api import schema

Path = tuple[str, ...]

APPLY = "Apply"
UPDATE = "Update"
_TAKEOVERS = {("kubectl-client-side-apply", "kubectl")}
"""Managers, and who takes their fields over without a conflict: server-side from client-side kubectl apply."""

_ENCODE = msgspec.json.Encoder(order="sorted").encode
_LIST = msgspec.json.Encoder().encode
_LISTED = msgspec.json.Decoder(list[schema.Json])
_EMPTY: schema.Json = {}
_METADATA = ("finalizers", "ownerReferences")
_MAPS = ("labels", "annotations")
_HEAD = ("apiVersion", "kind", "metadata")
_DEEP = ("spec", "status")


class FieldManager(msgspec.Struct, frozen=True):
    """A field manager: its name, operation (``APPLY``, ``UPDATE``) and subresource."""

    manager: str
    operation: str
    subresource: str = ""


class Entry(msgspec.Struct, frozen=True):
    """An entry of managed fields: the fields of a manager, with the API version and time of its last write."""

    owner: FieldManager
    api_version: str
    time: str
    paths: frozenset[Path]


def fields(body: schema.Json) -> dict[Path, object]:
    """Return the manageable fields of an object, with their values."""
    metadata = cast("schema.Json", body.get("metadata") or {})
    out: dict[Path, object] = {("metadata", name): metadata[name] for name in _METADATA if metadata.get(name)}
    for name in _MAPS:
        inside = cast("schema.Json", metadata.get(name) or {})
        out.update((("metadata", name, key), value) for key, value in inside.items())
    for name, value in body.items():
        if name in _DEEP and isinstance(value, dict):
            out.update(((name, key), one) for key, one in value.items())
        elif name not in _HEAD:
            out[name,] = value
    return out


def read(body: schema.Json) -> list[Entry]:
    """Return the entries of an object; unreadable ones are ignored."""
    metadata = cast("schema.Json", body.get("metadata") or {})
    return list(_read(cast("list[schema.Json]", metadata.get("managedFields") or [])))


def _read(listed: Iterable[schema.Json]) -> Iterator[Entry]:
    for one in listed:
        said = {key: value for key, value in one.items() if isinstance(value, str)}
        tree = one.get("fieldsV1")
        if said.get("manager") and isinstance(tree, dict):
            owner = FieldManager(said["manager"], said.get("operation", UPDATE), said.get("subresource", ""))
            paths = _decode_fields(_ENCODE(tree))
            yield Entry(owner, said.get("apiVersion", ""), said.get("time", ""), paths)


@functools.lru_cache(4096)
def _decode_fields(tree: bytes) -> frozenset[Path]:
    """Decode the fields of an entry; cached, because thousands of objects of one client have the same."""
    return frozenset(_paths(msgspec.json.decode(tree, type=schema.Json), ()))


def _paths(tree: Mapping[str, object], above: Path) -> Iterator[Path]:
    """Yield the fields of a ``fieldsV1`` tree, cut off at our granularity."""
    for key, inside in tree.items():
        if not key.startswith("f:"):
            continue
        path = (*above, key[2:])
        deeper = path in (("metadata",), ("spec",), ("status",)) or path in tuple(("metadata", one) for one in _MAPS)
        if deeper and isinstance(inside, dict) and inside:
            yield from _paths(inside, path)
        elif not deeper:
            yield path


def to_managed_fields(entries: Iterable[Entry]) -> list[schema.Json]:
    """Return entries as ``managedFields``, without empty ones."""
    return [_entry(one) for one in entries if one.paths]


def _entry(one: Entry) -> schema.Json:
    out: schema.Json = {
        "manager": one.owner.manager,
        "operation": one.owner.operation,
        "apiVersion": one.api_version,
        "time": one.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": _tree(one.paths),
    }
    return {**out, "subresource": one.owner.subresource} if one.owner.subresource else out


@functools.lru_cache(4096)
def _tree(paths: frozenset[Path]) -> schema.Json:
    tree: schema.Json = {}
    for path in sorted(paths):
        inside = tree
        for part in path:
            inside = cast("schema.Json", inside.setdefault(f"f:{part}", {}))
    return tree


def after_update(
    listed: object, old: schema.Json, new: schema.Json, *, owner: FieldManager, api_version: str, now: str
) -> list[schema.Json]:
    """Return ``managedFields`` (currently ``listed``) after an update: its manager alone owns the changed fields.

    Do not modify the result: it is shared by thousands of objects that one client writes in the same way.
    """
    before, after = (fields(one) for one in _changed_parts(old, new))
    changed = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    removed = frozenset(path for path in before if path not in after)
    return _after_update(_LIST(listed or []), changed, removed, Entry(owner, api_version, now, changed))


# A small cache: the keys contain the time, and ``listed`` may be as long as an object.
@functools.lru_cache(256)
def _after_update(listed: bytes, changed: frozenset[Path], removed: frozenset[Path], entry: Entry) -> list[schema.Json]:
    entries = list(_read(_LISTED.decode(listed)))
    touched = changed | removed
    if not touched:
        return to_managed_fields(entries)
    mine = next((one for one in entries if one.owner == entry.owner), None)
    others = [_without(one, touched) for one in entries if one.owner != entry.owner]
    paths = ((mine.paths if mine else frozenset()) | changed) - removed
    return to_managed_fields([*others, msgspec.structs.replace(entry, paths=paths)])


def _changed_parts(old: schema.Json, new: schema.Json) -> tuple[schema.Json, schema.Json]:
    """Return the top-level fields in which two objects differ, and their metadata if it differs."""
    first: schema.Json = {}
    second: schema.Json = {}
    before, after = (cast("schema.Json", one.get("metadata") or _EMPTY) for one in (old, new))
    for name in (*_METADATA, *_MAPS):
        if before.get(name) != after.get(name):
            first["metadata"], second["metadata"] = before, after
            break
    for key in {**old, **new}:
        if key not in _HEAD and old.get(key) != new.get(key):
            first |= {key: old[key]} if key in old else {}
            second |= {key: new[key]} if key in new else {}
    return first, second


def _without(one: Entry, paths: Iterable[Path]) -> Entry:
    return one if one.paths.isdisjoint(paths) else msgspec.structs.replace(one, paths=one.paths.difference(paths))


class Conflict(msgspec.Struct, frozen=True):
    """A field of another manager with a different value."""

    owner: FieldManager
    api_version: str
    path: Path

    @property
    def field(self) -> str:
        """The path as in messages."""
        return "".join(f".{part}" for part in self.path)

    def __str__(self) -> str:
        return f'conflict with "{self.owner.manager}" using {self.api_version}: {self.field}'


def conflicts(
    entries: Iterable[Entry], old: schema.Json, config: schema.Json, *, owner: FieldManager
) -> list[Conflict]:
    """Return the conflicts of an apply with other managers."""
    before = fields(old)
    differing = {path for path, value in fields(config).items() if path not in before or before[path] != value}
    return [
        Conflict(one.owner, one.api_version, path)
        for one in entries
        if one.owner != owner and (one.owner.manager, owner.manager) not in _TAKEOVERS
        for path in sorted(one.paths & differing)
    ]


def after_apply(
    entries: list[Entry], old: schema.Json, config: schema.Json, *, owner: FieldManager, api_version: str, now: str
) -> tuple[schema.Json, list[Entry]]:
    """Return the object and the entries after an apply, without a check for conflicts."""
    before, wanted = fields(old), fields(config)
    mine = next((one for one in entries if one.owner == owner), None)
    differing = {path for path, value in wanted.items() if path not in before or before[path] != value}
    others = [_without(one, differing) for one in entries if one.owner != owner]
    held = {path for one in others for path in one.paths}
    gone = (mine.paths if mine else frozenset()) - wanted.keys() - held
    new = old
    for path in gone:
        new = _set(new, path, None)
    for path in differing:
        new = _set(new, path, wanted[path])
    since = mine.time if mine and mine.paths == frozenset(wanted) and not differing else now
    return new, [*others, Entry(owner, api_version, since, frozenset(wanted))]


def _set(tree: schema.Json, path: Path, value: object) -> schema.Json:
    """Return the object with a field set, or removed if the value is None."""
    first, *rest = path
    if rest:
        held = tree.get(first)
        return {**tree, first: _set(held if isinstance(held, dict) else {}, tuple(rest), value)}
    if value is None:
        return {key: one for key, one in tree.items() if key != first}
    return {**tree, first: value}
