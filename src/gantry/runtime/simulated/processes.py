"""Other programs on a simulated machine: functions that a test registers under the path of a program."""

import asyncio
import errno
import itertools
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gantry.runtime import interface
from gantry.runtime.simulated import boot, disk


@dataclass(frozen=True)
class Invocation:
    """How a program was called."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str | None = None
    stdin: bytes = b""


# A program does its work, in virtual time, and says how it ended; it is cancelled when it is killed.
Program = Callable[[Invocation], Awaitable[interface.Completed]]


class Processes:
    """The programs of one machine: ``programs`` maps the first argument to what runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, machine_disk: disk.Disk) -> None:
        self.programs: dict[str, Program] = {}
        self._loop = loop
        self._disk = machine_disk
        self._numbers = itertools.count(1000)
        self._hardware = boot.Boot(loop)
        self._running: dict[int, tuple[list[str], asyncio.Task[None]]] = {}

    def lose_power(self) -> None:
        """End all programs."""
        self._hardware.end()
        self._hardware = boot.Boot(self._loop)
        self._running.clear()

    async def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bytes = b"",
        timeout: float = 60.0,
    ) -> interface.Completed:
        """Run a program to its end."""
        program = self._find(arguments)
        async with asyncio.timeout(timeout):
            await asyncio.sleep(0)
            return await program(Invocation(arguments, environment or {}, directory, stdin))

    async def start(self, arguments: Sequence[str], *, environment: Mapping[str, str] | None, log: str) -> int:
        """Start a program that survives a kill of the machine's daemons, but no loss of power."""
        program = self._find(arguments)
        pid = next(self._numbers)
        output = await self._disk.append_file(log)
        task = self._hardware.spawn(self._live(program, Invocation(arguments, environment or {}), output))
        task.add_done_callback(lambda _: self._running.pop(pid, None))
        self._running[pid] = (list(arguments), task)
        return pid

    async def _live(self, program: Program, call: Invocation, output: disk.AppendFile) -> None:
        completed = await program(call)
        await output.append(completed.stdout + completed.stderr)

    def alive(self, pid: int) -> bool:
        """Tell whether a started program still runs."""
        boot.check()
        return pid in self._running

    def command_line(self, pid: int) -> list[str]:
        """Return the arguments of a started program; empty when it is gone."""
        boot.check()
        return list(self._running[pid][0]) if pid in self._running else []

    def signal(self, pid: int, number: int) -> None:
        """Send a signal: SIGTERM, SIGINT, SIGHUP and SIGKILL end a program, others it does not notice."""
        boot.check()
        if pid not in self._running:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
            self._running[pid][1].cancel()

    def _find(self, arguments: Sequence[str]) -> Program:
        boot.check()
        if arguments[0] not in self.programs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])
        return self.programs[arguments[0]]
