"""What a client may have meant: the names that fit where an opcode does not, for ``decode``'s error.

Of a field that is not known and of a word that is none of those allowed, msgspec says only where it stands. The
declaration says what could stand there; it is followed along that path. Pure.
"""

import difflib
import re
from collections.abc import Sequence

import msgspec
from msgspec import inspect

_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`(?: - at `\$(?P<path>[^`]*)`)?")
_NO_CHOICE = re.compile(r"Invalid enum value '(?P<name>[^']*)'(?: - at `\$(?P<path>[^`]*)`)?")
_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
DEFAULT = "see the reference of opcodes for its fields"


def hint(opcode: type[msgspec.Struct] | None, said: str) -> str:
    """Return the nearest field that there is, or all; or all words that are allowed."""
    unknown = _UNKNOWN.match(said)
    found = unknown or _NO_CHOICE.match(said)
    if opcode is None or found is None:
        return DEFAULT
    parts = [name or int(index) for name, index in _PART.findall(found["path"] or "")]
    places = _follow(inspect.type_info(opcode), parts)
    names = [name for place in places for name in (_fields(place) if unknown else _choices(place))]
    close = difflib.get_close_matches(found["name"], names, n=1) if unknown else []
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}" if names else DEFAULT


def _follow(place: inspect.Type, parts: Sequence[str | int]) -> list[inspect.Type]:
    """Return what may stand at the end of a path: several where a union allows them."""
    match place:
        case inspect.Metadata(type=inner):
            return _follow(inner, parts)
        case inspect.UnionType(types=several):
            return [one for inner in several for one in _follow(inner, parts)]
    if not parts:
        return [place]
    first, rest = parts[0], parts[1:]
    match place:
        case inspect.StructType(array_like=True, fields=fields) if isinstance(first, int):
            return _follow(fields[first].type, rest) if first < len(fields) else []
        case inspect.StructType(fields=fields):
            return [one for field in fields if field.encode_name == first for one in _follow(field.type, rest)]
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return _follow(item, rest)
    return []


def _fields(place: inspect.Type) -> list[str]:
    return [field.encode_name for field in place.fields] if isinstance(place, inspect.StructType) else []


def _choices(place: inspect.Type) -> list[str]:
    match place:
        case inspect.LiteralType(values=values):
            return [str(value) for value in values]
        case inspect.EnumType(cls=kind):
            return [str(one.value) for one in kind]
    return []
