"""Decode request bodies in Protocol Buffers, for the kinds that newer ``kubectl create`` sends so: Namespace, Secret.

``content_types`` calls it. All other requests and answers are JSON, which every client accepts. A body is ``MAGIC`` and
an envelope with the object's version, its kind and the object. Fields that are not in the tables are those set by the
server; they are ignored.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Literal

from gantry.kubernetes.api import schema

MAGIC = b"k8s\0"

Kind = Literal["text", "texts", "flag", "map", "data"]
Message = Mapping[int, "tuple[str, Kind | Message] | tuple[str, Message, Literal['list']]"]

_OWNER: Message = {
    1: ("kind", "text"),
    3: ("name", "text"),
    4: ("uid", "text"),
    5: ("apiVersion", "text"),
    6: ("controller", "flag"),
    7: ("blockOwnerDeletion", "flag"),
}
_METADATA: Message = {
    1: ("name", "text"),
    2: ("generateName", "text"),
    3: ("namespace", "text"),
    5: ("uid", "text"),
    6: ("resourceVersion", "text"),
    11: ("labels", "map"),
    12: ("annotations", "map"),
    13: ("ownerReferences", _OWNER, "list"),
    14: ("finalizers", "texts"),
}
_KINDS: Mapping[str, Message] = {
    "Namespace": {1: ("metadata", _METADATA)},
    "Secret": {
        1: ("metadata", _METADATA),
        2: ("data", "data"),
        3: ("type", "text"),
        4: ("stringData", "map"),
        5: ("immutable", "flag"),
    },
}
_TYPE: Message = {1: ("apiVersion", "text"), 2: ("kind", "text")}
_ENVELOPE: Message = {1: ("type", _TYPE)}


def decode(body: bytes) -> schema.Json | None:
    """Decode a body, None for another kind; ValueError if it is malformed."""
    if not body.startswith(MAGIC):
        raise ValueError("missing the magic number of Kubernetes Protocol Buffers")
    envelope = body[len(MAGIC) :]
    head = _message(envelope, _ENVELOPE).get("type")
    kind = head.get("kind") if isinstance(head, dict) else None
    if not isinstance(head, dict) or kind not in _KINDS:
        return None
    content = b"".join(value for number, value in _fields(envelope) if number == 2 and isinstance(value, bytes))
    return {**head, **_message(content, _KINDS[str(kind)])}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and value of each field; ValueError."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        match tag & 7:
            case 0:
                value, position = _varint(data, position)
                yield tag >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, position = _varint(data, position)
            case 5:
                size = 4
            case other:
                raise ValueError(f"unknown wire type {other}")
        if position + size > len(data):
            raise ValueError("truncated field")
        yield tag >> 3, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ValueError("truncated varint")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("varint is too long")


def _message(data: bytes, schema_fields: Message) -> schema.Json:
    out: schema.Json = {}
    for number, value in _fields(data):
        if number not in schema_fields:
            continue
        name, kind, *is_repeated = schema_fields[number]
        if kind == "flag":
            out[name] = bool(value)
        elif not isinstance(value, bytes):
            raise ValueError(f"{name} has the wrong wire type")
        elif kind == "text":
            out[name] = value.decode()
        elif kind in ("map", "data"):
            key, content = _pair(value)
            _nested_object(out, name, {})[key] = (
                base64.b64encode(content).decode() if kind == "data" else content.decode()
            )
        elif kind == "texts":
            _nested_list(out, name).append(value.decode())
        elif isinstance(kind, Mapping):
            nested = _message(value, kind)
            if is_repeated:
                _nested_list(out, name).append(nested)
            else:
                out[name] = nested
    return out


def _pair(data: bytes) -> tuple[str, bytes]:
    fields = {number: value for number, value in _fields(data) if isinstance(value, bytes)}
    return fields.get(1, b"").decode(), fields.get(2, b"")


def _nested_object(out: schema.Json, name: str, new: schema.Json) -> schema.Json:
    value = out.setdefault(name, new)
    assert isinstance(value, dict)
    return value


def _nested_list(out: schema.Json, name: str) -> list[object]:
    values = out.setdefault(name, [])
    assert isinstance(values, list)
    return values
