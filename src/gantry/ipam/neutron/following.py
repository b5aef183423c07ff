"""Follows a session of Neutron: undoes the driver's changes in separate tables if Neutron's transaction fails.

With tables in a separate database, the driver commits before Neutron does. Neutron asks a driver to undo its changes in
few of the cases where its transaction can fail, so the driver listens to the events of the session. An immediate change
is undone when its transaction ends without a commit; a deferred change, such as the release of an address, is made
after the outermost commit. A savepoint is a transaction whose commit passes its changes on to the outer transaction.

A process that dies between the two commits leaves allocations behind; ``consistency`` detects them.
"""

import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from gantry import errors

LOG = logging.getLogger(__name__)
KEY = "gantry.ipam.following"

Action = Callable[[], object]


@dataclass(eq=False, frozen=True)
class Change:
    """A change: an immediate change has ``undo``, a deferred change has ``finish``, which makes it after the commit."""

    what: str
    undo: Action | None = None
    finish: Action | None = None


@dataclass(eq=False, frozen=True)
class Release(Change):
    """The deferred release of an address; until the outermost commit the same session may allocate it again."""

    subnet: str = ""
    address: str = ""


class Follower:
    """The changes of a session in order, each with the transaction or savepoint that it belongs to."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changes: list[tuple[SessionTransaction, Change]] = []
        event.listen(session, "after_commit", self._committed)
        event.listen(session, "after_transaction_end", self._ended)

    def add(self, change: Change) -> None:
        """Add a change to the innermost transaction; without a transaction, finish the change at once."""
        transaction = self._innermost()
        if transaction is not None:
            self._changes.append((transaction, change))
        elif change.finish:
            _settle(change.what, change.finish)

    def released_addresses(self, subnet: str) -> Iterator[str]:
        """Yield the addresses of a subnet that this session has released and not allocated again."""
        return (
            change.address for _, change in self._changes if isinstance(change, Release) and change.subnet == subnet
        )

    def cancel_release(self, subnet: str, address: str) -> bool:
        """Cancel the release of an address; return False if this session has not released the address."""
        for entry in self._changes:
            change = entry[1]
            if isinstance(change, Release) and (change.subnet, change.address) == (subnet, address):
                self._changes.remove(entry)
                self.add(Change(f"allocate {address} again", undo=functools.partial(self._changes.append, entry)))
                return True
        return False

    def _innermost(self) -> SessionTransaction | None:
        innermost: SessionTransaction | None = self._session.get_nested_transaction() or self._session.get_transaction()
        return innermost

    def _committed(self, session: Session) -> None:
        ended = self._innermost()
        if ended is not None and ended.nested:
            outer_transaction = next(outer for outer in _around(ended) if outer.nested or outer.parent is None)
            self._changes = [
                (outer_transaction if owner is ended else owner, change) for owner, change in self._changes
            ]
            return
        changes, self._changes = self._changes, []
        for _, change in changes:
            if change.finish:
                _settle(change.what, change.finish)

    def _ended(self, session: Session, transaction: SessionTransaction) -> None:
        # An undo may restore another change, at the end of the list.
        while entries := [entry for entry in self._changes if entry[0] is transaction]:
            self._changes.remove(entries[-1])
            change = entries[-1][1]
            if change.undo:
                _settle(f"undo '{change.what}'", change.undo)


def of_session(session: Session) -> Follower:
    """Return the follower of this session."""
    follower = session.info.get(KEY)
    if not isinstance(follower, Follower):
        follower = session.info[KEY] = Follower(session)
    return follower


def _around(transaction: SessionTransaction) -> Iterator[SessionTransaction]:
    while (outer := transaction.parent) is not None:
        yield outer
        transaction = outer


def _settle(what: str, action: Action) -> None:
    """Run an action after the end of Neutron's transaction, which cannot fail any more: log errors."""
    try:
        action()
    except errors.GantryError as problem:
        LOG.error("cannot %s in the IPAM driver's tables: %s; run gantry-neutron-ipam repair", what, problem)
