"""A queue over a store in memory, in virtual time, with units whose behaviour a test writes down."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from gantry import errors
from gantry.ipam import embedded
from gantry.jobs import environment, execution, locks, processor, queue, records
from gantry.model import cluster, lock, opcodes
from gantry.model import job as jobs
from gantry.operations import base
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

T = TypeVar("T")

LEVELS_OF_OBJECTS = (lock.Level.INSTANCE, lock.Level.GROUP, lock.Level.NODE, lock.Level.NETWORK)


class MemoryStore:
    """The state without a journal: durable a turn of the loop later, unless ``full``."""

    def __init__(self, durable: states.Snapshot) -> None:
        self.snapshot = self.durable = durable
        self.full = False
        self.causes: list[transaction.Cause] = []
        self.stored: list[jobs.Job] = []
        self._tickets: list[asyncio.Future[states.Snapshot]] = []

    def submit(self, changes: Sequence[states.Change], cause: transaction.Cause) -> Awaitable[states.Snapshot]:
        self.snapshot = self.snapshot.apply(changes, serial=self.snapshot.serial + 1)
        self.causes.append(cause)
        self.stored += [
            change.value for change in changes if isinstance(change, states.Put) and isinstance(change.value, jobs.Job)
        ]
        loop = asyncio.get_running_loop()
        if not self._tickets:
            loop.call_soon(self._write)
        ticket = loop.create_future()
        self._tickets.append(ticket)
        return ticket

    async def acknowledged(self, state: states.Snapshot) -> None:
        if state.serial > self.durable.serial:
            ticket = asyncio.get_running_loop().create_future()
            self._tickets.append(ticket)
            await ticket

    def _write(self) -> None:
        tickets, self._tickets = self._tickets, []
        if self.full:
            self.snapshot = self.durable
        else:
            self.durable = self.snapshot
        for ticket in tickets:
            if ticket.done():
                continue
            if self.full:
                ticket.set_exception(errors.StorageError("no space left on device"))
            else:
                ticket.set_result(self.durable)


def procedure(run: Callable[[], Awaitable[None]]) -> base.Actions:
    """Return the actions of a step that is a function of a test."""
    return (base.Procedure("a test", run),)


@dataclass
class Script:
    """What a unit does: its locks, what ``inspect`` waits for, its plan."""

    locks: lock.LockSet | Callable[[states.Snapshot], lock.LockSet] = field(default_factory=dict)
    inspect: Callable[[base.Environment], Awaitable[None]] | None = None
    plan: base.Plan | Callable[[states.Snapshot], base.Plan] = field(default_factory=base.Plan)


class Scripted(base.Unit[opcodes.TestDelay, None]):
    """Does what the script says that the opcode's comment names; without one it sleeps."""

    OPCODE = opcodes.TestDelay
    scripts: Mapping[str, Script] = {}

    @property
    def script(self) -> Script:
        return self.scripts.get(self.op.comment or "", Script())

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Return the script's locks; a plan that may create objects also takes a name that no other unit takes."""
        locks, plan = self.script.locks, self.script.plan
        creating = (
            callable(plan) or plan.finish is not None or any(isinstance(change, states.Put) for change in plan.changes)
        )
        names = {(level, f"name {id(self)}"): lock.Mode.EXCLUSIVE for level in LEVELS_OF_OBJECTS} if creating else {}
        return {**(locks(snapshot) if callable(locks) else locks), **names}

    async def inspect(self, snapshot: states.Snapshot) -> None:
        if self.script.inspect:
            await self.script.inspect(self.environment)
        elif self.op.duration:
            await self.environment.sleep(self.op.duration)

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        plan = self.script.plan
        return plan(snapshot) if callable(plan) else plan


def op(
    script: str = "", *, seconds: float = 0, priority: int = 0, dry_run: bool = False, depends: Sequence[object] = ()
) -> opcodes.TestDelay:
    opcode = opcodes.decode(
        {
            "OP_ID": "OP_TEST_DELAY",
            "duration": seconds,
            "comment": script,
            "priority": priority,
            "dry_run": dry_run,
            "depends": list(depends) or None,
        }
    )
    assert isinstance(opcode, opcodes.TestDelay)
    return opcode


class SimulatedJobs:
    """A job queue, its processor and its locks over a store in memory, on a machine of a simulated world."""

    def __init__(self, world: simulated.World, *, limit: int = queue.LIMIT, running: int = 1000) -> None:
        self.world = world
        self.runtime = world.machine("node1")
        owner = cluster.Cluster(uuid="c", name="c", master_node="m", max_running_jobs=running)
        self.memory = MemoryStore(states.Snapshot().apply([states.Put(owner)], serial=1))
        self.store: records.Store = self.memory
        self.scripts: dict[str, Script] = {}
        self.archived: dict[int, jobs.Job] = {}
        self.ledger = embedded.Ledger()
        self.nodes: base.Nodes = cast("base.Nodes", None)
        self.limit = limit
        world.run(self.runtime.disk.make_directory("/queue"))
        self.boot()

    def boot(self) -> None:
        """Start the daemon's parts over what the store has."""
        self.runtime = self.world.machine("node1")
        # Unless a test gives them nodes, its units ask none, and never the authority.
        services = environment.Services(
            nodes=self.nodes,
            ledger=self.ledger,
            authority=cast("base.Authority", None),
            runtime=self.runtime,
            submit=lambda many, submitter: self.queue.submit_many(many, submitter=submitter),
        )
        self.locks = locks.LockManager()
        self.book = records.Records(self.store, self.runtime.clock)
        unit = type("Unit", (Scripted,), {"scripts": self.scripts})
        self.processor = processor.Processor(
            self.book, self.locks, units={opcodes.TestDelay: cast("type[execution.AnyUnit]", unit)}, services=services
        )
        self.queue = queue.Queue(
            self.book,
            self.processor,
            self.runtime,
            archived=self.archived.get,
            limit=self.limit,
        )

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self.world.run(work)

    def job(self, number: int) -> jobs.Job:
        return self.queue.jobs()[number]

    def statuses(self) -> dict[int, str]:
        return {number: str(job.status) for number, job in self.queue.jobs().items()}

    async def wait(self, *numbers: int) -> list[str]:
        """Wait for the ends of jobs."""
        for number in numbers:
            while self.job(number).status not in jobs.FINAL:
                await self.queue.wait_for_change(
                    number,
                    lambda job: [job.status],
                    previous=[self.job(number).status],
                    serial=10**9,
                    timeout=1e6,
                )
        return [str(self.job(number).status) for number in numbers]

    async def until(self, number: int, status: str) -> None:
        """Wait until a job has a status."""
        async with asyncio.timeout(1e6):
            while self.job(number).status != status:
                await self.book.wait(self.book.find(number))
