"""The filter language of queries: a JSON prefix list becomes a predicate over cells (contracts/query.md#filters)."""

import operator as operators
from collections.abc import Callable, Sequence
from typing import Final

from gantry import errors
from gantry.model import patterns
from gantry.operations.query import cells

Lookup = Callable[[str], cells.Cell]
"""Field name to the cell of the tested row."""
Predicate = Callable[[Lookup], bool]

HOSTNAME_FIELDS: Final = frozenset({"name", "pnode", "node"})
DEPTH_LIMIT: Final = 32


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


def _choice(parts: Sequence[object]) -> Predicate | None:
    """Return the predicate for a choice of texts for one field, at constant cost; None for any other choice."""
    name, texts = "", set[str]()
    for part in parts:
        match part:
            case ["=" | "==", str(field), str(text)] if not texts or field == name:
                name = field
                texts.add(text)
            case _:
                return None
    if not texts:
        return None
    hosts = name in HOSTNAME_FIELDS
    return _on_value(
        name,
        lambda cell: isinstance(cell, str) and (cell in texts or (hosts and cell.partition(".")[0] in texts)),
    )


def _on_value(name: str, test: Callable[[object], bool]) -> Predicate:
    def passes(row: Lookup) -> bool:
        cell = row(name)
        return True if isinstance(cell, cells.Missing) else test(cell)

    return passes


def _comparison(operator: str, name: str, value: str | int | float) -> Predicate:
    if operator == "=~":
        return _on_value(name, _matcher(value))
    if operator in ("=", "==", "!=") and name in HOSTNAME_FIELDS and isinstance(value, str):
        expected = operator != "!="
        return _on_value(name, lambda cell: _same_host(cell, value) is expected)
    compare = _COMPARE[operator]
    return _on_value(name, lambda cell: compare(cell, value))


def _same_host(cell: object, value: str) -> bool:
    return cell == value or (isinstance(cell, str) and cell.partition(".")[0] == value)


def _matcher(pattern: object) -> Callable[[object], bool]:
    try:
        matches = patterns.searcher(str(pattern))
    except errors.InvalidError as error:
        raise errors.FilterError(error.message, hint=error.hint) from None
    return lambda cell: matches(str(cell))


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
    return isinstance(cell, Sequence) and not isinstance(cell, str) and value in cell


def _equal(cell: object, value: str | int | float) -> bool:
    return cell == value or (_number(cell) == value and not isinstance(cell, bool))


_COMPARE: Final[dict[str, Callable[[object, str | int | float], bool]]] = {
    "=": _equal,
    "==": _equal,
    "!=": lambda cell, value: not _equal(cell, value),
    "<": _ordered(operators.lt),
    ">": _ordered(operators.gt),
    "<=": _ordered(operators.le),
    ">=": _ordered(operators.ge),
    "=~": lambda cell, value: _matcher(value)(cell),
    "=[]": _contains,
}
