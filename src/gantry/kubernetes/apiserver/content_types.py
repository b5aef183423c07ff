"""Content types: decode request bodies, encode objects as a client accepts them (contracts/kubernetes-api.md, S11,
S14).

The Accept header has the format, JSON or YAML, and the view: the object itself, a table with the columns of its kind,
or its metadata only. Lists and watch events have the same view. The first supported entry is used; the version of a
view is answered as requested.
"""

import datetime
import functools
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import yaml

from gantry.doors.http import representation
from gantry.kubernetes.api import schema, tables
from gantry.kubernetes.apiserver import protobuf, resources, status_errors, watch_cache
from gantry.runtime import bounded_json, http_interface

MAX_DEPTH = bounded_json.MAX_DEPTH
"""Maximum nesting of a body and of a patched object, because stored objects are processed recursively."""
TABLE = "Table"
PARTIAL = "PartialObjectMetadata"
_VIEWS = (TABLE, PARTIAL, f"{PARTIAL}List")
_FORMS = {
    "application/json": representation.JSON,
    "application/*": representation.JSON,
    "*/*": representation.JSON,
    "application/yaml": representation.YAML,
}
ENCODE = msgspec.json.Encoder().encode


class AcceptEntry(msgspec.Struct, frozen=True):
    """An entry of an Accept header: a content type, with its parameters ``as``, ``g`` and ``v``."""

    kind: str
    view: str = ""
    group: str = ""
    version: str = ""


class _Loader(yaml.CSafeLoader):
    """YAML with JSON's types: a date is a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in listed if tag != "tag:yaml.org,2002:timestamp"]
    for first, listed in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def accept_entries(header: str) -> Iterator[AcceptEntry]:
    """Yield the entries of an Accept header, in order."""
    for entry in header.split(",") if header.strip() else ["*/*"]:
        kind, *parameters = (part.strip() for part in entry.split(";"))
        values = {
            name.strip(): value.strip() for name, _, value in (parameter.partition("=") for parameter in parameters)
        }
        yield AcceptEntry(kind.lower(), values.get("as", ""), values.get("g", ""), values.get("v", ""))


@functools.lru_cache(256)
def negotiate(header: str) -> AcceptEntry:
    """Return the first supported entry of an Accept header; StatusError 406 if there is none."""
    for entry in accept_entries(header):
        if entry.kind in _FORMS and (not entry.view or (entry.view in _VIEWS and entry.group == "meta.k8s.io")):
            return msgspec.structs.replace(entry, kind=_FORMS[entry.kind])
    raise status_errors.StatusError(
        406, "only the following media types are accepted: application/json, application/yaml", reason="NotAcceptable"
    )


def decode_body(raw: http_interface.Request) -> object:
    """Decode a body by its content type: JSON (the default), YAML, Protocol Buffers; StatusError 400, 415."""
    kind = raw.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("application/yaml", "application/apply-patch+yaml"):
        return decode_yaml(raw.body)
    if kind == "application/vnd.kubernetes.protobuf":
        return _decode_protobuf(raw.body)
    try:
        return bounded_json.decode(raw.body)
    except bounded_json.UnreadableError as error:
        raise status_errors.bad(f"the body of the request cannot be read: {error}") from None


def check_depth(value: object) -> None:
    """Reject a value that is nested too deep; StatusError 400."""
    level = [value]
    for _ in range(MAX_DEPTH):
        lists = [
            value.values() if isinstance(value, dict) else value for value in level if isinstance(value, dict | list)
        ]
        level = [child for container in lists for child in container]
        if not level:
            return
    raise status_errors.bad(f"more than {MAX_DEPTH} levels of nesting")


def _decode_protobuf(body: bytes) -> object:
    try:
        value = protobuf.decode(body)
    except ValueError as error:
        raise status_errors.bad(f"the body of the request cannot be read: {error}") from None
    if value is None:
        raise status_errors.StatusError(
            415,
            "the body of the request was in an unknown format - accepted media types: "
            "application/json, application/yaml",
        )
    return value


def decode_yaml(body: bytes) -> object:
    """Decode a YAML document; StatusError 400."""
    try:
        _check_events(yaml.parse(body, _Loader))
        return yaml.load(body, _Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise status_errors.bad(f"error parsing YAML: {error}") from None


_TAGS = (None, "!", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")))
_NUMBER_LIKE = re.compile("[-+.:_xo0-9a-fA-F]+")


def _check_events(events: Iterable[yaml.Event]) -> None:
    """Reject what JSON does not have, and what is beyond the limits of JSON bodies, before a value is built.

    Aliases can expand exponentially. PyYAML fails with various exceptions if a text does not fit its explicit tag.
    """
    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise status_errors.bad(f"error parsing YAML: more than {MAX_DEPTH} levels of nesting")
        if isinstance(event, yaml.AliasEvent):
            raise status_errors.bad("error parsing YAML: aliases (*) are not supported")
        if getattr(event, "tag", None) not in _TAGS:
            raise status_errors.bad("error parsing YAML: explicit tags (!!) are not supported")
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and _is_long_number(event.value):
            raise status_errors.bad(f"error parsing YAML: a number has more than {bounded_json.MAX_DIGITS} digits")


def _is_long_number(text: str) -> bool:
    return len(text) > bounded_json.MAX_DIGITS and _NUMBER_LIKE.fullmatch(text) is not None


def json_object(value: object, what: str = "the body of the request") -> schema.Json:
    """Return a value that must be a JSON object; StatusError 400."""
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return value
    raise status_errors.bad(f"{what} must be a JSON object")


class View:
    """Encodes objects of a collection as a request accepts them; ``now`` is the time for ages."""

    def __init__(self, target: resources.Target, media: AcceptEntry, *, now: float, include: str = "Metadata") -> None:
        self._target = target
        self._media = media
        self._include = include
        self._now = now

    @property
    def content_type(self) -> str:
        """The content type of the answer."""
        return self._media.kind

    def versioned(self, body: bytes) -> bytes:
        """Return a stored object in the version of the request, as JSON."""
        stored, requested = resources.api_version(self._target.definition), self._target.api_version
        return body if stored == requested else _json_start(requested) + body[len(_json_start(stored)) :]

    def encode_object(self, body: bytes) -> bytes:
        """Encode one object."""
        return self._encode_format(self._encode_view(body))

    def encode_list(self, items: Sequence[watch_cache.Item], metadata: schema.Json) -> bytes:
        """Encode a list."""
        view = self._media.view
        if view == TABLE:
            return self._encode_format(self._table([item.body for item in items], metadata))
        kind = f"{PARTIAL}List" if view else f"{self._target.definition.kind}List"
        version = self._meta_version if view else self._target.api_version
        head = {"kind": kind, "apiVersion": version, "metadata": metadata}
        encoded = b'%s,"items":[%s]}' % (ENCODE(head)[:-1], b",".join(self._encode_view(item.body) for item in items))
        return self._encode_format(encoded)

    def encode_event(self, kind: str, body: bytes) -> bytes:
        """Encode a watch event as a line."""
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), self._encode_view(body))

    def encode_bookmark(self, version: int, *, initial: bool = False) -> bytes:
        """Encode a bookmark of a watch; ``initial``: at the end of the initial events."""
        metadata: schema.Json = {"resourceVersion": str(version), "creationTimestamp": None}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        definition = self._target.definition
        head = {"apiVersion": resources.api_version(definition), "kind": definition.kind, "metadata": metadata}
        if self._media.view != TABLE:
            return self.encode_event("BOOKMARK", ENCODE(head))
        return b'{"type":"BOOKMARK","object":%s}\n' % self._table([], {"resourceVersion": str(version)})

    @property
    def _meta_version(self) -> str:
        return f"meta.k8s.io/{self._media.version or 'v1'}"

    def _encode_format(self, body: bytes) -> bytes:
        if self._media.kind == representation.JSON:
            return body + b"\n"
        return representation.encode(msgspec.json.decode(body), representation.YAML)

    def _encode_view(self, body: bytes) -> bytes:
        if self._media.view == TABLE:
            return self._table([body], {})
        if self._media.view:
            return ENCODE(self._partial(msgspec.json.decode(body, type=schema.Json)))
        return self.versioned(body)

    def _partial(self, body: schema.Json) -> schema.Json:
        return {"kind": PARTIAL, "apiVersion": self._meta_version, "metadata": body["metadata"]}

    def _table(self, bodies: Iterable[bytes], metadata: schema.Json) -> bytes:
        definition = self._target.definition
        now, rows = datetime.datetime.fromtimestamp(self._now, datetime.UTC), []
        for raw in bodies:
            body = msgspec.json.decode(self.versioned(raw), type=schema.Json)
            row: schema.Json = {"cells": tables.cells(definition, body, now=now)}
            if self._include != "None":
                row["object"] = body if self._include == "Object" else self._partial(body)
            rows.append(row)
            metadata = metadata or {"resourceVersion": json_object(body["metadata"])["resourceVersion"]}
        return ENCODE(
            {
                "kind": TABLE,
                "apiVersion": self._meta_version,
                "metadata": metadata,
                "columnDefinitions": tables.columns(definition),
                "rows": rows,
            }
        )


def _json_start(api_version: str) -> bytes:
    """Return the beginning of the JSON of an object."""
    return b'{"apiVersion":"%s"' % api_version.encode()
