"""What the methods of LUXI work on, and how one is declared: its arguments and the function that answers it.

``jobs`` and ``queries`` hold the two classes of methods; the door calls them by name.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

import msgspec

from gantry.jobs import queue
from gantry.operations.query import engine
from gantry.runtime import paths
from gantry.state import events, history
from gantry.state import snapshot as states

WAIT_LIMIT = 600.0
"""Longest wait of one call, in seconds."""

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Method = Callable[..., Awaitable[object]]
Methods = dict[str, tuple[object, Method]]
"""By name: the type of the list of arguments, and what is called with the services and the arguments."""


@dataclass(frozen=True)
class Services:
    """What the methods work on."""

    queue: queue.Queue
    source: engine.Source
    snapshot: Callable[[], states.Snapshot]
    history: history.History
    events: events.Events
    pause_watcher: Callable[[float | None], Awaitable[None]]
    folders: paths.Paths
