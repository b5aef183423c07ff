"""The protocol of a logical unit: how an opcode becomes locks, facts, a plan, and steps that can be undone.

``jobs.processor`` runs a unit through its life (seed "Code examples"; design section 5):

1. ``locks(snapshot)`` expands the names of the opcode and says which locks it needs, all levels at once. It runs
   again after the grant; when the answer differs the locks are released and asked for anew.
2. ``inspect(snapshot, nodes)`` asks nodes what only they know. It changes nothing anywhere.
3. ``plan(snapshot, facts)`` is pure: it checks, and returns everything that will be done. With ``dry_run`` the life
   ends here, if the state would take the changes, and the plan's lines are the result. Identifiers and times are
   inputs (``Inputs``).
4. The plan's ``hooks``, where it has some, are run in the phase ``pre``: a script that fails ends the life here. The
   addresses that the ``changes`` take or give up are held from the turn of the loop in which the plan was made until
   the opcode has ended, so that no other plan takes them; its ``changes`` are then committed as one transaction.
   Where a database has the last word on addresses they are secured there before the hooks, and ``plan`` is asked
   again if others have one of them.
5. The plan's ``steps`` run in order, each a ``do`` with its ``undo``. When a step fails, the undo of those that
   finished and of the one that failed run in reverse, then ``changes`` are taken back; they are kept when an undo
   failed too, because a node may still have what they record. Every do and undo can be repeated.
6. ``Plan.finish``, when given, turns the outcome of the steps into a last transaction. The steps of ``after`` come
   when that is stored, and stay what they are: a failure of one takes nothing back. What no undo brings back is done
   there, because the last transaction may fail. Then come the hooks of the phase ``post``, the ``jobs`` that are
   submitted, and ``result``.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import ClassVar, Generic, Protocol, TypeVar

from msgspec import structs

from gantry import errors
from gantry.ipam import embedded, shared
from gantry.model import base as entities
from gantry.model import opcodes
from gantry.rpc import calls, targets
from gantry.state import history
from gantry.state import snapshot as states

Op = TypeVar("Op", bound=opcodes.Opcode)
Facts = TypeVar("Facts")
Result = TypeVar("Result")
E = TypeVar("E", bound=entities.Entity)


class Level(IntEnum):
    """The levels of locks in the order in which they are taken (design section 5)."""

    CLUSTER = 0
    INSTANCE = 1
    GROUP = 2
    NODE = 3
    NETWORK = 4
    CONFIG = 5


class Mode(StrEnum):
    """How a lock is held."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


ALL_NAMES = "*"
"""The name of a level's metalock: all locks of the level, those to come included."""

LockSet = Mapping[tuple[Level, str], Mode]
"""What a unit needs: level and name (a UUID, or ``ALL_NAMES``), and how. Every unit shares the cluster lock."""


class Nodes(Protocol):
    """Calls to nodes (``rpc.client`` answers)."""

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Call one node; raises its error, or RemoteError when it is offline or does not answer."""
        ...

    async def fan_out(self, where: Sequence[targets.Target], call: calls.Call[Result]) -> list[targets.Answer[Result]]:
        """Call many nodes at once; the answers are in the order of ``where``, failures among them."""
        ...

    async def join(self, target: targets.Target, token: str, call: calls.Call[Result]) -> Result:
        """Call a node that has not joined, over the certificate in its join token."""
        ...


@dataclass(frozen=True)
class Inputs:
    """What a plan may not make up by itself: the time, and sources of identifiers."""

    now: float
    uuid: Callable[[], str]
    below: Callable[[int], int]


class Log(Protocol):
    """The messages of a job."""

    def info(self, message: str) -> None:
        """Tell what goes on."""
        ...

    def warning(self, message: str) -> None:
        """Tell what went wrong without stopping the job."""
        ...


class Authority(Protocol):
    """The cluster's certificate authority; certificates and keys are PEM text."""

    @property
    def certificate(self) -> str:
        """Return the authority's own certificate."""
        ...

    def papers(self) -> Mapping[str, str]:
        """Return the files that master candidates keep besides the state, by name: the authority's own, the users."""
        ...

    def issue(self, request: str, *, uuid: str, name: str, address: str) -> str:
        """Return the certificate that makes a machine the node of that name."""
        ...


class Environment(Protocol):
    """What a running unit may use besides its opcode."""

    @property
    def ledger(self) -> embedded.Ledger:
        """Return who keeps the address allocations."""
        ...

    @property
    def addresses(self) -> shared.Shared:
        """Return what may keep the addresses in a database."""
        ...

    @property
    def authority(self) -> Authority:
        """Return the cluster's certificate authority."""
        ...

    @property
    def nodes(self) -> Nodes:
        """Return the door to the nodes."""
        ...

    @property
    def log(self) -> Log:
        """Return the job's log."""
        ...

    @property
    def inputs(self) -> Inputs:
        """Return time and identifiers for a plan made now."""
        ...

    async def check_journal(self) -> history.Check:
        """Check the newest part of the journal: every byte, and the chain."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def stoppable(self) -> AbstractContextManager[Callable[[], bool]]:
        """Let the job be canceled though it runs, for as long as the context is open; what it gives tells if it was."""
        ...

    async def run_allocator(self, name: str, request: bytes, arguments: Sequence[str]) -> bytes:
        """Give a request to an allocator program of the master's and return its answer (contract: iallocator)."""
        ...

    def snapshot(self) -> states.Snapshot:
        """Return the newest state."""
        ...


Action = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """Do nothing: the undo of a step that leaves nothing behind."""


@dataclass(frozen=True)
class Step:
    """A piece of work outside the state, and what takes it back; ``text`` is shown in a dry run and in the log."""

    text: str
    do: Action
    undo: Action = nothing


def noted(lines: Sequence[str]) -> list[Step]:
    """Return steps that only tell something in the job's log."""
    return [Step(line, nothing) for line in lines]


def tolerant(action: Action, error: type[errors.GantryError], *, log: Log, told: str) -> Action:
    """Return an action of which errors of a kind are only told in the job's log, after the word ``told``."""

    async def act() -> None:
        try:
            await action()
        except error as problem:
            log.warning(f"{told}: {problem.message}")

    return act


HookFailure = tuple[str, str, str]
"""A hook script that failed: node, script, output; without a script, a node that could not be asked and why."""

Report = Callable[[Sequence[HookFailure]], None]


@dataclass(frozen=True)
class Hooks:
    """The administrator's scripts around a plan (contract: hooks); ``operations.hook_environment`` makes them.

    ``environment`` is what they are told, without ``GANETI_``, and ``later`` tells the same of a state to come, where
    that may differ; before a change they are told what is ``wanted`` instead, where that is given. On ``nodes_leaving``
    the post phase runs before the steps of ``after``, which put them out of reach. Its failures go to ``report``, or
    are warnings in the job's log.
    """

    path: str
    object_type: str
    environment: Mapping[str, str]
    later: Callable[[states.Snapshot], Mapping[str, str]] | None = None
    nodes_pre: Sequence[targets.Target] = ()
    nodes_post: Sequence[targets.Target] = ()
    nodes_leaving: Sequence[targets.Target] = ()
    wanted: Mapping[str, str] | None = None
    report: Report | None = None

    def after(self, snapshot: states.Snapshot) -> Mapping[str, str]:
        """Return what the scripts are told after the change, which ``snapshot`` has."""
        return self.later(snapshot) if self.later else self.environment


Finish = Callable[[states.Snapshot], Sequence[states.Change]]


@dataclass(frozen=True)
class Plan:
    """All that a unit will do, in the order of the module's docstring; ``lines`` say it to people.

    With ``jobs``, be it none, the opcode's result names them, with what ``result`` returns, a mapping, beside them.
    """

    lines: Sequence[str] = ()
    changes: Sequence[states.Change] = ()
    steps: Sequence[Step] = ()
    finish: Finish | None = None
    after: Sequence[Step] = ()
    jobs: Sequence[Sequence[opcodes.AnyOpcode]] | None = None
    result: Callable[[], object] = field(default=lambda: None)
    keep_on_failure: bool = False
    hooks: Hooks | None = None


def changed(entity: E, now: float, **fields: object) -> E:
    """Return an entity with new field values, counted as one more change."""
    return structs.replace(entity, serial_no=entity.serial_no + 1, mtime=now, **fields)


class Unit(Generic[Op, Facts]):
    """A logical unit: how one opcode is done. Made anew for each run; holds no state but its opcode and environment."""

    OPCODE: ClassVar[type[opcodes.Opcode]]
    BRIEF: ClassVar[bool] = False
    """It asks nothing and changes nothing but the state: who waits for its job has it in one step (``jobs.brief``)."""

    def __init__(self, op: Op, environment: Environment) -> None:
        self.op = op
        self.environment = environment

    def locks(self, snapshot: states.Snapshot) -> LockSet:
        """Say which locks the opcode needs; raises NotFoundError for names that lead nowhere."""
        raise NotImplementedError

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Ask nodes what the plan has to know."""
        raise NotImplementedError

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> Plan:
        """Check, and return what will be done; raises PrerequisiteError."""
        raise NotImplementedError


class Planned(Unit[Op, None]):
    """A logical unit that asks no node: what it does follows from the state."""

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""
