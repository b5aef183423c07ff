"""The type of a query field, for the registry and the reference pages."""

from enum import IntEnum, StrEnum

import msgspec

from gantry.model import parameters


class Kind(StrEnum):
    """The type of a field's values; ``unit`` is MiB, ``timestamp`` is seconds since the epoch."""

    TEXT = "text"
    BOOL = "bool"
    NUMBER = "number"
    FLOAT = "float"
    UNIT = "unit"
    TIMESTAMP = "timestamp"
    OTHER = "other"
    UNKNOWN = "unknown"


class ResultStatus(IntEnum):
    """The status of each value in a query's result."""

    NORMAL = 0
    UNKNOWN = 1
    NO_DATA = 2
    UNAVAILABLE = 3
    OFFLINE = 4


class Shape(StrEnum):
    """The form of a field's values, which says how a filter can compare them."""

    TEXT = "text"
    NUMBER = "a number"
    BOOL = "true or false"
    TIME = "a time"
    """Seconds and microseconds, which filters compare as seconds."""
    TEXTS = "a list of texts"
    NUMBERS = "a list of numbers"
    LIST = "a list"
    """Values of several types, or rows of values."""
    ADDRESSES = "the addresses of a NIC"
    """A list where Ganeti has one text: a comparison is true if it is true for one of the addresses."""
    MAP = "a set of parameters"


_SHAPES = {Kind.TEXT: Shape.TEXT, Kind.BOOL: Shape.BOOL}


class Field(msgspec.Struct, frozen=True):
    """A field as QueryFields describes it; ``live`` and ``form`` are internal.

    ``form`` is None if the kind determines it; every field of the kind ``other`` has it.
    """

    name: str
    title: str
    kind: Kind = Kind.TEXT
    doc: str = ""
    live: bool = False
    form: Shape | None = None

    @property
    def shape(self) -> Shape:
        """Return the form of its values."""
        return self.form or _SHAPES.get(self.kind, Shape.NUMBER)


B, N, U, T, O = Kind.BOOL, Kind.NUMBER, Kind.UNIT, Kind.TIMESTAMP, Kind.OTHER  # noqa: E741 - O never occurs beside 0
"""Short names of the kinds for the modules that declare fields."""


def kind_of(parameter: parameters.Parameter, name: str) -> Kind:
    """Return the kind of a parameter's field; memory is in MiB."""
    if isinstance(parameter.default, bool):
        return B
    if isinstance(parameter.default, float):
        return Kind.FLOAT
    if isinstance(parameter.default, int):
        return U if name.endswith("mem") else N
    return Kind.TEXT
