"""Managed fields: ``metadata.managedFields`` and server-side apply (contracts/kubernetes-api.md#server-side-apply).

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
"""Pairs of managers of which the second takes over fields without a conflict: client-side, server-side kubectl."""

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
        entries = cast("schema.Json", metadata.get(name) or {})
        out.update((("metadata", name, key), value) for key, value in entries.items())
    for name, value in body.items():
        if name in _DEEP and isinstance(value, dict):
            out.update(((name, key), field_value) for key, field_value in value.items())
        elif name not in _HEAD:
            out[name,] = value
    return out


def read(body: schema.Json) -> list[Entry]:
    """Return the entries of an object; unreadable ones are ignored."""
    metadata = cast("schema.Json", body.get("metadata") or {})
    return list(_read(cast("list[schema.Json]", metadata.get("managedFields") or [])))


def _read(entries: Iterable[schema.Json]) -> Iterator[Entry]:
    for entry in entries:
        strings = {key: value for key, value in entry.items() if isinstance(value, str)}
        tree = entry.get("fieldsV1")
        if strings.get("manager") and isinstance(tree, dict):
            owner = FieldManager(strings["manager"], strings.get("operation", UPDATE), strings.get("subresource", ""))
            paths = _decode_fields(_ENCODE(tree))
            yield Entry(owner, strings.get("apiVersion", ""), strings.get("time", ""), paths)


@functools.lru_cache(4096)
def _decode_fields(tree: bytes) -> frozenset[Path]:
    """Decode the fields of an entry; cached, because thousands of objects of one client have the same."""
    return frozenset(_paths(msgspec.json.decode(tree, type=schema.Json), ()))


def _paths(tree: Mapping[str, object], above: Path) -> Iterator[Path]:
    """Yield the fields of a ``fieldsV1`` tree, cut off at our granularity."""
    for key, subtree in tree.items():
        if not key.startswith("f:"):
            continue
        path = (*above, key[2:])
        deeper = path in (("metadata",), ("spec",), ("status",)) or path in tuple(("metadata", name) for name in _MAPS)
        if deeper and isinstance(subtree, dict) and subtree:
            yield from _paths(subtree, path)
        elif not deeper:
            yield path


def to_managed_fields(entries: Iterable[Entry]) -> list[schema.Json]:
    """Return entries as ``managedFields``, without empty ones."""
    return [_entry(entry) for entry in entries if entry.paths]


def _entry(entry: Entry) -> schema.Json:
    out: schema.Json = {
        "manager": entry.owner.manager,
        "operation": entry.owner.operation,
        "apiVersion": entry.api_version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": _tree(entry.paths),
    }
    return {**out, "subresource": entry.owner.subresource} if entry.owner.subresource else out


@functools.lru_cache(4096)
def _tree(paths: frozenset[Path]) -> schema.Json:
    tree: schema.Json = {}
    for path in sorted(paths):
        subtree = tree
        for part in path:
            subtree = cast("schema.Json", subtree.setdefault(f"f:{part}", {}))
    return tree


def after_update(
    entries: object, old: schema.Json, new: schema.Json, *, owner: FieldManager, api_version: str, now: str
) -> list[schema.Json]:
    """Return the ``managedFields`` of an object after an update; ``entries`` are those before it.

    The manager that sent the update becomes the only owner of the fields that it changed.

    Do not modify the result: it is shared by thousands of objects that one client writes in the same way.
    """
    before, after = (fields(part) for part in _changed_parts(old, new))
    changed = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    removed = frozenset(path for path in before if path not in after)
    return _after_update(_LIST(entries or []), changed, removed, Entry(owner, api_version, now, changed))


# A small cache: the keys contain the time, and ``entries`` may be as long as an object.
@functools.lru_cache(256)
def _after_update(
    encoded: bytes, changed: frozenset[Path], removed: frozenset[Path], entry: Entry
) -> list[schema.Json]:
    entries = list(_read(_LISTED.decode(encoded)))
    changed_or_removed = changed | removed
    if not changed_or_removed:
        return to_managed_fields(entries)
    own_entry = next((existing for existing in entries if existing.owner == entry.owner), None)
    kept_entries = [_without(existing, changed_or_removed) for existing in entries if existing.owner != entry.owner]
    paths = ((own_entry.paths if own_entry else frozenset()) | changed) - removed
    return to_managed_fields([*kept_entries, msgspec.structs.replace(entry, paths=paths)])


def _changed_parts(old: schema.Json, new: schema.Json) -> tuple[schema.Json, schema.Json]:
    """Return the top-level fields in which two objects differ, and their metadata if it differs."""
    first: schema.Json = {}
    second: schema.Json = {}
    before, after = (cast("schema.Json", body.get("metadata") or _EMPTY) for body in (old, new))
    for name in (*_METADATA, *_MAPS):
        if before.get(name) != after.get(name):
            first["metadata"], second["metadata"] = before, after
            break
    for key in {**old, **new}:
        if key not in _HEAD and old.get(key) != new.get(key):
            first |= {key: old[key]} if key in old else {}
            second |= {key: new[key]} if key in new else {}
    return first, second


def _without(entry: Entry, paths: Iterable[Path]) -> Entry:
    return (
        entry if entry.paths.isdisjoint(paths) else msgspec.structs.replace(entry, paths=entry.paths.difference(paths))
    )


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
        Conflict(entry.owner, entry.api_version, path)
        for entry in entries
        if entry.owner != owner and (entry.owner.manager, owner.manager) not in _TAKEOVERS
        for path in sorted(entry.paths & differing)
    ]


def after_apply(
    entries: list[Entry], old: schema.Json, config: schema.Json, *, owner: FieldManager, api_version: str, now: str
) -> tuple[schema.Json, list[Entry]]:
    """Return the object and the entries after an apply, without a check for conflicts."""
    before, applied = fields(old), fields(config)
    own_entry = next((entry for entry in entries if entry.owner == owner), None)
    differing = {path for path, value in applied.items() if path not in before or before[path] != value}
    kept_entries = [_without(entry, differing) for entry in entries if entry.owner != owner]
    owned_paths = {path for entry in kept_entries for path in entry.paths}
    removed = (own_entry.paths if own_entry else frozenset()) - applied.keys() - owned_paths
    new = old
    for path in removed:
        new = _set(new, path, None)
    for path in differing:
        new = _set(new, path, applied[path])
    since = own_entry.time if own_entry and own_entry.paths == frozenset(applied) and not differing else now
    return new, [*kept_entries, Entry(owner, api_version, since, frozenset(applied))]


def _set(tree: schema.Json, path: Path, value: object) -> schema.Json:
    """Return the object with a field set, or removed if the value is None."""
    first, *inner_path = path
    if inner_path:
        inner = tree.get(first)
        return {**tree, first: _set(inner if isinstance(inner, dict) else {}, tuple(inner_path), value)}
    if value is None:
        return {key: other for key, other in tree.items() if key != first}
    return {**tree, first: value}
