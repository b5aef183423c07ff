"""The common parts of all calls: name on the wire, type of the result, time limit."""

import functools
import re
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args

import msgspec

from gantry.rpc.calls.texts import Text

Value = Text | int | float | bool
Result_co = TypeVar("Result_co", covariant=True)

URGENT, FAST, NORMAL, SLOW = 60.0, 300.0, 900.0, 3600.0
"""Time limits in seconds (contracts/node-rpc.md#transport)."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A structure that is sent between nodes.

    A receiver ignores fields that it does not know, so that nodes of two versions work together (``protocol``).
    """


EPOCH_HEADER = "x-gantry-epoch"
"""The header that carries the epoch of a confirmed master."""

OBEYED_HEADER = "x-gantry-obeyed"
"""The header of the answer to an unknown caller: the epoch that the node obeys, and the UUID of its master."""

SOFTWARE_HEADER = "x-gantry-software"
"""The header of each answer of a node that has its software version."""

TIME_HEADER = "x-gantry-time"
"""The header of each answer of a node that has its time, in seconds since the epoch."""

EPOCH_DIGITS = 10
"""The longest epoch: a cluster that changes its master every second needs more after three hundred years."""


def obeyed_to_header(epoch: int, owner: str) -> str:
    """Return the value of ``OBEYED_HEADER``.

    >>> obeyed_from_header(obeyed_to_header(3, "u1")), obeyed_from_header("3"), obeyed_from_header("x u1")
    ((3, 'u1'), (0, ''), (0, ''))
    """
    return f"{epoch} {owner}"


def obeyed_from_header(text: str) -> tuple[int, str]:
    """Return the epoch and the UUID in the value of ``OBEYED_HEADER``; 0 and empty if it cannot be read."""
    epoch, _, owner = text.partition(" ")
    is_number = epoch.isascii() and epoch.isdecimal() and len(epoch) <= EPOCH_DIGITS
    return (int(epoch), owner) if is_number and owner else (0, "")


EPOCH_STEP = 1000
"""How far a new epoch may be above those that a node knows: each attempt to become the master adds one."""

Epoch = Annotated[int, msgspec.Meta(ge=0, lt=10**EPOCH_DIGITS)]
"""An epoch in a message or a file; decoding refuses any other number."""

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
"""A serial or a job number in a message or a file; a cluster that counts a million a second needs 285 years for it."""


class Call(Message, Generic[Result_co], frozen=True, kw_only=True):
    """A call that is answered with ``Result_co``; ``LIMIT`` is its time limit in seconds.

    A node refuses a call from a master whose epoch is not the highest that it has seen, if the call is ``FENCED``.
    These calls are not, each with its reason: those of a vote, which a master makes before it has an epoch; those of
    joining, when a node knows no master; and those that contain the epoch of their records or their lease, which the
    component of the node that answers them compares. A call that ``READS`` changes nothing: the master makes
    it without its lease too. Calls for ``ANY_PROTOCOL`` are answered to masters of every version: they are those by
    which versions that are too far apart are found and changed.
    """

    LIMIT: ClassVar[float] = URGENT
    FENCED: ClassVar[bool] = True
    READS: ClassVar[bool] = False
    ANY_PROTOCOL: ClassVar[bool] = False
    WIRE_NAME: ClassVar[str] = ""

    @classmethod
    def needs_permit(cls) -> bool:
        """Return whether a node carries the call out only while its caller waits and has the right (``permits``)."""
        return cls.FENCED and not cls.READS

    @classmethod
    def procedure(cls) -> str:
        """Return the name on the wire, which follows from the class's name unless ``WIRE_NAME`` keeps an older one."""
        return cls.WIRE_NAME or _procedure(cls.__name__)


@functools.cache
def _procedure(class_name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


@functools.cache
def _parameters(call: type) -> tuple[Any, ...]:
    return next(parameters for base in vars(call)["__orig_bases__"] if (parameters := get_args(base)))


def result_type(call: type[Call[Result_co]]) -> type[Result_co]:
    """Return the type of a call's result."""
    result: type[Result_co] = _parameters(call)[0]
    return result
