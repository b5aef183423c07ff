"""The base of all objects of the configuration: identity, times, and serialization.

Objects are frozen structs; a change creates a new object (``msgspec.structs.replace``). Times and UUIDs are inputs: the
model reads neither a clock nor a random source. Serialization omits default values
(contracts/cluster-design.md#object-parameters).
"""

import msgspec

Value = str | int | float | bool
"""The value of a parameter; None is not a value (contracts/cluster-design.md#object-parameters)."""

Parameters = dict[str, Value]


class Entity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An object with its own identity; ``serial_no`` counts its changes, times are seconds since the epoch."""

    uuid: str
    name: str
    # Written even while it is 1, as existing readers expect (contracts/configuration.md#objects).
    serial_no: int = msgspec.field(default_factory=lambda: 1)
    ctime: float = 0.0
    mtime: float = 0.0
    tags: tuple[str, ...] = ()


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A part of an Entity, stored inside the Entity."""
