"""What all objects of the configuration share: identity, times, and how they are written.

Objects are frozen structs; a change is a new object (``msgspec.structs.replace``). Times and UUIDs are inputs: the
model neither reads a clock nor a random source. Default values are not written
(contracts/cluster-design.md#object-parameters).
"""

import msgspec

Value = str | int | float | bool
"""A parameter's value; None is not one (contracts/cluster-design.md#object-parameters)."""

Parameters = dict[str, Value]


class Entity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An object of its own; ``serial_no`` counts its changes, times are seconds since the epoch."""

    uuid: str
    name: str
    # Written even while it is 1, as existing readers expect (contracts/configuration.md#objects).
    serial_no: int = msgspec.field(default_factory=lambda: 1)
    ctime: float = 0.0
    mtime: float = 0.0
    tags: tuple[str, ...] = ()


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A piece of an Entity that is stored inside it."""
