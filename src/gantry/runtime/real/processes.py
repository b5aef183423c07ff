"""Real processes: programs that run to their end, and programs that outlive this process.

Each program gets a session, and so a process group, of its own: a timeout kills it with all its children. Each program
is reaped when it ends, so no zombies remain; a program from ``start`` outlives this process.
"""

import asyncio
import contextlib
import functools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence

from gantry.runtime import bytestream, commands, serving, traces
from gantry.runtime.real import disk, open_files, scopes, tracking

KILL_TIMEOUT_SECONDS = 5.0
"""For a process to end after SIGKILL; a process that hangs in the kernel is abandoned."""
TERMINATE_TIMEOUT_SECONDS = 10.0
"""For a program to end by itself after SIGTERM."""
READ_AHEAD_BYTES = 1 << 20
"""Buffer for data from a connected program."""
OUTPUT_LIMIT_BYTES = 16 << 20
"""How much of a program's output is kept, from its end."""
EXEC_TIMEOUT_SECONDS = 0.1
"""For the arguments of a new process to become readable."""


class _Output(asyncio.SubprocessProtocol):
    """A program's output, and futures for its exit and for the end of its pipes."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.streams = {1: bytearray(), 2: bytearray()}
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.streams[fd]
        kept += data
        if len(kept) > 2 * OUTPUT_LIMIT_BYTES:
            del kept[:-OUTPUT_LIMIT_BYTES]

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


def _feed(transport: asyncio.SubprocessTransport, data: bytes) -> None:
    pipe = transport.get_pipe_transport(0)
    if isinstance(pipe, asyncio.WriteTransport):
        pipe.write(data)
        pipe.write_eof()


async def _finished(launching: asyncio.Future[tuple[asyncio.SubprocessTransport, _Output]]) -> BaseException | None:
    """Wait until a program has started or failed to start; return a cancellation that arrives meanwhile.

    asyncio waits forever if it is cancelled after it starts a program and before it connects the pipes (Python 3.11).
    """
    canceled = None
    while not launching.done():
        try:
            await asyncio.wait([launching])
        except asyncio.CancelledError as error:
            canceled = error
    return canceled


async def _kill(transport: asyncio.SubprocessTransport, output: _Output) -> None:
    """Kill the process group and wait until the program is reaped; its children may keep its pipes open forever."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(transport.get_pid(), signal.SIGKILL)
    await asyncio.wait([output.exited], timeout=KILL_TIMEOUT_SECONDS)


def _launch(arguments: Sequence[str], environment: Mapping[str, str] | None, log: str) -> subprocess.Popen[bytes]:
    """Start a program without asyncio, whose transports kill their programs when they are closed."""
    with open(log, "ab", opener=disk.open_log) as file:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )
    open_files.restore_for(process.pid)
    return process


def _reap(process: subprocess.Popen[bytes], descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
    loop.remove_reader(descriptor)
    os.close(descriptor)
    process.wait()


def _connected(arguments: Sequence[str]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a program with one end of a connection as standard input; return the other end and the process."""
    own, other = socket.socketpair()
    with other:
        try:
            process = subprocess.Popen(arguments, stdin=other.fileno(), start_new_session=True)
        except OSError:
            own.close()
            raise
    open_files.restore_for(process.pid)
    return own, process


async def _serve(connection: socket.socket, handler: bytestream.Handler) -> None:
    reader, writer = await asyncio.open_connection(sock=connection, limit=READ_AHEAD_BYTES)
    await serving.serve(handler, reader, writer)


async def _end(process: subprocess.Popen[bytes], ended: asyncio.Event) -> None:
    """Terminate a program; kill it if it does not end in time."""
    for number, timeout in ((signal.SIGTERM, TERMINATE_TIMEOUT_SECONDS), (signal.SIGKILL, KILL_TIMEOUT_SECONDS)):
        if not ended.is_set():
            process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await ended.wait()


class Processes:
    """The programs of this machine (see ``commands.Processes``)."""

    def __init__(self, tracker: tracking.Tracker | None = None) -> None:
        self._tracker = tracker or tracking.Tracker()

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
        """Run a program until it has ended and its output pipes are closed."""
        name = arguments[0].rpartition("/")[2]
        with traces.part(f"run {name}", {"process.executable.name": name}) as span:
            launching = asyncio.ensure_future(
                asyncio.get_running_loop().subprocess_exec(
                    _Output,
                    *arguments,
                    stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                    env=environment,
                    cwd=directory,
                    start_new_session=True,
                    pass_fds=self._tracker.descriptors(tracked),
                )
            )
            canceled = await _finished(launching)
            transport, output = launching.result()
            open_files.restore_for(transport.get_pid())
            self._tracker.started(transport.get_pid(), tracked)
            try:
                if canceled is not None:
                    raise canceled
                _feed(transport, stdin)
                async with asyncio.timeout(timeout):
                    await asyncio.shield(output.closed)
                code = transport.get_returncode()
            finally:
                if not output.closed.done():
                    await _kill(transport, output)
                transport.close()
                self._tracker.ended(transport.get_pid(), tracked)
            span.note({"process.exit.code": code or 0})
        return commands.Completed(code or 0, bytes(output.streams[1]), bytes(output.streams[2]))

    async def track(self, folder: str) -> None:
        """End the tracked programs that an earlier process has left, and track programs in ``folder`` from now on."""
        await self._tracker.begin(folder)

    async def start(self, arguments: Sequence[str], *, environment: Mapping[str, str] | None, log: str) -> int:
        """Start a program that outlives this process; it is reaped while this event loop runs."""
        process = _launch(arguments, environment, log)
        loop = asyncio.get_running_loop()
        ended = os.pidfd_open(process.pid)
        loop.add_reader(ended, functools.partial(_reap, process, ended, loop))
        self._wait_for_arguments(process.pid)
        return process.pid

    async def in_scope(self, guest: str, arguments: Sequence[str]) -> Sequence[str]:
        """Return the arguments that run a guest's program in a scope of its own, if this is a service of systemd."""

        async def output(words: Sequence[str]) -> bytes:
            return (await self.run(words)).stdout

        return await scopes.command(guest, arguments, run=output) if scopes.are_available() else arguments

    async def run_connected(self, arguments: Sequence[str], handler: bytestream.Handler) -> int:
        """Run a program whose standard input is a connection that ``handler`` serves."""
        own, process = _connected(arguments)
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        descriptor = os.pidfd_open(process.pid)
        loop.add_reader(descriptor, ended.set)
        task = asyncio.ensure_future(_serve(own, handler))
        try:
            await ended.wait()
        finally:
            await _end(process, ended)
            # The handler still reads what the program has written before its end.
            await asyncio.wait([task], timeout=KILL_TIMEOUT_SECONDS)
            task.cancel()
            await asyncio.wait([task])
            if ended.is_set():
                _reap(process, descriptor, loop)
            else:  # the process hangs in the kernel
                loop.add_reader(descriptor, functools.partial(_reap, process, descriptor, loop))
        if not task.cancelled():
            task.result()
        return process.returncode

    def _wait_for_arguments(self, pid: int) -> None:
        """Wait until the arguments of a new process are readable, usually for microseconds.

        A process exists before its arguments are readable, and until then a reader cannot recognize it as ours. This
        blocks the event loop on purpose: if the caller were cancelled here, it would not learn the process id.
        """
        deadline = time.monotonic() + EXEC_TIMEOUT_SECONDS
        while self.alive(pid) and not self.command_line(pid) and time.monotonic() < deadline:
            os.sched_yield()

    def alive(self, pid: int) -> bool:
        """Return whether a process exists and is not a zombie.

        A killed process looks like a zombie while threads of it are still in the kernel, perhaps waiting for a disk.
        These threads keep its files and locks, so the process counts as alive until its last thread has ended.
        """
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
            return state not in (b"Z", b"X") or len(os.listdir(f"/proc/{pid}/task")) > 1
        except (FileNotFoundError, ProcessLookupError):
            return False

    def command_line(self, pid: int) -> list[str]:
        """Return the arguments of a process; empty if it does not exist."""
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                content = file.read()
        except (FileNotFoundError, ProcessLookupError):
            return []
        return [os.fsdecode(argument) for argument in content.split(b"\0")[:-1]]

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to one process; ProcessLookupError for 0 and negative ids, which mean process groups."""
        if pid <= 0:
            raise ProcessLookupError(f"{pid} is not a process id: it would signal a process group")
        os.kill(pid, number)
