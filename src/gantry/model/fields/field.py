"""What a query field is; the pages of fields and the registry are made of it."""

from enum import IntEnum, StrEnum

import msgspec

from gantry.model import parameters


class Kind(StrEnum):
    """What a field's values are; ``unit`` is MiB, ``timestamp`` seconds since the epoch."""

    TEXT = "text"
    BOOL = "bool"
    NUMBER = "number"
    FLOAT = "float"
    UNIT = "unit"
    TIMESTAMP = "timestamp"
    OTHER = "other"
    UNKNOWN = "unknown"


class ResultStatus(IntEnum):
    """What stands beside each value of a query's result."""

    NORMAL = 0
    UNKNOWN = 1
    NO_DATA = 2
    UNAVAILABLE = 3
    OFFLINE = 4


class Field(msgspec.Struct, frozen=True):
    """A field as QueryFields describes it; ``live`` stays inside."""

    name: str
    title: str
    kind: Kind = Kind.TEXT
    doc: str = ""
    live: bool = False


B, N, U, T, O = Kind.BOOL, Kind.NUMBER, Kind.UNIT, Kind.TIMESTAMP, Kind.OTHER  # noqa: E741 - O and 0 stand nowhere together
"""The kinds as the pages of fields write them."""


def kind_of(parameter: parameters.Parameter, name: str) -> Kind:
    """Return the kind of the field that shows a parameter; memory is in MiB."""
    if isinstance(parameter.default, bool):
        return B
    if isinstance(parameter.default, float):
        return Kind.FLOAT
    if isinstance(parameter.default, int):
        return U if name.endswith("mem") else N
    return Kind.TEXT
