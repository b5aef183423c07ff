"""Metadata: the fields that the server sets, and validation of those that clients set.

``write`` and ``garbage_collector`` call it. Pure. ``read`` checks the types of a body's metadata and removes nulls; the
other functions work on its result.

See contracts/kubernetes-api.md#create.
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import cast

import msgspec

from gantry import errors
from gantry.kubernetes.api import definitions, schema
from gantry.kubernetes.apiserver import resources, status_errors

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_VALUE = "([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_PART = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_QUALIFIED = rf"({_SUBDOMAIN}/)?{_PART}"
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
_MAX_GENERATED_LENGTH = 63
"""Maximum length of a name generated from a ``generateName``."""


class _Owner(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion")
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block: bool | None = msgspec.field(name="blockOwnerDeletion", default=None)


class _Fields(msgspec.Struct, rename="camel"):
    """The fields of metadata, with their types."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[_Owner] = []
    finalizers: list[str] = []
    managed_fields: list[schema.Json] = []
    self_link: str = ""


_FIELDS = {field.encode_name for field in msgspec.structs.fields(_Fields)} - {"selfLink"}
_SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
"""Fields that only the server sets."""
_EMPTY: schema.Json = {}


def read(body: schema.Json, old: schema.Json = _EMPTY) -> schema.Json:
    """Return the metadata of a body, without nulls; StatusError 400 for a field of the wrong type.

    Values shared with ``old`` metadata, which has been checked before, are not checked again.
    """
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise status_errors.bad("metadata must be a JSON object")
    without_nulls = {key: value for key, value in metadata.items() if value is not None}
    changed = {key: value for key, value in without_nulls.items() if old.get(key) is not value}
    try:
        msgspec.convert(changed, _Fields)
    except msgspec.ValidationError as error:
        raise status_errors.bad(f"metadata cannot be read: {errors.readable(str(error))}") from None
    return without_nulls


def of(body: schema.Json) -> schema.Json:
    """Return the metadata of an object that has been checked before."""
    return cast("schema.Json", body["metadata"])


def string_list(metadata: schema.Json, field: str) -> list[str]:
    """Return a field that is a list of strings."""
    return cast("list[str]", metadata.get(field, []))


def owners(metadata: schema.Json) -> list[schema.Json]:
    """Return the owner references."""
    return cast("list[schema.Json]", metadata.get("ownerReferences", []))


def unknown_fields(metadata: schema.Json) -> list[str]:
    """Return the paths of unknown fields."""
    return [f"metadata.{field}" for field in metadata if field not in _FIELDS and field != "selfLink"]


def in_stored_form(body: schema.Json, metadata: schema.Json) -> schema.Json:
    """Return an object with this metadata in stored form: version first, no empty or unknown metadata fields."""
    for_update = {key: value for key, value in metadata.items() if key in _FIELDS and (value or value == 0)}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], **body, "metadata": for_update}


def for_create(metadata: schema.Json, *, uid: str, now: str) -> schema.Json:
    """Return the metadata of a new object."""
    for_update = {key: value for key, value in metadata.items() if key not in (*_SERVER_FIELDS, "resourceVersion")}
    return {**for_update, "uid": uid, "creationTimestamp": now, "generation": 1}


def for_update(metadata: schema.Json, old: schema.Json) -> schema.Json:
    """Return the metadata after an update: the fields of the server are kept."""
    out = {"managedFields": old.get("managedFields", []), **metadata}
    for key in _SERVER_FIELDS:
        if key in old:
            out[key] = old[key]
        else:
            out.pop(key, None)
    return out


def is_same(metadata: schema.Json, old: schema.Json) -> bool:
    """Return whether a write leaves metadata unchanged, apart from managed fields."""
    ignored = ("managedFields", "resourceVersion")
    new, before = ({key: value for key, value in field.items() if key not in ignored} for field in (metadata, old))
    return new == before


def generate_name(prefix: str, below: Callable[[int], int]) -> str:
    """Return a name with this prefix and five random characters."""
    tail = "".join(_SUFFIX[below(len(_SUFFIX))] for _ in range(SUFFIX_LENGTH))
    return prefix[: _MAX_GENERATED_LENGTH - SUFFIX_LENGTH] + tail


def check(definition: definitions.Definition, metadata: schema.Json, old: schema.Json) -> Iterator[schema.Cause]:
    """Yield violations in changed metadata fields."""
    name = str(metadata.get("name", ""))
    metadata = {key: value for key, value in metadata.items() if key not in old or old[key] != value}
    if name and "name" not in metadata:
        pass
    elif not name:
        yield schema.Cause(schema.REQUIRED, "metadata.name", "Required value: name or generateName is required")
    elif definition is resources.NAMESPACES:
        if not re.fullmatch(_LABEL, name) or len(name) > 63:
            yield _bad(
                "metadata.name", name, f"a lowercase RFC 1123 label must match '{_LABEL}', 63 characters at most"
            )
    elif not re.fullmatch(_SUBDOMAIN, name):
        text = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            f"'{_SUBDOMAIN}')"
        )
        yield _bad("metadata.name", name, text)
    elif len(name) > 253:
        yield _bad("metadata.name", name, "must be no more than 253 characters")
    labels = cast("dict[str, str]", metadata.get("labels", {}))
    for key, value in labels.items():
        if not _is_value(value):
            yield _bad("metadata.labels", value, f"a valid label must match '{_VALUE}', 63 characters at most")
        yield from _key("metadata.labels", key)
    for key in cast("dict[str, str]", metadata.get("annotations", {})):
        yield from _key("metadata.annotations", key.lower())
    for index, key in enumerate(string_list(metadata, "finalizers")):
        yield from _key(f"metadata.finalizers[{index}]", key)
    for index, reference in enumerate(owners(metadata)):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(field):
                yield _bad(f"metadata.ownerReferences[{index}].{field}", "", "must not be empty")
    if "finalizers" in metadata and old.get("deletionTimestamp"):
        yield from _new_finalizers(metadata, old)


@functools.lru_cache(4096)
def _is_value(text: str) -> bool:
    return len(text) <= 63 and re.fullmatch(_VALUE, text) is not None


@functools.lru_cache(4096)
def _is_key(text: str) -> bool:
    return re.fullmatch(_QUALIFIED, text) is not None


def _key(field: str, key: str) -> Iterator[schema.Cause]:
    if not _is_key(key):
        yield _bad(field, key, f"name part must match '{_PART}', with an optional DNS subdomain and '/' before it")


def _bad(field: str, value: str, text: str) -> schema.Cause:
    return schema.Cause(schema.INVALID, field, f'Invalid value: "{value}": {text}')


def _new_finalizers(metadata: schema.Json, old: schema.Json) -> Iterator[schema.Cause]:
    """Yield a violation if finalizers are added to an object that is being deleted."""
    added = sorted(set(string_list(metadata, "finalizers")) - set(string_list(old, "finalizers")))
    if added:
        names = ", ".join(f'"{name}"' for name in added)
        text = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{names}}}"
        )
        yield schema.Cause(schema.FORBIDDEN, "metadata.finalizers", text)
