"""Transactions that share a frame: ``transaction`` gathers one group while the one before it is written.

Each transaction has a ticket, which is answered when the frame is durable, or fails when the transaction was undone.
"""

import asyncio
from dataclasses import dataclass, field

from gantry import errors
from gantry.model import job
from gantry.state.journal import record
from gantry.state.objects import snapshot

Ticket = asyncio.Future[snapshot.Snapshot]
"""Returns the state after a transaction, once durable; it fails with StorageError if the transaction was undone."""


@dataclass
class Group:
    """Transactions in order; ``due`` is for ``JobFiles.mark``, ``news`` for followers."""

    records: list[bytes] = field(default_factory=list)
    news: list[tuple[record.Record, snapshot.Snapshot]] = field(default_factory=list)
    tickets: list[tuple[Ticket, snapshot.Snapshot]] = field(default_factory=list)
    due: dict[int, job.Job | None] = field(default_factory=dict)
    epoch: int = 0

    @property
    def last(self) -> snapshot.Snapshot:
        """Return the state after the last transaction."""
        return self.tickets[-1][1]

    def add(self, journal_record: record.Record, before: snapshot.Snapshot, after: snapshot.Snapshot) -> Ticket:
        """Add a transaction that leads from one state to another; raises InternalError if it cannot be stored."""
        ticket: Ticket = asyncio.get_running_loop().create_future()
        # The store has logged the failure; retrieve it here, so that asyncio does not warn about it.
        ticket.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.records.append(record.encode_checked(journal_record))
        self.news.append((journal_record, before))
        self.tickets.append((ticket, after))
        self.epoch = journal_record.epoch
        for change in journal_record.changes:
            if change.kind == "jobs":
                is_deleted = isinstance(change, snapshot.Delete)
                self.due[int(change.key)] = before.jobs[change.key] if is_deleted else None
        return ticket

    def extend(self, more: "Group") -> None:
        """Add the transactions of the group that follows this one: all of them get their answers together."""
        self.records += more.records
        self.news += more.news
        self.tickets += more.tickets
        self.due |= more.due
        self.epoch = more.epoch

    def ticket_of(self, state: snapshot.Snapshot) -> Ticket | None:
        """Return the ticket of the transaction that led to a state, None if it is not in this group."""
        index = state.serial - self.tickets[0][1].serial if self.tickets else -1
        is_here = 0 <= index < len(self.tickets) and self.tickets[index][1] is state
        return self.tickets[index][0] if is_here else None

    def succeed(self) -> None:
        """Answer all tickets."""
        for ticket, after in self.tickets:
            if not ticket.done():
                ticket.set_result(after)

    def fail(self, kind: type[errors.GantryError], message: str, *, hint: str) -> None:
        """Fail all tickets, each with an error of its own."""
        for ticket, _ in self.tickets:
            if not ticket.done():
                ticket.set_exception(kind(message, hint=hint))
