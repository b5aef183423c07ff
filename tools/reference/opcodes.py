"""The page of the opcodes, from their structs."""

import json
import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import inspect as types

from gantry.model import opcodes
from tools import descriptions
from tools.reference import page

ABOUT = """
A job is a list of opcodes, each an object with its name in `OP_ID` and its fields. An omitted field has its
default, and an unknown field is refused. Numbers and booleans may be text. Every opcode has these fields:
"""


def render() -> str:
    """Return the page: the opcodes, then the structures that they contain."""
    lines = _field_table(opcodes.Opcode, ())
    parts: dict[type, None] = {}
    for opcode in opcodes.ALL:
        name = f"OP_{re.sub(r'(?<!^)(?=[A-Z])', '_', opcode.__name__).upper()}"
        lines += [f"## {name}", "", page.text(opcode), "", *_field_table(opcode, opcodes.Opcode.__struct_fields__)]
    lines += ["## Fields of other clients", "", *FOREIGN.strip().splitlines(), "", *_foreign_table()]
    for struct in _opcodes():
        parts.update(dict.fromkeys(_parts(struct)))
    lines += ["## Structures", ""]
    for part in sorted(parts, key=lambda part: part.__name__):
        array = " It is written as a list." if types.type_info(part).array_like else ""  # type: ignore[attr-defined]
        lines += [f"### {part.__name__}", "", page.text(part) + array, "", *_field_table(part, ())]
    return page.render("Opcodes", ABOUT, lines)


FOREIGN = """
Clients of older clusters send fields that opcodes do not have here. Such a field is accepted while it has no effect:
null, empty, or one of the values in the second column. A field without an entry in the third column is accepted with
any value.
"""


def _foreign_table() -> list[str]:
    rows: list[tuple[str, ...]] = []
    for name, fields in opcodes.FOREIGN.items():
        for field, about in fields.items():
            idle = ", ".join(page.code(json.dumps(value)) for value in about.idle)
            rows.append((f"{name} {page.code(field)}", idle, about.about))
    return page.table(("field", "also accepted", "refused otherwise, because it asks for"), rows)


def _opcodes() -> list[type]:
    return [opcodes.Opcode, *opcodes.ALL]


def _struct_fields(struct: type) -> Sequence[types.Field]:
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    return info.fields


def _parts(struct: type) -> Iterator[type]:
    """Yield the structures in a structure's fields, at any depth."""
    for field in _struct_fields(struct):
        yield from _structs_in(field.type)


def _structs_in(kind: types.Type) -> Iterator[type]:
    match kind:
        case types.StructType():
            yield kind.cls
            yield from _parts(kind.cls)
        case types.Metadata():
            yield from _structs_in(kind.type)
        case types.UnionType():
            for member in kind.types:
                yield from _structs_in(member)
        case types.VarTupleType():
            yield from _structs_in(kind.item_type)


def _field_table(struct: type, without: Sequence[str]) -> list[str]:
    rows = [
        (page.code(field.encode_name), _kind(field.type), _default(field), descriptions.of(field.type))
        for field in _struct_fields(struct)
        if field.name not in without
    ]
    return page.table(("field", "type", "default", ""), rows) if rows else []


def _kind(kind: types.Type) -> str:
    """Describe the JSON values that a field accepts."""
    match kind:
        case types.Metadata():
            return _kind(kind.type)
        case types.BoolType():
            return "true or false"
        case types.IntType() | types.FloatType():
            return _bounded("number", kind.ge, kind.le)
        case types.StrType():
            return "text"
        case types.NoneType():
            return "null"
        case types.LiteralType():
            return " or ".join(f"`{value}`" for value in kind.values)
        case types.UnionType():
            return " or ".join(
                dict.fromkeys(_kind(member) for member in kind.types if not isinstance(member, types.NoneType))
            )
        case types.VarTupleType():
            return f"list of {_kind(kind.item_type)}"
        case types.TupleType():
            return f"list [{', '.join(_kind(item) for item in kind.item_types)}]"
        case types.DictType():
            return "object"
        case types.StructType():
            return f"[{kind.cls.__name__}](#{kind.cls.__name__.lower()})"
    return type(kind).__name__


def _bounded(word: str, low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"{word}, {low} to {high}"
    return f"{word} from {low}" if low is not None else word


def _default(field: types.Field) -> str:
    if field.required:
        return "required"
    if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT:
        return "omitted"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return page.code(msgspec.json.encode(value).decode())


def missing() -> Iterator[str]:
    """Yield each opcode, structure and field without a text."""
    for struct in dict.fromkeys([*_opcodes(), *(part for opcode in _opcodes() for part in _parts(opcode))]):
        if not struct.__doc__:
            yield struct.__name__
        inherited = opcodes.Opcode.__struct_fields__ if struct is not opcodes.Opcode else ()
        for field in _struct_fields(struct):
            if field.name not in inherited and not descriptions.of(field.type):
                yield f"{struct.__name__}.{field.name}"
