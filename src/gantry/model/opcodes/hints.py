"""Hints for opcodes that cannot be decoded: the valid names at the path of the error. Pure.

msgspec reports only the path of an unknown field or an invalid word. This module follows that path through the opcode's
declaration and finds the names that are valid there.
"""

import difflib
import re
from collections.abc import Sequence

import msgspec
from msgspec import inspect

from gantry.model.opcodes import base

_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`(?: - at `\$(?P<path>[^`]*)`)?")
_NO_CHOICE = re.compile(r"Invalid enum value '(?P<name>[^']*)'(?: - at `\$(?P<path>[^`]*)`)?")
_MATCHING = re.compile(r"`str` matching regex (?P<pattern>'\S*')")
_SPELLINGS = {repr(pattern): words for pattern, words in base.SPELLINGS.items()}
_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
DEFAULT = "see the reference of opcodes for its fields"


def spelled(message: str) -> str:
    """Return an error message of msgspec with words in the place of a regular expression.

    >>> spelled(r"Expected `str` matching regex '^[A-Za-z0-9_.+*/:@-]+$(?!\\\\n)' - at `$.tags[0]`")
    'Expected a tag (letters, digits and _ . + * / : @ -) - at `$.tags[0]`'
    """
    return _MATCHING.sub(lambda match: _SPELLINGS.get(match["pattern"], match[0]), message)


def hint(opcode: type[msgspec.Struct] | None, message: str) -> str:
    """Return a hint for an error message of msgspec: the most similar field, or all valid fields or words."""
    unknown = _UNKNOWN.match(message)
    match = unknown or _NO_CHOICE.match(message)
    if opcode is None or match is None:
        return DEFAULT
    parts = [name or int(index) for name, index in _PART.findall(match["path"] or "")]
    types = _follow(inspect.type_info(opcode), parts)
    names = [name for type_ in types for name in (_fields(type_) if unknown else _choices(type_))]
    close = difflib.get_close_matches(match["name"], names, n=1) if unknown else []
    if close:
        return f"did you mean {close[0]}?"
    return f"valid {'fields' if unknown else 'values'}: {', '.join(names)}" if names else DEFAULT


def _follow(type_: inspect.Type, parts: Sequence[str | int]) -> list[inspect.Type]:
    """Return the types at the end of a path, several if the path passes a union."""
    match type_:
        case inspect.Metadata(type=inner):
            return _follow(inner, parts)
        case inspect.UnionType(types=members):
            return [result for member in members for result in _follow(member, parts)]
    if not parts:
        return [type_]
    first, following = parts[0], parts[1:]
    match type_:
        case inspect.StructType(array_like=True, fields=fields) if isinstance(first, int):
            return _follow(fields[first].type, following) if first < len(fields) else []
        case inspect.StructType(fields=fields):
            named = [field for field in fields if field.encode_name == first]
            return [result for field in named for result in _follow(field.type, following)]
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return _follow(item, following)
    return []


def _fields(type_: inspect.Type) -> list[str]:
    return [field.encode_name for field in type_.fields] if isinstance(type_, inspect.StructType) else []


def _choices(type_: inspect.Type) -> list[str]:
    match type_:
        case inspect.LiteralType(values=values):
            return [str(value) for value in values]
        case inspect.EnumType(cls=enum):
            return [str(member.value) for member in enum]
    return []
