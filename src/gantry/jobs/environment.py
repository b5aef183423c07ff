"""What a running unit is handed besides its opcode: state, nodes, log, time, identifiers.

``jobs.processor`` makes one for each opcode that it runs, over the ``Services`` that the master daemon gave it.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from gantry import errors
from gantry.ipam import embedded, shared
from gantry.jobs import allocators, records
from gantry.model import job as jobs
from gantry.model import opcodes
from gantry.operations import base
from gantry.runtime import interface
from gantry.state import history
from gantry.state import snapshot as states

Submit = Callable[[Sequence[Sequence[opcodes.AnyOpcode]]], Awaitable[list[int | errors.GantryError]]]


async def _nobody(many: Sequence[Sequence[opcodes.AnyOpcode]]) -> list[int | errors.GantryError]:
    raise errors.InternalError(f"there is no queue to give {len(many)} jobs to")


@dataclass(frozen=True)
class Services:
    """What all units of a master share.

    ``has_hooks`` tells whether the master's own machine has a folder of hook scripts, by its name (network-add-pre.d):
    where it has none, its node daemon need not be asked, which would be most of the cost of a small job. In a
    database ``addresses`` may have to be secured.
    """

    nodes: base.Nodes
    ledger: embedded.Ledger
    authority: base.Authority
    runtime: interface.Runtime
    past: history.History | None = None
    submit: Submit = _nobody
    programs: allocators.Programs = field(default_factory=allocators.Programs)
    has_hooks: Callable[[str], bool] = lambda _: True
    addresses: shared.Shared | None = None

    @property
    def database(self) -> shared.Shared | None:
        """Return where addresses have to be secured, None if the state alone has the last word."""
        return self.addresses if self.addresses and self.addresses.on else None


class JobLog:
    """The log of one opcode, with the prefixes that people know (contracts/jobs.md#log-messages)."""

    def __init__(self, book: records.Records, record: records.Record, index: int) -> None:
        self._book = book
        self._record = record
        self._index = index

    @contextmanager
    def stoppable(self) -> Iterator[Callable[[], bool]]:
        """Let the job be canceled though it runs, for as long as the context is open.

        Who does not raise JobCanceledError goes on, and the job's end is not that of a canceled one.
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

    def _is_canceled(self) -> bool:
        return self._record.newest.ops[self._index].status is jobs.Status.CANCELING

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

    def stoppable(self) -> AbstractContextManager[Callable[[], bool]]:
        """Let the job be canceled though it runs, for as long as the context is open; what it gives tells if it was."""
        return self.log.stoppable()

    async def run_allocator(self, name: str, request: bytes, arguments: Sequence[str]) -> bytes:
        """Give a request to an allocator program of the master's and return its answer."""
        return await self.services.programs.run(self.services.runtime, name, request, arguments=arguments)

    @property
    def ledger(self) -> embedded.Ledger:
        """Return who keeps the address allocations."""
        return self.services.ledger

    @property
    def addresses(self) -> shared.Shared:
        """Return what may keep the addresses in a database."""
        if self.services.addresses is None:
            raise errors.InternalError("nothing here can keep addresses in a database")
        return self.services.addresses

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
