"""Calls about what a node and its guests use: processor time, memory, disk and network."""

from typing import ClassVar

from gantry.rpc.calls.base import FAST, Call, Message
from gantry.rpc.calls.texts import Name

OF_NODE = ""
"""The name of the node itself among the names of its instances."""


class Usage(Message, frozen=True, array_like=True):
    """What a node or one of its instances has used until ``time``, in seconds since 1970.

    A driver of a hypervisor leaves the time to its caller. All but the memory grows from the start of the machine or
    the instance; a smaller value than before means that it has started again, or moved here. ``processor`` is in
    seconds of all processors together; the others are in bytes. ``received`` and ``sent`` are as the machine or the
    guest sees them.
    """

    name: str
    time: float = 0.0
    processor: float = 0.0
    memory: int = 0
    read: int = 0
    written: int = 0
    received: int = 0
    sent: int = 0


class UsageNow(Call[tuple[Usage, ...]], frozen=True):
    """Return the newest values of the node, ``OF_NODE``, and of the instances that run on it."""

    READS: ClassVar[bool] = True
    LIMIT: ClassVar[float] = FAST


class UsageHistory(Call[tuple[Usage, ...]], frozen=True):
    """Return the values of one name after a time, at most those of a day, one a minute."""

    READS: ClassVar[bool] = True
    LIMIT: ClassVar[float] = FAST
    name: Name
    since: float = 0.0
