"""The status line of the master daemon: the role of this machine, or what the daemon waits for.

``daemons.master`` reports it to systemd, and ``systemctl status gantry-masterd`` shows it. It is compared and reported
only as often as a person looks, so it costs nothing beside the work of a master.
"""

from collections.abc import Callable

from gantry.runtime import interface
from gantry.state.candidates import replication
from gantry.state.store import transaction

INTERVAL_SECONDS = 5.0

Report = Callable[[str], None]
"""Gets a line for the administrator."""


def no_report(_: str) -> None:
    """Report to nobody."""


def problem(candidates: replication.Candidates) -> str:
    """Return what keeps a master that has begun its epoch from acknowledging changes; empty if nothing does."""
    if candidates.doubt is not None:
        return f"asks the nodes who the master is, because a node refused it: {candidates.doubt.message}"
    if candidates.stalled.is_set():
        return f"waits for a majority of the master candidates: {candidates.missing()}"
    return ""


def line(store: transaction.Store, candidates: replication.Candidates) -> str:
    """Return the status of a master that has begun its epoch."""
    role = f"master of cluster {store.durable.the_cluster.name}, epoch {store.epoch}"
    notice = problem(candidates) or candidates.notice()
    return f"{role}; {notice}" if notice else role


async def follow(
    clock: interface.Clock, store: transaction.Store, candidates: replication.Candidates, *, report: Report
) -> None:
    """Report each new status, until cancelled."""
    reported = ""
    while True:
        current = line(store, candidates)
        if current != reported:
            report(current)
            reported = current
        await clock.sleep(INTERVAL_SECONDS)
