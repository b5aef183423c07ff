"""The protocol of a logical unit: how an opcode becomes locks, facts, a plan, and steps that can be undone.

``jobs.processor`` runs a unit through its life (contracts/cluster-design.md#logical-units;
explanation/architecture.md#deciding-and-doing):

1. ``locks(snapshot)`` expands the names of the opcode and says which locks it needs, all levels at once. It runs
   again after the grant; when the answer differs the locks are released and asked for anew.
2. ``inspect(snapshot, nodes)`` asks nodes what only they know. It changes nothing anywhere, the unit included. What
   it draws for a draft that nodes check (``Recorder``) goes to ``plan`` with the facts: what was checked is planned.
3. ``plan(snapshot, facts)`` is pure: it checks, and returns everything that will be done. With ``dry_run`` the life
   ends here, if the state would take the changes, and the plan's lines are the result. Identifiers and times are
   inputs (``Inputs``).
4. The plan's ``hooks``, where it has some, are run in the phase ``pre``: a script that fails ends the life here. The
   addresses that the ``changes`` take or give up are held from the turn of the loop in which the plan was made until
   the opcode has ended, so that no other plan takes them; its ``changes`` are then committed as one transaction.
   Where a database has the last word on addresses they are secured there before the hooks, and ``plan`` is asked
   again if others have one of them.
5. The plan's ``steps`` run in order, each with what it does and what undoes it. Both are values: calls to nodes
   (``Command``), or a ``Procedure`` that says why it cannot be one. When a step fails, the undo of those that finished
   and of the one that failed run in reverse, then ``changes`` are reverted; they are kept when an undo failed too,
   because a node may still have what they record. Every action can be repeated.
6. ``Plan.finish``, when given, turns the outcome of the steps into a last transaction. The steps of ``after`` come
   when that is stored, and stay what they are: a failure of one takes nothing back. What no undo brings back is done
   there, because the last transaction may fail. Then come the hooks of the phase ``post``, the ``jobs`` that are
   submitted, and ``result``.
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
from gantry.rpc import calls, targets
from gantry.state import history
from gantry.state import snapshot as states

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


@dataclass(frozen=True)
class Inputs:
    """What a plan may not make up by itself: the time, and sources of identifiers."""

    now: float
    uuid: Callable[[], str]
    below: Callable[[int], int]


@dataclass(frozen=True)
class Draws:
    """The identifiers and random numbers that ``inspect`` drew for a draft, so that ``plan`` draws the same ones.

    Each number is kept with the limit that it was drawn below.
    """

    uuids: Sequence[str] = ()
    numbers: Sequence[tuple[int, int]] = ()

    def replay(self, inputs: Inputs) -> Inputs:
        """Return inputs that draw these values again in their order, and new values once they are used up.

        A number is drawn again below its own limit only: a MAC address's must never become a disk's secret.
        """
        uuids = iter(self.uuids)
        numbers = {limit: iter([number for own, number in self.numbers if own == limit]) for limit, _ in self.numbers}

        def below(limit: int) -> int:
            number = next(numbers.get(limit, iter(())), None)
            return inputs.below(limit) if number is None else number

        return Inputs(inputs.now, lambda: next(uuids, "") or inputs.uuid(), below)


class Recorder:
    """Draws from ``inputs`` for a draft, and keeps what it drew."""

    def __init__(self, inputs: Inputs) -> None:
        self._source = inputs
        self._uuids: list[str] = []
        self._numbers: list[tuple[int, int]] = []

    @property
    def inputs(self) -> Inputs:
        """Return the inputs for the draft."""
        return Inputs(self._source.now, self._uuid, self._below)

    def drawn(self) -> Draws:
        """Return what has been drawn so far."""
        return Draws(tuple(self._uuids), tuple(self._numbers))

    def _uuid(self) -> str:
        self._uuids.append(self._source.uuid())
        return self._uuids[-1]

    def _below(self, limit: int) -> int:
        number = self._source.below(limit)
        self._numbers.append((limit, number))
        return number


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
        """Give a request to an allocator program of the master's and return its answer.

        See contracts/iallocator.md#answer.
        """
        ...

    def snapshot(self) -> states.Snapshot:
        """Return the newest state."""
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


@dataclass(frozen=True)
class Procedure:
    """Work that no fixed list of calls can express; ``reason`` says why. Errors are ignored as those of a Command.

    Two procedures are equal if their reasons are: the step's text and the snapshot determine the rest.
    """

    reason: str
    run: Callable[[], Awaitable[None]] = field(compare=False, repr=False)
    ignores: type[errors.GantryError] | None = None
    warning: str = "ignored"


Action = Command | Procedure
Actions = tuple[Action, ...]


@dataclass(frozen=True)
class Step:
    """A piece of work outside the state, and what takes it back; ``text`` is shown in a dry run and in the log.

    A step without actions only writes its text to the log.
    """

    text: str
    do: Actions = ()
    undo: Actions = ()


def call_step(
    text: str, target: targets.Target, call: calls.Call[object], undo: calls.Call[object] | None = None
) -> Step:
    """Return the step that calls one node, and undoes that by another call to the same node."""
    return Step(text, (Command(target, call),), (Command(target, undo),) if undo else ())


def noted(lines: Sequence[str]) -> list[Step]:
    """Return steps that only write a line to the job's log."""
    return [Step(line) for line in lines]


def tolerant(actions: Actions, ignores: type[errors.GantryError], *, warning: str = "ignored") -> Actions:
    """Return the actions with errors of a class turned into warnings in the job's log.

    An action that ignores these errors already, perhaps with more of them, stays as it is.
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
"""A hook script that failed: node, script, output; without a script, a node that could not be asked and why."""

Report = Callable[[Sequence[HookFailure]], None]


@dataclass(frozen=True)
class Hooks:
    """The administrator's scripts around a plan; ``operations.hook_environment`` makes them.

    ``environment`` is what they are told, without ``GANETI_``, and ``later`` tells the same of a state to come, where
    that may differ; before a change they are told what is ``wanted`` instead, where that is given. On ``nodes_leaving``
    the post phase runs before the steps of ``after``, which put them out of reach. Its failures go to ``report``, or
    are warnings in the job's log.

    See contracts/hooks.md#directories.
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
    """A logical unit: how one opcode is carried out. A new one for each run; it cannot be changed once it is made."""

    OPCODE: ClassVar[type[opcodes.Opcode]]
    BRIEF: ClassVar[bool] = False
    """It asks nothing and changes nothing but the state: who waits for its job has it in one step (``jobs.brief``)."""

    op: Op
    environment: Environment

    def __init__(self, op: Op, environment: Environment) -> None:
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "environment", environment)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is set, but units are frozen; facts carry what was found")

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
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
