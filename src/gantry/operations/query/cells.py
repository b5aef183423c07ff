"""The result of a getter: a value, or why it is missing; and the live data that some getters need."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from gantry.ipam import embedded
from gantry.model import fields, job
from gantry.operations import stray_guests
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states

T = TypeVar("T")


class Missing(Enum):
    """Why a cell has no value."""

    UNKNOWN = fields.ResultStatus.UNKNOWN
    NO_DATA = fields.ResultStatus.NO_DATA
    UNAVAILABLE = fields.ResultStatus.UNAVAILABLE
    OFFLINE = fields.ResultStatus.OFFLINE


Cell = object
"""JSON data, or a Missing."""


@dataclass(frozen=True)
class Live:
    """What the state does not have, most of it from nodes.

    Resources are by node UUID, running instances by name with the UUID of their node.
    """

    nodes: Mapping[str, targets.Answer[calls.NodeStatus]] = field(default_factory=dict)
    running: Mapping[str, tuple[str, calls.RunningInstance]] = field(default_factory=dict)
    unasked: frozenset[str] = frozenset()
    """UUIDs of nodes that were not asked, because the reader does not see all that they have."""
    silent: Mapping[str, Missing] = field(default_factory=dict)
    """Nodes that did not answer the list of instances, by UUID."""
    strays: Sequence[stray_guests.Stray] = ()
    """The stray guests of all nodes, if the query requests them."""
    switched_off: frozenset[str] = frozenset()
    """UUIDs of instances whose users switched them off from inside (``endings``)."""
    consoles: Mapping[str, calls.Console] = field(default_factory=dict)
    """Consoles of running instances, by name, if the query requests them."""
    journal_begin: int = 0
    """The serial of the first change that the journal keeps, if the query requests it."""


NOTHING_LIVE = Live()
"""For fields that need no live data."""


def unveiled(entry: job.Job) -> job.Job:
    """Return a job as it is, for a reader who sees everything."""
    return entry


@dataclass(frozen=True)
class Context:
    """What a getter may read besides the object; ``veil`` removes from a job's texts what the reader may not know."""

    state: states.Snapshot
    ledger: embedded.Ledger
    live: Live
    veil: Callable[[job.Job], job.Job]


Getter = Callable[[Context, T], Cell]


def or_none(value: T | None) -> T | Missing:
    """Return a value, or UNAVAILABLE for None and the empty text."""
    return Missing.UNAVAILABLE if value is None or value == "" else value
