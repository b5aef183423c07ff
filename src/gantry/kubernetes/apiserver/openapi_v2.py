"""The OpenAPI 2 document in Protocol Buffers, the only form that ``kubectl`` before 1.29 reads.

``discovery`` calls it. The messages are those of gnostic's ``openapi.v2``, with the parts that ``kubectl`` uses: the
fields of each kind, and the query parameters of each path, from which it learns the features of the server.
"""

from collections.abc import Iterable

import msgspec

from gantry.kubernetes.api import schema

CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ACCEPTED_TYPES = (CONTENT_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
"""The types that clients accept; the second is not a valid content type and is never answered."""
_METHODS = {"put": 3, "post": 4, "patch": 8}


def encode(document: schema.Json) -> bytes:
    """Encode a document of version 2."""
    info = _as_object(document["info"])
    paths = (
        _message(2, _named_value(path, _item(_as_object(item)))) for path, item in _as_object(document["paths"]).items()
    )
    return b"".join(
        [
            _text(1, document["swagger"]),
            _message(2, _text(1, info["title"]) + _text(2, info["version"])),
            _message(8, b"".join(paths)),
            _message(9, _schemas(_as_object(document["definitions"]))),
        ]
    )


def _item(item: schema.Json) -> bytes:
    return b"".join(
        _message(number, _method(_as_object(item[name]))) for name, number in _METHODS.items() if name in item
    )


def _method(method: schema.Json) -> bytes:
    """Encode the query parameters and the extensions of a method."""
    parameters = [
        parameter for parameter in map(_as_object, _as_list(method["parameters"])) if parameter["in"] == "query"
    ]
    queries = (
        _text(2, parameter["in"]) + _text(4, parameter["name"]) + _text(6, parameter["type"])
        for parameter in parameters
    )
    return b"".join(_message(8, _message(1, _message(2, _message(3, query)))) for query in queries) + _extensions(
        13, method
    )


def _schemas(schemas: schema.Json) -> bytes:
    return b"".join(_message(1, _named_value(name, _schema(_as_object(node)))) for name, node in schemas.items())


def _schema(node: schema.Json) -> bytes:
    out = [_text(4, node["description"])] if node.get("description") else []
    out += [_text(19, name) for name in _as_list(node.get("required", []))]
    if "additionalProperties" in node:
        out.append(_message(21, _message(1, _schema(_as_object(node["additionalProperties"])))))
    if node.get("type"):
        out.append(_message(22, _text(1, node["type"])))
    if "items" in node:
        out.append(_message(23, _message(1, _schema(_as_object(node["items"])))))
    if "properties" in node:
        out.append(_message(25, _schemas(_as_object(node["properties"]))))
    return b"".join([*out, _extensions(31, node)])


def _extensions(number: int, node: schema.Json) -> bytes:
    """Encode the fields that begin with ``x-``; their values are YAML, of which JSON is a subset."""
    extensions: Iterable[tuple[str, object]] = (
        (name, extension) for name, extension in node.items() if name.startswith("x-")
    )
    return b"".join(
        _message(number, _named_value(name, _text(2, msgspec.json.encode(value)))) for name, value in extensions
    )


def _named_value(name: str, value: bytes) -> bytes:
    return _text(1, name) + _message(2, value)


def _text(number: int, value: object) -> bytes:
    return _message(number, value if isinstance(value, bytes) else str(value).encode())


def _message(number: int, body: bytes) -> bytes:
    """Encode a field of wire type 2: number, length and content."""
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _as_object(value: object) -> schema.Json:
    return msgspec.convert(value, schema.Json)


def _as_list(value: object) -> list[object]:
    return msgspec.convert(value, list[object])
