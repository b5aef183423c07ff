"""Locks: their levels, their modes, and the set of locks that an opcode needs."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum


class Level(IntEnum):
    """The levels of locks, in the order in which a job acquires them.

    See explanation/architecture.md#deciding-and-doing.
    """

    CLUSTER = 0
    INSTANCE = 1
    GROUP = 2
    NODE = 3
    NETWORK = 4
    CONFIG = 5


class Mode(StrEnum):
    """Whether a lock can have several holders at the same time."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


ALL_NAMES = "*"
"""The name of a level's metalock: it covers every lock of the level, including those of future objects."""

LockSet = Mapping[tuple[Level, str], Mode]
"""The locks of an opcode: the mode for each level and name (a UUID or ``ALL_NAMES``)."""
