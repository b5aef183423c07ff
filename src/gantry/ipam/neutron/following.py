"""Follows a session of Neutron's: what was done beside its transaction stays only if that transaction does.

In tables of its own the driver commits before Neutron does. Neutron asks a driver to take things back in few of the
places where its transaction can fail, so the driver does not wait to be asked, it hangs on the session. A deed that
was done at once is undone when its transaction ends without a commit; one that was put off, such as freeing an address,
is done after the outermost commit. A savepoint is a transaction whose commit hands its deeds on to the one around it.

A process that dies between the two commits leaves its allocations behind; ``consistency`` finds them.
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
class Deed:
    """Something done at once, with its ``undo``, or put off, with what it comes to at last (``finish``)."""

    what: str
    undo: Action | None = None
    finish: Action | None = None


@dataclass(eq=False, frozen=True)
class Free(Deed):
    """An address that is free after the outermost commit; until then the same session may have it again."""

    subnet: str = ""
    address: str = ""


class Following:
    """The deeds of one session in their order, each with the transaction or savepoint that it stands and falls with."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._deeds: list[tuple[SessionTransaction, Deed]] = []
        event.listen(session, "after_commit", self._committed)
        event.listen(session, "after_transaction_end", self._ended)

    def add(self, deed: Deed) -> None:
        """Let a deed follow the innermost transaction; without a transaction it is settled at once."""
        transaction = self._innermost()
        if transaction is not None:
            self._deeds.append((transaction, deed))
        elif deed.finish:
            _settle(deed.what, deed.finish)

    def frees(self, subnet: str) -> Iterator[str]:
        """Yield the addresses of a subnet that this session has freed and not yet taken again."""
        return (deed.address for _, deed in self._deeds if isinstance(deed, Free) and deed.subnet == subnet)

    def take_again(self, subnet: str, address: str) -> bool:
        """Keep an address after all that this session has freed; false if it has not."""
        for entry in self._deeds:
            deed = entry[1]
            if isinstance(deed, Free) and (deed.subnet, deed.address) == (subnet, address):
                self._deeds.remove(entry)
                self.add(Deed(f"take {address} again", undo=functools.partial(self._deeds.append, entry)))
                return True
        return False

    def _innermost(self) -> SessionTransaction | None:
        found: SessionTransaction | None = self._session.get_nested_transaction() or self._session.get_transaction()
        return found

    def _committed(self, session: Session) -> None:
        ended = self._innermost()
        if ended is not None and ended.nested:
            around = next(outer for outer in _around(ended) if outer.nested or outer.parent is None)
            self._deeds = [(around if owner is ended else owner, deed) for owner, deed in self._deeds]
            return
        deeds, self._deeds = self._deeds, []
        for _, deed in deeds:
            if deed.finish:
                _settle(deed.what, deed.finish)

    def _ended(self, session: Session, transaction: SessionTransaction) -> None:
        # An undo may put a deed back, which is then the last of the list.
        while mine := [entry for entry in self._deeds if entry[0] is transaction]:
            self._deeds.remove(mine[-1])
            deed = mine[-1][1]
            if deed.undo:
                _settle(f"undo: {deed.what}", deed.undo)


def of(session: Session) -> Following:
    """Return what follows this session."""
    found = session.info.get(KEY)
    if not isinstance(found, Following):
        found = session.info[KEY] = Following(session)
    return found


def _around(transaction: SessionTransaction) -> Iterator[SessionTransaction]:
    while (outer := transaction.parent) is not None:
        yield outer
        transaction = outer


def _settle(what: str, action: Action) -> None:
    """Do what is left to do once Neutron's transaction is over: it can no longer fail, so this must not either."""
    try:
        action()
    except errors.GantryError as problem:
        LOG.error("%s: %s; gantry-neutron-ipam repair puts it right", what, problem)
