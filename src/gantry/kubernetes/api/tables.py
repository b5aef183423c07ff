"""Tables: the columns of a kind and the cells of an object, as ``kubectl get`` requests them from a server.

The embedded API server calls it. Pure: the current time is an argument. JSON paths are those of printer columns, such
as ``.spec.pool.name``, with ``\\.`` for a dot in a key and ``[?(@.type=="X")]`` for an item of a list.
"""

import datetime
import re
from collections.abc import Iterator

from gantry.kubernetes.api import definitions, meta, schema

_PARTS = re.compile(r'\.((?:[^.\\\[]|\\.)+)|\[\?\(@\.(\w+)=="(\w+)"\)\]')

NAME = definitions.Column("Name", ".metadata.name")


def columns(definition: definitions.Definition) -> list[schema.Json]:
    """Return the column definitions of a kind, its name first."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": "name" if column is NAME else "",
            "description": column.name,
            "priority": column.priority,
        }
        for column in (NAME, *definition.columns)
    ]


def cells(definition: definitions.Definition, body: schema.Json, *, now: datetime.datetime) -> list[object]:
    """Return the cells of an object: a date as an age, a missing value as None."""
    return [_cell(column, body, now) for column in (NAME, *definition.columns)]


def _cell(column: definitions.Column, body: schema.Json, now: datetime.datetime) -> object:
    value = next(iter(_value_at(body, column.path)), None)
    if column.type == "date":
        moment = meta.moment(str(value)) if value else None
        return age((now - moment).total_seconds()) if moment else "<unknown>"
    return value


def _value_at(value: object, path: str) -> Iterator[object]:
    """Yield the value at a JSON path, if there is one."""
    for part in _PARTS.finditer(path):
        key, field, expected = part.groups()
        if key:
            value = value.get(key.replace("\\", "")) if isinstance(value, dict) else None
        else:
            items = value if isinstance(value, list) else []
            value = next((item for item in items if isinstance(item, dict) and item.get(field) == expected), None)
    if value is not None:
        yield value


def age(seconds: float) -> str:
    """Format a duration as kubectl does: ``45s``, ``5m3s``, ``3h12m``, ``2d4h``, ``400d``."""
    total = max(0, int(seconds))
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return f"{minutes}m{total % 60}s" if total % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if days < 2:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"
