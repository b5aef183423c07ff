"""Query results as text: tables for people, and ``json``, ``yaml`` and ``csv`` for programs.

A table has the titles as headers, two spaces between columns, and numbers aligned to the right; with a separator it has
no padding (contracts/commands.md#formatting). A missing value shows the reason: ``??`` unknown field, ``?`` no data,
``-`` unavailable, ``*`` offline. The formats for programs have field names as keys, and null for missing values.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gantry.cli import client
from gantry.cli.output import documents

FORMATS = ("table", "json", "yaml", "csv")
UNITS = ("h", "m", "g", "t")
MISSING = {1: ("??", "(unknown)"), 2: ("?", "(nodata)"), 3: ("-", "(unavail)"), 4: ("*", "(offline)")}
TO_THE_RIGHT = ("number", "float", "unit")
GAP = "  "

Formatter = Callable[[object], str]
NO_FORMATTERS: Mapping[str, Formatter] = {}


class Style(NamedTuple):
    """The format options of a table; empty ``units`` select the default of the format."""

    format: str = "table"
    headers: bool = True
    separator: str | None = None
    units: str = ""
    verbose: bool = False


def render(table: client.Table, style: Style, formatters: Mapping[str, Formatter] = NO_FORMATTERS) -> str:
    """Return a table as text; ``formatters`` format fields whose values are structures, by field name."""
    if style.format == "json":
        return "[" + ",".join("\n " + json.dumps(record, ensure_ascii=False) for record in _records(table)) + "\n]"
    if style.format == "yaml":
        return documents.document(list(_records(table)))
    columns = [_column(table, index, style, formatters) for index in range(len(table.fields))]
    if style.format == "csv":
        return _csv(table, style, columns)
    if style.headers:
        columns = [[field.title, *column] for field, column in zip(table.fields, columns, strict=True)]
    rows: Iterator[tuple[str, ...]] = zip(*columns, strict=True)
    if style.separator is not None:
        return "\n".join(style.separator.join(row) for row in rows)
    return "\n".join(GAP.join(row).rstrip() for row in zip(*_padded(table.fields, columns), strict=True))


def unit(mebibytes: float, units: str) -> str:
    """Return a size of memory or disk as text; ``h`` chooses the unit and appends it."""
    if units == "h":
        units = "m" if mebibytes < 1024 else "g" if mebibytes < 1024 * 1024 else "t"
        return unit(mebibytes, units) + units.upper()
    if units == "m":
        return f"{mebibytes:.0f}"
    return f"{mebibytes / (1024 if units == 'g' else 1024 * 1024):.1f}"


def text(value: object, *, separator: str = ",") -> str:
    """Return any value as text; nested lists are joined by slashes."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "Y" if value else "N"
    if isinstance(value, Mapping):
        return separator.join(f"{key}={text(inner, separator='/')}" for key, inner in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return separator.join(text(inner, separator="/") for inner in value)
    return str(value)


def _records(table: client.Table) -> Iterator[dict[str, object]]:
    names = [field.name for field in table.fields]
    for row in table.rows:
        yield {name: value if status == 0 else None for name, (status, value) in zip(names, row, strict=True)}


def _column(table: client.Table, index: int, style: Style, formatters: Mapping[str, Formatter]) -> list[str]:
    field = table.fields[index]
    show = formatters.get(field.name) or _formatter(field.kind, style)
    missing = MISSING if style.format == "table" else {}
    return [
        show(value) if status == 0 else missing.get(status, ("", ""))[style.verbose]
        for status, value in (row[index] for row in table.rows)
    ]


def _formatter(kind: str, style: Style) -> Formatter:
    if kind == "unit":
        units = style.units or ("h" if style.separator is None and style.format == "table" else "m")
        return lambda value: unit(value, units) if isinstance(value, int | float) else text(value)
    if kind == "timestamp":
        return lambda value: documents.moment(value)
    return text


def _padded(fields: Sequence[client.Field], columns: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    for field, column in zip(fields, columns, strict=True):
        width = max((len(cell) for cell in column), default=0)
        adjust = str.rjust if field.kind in TO_THE_RIGHT else str.ljust
        yield [adjust(cell, width) for cell in column]


def _csv(table: client.Table, style: Style, columns: Sequence[Sequence[str]]) -> str:
    import csv
    import io

    file = io.StringIO()
    writer = csv.writer(file, delimiter=(style.separator or ",")[:1], lineterminator="\n")
    if style.headers:
        writer.writerow(field.name for field in table.fields)
    writer.writerows(zip(*columns, strict=True))
    return file.getvalue().removesuffix("\n")
