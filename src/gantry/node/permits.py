"""A node carries out a call only while its caller waits for the answer and has the right to command (``rpc.permits``).

``daemon.server`` passes each call with a permit to ``carry_out``. The permit is checked before the call begins and
before each program that the call starts (``Programs``). If it has ended, because the node slept, or because the caller
gave the call up or lost its lease, the call waits for an extension, and is refused after ``WAIT_SECONDS`` without one.
It is refused at once if another node has become the master meanwhile. The programs that clean up after a refusal are
started.

The first call of a new master ends what the calls of former masters have left at work, and waits until that has ended:
a script that still wrote to a disk could destroy what the new master puts there.

See explanation/replication.md#permits.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gantry import errors
from gantry.rpc import calls
from gantry.runtime import bytestream, commands, interface

T = TypeVar("T")

logger = logging.getLogger(__name__)

WAIT_SECONDS = 10.0
"""How long a call whose permit has ended waits for an extension; its caller extends it each second."""
SHORTEST_WAIT_SECONDS = 0.001
"""A shorter wait may be less than what a timer can tell, and would be repeated without end."""

END_SECONDS = 20.0
"""How long a new master's call waits for the end of what former masters have left at work."""


@dataclass(eq=False)
class _Call:
    """A call with a permit that is at work; ``until`` is when its permit ends, by the node's clock."""

    procedure: str
    permit: calls.Permit
    epoch: int | None
    caller: str
    confirm: Callable[["_Call"], Awaitable[None]]
    until: float = 0.0
    extended: asyncio.Event = field(default_factory=asyncio.Event)
    is_settled: bool = False
    """The call has been refused or ended, or has ended: what it starts now is not asked any more."""
    tasks: dict[asyncio.Future[Any], None] = field(default_factory=dict)
    """In order: an order that varies would make the same run of a simulation end differently."""


_current: ContextVar[_Call | None] = ContextVar("permit", default=None)
"""The call that the current task carries out."""


async def confirm() -> None:
    """Return when the call of the current task may continue, if it has a permit.

    WrongStateError if its permit ended and is not extended, FencedError if another node has become the master.
    """
    call = _current.get()
    if call is not None and not call.is_settled:
        await call.confirm(call)


def keep(task: asyncio.Future[T]) -> None:
    """Let a task that outlasts the current call end with the run of the call's master."""
    call = _current.get()
    if call is not None:
        call.tasks[task] = None
        task.add_done_callback(call.tasks.pop)


class Permits:
    """The calls with permits that are at work.

    ``run`` is a token of this run of the daemon. ``check`` raises FencedError if another node than that with the given
    UUID has become the master since the given epoch.
    """

    def __init__(self, clock: interface.Clock, run: str, *, check: Callable[[int, str], None]) -> None:
        self._clock = clock
        self._run = run
        self._check = check
        # The network may bring one call twice.
        self._at_work: dict[_Call, None] = {}
        self._left: dict[_Call, None] = {}

    def moment(self) -> calls.Moment:
        """Return the present moment of the node's clock."""
        return calls.Moment(self._run, self._clock.monotonic())

    async def carry_out(
        self,
        work: Callable[[], Awaitable[object]],
        *,
        procedure: str,
        permit: calls.Permit,
        epoch: int | None,
        caller: str,
    ) -> object:
        """Carry a call out as its permit allows; the errors are those of ``confirm``.

        ``epoch`` is None for a call of a node that is not the master yet.
        """
        call = _Call(procedure, permit, epoch, caller, self._confirm)
        self._extend(call, permit.until)
        task = asyncio.ensure_future(self._work(call, work))
        call.tasks[task] = None
        self._at_work[call] = None
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()  # if this call itself was cancelled, because the daemon ends
            await asyncio.wait([task])
            call.is_settled = True
            del call.tasks[task], self._at_work[call]
            if call.tasks:
                self._left[call] = None
        if task.cancelled():
            raise errors.FencedError(
                f"{procedure} was ended: its master has given it up, or a later run of the master commands this node",
                hint="repeat the job on the present master",
            )
        return task.result()

    async def _work(self, call: _Call, work: Callable[[], Awaitable[object]]) -> object:
        _current.set(call)
        await confirm()
        return await work()

    async def _confirm(self, call: _Call) -> None:
        deadline = self._clock.monotonic() + WAIT_SECONDS
        while (now := self._clock.monotonic()) >= call.until and now < deadline:
            call.extended.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(deadline - now, SHORTEST_WAIT_SECONDS)):
                    await call.extended.wait()
        try:
            if call.epoch is not None:
                self._check(call.epoch, call.caller)
            if now >= call.until:
                raise errors.WrongStateError(
                    f"{call.procedure} is too late: its caller does not wait for it any more, or may not command nodes",
                    hint="this node, the network or the master stood still; repeat the job",
                )
        except errors.GantryError:
            call.is_settled = True
            raise

    def extend(self, extension: calls.ExtendPermits) -> None:
        """Extend the permits of calls at work."""
        until, numbers = calls.decode_moment(extension.until), set(extension.numbers)
        for call in self._at_work:
            if until is not None and call.permit.run == extension.run and call.permit.number in numbers:
                self._extend(call, until)

    def _extend(self, call: _Call, until: calls.Moment) -> None:
        if until.run == self._run and until.seconds > call.until:
            call.until = until.seconds
            call.extended.set()

    async def end(self, request: calls.EndCalls) -> None:
        """End calls at work that their master has given up; WrongStateError if they do not end in time."""
        numbers = set(request.numbers)
        given_up = [call for call in self._at_work if call.permit.run == request.run and call.permit.number in numbers]
        await _end(given_up, "that its master has given up")

    async def end_former(self, run: str, epoch: int) -> None:
        """End what other runs have left at work in earlier epochs; WrongStateError if it does not end in time."""
        self._left = {call: None for call in self._left if call.tasks}
        former = [
            call
            for call in (*self._at_work, *self._left)
            if call.permit.run != run and call.epoch is not None and call.epoch != epoch
        ]
        await _end(former, "of a former master")


async def _end(at_work: Sequence[_Call], whose: str) -> None:
    """End calls, and tasks that outlast them; WrongStateError if they do not end in time."""
    for call in at_work:
        if not call.is_settled:
            logger.warning("%s %s is ended", call.procedure, whose)
        call.is_settled = True
        for task in list(call.tasks):
            task.cancel()
    tasks = [task for call in at_work for task in call.tasks]
    _, running = await asyncio.wait(tasks, timeout=END_SECONDS) if tasks else (set(), set())
    if running:
        names = sorted({call.procedure for call in at_work if running.intersection(call.tasks)})
        raise errors.WrongStateError(
            f"{', '.join(names)} {whose} is still at work and does not end",
            hint="a program hangs in the kernel, for example on a broken disk: repeat the job when it has ended",
        )


class Programs:
    """Runs the programs of a node, each only while the permit of its call lasts (``commands.Processes``)."""

    def __init__(self, processes: commands.Processes) -> None:
        self._processes = processes

    async def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bytes = b"",
        timeout: float = 60.0,
        tracked: bool = False,
    ) -> commands.Completed:
        """Run a program as ``commands.Processes`` does; the errors of ``confirm`` too."""
        await confirm()
        return await self._processes.run(
            arguments, environment=environment, directory=directory, stdin=stdin, timeout=timeout, tracked=tracked
        )

    async def start(self, arguments: Sequence[str], *, environment: Mapping[str, str] | None, log: str) -> int:
        """Start a program that outlives the daemon; the errors of ``confirm`` too."""
        await confirm()
        return await self._processes.start(arguments, environment=environment, log=log)

    async def track(self, folder: str) -> None:
        """End the tracked programs of an earlier daemon."""
        await self._processes.track(folder)

    async def in_scope(self, guest: str, arguments: Sequence[str]) -> Sequence[str]:
        """Return the arguments that run a guest's program so that it outlives the service of this daemon."""
        return await self._processes.in_scope(guest, arguments)

    async def run_connected(self, arguments: Sequence[str], handler: bytestream.Handler) -> int:
        """Run a program whose standard input is a connection."""
        return await self._processes.run_connected(arguments, handler)

    def alive(self, pid: int) -> bool:
        """Return whether a process with this id exists."""
        return self._processes.alive(pid)

    def command_line(self, pid: int) -> list[str]:
        """Return the arguments that a process was started with."""
        return self._processes.command_line(pid)

    def signal(self, pid: int, number: int) -> None:
        """Send a signal."""
        self._processes.signal(pid, number)


class Machine:
    """A node's machine (``interface.Runtime``), which runs ``Programs`` and has the name that ``name`` returns."""

    def __init__(self, runtime: interface.Runtime, *, name: Callable[[], str]) -> None:
        self._runtime = runtime
        self._name = name
        self.clock = runtime.clock
        self.random = runtime.random
        self.disk = runtime.disk
        self.network = runtime.network
        self.processes = Programs(runtime.processes)
        self.streams = runtime.streams

    @property
    def host(self) -> str:
        """Return the machine's name."""
        return self._name()

    async def compute(self, work: Callable[[], bytes]) -> bytes:
        """Run a long, pure computation outside the event loop."""
        return await self._runtime.compute(work)

    async def block(self, work: Callable[[], T]) -> T:
        """Run calls of a blocking library outside the event loop."""
        return await self._runtime.block(work)
