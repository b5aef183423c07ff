"""The filter language of queries: a JSON prefix list becomes a predicate over cells (contracts/query.md#filters).

A missing value equals nothing and has no order, so the only comparison that is true for it is ``!=``. ``check`` refuses
comparisons that no value of a field can pass, which would otherwise look like an empty list.
"""

import operator as operators
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from gantry import errors
from gantry.address import ranges
from gantry.model import fields, patterns
from gantry.operations.query import cells

Lookup = Callable[[str], cells.Cell]
"""Field name to the cell of the tested row."""
Predicate = Callable[[Lookup], bool]

HOSTNAME_FIELDS: Final = frozenset({"name", "pnode", "node"})
DEPTH_LIMIT: Final = 32

_ADDRESS_FIELDS: Final = "nic.ip/"
"""How the fields begin that are a list here and a text in Ganeti: the addresses of a NIC (``Shape.ADDRESSES``)."""
_MAC: Final = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")


def compile_filter(raw: object, *, depth: int = 0) -> Predicate:
    """Return the predicate of a filter; None accepts everything. Raises FilterError with the invalid part."""
    if raw is None:
        return lambda _: True
    if depth > DEPTH_LIMIT:
        raise errors.FilterError(f"filter is nested deeper than {DEPTH_LIMIT} levels")
    match raw:
        case ["&", *parts]:
            inner = [compile_filter(part, depth=depth + 1) for part in parts]
            return lambda row: all(test(row) for test in inner)
        case ["|", *parts] if (choice := _choice(parts)) is not None:
            return choice
        case ["|", *parts]:
            inner = [compile_filter(part, depth=depth + 1) for part in parts]
            return lambda row: any(test(row) for test in inner)
        case ["!", part]:
            test = compile_filter(part, depth=depth + 1)
            return lambda row: not test(row)
        case ["?", str(name)]:
            return _on_value(name, bool)
        case [str(operator), str(name), str() | int() | float() as value] if operator in _COMPARE:
            return _comparison(operator, name, value)
    raise errors.FilterError(f"invalid part of the filter: {raw!r}")


def check(raw: object, known: Mapping[str, fields.Field]) -> None:
    """Refuse a filter with a comparison that no value of a field can pass; ``known`` has the fields that it uses.

    Raises FilterError that says what the field holds, with a comparison that works.
    """
    match raw:
        case ["&" | "|" | "!", *parts]:
            for part in parts:
                check(part, known)
        case ["=~" | "?", *_]:
            return
        case [str(operator), str(name), str() | int() | float() as value] if name in known:
            shape = known[name].shape
            if not _possible(operator, shape, value):
                raise _impossible(operator, known[name], value)


def _possible(operator: str, shape: fields.Shape, value: str | int | float) -> bool:
    """Return whether a comparison can be true for some values of a shape, and false for others."""
    is_text = isinstance(value, str)
    match shape:
        case fields.Shape.LIST | fields.Shape.TEXTS | fields.Shape.NUMBERS:
            return operator == "=[]" and shape is not (fields.Shape.NUMBERS if is_text else fields.Shape.TEXTS)
        case fields.Shape.ADDRESSES:
            return is_text
        case fields.Shape.TEXT:
            return operator != "=[]" and is_text
        case fields.Shape.NUMBER | fields.Shape.TIME:
            return operator != "=[]" and not is_text
        case fields.Shape.BOOL:
            return operator in ("=", "==", "!=") and not is_text and value in (0, 1)
        case fields.Shape.MAP:
            return False


def _impossible(operator: str, field: fields.Field, value: str | int | float) -> errors.FilterError:
    name, text = field.name, f'"{value}"'
    written = text if isinstance(value, str) else str(value)
    symbol = "==" if operator in ("=[]", "=") else operator
    match field.shape:
        case fields.Shape.TEXT:
            hint = f"write {name} {symbol} {text}, or {name} =~ m/{value}/ for a part of it"
        case fields.Shape.NUMBER | fields.Shape.TIME:
            hint = f"write {name} {symbol} NUMBER, without quotes"
        case fields.Shape.BOOL:
            hint = f"write {name}, or not {name}"
        case fields.Shape.MAP:
            hint = "compare the field of one parameter, as in hv/NAME, be/NAME or ndp/NAME"
        case fields.Shape.NUMBERS:
            hint = f"write NUMBER in {name}"
        case _:
            hint = f"write {text} in {name}, or {name} =~ m/{value}/ for a part of it"
    compared = f"{written} in {name}" if operator == "=[]" else f"{name} {operator} {written}"
    return errors.FilterError(f"the filter cannot compare {compared}: {name} is {field.shape.value}", hint=hint)


def fields_of(raw: object) -> set[str]:
    """Return the names of the fields that a filter uses."""
    match raw:
        case ["&" | "|" | "!", *parts]:
            return set().union(*(fields_of(part) for part in parts))
        case [str(), str(name), *_]:
            return {name}
    return set()


def names_of(raw: object, name_field: str) -> list[str | int] | None:
    """Return the names, in order, if a filter only selects names; otherwise None."""
    match raw:
        case ["=" | "==", str(name), str() | int() as value] if name == name_field:
            return [value]
        case ["|", *parts] if parts:
            parts_names = [names_of(part, name_field) for part in parts]
            if all(parts_names):
                return [name for names in parts_names if names for name in names]
    return None


def spelled(value: str) -> str:
    """Return the canonical spelling of a MAC or IPv6 address, as objects have it, and any other text unchanged."""
    if ":" not in value:
        return value
    if _MAC.fullmatch(value):
        return value.lower()
    try:
        return str(ranges.parse_address(value))
    except errors.InvalidError:
        return value


def _choice(parts: Sequence[object]) -> Predicate | None:
    """Return the predicate for a choice of texts for one field, at constant cost; None for any other choice."""
    name, texts = "", set[str]()
    for part in parts:
        match part:
            case ["=" | "==", str(field), str(text)] if not texts or field == name:
                name = field
                texts |= {text, spelled(text)}
            case _:
                return None
    if not texts:
        return None
    hosts = name in HOSTNAME_FIELDS

    def fits(cell: object) -> bool:
        if isinstance(cell, list):
            return name.startswith(_ADDRESS_FIELDS) and any(map(fits, cell))
        return isinstance(cell, str) and (cell in texts or (hosts and cell.partition(".")[0] in texts))

    return _on_value(name, fits)


def _on_value(name: str, test: Callable[[object], bool], *, missing: bool = False) -> Predicate:
    """Return the predicate that tests a field's value; ``missing`` is the answer if there is no value."""

    def passes(row: Lookup) -> bool:
        cell = row(name)
        return missing if cell is None or isinstance(cell, cells.Missing) else test(cell)

    return passes


def _comparison(operator: str, name: str, value: str | int | float) -> Predicate:
    test, negated = _test(operator, name, value), operator == "!="
    if name.startswith(_ADDRESS_FIELDS) and operator != "=[]":
        any_address = _any_item(test)
        return _on_value(name, lambda cell: any_address(cell) is not negated, missing=negated)
    return _on_value(name, lambda cell: test(cell) is not negated, missing=negated)


def _test(operator: str, name: str, value: str | int | float) -> Callable[[object], bool]:
    """Return the test of one value for an operator; ``!=`` gets the test for equality."""
    if operator == "=~":
        return _matcher(value)
    if operator in ("=", "==", "!="):
        values = {value, spelled(value)} if isinstance(value, str) else {value}
        if name in HOSTNAME_FIELDS and isinstance(value, str):
            return lambda cell: _same_host(cell, value)
        return lambda cell: any(_equal(cell, spelling) for spelling in values)
    compare = _COMPARE[operator]
    return lambda cell: compare(cell, value)


def _any_item(test: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda cell: any(map(test, cell)) if isinstance(cell, Sequence) and not isinstance(cell, str) else test(cell)


def _same_host(cell: object, value: str) -> bool:
    return cell == value or (isinstance(cell, str) and cell.partition(".")[0] == value)


def _matcher(pattern: object) -> Callable[[object], bool]:
    """Return the test whether an expression matches: a value, or one of the values of a list."""
    try:
        matches = patterns.searcher(str(pattern))
    except errors.InvalidError as error:
        raise errors.FilterError(error.message, hint=error.hint) from None
    return lambda cell: (
        any(matches(str(item)) for item in _items(cell)) if isinstance(cell, list) else matches(str(cell))
    )


def _items(cell: object) -> Iterator[object]:
    """Yield the values of a list, of its rows, and of their rows, without missing ones."""
    if isinstance(cell, list | tuple):
        for item in cell:
            yield from _items(item)
    elif isinstance(cell, Mapping):
        yield from _items(list(cell.values()))
    elif cell is not None:
        yield cell


def _ordered(test: Callable[[float | str, float | str], bool]) -> Callable[[object, str | int | float], bool]:
    def compare(cell: object, value: str | int | float) -> bool:
        if isinstance(cell, str) and isinstance(value, str):
            return test(cell, value)
        number = _number(cell)
        return number is not None and not isinstance(value, str) and test(number, value)

    return compare


def _number(cell: object) -> float | None:
    if isinstance(cell, int | float):
        return cell
    if isinstance(cell, list | tuple) and len(cell) == 2 and all(isinstance(part, int) for part in cell):
        return float(cell[0]) + float(cell[1]) / 1e6
    return None


def _contains(cell: object, value: str | int | float) -> bool:
    """Return whether a list has a value, itself or in one of its rows: ``nic.ips`` has a list for each NIC."""
    if not isinstance(cell, list | tuple):
        return False
    values = {value, spelled(value)} if isinstance(value, str) else {value}
    return any(item in values for item in _items(cell))


def _equal(cell: object, value: str | int | float) -> bool:
    return cell == value or (_number(cell) == value and not isinstance(cell, bool))


_COMPARE: Final[dict[str, Callable[[object, str | int | float], bool]]] = {
    "=": _equal,
    "==": _equal,
    "!=": _equal,
    "<": _ordered(operators.lt),
    ">": _ordered(operators.gt),
    "<=": _ordered(operators.le),
    ">=": _ordered(operators.ge),
    "=~": lambda cell, value: _matcher(value)(cell),
    "=[]": _contains,
}
