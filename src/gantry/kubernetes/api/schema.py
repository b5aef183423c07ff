"""Schemas: the valid values of a resource's fields, derived from the struct of the resource.

A resource is declared once, as a struct. ``meta.read`` checks types only, so that objects accepted by laxer definitions
can still be read; further constraints are in the ``Rule`` of a field. ``of`` builds a ``Node`` from both, from which
everything else is derived: the schema in custom resource definitions and in OpenAPI (``to_openapi``), defaulting,
pruning and validation.

``definitions`` and the embedded API server call it. Pure. The texts of a ``Cause`` are those of Kubernetes, because
users search for them (contracts/kubernetes-api.md#invalid-objects).
"""

import json
import re
import types
import typing
from collections.abc import Iterator, Mapping

import msgspec

Json = dict[str, object]
"""A JSON object."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Constraints of a field beyond its type; ``only`` are the API versions that have the field, by default all.

    A field with ``lenient`` versions is optional with its default in these, and required in the others.
    """

    text: str = ""
    required: bool = False
    pattern: str = ""
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    max_items: int | None = None
    default: str | bool | int | None = None
    format: str = ""
    atomic: bool = False
    only: tuple[str, ...] = ()
    lenient: tuple[str, ...] = ()


_NO_RULE = Rule()


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """Schema of a value. ``free`` objects allow any field; ``items`` is the schema of list items or of map values."""

    type: str = ""
    rule: Rule = _NO_RULE
    properties: Mapping[str, "Node"] = {}
    items: "Node | None" = None
    free: bool = False

    @property
    def required(self) -> list[str]:
        """The names of the required properties."""
        return [name for name, node in self.properties.items() if node.rule.required]


class Cause(msgspec.Struct, frozen=True):
    """Why an object is invalid: a Kubernetes ``FieldValue`` reason, the field's path, and a message."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
TYPE = "FieldValueTypeInvalid"
UNSUPPORTED = "FieldValueNotSupported"
FORBIDDEN = "FieldValueForbidden"
TOO_MANY = "FieldValueTooMany"

_SCALARS = {str: "string", int: "integer", bool: "boolean"}
_PYTHON: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def of(kind: object, version: str, rule: Rule | None = None) -> Node:
    """Return the schema of a type in a version: a struct, a scalar, ``tuple[X, ...]``, ``dict[str, X]`` or object.

    ``X | None`` is X, because a null is an absent field. ``object`` and structs without fields are ``free``.
    """
    rule = rule or _NO_RULE
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return of(arguments[0], version, next(argument for argument in arguments[1:] if isinstance(argument, Rule)))
    if origin in (typing.Union, types.UnionType):
        return of(next(argument for argument in arguments if argument is not type(None)), version, rule)
    if origin is tuple:
        return Node(type="array", rule=rule, items=of(arguments[0], version))
    if origin is dict:
        items = of(arguments[1], version)
        return Node(type="object", rule=rule, items=None if items.free else items, free=items.free)
    if isinstance(kind, type) and kind in _SCALARS:
        return Node(type=_SCALARS[kind], rule=rule)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        properties = dict(_properties(kind, version))
        return Node(type="object", rule=rule, properties=properties, free=not properties)
    return Node(rule=rule, free=True)


def _properties(kind: type[msgspec.Struct], version: str) -> Iterator[tuple[str, Node]]:
    for field in msgspec.structs.fields(kind):
        node = of(field.type, version)
        if node.rule.lenient:
            strict = version not in node.rule.lenient
            default = None if strict else node.rule.default
            rule = msgspec.structs.replace(node.rule, required=strict, default=default)
            node = msgspec.structs.replace(node, rule=rule)
        if not node.rule.only or version in node.rule.only:
            yield field.encode_name, node


def to_openapi(node: Node, *, preserve: bool = True) -> Json:
    """Return the schema in OpenAPI form; ``preserve`` adds ``x-kubernetes-preserve-unknown-fields`` to free objects."""
    rule = node.rule
    keywords: Json = {
        "type": node.type,
        "description": rule.text,
        "pattern": rule.pattern,
        "enum": list(rule.enum),
        "format": rule.format,
        "required": node.required,
        "properties": {name: to_openapi(child, preserve=preserve) for name, child in node.properties.items()},
    }
    numbers: Json = {
        "minimum": rule.minimum,
        "maximum": rule.maximum,
        "minLength": rule.min_length,
        "maxLength": rule.max_length,
        "maxItems": rule.max_items,
        "default": rule.default,
    }
    out = {key: value for key, value in keywords.items() if value}
    out.update((key, value) for key, value in numbers.items() if value is not None)
    if node.items is not None:
        out["items" if node.type == "array" else "additionalProperties"] = to_openapi(node.items, preserve=preserve)
    if node.free and preserve:
        out["x-kubernetes-preserve-unknown-fields"] = True
    if rule.atomic:
        out["x-kubernetes-map-type"] = "atomic"
    return out


def fits(node: Node, value: object) -> bool:
    """Return whether a value is valid, has no unknown field, and lacks none that has a default: a fast path.

    Otherwise call ``unknown_fields``, ``prune``, ``apply_defaults`` and ``check``, which also handle nulls.
    """
    if not node.type:
        return True
    if not isinstance(value, _PYTHON[node.type]) or (isinstance(value, bool) and node.type != "boolean"):
        return False
    if node.rule is not _NO_RULE and any(True for _ in _check_rule(node.rule, value, "")):
        return False
    if node.free and not node.properties:
        return True
    if isinstance(value, dict):
        for name, required_child in node.properties.items():
            if name not in value and (required_child.rule.required or required_child.rule.default is not None):
                return False
        for key, item in value.items():
            child = node.properties.get(key) or node.items
            if item is None or not (node.free if child is None else fits(child, item)):
                return False
    elif isinstance(value, list) and node.items is not None:
        return all(fits(node.items, item) for item in value)
    return True


def apply_defaults(node: Node, value: object) -> object:
    """Return the value with defaults filled in for absent and null fields."""
    if isinstance(value, dict) and not node.free:
        children = ((key, node.properties.get(key) or node.items, item) for key, item in value.items())
        out = {key: apply_defaults(child, item) if child else item for key, child, item in children}
        for name, child in node.properties.items():
            if out.get(name) is None and child.rule.default is not None:
                out[name] = child.rule.default
        return out
    if isinstance(value, list) and node.items is not None:
        return [apply_defaults(node.items, item) for item in value]
    return value


def prune(node: Node, value: object) -> object:
    """Return the value without unknown fields."""
    if isinstance(value, dict) and not node.free:
        children = ((key, node.properties.get(key) or node.items, item) for key, item in value.items())
        return {key: prune(child, item) for key, child, item in children if child is not None}
    if isinstance(value, list) and node.items is not None:
        return [prune(node.items, item) for item in value]
    return value


def unknown_fields(node: Node, value: object, path: str = "") -> Iterator[str]:
    """Yield the paths of unknown fields, which ``prune`` removes."""
    if isinstance(value, dict) and not node.free:
        for key, item in value.items():
            child = node.properties.get(key) or node.items
            if child is None:
                yield _child_path(path, key)
            else:
                yield from unknown_fields(child, item, _child_path(path, key))
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            yield from unknown_fields(node.items, item, f"{path}[{index}]")


def check(node: Node, value: object, path: str = "") -> Iterator[Cause]:
    """Yield the violations of the schema, field by field; nothing if the value is valid. Nulls count as absent."""
    if not node.type:
        return
    if not isinstance(value, _PYTHON[node.type]) or (isinstance(value, bool) and node.type != "boolean"):
        type_name = _type_name(value)
        text = f'Invalid value: "{type_name}": {path} in body must be of type {node.type}: "{type_name}"'
        yield Cause(TYPE, path, text)
        return
    yield from _check_rule(node.rule, value, path)
    if isinstance(value, dict):
        for name in node.required:
            if value.get(name) is None:
                yield Cause(REQUIRED, _child_path(path, name), "Required value")
        for key, item in value.items():
            child = node.properties.get(key) or node.items
            if child is not None and item is not None:
                yield from check(child, item, _child_path(path, key))
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            yield from check(node.items, item, f"{path}[{index}]")


def _check_rule(rule: Rule, value: object, path: str) -> Iterator[Cause]:
    if isinstance(value, str):
        if rule.enum and value not in rule.enum:
            supported = ", ".join(f'"{value}"' for value in rule.enum)
            yield Cause(UNSUPPORTED, path, f"Unsupported value: {json.dumps(value)}: supported values: {supported}")
        if rule.min_length is not None and len(value) < rule.min_length:
            yield _invalid(path, value, f"should be at least {rule.min_length} chars long")
        if rule.max_length is not None and len(value) > rule.max_length:
            yield _invalid(path, value, f"should be at most {rule.max_length} chars long")
        if rule.pattern and not re.fullmatch(rule.pattern, value):
            yield _invalid(path, value, f"should match '{rule.pattern}'")
    elif isinstance(value, int):
        if rule.minimum is not None and value < rule.minimum:
            yield _invalid(path, value, f"should be greater than or equal to {rule.minimum}")
        if rule.maximum is not None and value > rule.maximum:
            yield _invalid(path, value, f"should be less than or equal to {rule.maximum}")
    elif isinstance(value, list) and rule.max_items is not None and len(value) > rule.max_items:
        yield Cause(TOO_MANY, path, f"Too many: {len(value)}: must have at most {rule.max_items} items")


def _invalid(path: str, value: object, what: str) -> Cause:
    return Cause(INVALID, path, f"Invalid value: {json.dumps(value)}: {path} in body {what}")


def _child_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _type_name(value: object) -> str:
    """Return the name that Kubernetes uses for the type of a JSON value."""
    kinds = [name for name, kind in _PYTHON.items() if isinstance(value, kind)]
    if isinstance(value, bool):
        return "boolean"
    return kinds[0] if kinds else "null" if value is None else "number"
