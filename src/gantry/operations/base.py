"""The protocol of a logical unit: how an opcode becomes locks, facts, a plan, and steps that can be undone.

``jobs.processor`` runs a unit through these phases (contracts/cluster-design.md#logical-units;
explanation/architecture.md#deciding-and-doing):

1. ``locks(snapshot)`` expands the names in the opcode and returns the locks of all levels at once. It runs again after
   the locks are granted; if the result differs, the processor releases the locks and requests the new set.
2. ``inspect(snapshot, nodes)`` asks nodes what only they know. It changes nothing, not even the unit. The values that
   it draws for a draft that nodes check (``draws``) go to ``plan`` with the facts, so the plan equals the draft.
3. ``plan(snapshot, facts)`` is pure: it checks, and returns everything that will be done. ``dry_run`` ends here; if the
   state would accept the changes, the result is the plan's lines. Identifiers and times are inputs (``draws.Inputs``).
4. The plan's ``hooks``, if any, run in the phase ``pre``: a script that fails ends the opcode here. From the event loop
   turn that makes the plan until the opcode ends, the addresses that ``changes`` allocate or release are held, so that
   no other plan allocates them. Then ``changes`` are committed as one transaction. If an external database decides
   about addresses, they are allocated there before the hooks, and ``plan`` runs again if one of them is in use.
5. The plan's ``steps`` run in order, each with its actions and its undo. Both are values: calls to nodes
   (``Command``), or a ``Procedure`` with the reason why it cannot be a list of calls. A step may have changes of the
   state, which are committed before its actions. When a step fails, the undo of
   that step and of the finished ones run in reverse, then ``changes`` are reverted. If an undo fails too, ``changes``
   are kept, because a node may still have what they record. Every action can be repeated.
6. ``Plan.finish``, if any, turns the outcome of the steps into a last transaction. The steps of ``after`` run when that
   transaction is stored; they are never undone. They contain what no undo could restore, because the last transaction
   may fail. Then the hooks of the phase ``post`` run, the ``jobs`` are submitted, and ``result`` is returned.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, Protocol, TypeVar

from msgspec import structs

from gantry import errors
from gantry.ipam import embedded, shared
from gantry.model import base as entities
from gantry.model import lock, opcodes
from gantry.operations import draws
from gantry.rpc import calls, silence, targets
from gantry.state.journal import history
from gantry.state.objects import snapshot as states

Op = TypeVar("Op", bound=opcodes.Opcode)
Facts = TypeVar("Facts")
Result = TypeVar("Result")
E = TypeVar("E", bound=entities.Entity)


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

    def last_answer(self, target: targets.Target) -> float:
        """Return when a node last answered any call, also with an error, by the time of the event loop."""
        ...

    def silence(self) -> silence.Silence | None:
        """Return the nodes that are known not to answer; None if nothing is remembered about them."""
        ...


class Log(Protocol):
    """The messages of a job."""

    def info(self, message: str) -> None:
        """Log what happens."""
        ...

    def warning(self, message: str) -> None:
        """Log a problem that does not stop the job."""
        ...

    def progress(self, text: str) -> None:
        """Show how far the present work is, until the next text, to clients that wait for the job; it is not stored."""
        ...


class Authority(Protocol):
    """The cluster's certificate authority; certificates and keys are PEM text."""

    @property
    def certificates(self) -> str:
        """Return the certificates of all authorities that are trusted."""
        ...

    def papers(self) -> Mapping[str, str]:
        """Return the files that master candidates keep besides the state, by name."""
        ...

    def issue(self, request: str, *, uuid: str, name: str, address: str) -> str:
        """Return a certificate for the node with this name, for a certificate signing request."""
        ...

    async def add_successor(self, cluster: str) -> None:
        """Create the authority that is to follow, and trust it too; nothing is issued by it yet."""
        ...

    async def switch(self) -> None:
        """Issue certificates by the successor from now on, and trust the one before as well."""
        ...

    async def drop_successor(self) -> None:
        """Undo ``add_successor``; after ``switch`` there is nothing to undo."""
        ...

    @property
    def own_certificate(self) -> str:
        """Return the certificate of the authority that issues certificates."""
        ...

    async def forget_others(self) -> None:
        """Trust only the authority that issues certificates."""
        ...

    async def renew_master(self) -> None:
        """Issue the master's own certificate again, for the key of its node.

        All new connections use it, and trust the present authorities only.
        """
        ...

    async def renew_remote_api(self, *, names: Sequence[str], address: str) -> None:
        """Issue a certificate and a key for the remote API on this machine."""
        ...


class Environment(Protocol):
    """What a running unit may use, besides its opcode."""

    @property
    def ledger(self) -> embedded.Ledger:
        """Return the ledger of address allocations."""
        ...

    @property
    def addresses(self) -> shared.Shared:
        """Return the interface to the database that keeps the addresses, if the cluster uses a database."""
        ...

    @property
    def authority(self) -> Authority:
        """Return the cluster's certificate authority."""
        ...

    @property
    def nodes(self) -> Nodes:
        """Return the client that calls nodes."""
        ...

    @property
    def log(self) -> Log:
        """Return the job's log."""
        ...

    @property
    def inputs(self) -> draws.Inputs:
        """Return the current time and sources of identifiers for a plan."""
        ...

    async def check_journal(self) -> history.Check:
        """Check the newest part of the journal: every byte, and the chain of records."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        ...

    def stoppable(self) -> AbstractContextManager[Callable[[], bool]]:
        """Allow canceling the running job while the context is open; its value returns whether the job was canceled."""
        ...

    async def run_allocator(self, name: str, request: bytes, arguments: Sequence[str]) -> bytes:
        """Pass a request to an allocator program on the master and return its answer.

        See contracts/iallocator.md#answer.
        """
        ...

    def snapshot(self) -> states.Snapshot:
        """Return the acknowledged state, which has the unit's own changes; what is sent to nodes comes from it."""
        ...


@dataclass(frozen=True)
class Command:
    """A call to a node as a value: it can be compared, printed and recorded.

    Errors of the class ``ignores`` do not fail the step; the job's log gets them as warnings that begin with
    ``warning``.
    """

    target: targets.Target
    call: calls.Call[object]
    ignores: type[errors.GantryError] | None = None
    warning: str = "ignored"

    def __str__(self) -> str:
        return f"{self.call.procedure()} on {self.target.name}"


Run = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Procedure:
    """Work that no fixed list of calls can express; ``reason`` says why. ``ignores`` and ``warning`` as in a Command.

    Two procedures are equal if their reasons are: the step's text and the snapshot determine the rest.
    """

    reason: str
    run: Run = field(compare=False, repr=False)
    ignores: type[errors.GantryError] | None = None
    warning: str = "ignored"


Action = Command | Procedure
Actions = tuple[Action, ...]


@dataclass(frozen=True)
class Step:
    """A piece of work outside the state, with its undo; ``text`` is displayed in a dry run and in the log.

    ``changes`` are stored before ``do``, so that a successor of this master knows what may have been done. They delete
    nothing, and are reverted with the plan's changes. A step without actions only writes its text to the log.
    """

    text: str
    do: Actions = ()
    undo: Actions = ()
    changes: Sequence[states.Change] = ()


def call_step(
    text: str,
    target: targets.Target,
    call: calls.Call[object],
    undo: calls.Call[object] | None = None,
    *,
    changes: Sequence[states.Change] = (),
) -> Step:
    """Return the step that calls one node; its undo is another call to the same node."""
    return Step(text, (Command(target, call),), (Command(target, undo),) if undo else (), changes)


def log_steps(lines: Sequence[str]) -> list[Step]:
    """Return steps that only write a line to the job's log."""
    return [Step(line) for line in lines]


def tolerant(actions: Actions, ignores: type[errors.GantryError], *, warning: str = "ignored") -> Actions:
    """Return the actions with errors of a class turned into warnings in the job's log.

    An action that already ignores these errors, or more of them, stays unchanged.
    """
    return tuple(
        action
        if action.ignores and issubclass(ignores, action.ignores)
        else replace(action, ignores=ignores, warning=warning)
        for action in actions
    )


async def perform(actions: Actions, nodes: Nodes, log: Log) -> None:
    """Carry out the actions of a step in order; raises the first error that its action does not ignore."""
    for action in actions:
        try:
            if isinstance(action, Command):
                await nodes.call(action.target, action.call)
            else:
                await action.run()
        except errors.GantryError as error:
            if action.ignores is None or not isinstance(error, action.ignores):
                raise
            log.warning(f"{action.warning}: {error.message}")


HookFailure = tuple[str, str, str]
"""A failed hook script: node, script, output. An empty script: the node that could not be asked, and the reason."""

Report = Callable[[Sequence[HookFailure]], None]


@dataclass(frozen=True)
class Hooks:
    """The administrator's scripts around a plan; ``operations.hook_environment`` creates them.

    ``environment`` contains the scripts' variables without ``GANETI_``; ``later`` returns them for the state after the
    change, if they may differ; ``planned`` contains those before the change, if not ``environment``. On
    ``nodes_leaving`` the post phase runs before the steps of ``after``, which disconnect these nodes. The failures of
    the post phase go to ``report``; without it they are warnings in the job's log.

    See contracts/hooks.md#directories.
    """

    path: str
    object_type: str
    environment: Mapping[str, str]
    later: Callable[[states.Snapshot], Mapping[str, str]] | None = None
    nodes_pre: Sequence[targets.Target] = ()
    nodes_post: Sequence[targets.Target] = ()
    nodes_leaving: Sequence[targets.Target] = ()
    planned: Mapping[str, str] | None = None
    report: Report | None = None

    def after(self, snapshot: states.Snapshot) -> Mapping[str, str]:
        """Return the variables after the change, which ``snapshot`` contains."""
        return self.later(snapshot) if self.later else self.environment


Finish = Callable[[states.Snapshot], Sequence[states.Change]]


@dataclass(frozen=True)
class Plan:
    """Everything that a unit will do, in the order of the module's docstring; ``lines`` describe it to people.

    If ``jobs`` is not None (it may be empty), the opcode's result is the ids of the jobs, together with the mapping
    that ``result`` returns.
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
    """Return an entity with new field values, a higher serial number and a new modification time."""
    return structs.replace(entity, serial_no=entity.serial_no + 1, mtime=now, **fields)


class Unit(Generic[Op, Facts]):
    """A logical unit: carries out one opcode. Each run has its own unit, which is frozen."""

    OPCODE: ClassVar[type[opcodes.Opcode]]
    BRIEF: ClassVar[bool] = False
    """Asks no node and changes only the state: a client that waits for the job gets it in one step (``jobs.brief``)."""
    READS: ClassVar[bool] = False
    """Changes nothing: clients may have its result without a job (``jobs.reads``)."""

    op: Op
    environment: Environment

    def __init__(self, op: Op, environment: Environment) -> None:
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "environment", environment)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} was set, but units are frozen; return it in the facts")

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Return the locks that the opcode needs; raises NotFoundError for unknown names."""
        raise NotImplementedError

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Ask nodes what the plan needs to know."""
        raise NotImplementedError

    def ends_wait(self) -> bool:
        """Return whether the opcode may end the master's wait for candidates that do not answer.

        Then its changes are made during the wait, without locks, steps and hooks (``jobs.brief``).
        """
        return False

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> Plan:
        """Check, and return what will be done; raises PrerequisiteError."""
        raise NotImplementedError


class Planned(Unit[Op, None]):
    """A logical unit that asks no node: its plan follows from the state alone."""

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""
