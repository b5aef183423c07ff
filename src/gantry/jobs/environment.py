"""The environment of a running unit, besides its opcode: state, nodes, log, time, identifiers.

``jobs.processor`` creates one for each opcode that it runs, from the ``Services`` that the master daemon passed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from gantry import errors
from gantry.ipam import embedded, shared
from gantry.jobs import allocators, records
from gantry.model import access, opcodes
from gantry.model import job as jobs
from gantry.operations import base, draws
from gantry.runtime import interface
from gantry.state.journal import history
from gantry.state.objects import snapshot as states

Submit = Callable[
    [Sequence[Sequence[opcodes.AnyOpcode]], access.Subject | None], Awaitable[list[int | errors.GantryError]]
]
"""Submits jobs of a submitter (``jobs.queue``)."""


@dataclass(frozen=True)
class Services:
    """What all units of a master share.

    ``has_hooks`` returns whether the master's own machine has a folder of hook scripts, by name (network-add-pre.d). If
    not, its node daemon need not be called, which would be most of the cost of a small job. ``addresses`` is the
    interface to a database in which addresses may have to be allocated.
    """

    nodes: base.Nodes
    ledger: embedded.Ledger
    authority: base.Authority
    runtime: interface.Runtime
    submit: Submit
    past: history.History | None = None
    programs: allocators.Programs = field(default_factory=allocators.Programs)
    has_hooks: Callable[[str], bool] = lambda _: True
    addresses: shared.Shared | None = None

    @property
    def database(self) -> shared.Shared | None:
        """Return the database in which addresses must be allocated, None if the state alone decides."""
        return self.addresses if self.addresses and self.addresses.on else None


class JobLog:
    """The log of one opcode, with Ganeti's prefixes (contracts/jobs.md#log-messages)."""

    def __init__(self, book: records.Records, record: records.Record, index: int) -> None:
        self._book = book
        self._record = record
        self._index = index

    @contextmanager
    def stoppable(self) -> Iterator[Callable[[], bool]]:
        """Allow canceling the running job while the context is open.

        A caller that does not raise JobCanceledError continues, and the job does not end as canceled.
        """
        stopped, self._record.stoppable = False, True
        try:
            yield self._is_canceled
        except errors.JobCanceledError:
            stopped = True
            raise
        finally:
            self._record.stoppable = False
            if self._is_canceled() and not stopped:
                self._record.update(self._index, status=jobs.Status.RUNNING)

    @contextmanager
    def killable(self) -> Iterator[None]:
        """Allow killing the job while the context is open: JobCanceledError at once, wherever it waits."""
        task, record = asyncio.current_task(), self._record
        record.check_killed()
        record.killable = task
        try:
            yield
        except asyncio.CancelledError:
            # The task can also be canceled because the daemon ends: then there are more requests than the kill's.
            if task is None or not record.killed or task.uncancel() > 0:
                raise
            raise errors.JobCanceledError from None
        finally:
            record.killable = None

    def _is_canceled(self) -> bool:
        return self._record.current.ops[self._index].status is jobs.Status.CANCELING

    def info(self, message: str) -> None:
        """Log what happens."""
        self._book.log(self._record, self._index, message)

    def warning(self, message: str) -> None:
        """Log a problem that does not stop the job."""
        self._book.log(self._record, self._index, f"- WARNING: {message}")

    def progress(self, text: str) -> None:
        """Show how far the present work is to clients that wait for the job."""
        self._book.show_progress(self._record, text)


class ReadLog:
    """The log of an opcode that only reads: it keeps the warnings for the client."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    @contextmanager
    def stoppable(self) -> Iterator[Callable[[], bool]]:
        """Yield that nobody canceled: there is no job that could be canceled."""
        yield lambda: False

    def info(self, message: str) -> None:
        """Drop a message about what happens."""

    def progress(self, text: str) -> None:
        """Drop a text about the present work."""

    def warning(self, message: str) -> None:
        """Keep a problem that does not prevent an answer."""
        self.warnings.append(message)


@dataclass(frozen=True)
class Environment:
    """``operations.base.Environment`` for one opcode."""

    services: Services
    store: records.Store
    log: JobLog | ReadLog

    async def check_journal(self) -> history.Check:
        """Check the newest part of the journal."""
        return await self.services.past.check() if self.services.past else history.Check()

    def stoppable(self) -> AbstractContextManager[Callable[[], bool]]:
        """Allow canceling the running job while the context is open; its value returns whether the job was canceled."""
        return self.log.stoppable()

    async def run_allocator(self, name: str, request: bytes, arguments: Sequence[str]) -> bytes:
        """Pass a request to an allocator program on the master and return its answer."""
        return await self.services.programs.run(self.services.runtime, name, request, arguments=arguments)

    @property
    def ledger(self) -> embedded.Ledger:
        """Return the ledger of address allocations."""
        return self.services.ledger

    @property
    def addresses(self) -> shared.Shared:
        """Return the interface to the database that keeps the addresses, if the cluster uses a database."""
        if self.services.addresses is None:
            raise errors.InternalError("this master has no interface to an address database")
        return self.services.addresses

    @property
    def authority(self) -> base.Authority:
        """Return the cluster's certificate authority."""
        return self.services.authority

    @property
    def nodes(self) -> base.Nodes:
        """Return the client that calls nodes."""
        return self.services.nodes

    @property
    def inputs(self) -> draws.Inputs:
        """Return the current time and sources of identifiers for a plan."""
        random = self.services.runtime.random
        return draws.Inputs(now=self.services.runtime.clock.now(), uuid=random.uuid, below=random.below)

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await self.services.runtime.clock.sleep(seconds)

    def snapshot(self) -> states.Snapshot:
        """Return the acknowledged state, which has the job's own changes; what is sent to nodes comes from it."""
        return self.store.durable
