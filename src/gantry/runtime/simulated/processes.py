"""Processes of a simulated machine: its daemons, and other programs.

Programs are functions that a test registers under the path of a program. Daemons are coroutines that
``SimulatedRuntime.launch`` runs; signals reach them as they reach real daemons.
"""

import asyncio
import errno
import itertools
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field

from gantry.runtime import bytestream, commands, serving
from gantry.runtime.simulated import boot, clock, disk, opened, streams

READ_AHEAD_BYTES = 1 << 20
"""Buffer for data from a connected program."""

DRAIN_TIMEOUT_SECONDS = 5.0
"""For a handler to read the remaining output of a program that has ended."""


@dataclass(frozen=True)
class Invocation:
    """The call of a program; ``connection`` is the standard input of a connected program."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str | None = None
    stdin: bytes = b""
    connection: streams.End | None = None


Program = Callable[[Invocation], Awaitable[commands.Completed]]
"""Does the work of a program in virtual time, and returns its exit; a signal that kills the program cancels it."""


@dataclass(frozen=True)
class Daemon:
    """A launched daemon: its arguments, its boot, its main task, and the handler of SIGTERM."""

    arguments: list[str]
    boot: boot.Boot
    task: asyncio.Task[object]
    terminate: Callable[[], None]


class Processes:
    """The processes of one machine: ``programs`` maps the first argument of a call to the program that runs."""

    def __init__(self, loop: clock.VirtualLoop, machine_disk: disk.Disk, host: str) -> None:
        self.programs: dict[str, Program] = {}
        self._loop = loop
        self._disk = machine_disk
        self._host = host
        self._numbers = itertools.count(1000)
        self._hardware = boot.Boot(loop, host)
        self._running: dict[int, tuple[list[str], asyncio.Task[None]]] = {}
        self._daemons: dict[int, Daemon] = {}
        self._tracked: dict[asyncio.Task[commands.Completed], None] = {}

    def launch(
        self,
        arguments: Sequence[str],
        main: Coroutine[object, object, object],
        *,
        machine: boot.Boot,
        terminate: Callable[[], None] | None = None,
    ) -> Daemon:
        """Run a daemon until ``main`` ends, SIGKILL arrives, or the boot ``machine`` ends.

        ``command_line`` returns ``arguments``. SIGTERM and SIGINT call ``terminate`` (None: cancel ``main``).
        """
        pid = next(self._numbers)
        process = machine.process(pid)
        task = process.spawn(main)
        task.add_done_callback(lambda _: process.end())
        self._daemons = {number: daemon for number, daemon in self._daemons.items() if not daemon.boot.ended}
        launched = self._daemons[pid] = Daemon(list(arguments), process, task, terminate or (lambda: _cancel(task)))
        return launched

    def lose_power(self) -> None:
        """End all programs."""
        self._hardware.end()
        self._hardware = boot.Boot(self._loop, self._host)
        self._running.clear()
        self._tracked.clear()

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
        """Run a program until it ends; a tracked program survives a kill of its daemon until ``track``."""
        call, program = Invocation(arguments, environment or {}, directory, stdin), self._find(arguments)
        async with asyncio.timeout(timeout):
            await asyncio.sleep(0)
            return await (self._run_tracked(program, call) if tracked else program(call))

    async def _run_tracked(self, program: Program, call: Invocation) -> commands.Completed:
        async def run() -> commands.Completed:
            return await program(call)

        owner = boot.current()
        task = self._hardware.spawn(run())
        self._tracked[task] = None
        task.add_done_callback(lambda done: self._tracked.pop(done, None))
        try:
            return await asyncio.shield(task)
        finally:
            if owner is None or not owner.ended:
                task.cancel()

    async def track(self, folder: str) -> None:
        """End the tracked programs of daemons that have ended."""
        del folder
        boot.check()
        for task in list(self._tracked):
            task.cancel()
            await asyncio.wait([task])

    async def start(self, arguments: Sequence[str], *, environment: Mapping[str, str] | None, log: str) -> int:
        """Start a program that survives a kill of the machine's daemons, but not a power loss."""
        program = self._find(arguments)
        pid = next(self._numbers)
        output = await self._disk.append_file(log)
        task = self._hardware.spawn(self._live(program, Invocation(arguments, environment or {}), output))
        task.add_done_callback(lambda _: self._running.pop(pid, None))
        self._running[pid] = (list(arguments), task)
        return pid

    async def in_scope(self, guest: str, arguments: Sequence[str]) -> Sequence[str]:
        """Return the arguments as they are: a simulated machine has no systemd."""
        del guest
        return arguments

    async def run_connected(self, arguments: Sequence[str], handler: bytestream.Handler) -> int:
        """Run a program whose standard input is a connection that ``handler`` serves."""
        program = self._find(arguments)
        end, (reader, writer) = streams.pair(READ_AHEAD_BYTES, READ_AHEAD_BYTES)
        task = asyncio.ensure_future(serving.serve(handler, reader, writer))
        try:
            await asyncio.sleep(0)
            completed = await program(Invocation(arguments, connection=end))
        finally:
            end[1].close()
            await asyncio.wait([task], timeout=DRAIN_TIMEOUT_SECONDS)
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()
        return completed.code

    async def _live(self, program: Program, call: Invocation, output: opened.AppendFile) -> None:
        completed = await program(call)
        await output.append(completed.stdout + completed.stderr)

    def alive(self, pid: int) -> bool:
        """Return whether a daemon or a started program still runs."""
        boot.check()
        return pid in self._running or self._daemon(pid) is not None

    def command_line(self, pid: int) -> list[str]:
        """Return the arguments of a daemon or a started program; empty if it has ended."""
        boot.check()
        daemon = self._daemon(pid)
        if daemon is not None:
            return list(daemon.arguments)
        return list(self._running[pid][0]) if pid in self._running else []

    def signal(self, pid: int, number: int) -> None:
        """Send a signal: SIGTERM, SIGINT, SIGHUP and SIGKILL end a program; it ignores other signals.

        A daemon runs its handler on SIGTERM and SIGINT, ends on SIGKILL, stops on SIGSTOP, continues with SIGCONT, and
        ignores other signals.
        """
        boot.check()
        daemon = self._daemon(pid)
        if daemon is not None:
            if number == signal.SIGKILL:
                daemon.boot.end()
            elif number == signal.SIGSTOP:
                self._loop.pause(daemon.boot)
            elif number == signal.SIGCONT and daemon.boot.resume is not None:
                daemon.boot.resume()
            elif number in (signal.SIGTERM, signal.SIGINT):
                daemon.terminate()
        elif pid not in self._running:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        elif number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
            self._running[pid][1].cancel()

    def _daemon(self, pid: int) -> Daemon | None:
        daemon = self._daemons.get(pid)
        return None if daemon is None or daemon.boot.ended else daemon

    def _find(self, arguments: Sequence[str]) -> Program:
        boot.check()
        if arguments[0] not in self.programs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])
        return self.programs[arguments[0]]


def _cancel(task: asyncio.Task[object]) -> None:
    task.cancel()
