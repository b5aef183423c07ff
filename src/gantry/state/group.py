"""Transactions that share a frame: ``transaction`` gathers one group while the one before it is written.

Each transaction has a ticket, which is answered when the frame is safe, or failed when it was taken back.
"""

import asyncio
from dataclasses import dataclass, field

from gantry import errors
from gantry.model import job
from gantry.state import record, snapshot

Ticket = asyncio.Future[snapshot.Snapshot]
"""Done with the state after a transaction when that is safe; fails with StorageError when it was taken back."""


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

    def add(self, one: record.Record, before: snapshot.Snapshot, after: snapshot.Snapshot) -> Ticket:
        """Take a transaction that leads from one state to another."""
        ticket: Ticket = asyncio.get_running_loop().create_future()
        # a failure that nobody waits for is in the store's log already
        ticket.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.records.append(record.encode(one))
        self.news.append((one, before))
        self.tickets.append((ticket, after))
        self.epoch = one.epoch
        for change in one.changes:
            if change.kind == "jobs":
                gone = isinstance(change, snapshot.Delete)
                self.due[int(change.key)] = before.jobs[change.key] if gone else None
        return ticket

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
