"""What a running unit is handed besides its opcode: state, nodes, log, time, identifiers.

``jobs.processor`` makes one for each opcode that it runs, over the ``Services`` that the master daemon gave it.
"""

from dataclasses import dataclass

from gantry.ipam import embedded
from gantry.jobs import records
from gantry.operations import base
from gantry.runtime import interface
from gantry.state import history
from gantry.state import snapshot as states


@dataclass(frozen=True)
class Services:
    """What all units of a master share."""

    nodes: base.Nodes
    ledger: embedded.Ledger
    authority: base.Authority
    runtime: interface.Runtime
    past: history.History | None = None


class JobLog:
    """The log of one opcode, with the prefixes that people know (contract: log messages)."""

    def __init__(self, book: records.Records, record: records.Record, index: int) -> None:
        self._book = book
        self._record = record
        self._index = index

    def info(self, message: str) -> None:
        """Tell what goes on."""
        self._book.log(self._record, self._index, message)

    def warning(self, message: str) -> None:
        """Tell what went wrong without stopping the job."""
        self._book.log(self._record, self._index, f"- WARNING: {message}")


@dataclass(frozen=True)
class Environment:
    """``operations.base.Environment`` for one opcode."""

    services: Services
    store: records.Store
    log: JobLog

    async def check_journal(self) -> history.Check:
        """Check the newest part of the journal."""
        return await self.services.past.check() if self.services.past else history.Check()

    @property
    def ledger(self) -> embedded.Ledger:
        """Return who keeps the address allocations."""
        return self.services.ledger

    @property
    def authority(self) -> base.Authority:
        """Return the cluster's certificate authority."""
        return self.services.authority

    @property
    def nodes(self) -> base.Nodes:
        """Return the door to the nodes."""
        return self.services.nodes

    @property
    def inputs(self) -> base.Inputs:
        """Return time and identifiers for a plan made now."""
        random = self.services.runtime.random
        return base.Inputs(now=self.services.runtime.clock.now(), uuid=random.uuid, below=random.below)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self.services.runtime.clock.sleep(seconds)

    def snapshot(self) -> states.Snapshot:
        """Return the newest state."""
        return self.store.snapshot
