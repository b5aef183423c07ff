"""The services that the methods of LUXI use, and the declaration of a method: its arguments and its function.

``jobs`` and ``queries`` have the two classes of methods; ``luxi.Door`` calls them by name.
"""

import contextvars
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from gantry.jobs import queue, reads
from gantry.model import access, webhook
from gantry.operations.access import views
from gantry.operations.query import engine
from gantry.rpc import liveness
from gantry.runtime import measures, paths
from gantry.state.candidates import replication
from gantry.state.journal import history
from gantry.state.objects import snapshot as states
from gantry.state.store import audit, events, transaction

BY_ROOT: contextvars.ContextVar[bool] = contextvars.ContextVar("BY_ROOT", default=False)
"""Whether the request comes from root, or the user of the master daemon, on this machine: not through another door."""

SUBJECT: contextvars.ContextVar[access.Subject] = contextvars.ContextVar("SUBJECT")
"""Who makes the request: the peer's user, or the user whom gantry-rapi names."""

WAIT_LIMIT = 600.0
"""Maximum time of a request that waits, in seconds."""

LATEST = 1e12
"""Numbers may be text, and ``inf`` and ``nan`` are such texts: only bounds refuse them."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
Moment = Annotated[float, msgspec.Meta(ge=-LATEST, le=LATEST)]
"""Seconds since the epoch."""

Method = Callable[..., Awaitable[object]]
Methods = dict[str, tuple[object, Method]]
"""Methods by name: the type of the argument list, and the function that is called with services and arguments."""


def _everything() -> views.View | None:
    return None


@dataclass(frozen=True)
class Services:
    """The parts of the master that the methods use; ``snapshot`` returns the acknowledged state.

    ``view`` returns what the subject of the request sees, None if that is everything. With a view, ``snapshot``,
    ``source`` and their parts have nothing else (``reading``).

    ``authorities`` returns the certificates of the cluster's authorities, in PEM, ``secret`` a new random text.
    ``note`` records a cause without a change, for the audit: what a subject did that changes no object of the state.
    ``store_positions`` stores how far the receivers of webhooks are.
    """

    queue: queue.Queue
    reads: reads.Reads
    source: engine.Source
    nodes: liveness.Caller
    snapshot: Callable[[], states.Snapshot]
    history: history.History
    events: events.Events
    audit: audit.Audit
    candidates: replication.Candidates
    counts: measures.Measures
    authorities: Callable[[], str]
    secret: Callable[[], str]
    pause_watcher: Callable[[float | None, transaction.Cause], Awaitable[None]]
    note: Callable[[transaction.Cause], Awaitable[None]]
    store_positions: Callable[[Sequence[webhook.Position]], Awaitable[None]]
    folders: paths.Paths
    now: Callable[[], float]
    view: Callable[[], views.View | None] = _everything


def cause(reason: str, right: str) -> transaction.Cause:
    """Return the cause of something that the present request does without a job, and by which right it does it."""
    subject = SUBJECT.get()
    return transaction.Cause(user=subject.signature, reason=reason, submitter=subject, right=right)
