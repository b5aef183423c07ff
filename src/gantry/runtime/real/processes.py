"""Real processes: programs that are waited for, and programs that outlive us.

Each program gets a session, and so a process group, of its own: a time-out kills it with all its children. Whatever
is started is reaped when it ends, so no zombie stays; what ``start`` started lives on when this process ends.
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

from gantry.runtime import bytestream, commands, serving

# seconds that a killed process may take to vanish; one that hangs in the kernel is left to itself
KILL_PATIENCE = 5.0
# seconds that a program may take to end in order when it is told to
END_PATIENCE = 10.0
# bytes that are taken from a program on a connection before they are asked for
READ_AHEAD = 1 << 20
# bytes: of a program that writes without end, what it wrote last is kept
OUTPUT_LIMIT = 16 << 20
# seconds that a program may take to show its arguments after it has begun to run
BEGINNING = 0.1


class _Output(asyncio.SubprocessProtocol):
    """What a program writes, and the two moments: it has exited, and its pipes are closed too."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.streams = {1: bytearray(), 2: bytearray()}
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.streams[fd]
        kept += data
        if len(kept) > 2 * OUTPUT_LIMIT:
            del kept[:-OUTPUT_LIMIT]

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
    """Wait until a program is started or has failed to; return the cancellation that came meanwhile.

    asyncio waits for ever when it is cancelled between starting a program and connecting its pipes (Python 3.11).
    """
    canceled = None
    while not launching.done():
        try:
            await asyncio.wait([launching])
        except asyncio.CancelledError as error:
            canceled = error
    return canceled


async def _kill(transport: asyncio.SubprocessTransport, output: _Output) -> None:
    """Kill the process group and wait until the program is reaped; its children may hold its pipes for ever."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(transport.get_pid(), signal.SIGKILL)
    await asyncio.wait([output.exited], timeout=KILL_PATIENCE)


def _launch(arguments: Sequence[str], environment: Mapping[str, str] | None, log: str) -> subprocess.Popen[bytes]:
    """Start a program, not by asyncio: its transports kill what they started when they are closed."""
    with open(log, "ab") as file:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )


def _reap(process: subprocess.Popen[bytes], descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
    loop.remove_reader(descriptor)
    os.close(descriptor)
    process.wait()


def _connected(arguments: Sequence[str]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a program that has one end of a connection for its standard input; return the other end, and it."""
    own, other = socket.socketpair()
    with other:
        try:
            return own, subprocess.Popen(arguments, stdin=other.fileno(), start_new_session=True)
        except OSError:
            own.close()
            raise


async def _serve(connection: socket.socket, handler: bytestream.Handler) -> None:
    reader, writer = await asyncio.open_connection(sock=connection, limit=READ_AHEAD)
    await serving.serve(handler, reader, writer)


async def _end(process: subprocess.Popen[bytes], ended: asyncio.Event) -> None:
    """Let a program end, by force if it does not do so itself in time."""
    for number, patience in ((signal.SIGTERM, END_PATIENCE), (signal.SIGKILL, KILL_PATIENCE)):
        if not ended.is_set():
            process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await ended.wait()


class Processes:
    """The programs of this machine (see ``commands.Processes``)."""

    async def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bytes = b"",
        timeout: float = 60.0,
    ) -> commands.Completed:
        """Run a program until it has ended and its output is closed."""
        launching = asyncio.ensure_future(
            asyncio.get_running_loop().subprocess_exec(
                _Output,
                *arguments,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                env=environment,
                cwd=directory,
                start_new_session=True,
            )
        )
        canceled = await _finished(launching)
        transport, output = launching.result()
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
        return commands.Completed(code or 0, bytes(output.streams[1]), bytes(output.streams[2]))

    async def start(self, arguments: Sequence[str], *, environment: Mapping[str, str] | None, log: str) -> int:
        """Start a program that lives on by itself; it is reaped while this event loop runs."""
        process = _launch(arguments, environment, log)
        loop = asyncio.get_running_loop()
        ended = os.pidfd_open(process.pid)
        loop.add_reader(ended, functools.partial(_reap, process, ended, loop))
        self._let_begin(process.pid)
        return process.pid

    async def attend(self, arguments: Sequence[str], handler: bytestream.Handler) -> int:
        """Run a program that has a connection to us for its standard input."""
        own, process = _connected(arguments)
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        descriptor = os.pidfd_open(process.pid)
        loop.add_reader(descriptor, ended.set)
        task = asyncio.ensure_future(_serve(own, handler))
        try:
            await ended.wait()
        finally:
            await _end(process, ended)
            # What it has written before its end is still taken in.
            await asyncio.wait([task], timeout=KILL_PATIENCE)
            task.cancel()
            await asyncio.wait([task])
            if ended.is_set():
                _reap(process, descriptor, loop)
            else:  # it hangs in the kernel
                loop.add_reader(descriptor, functools.partial(_reap, process, descriptor, loop))
        if not task.cancelled():
            task.result()
        return process.returncode

    def _let_begin(self, pid: int) -> None:
        """Return when the arguments of a program that was started just now can be read, in microseconds.

        The kernel says that it runs before it shows them, and who looked then would not know it for ours. Nobody else
        gets a turn meanwhile: who is cancelled here would not know what he started.
        """
        until = time.monotonic() + BEGINNING
        while self.alive(pid) and not self.command_line(pid) and time.monotonic() < until:
            os.sched_yield()

    def alive(self, pid: int) -> bool:
        """Tell whether a process exists and is no zombie.

        One that was killed looks like a zombie while threads of it are still in the kernel, busy with a disk perhaps:
        they hold its files and locks, so it lives until the last of them has ended.
        """
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
            return state not in (b"Z", b"X") or len(os.listdir(f"/proc/{pid}/task")) > 1
        except (FileNotFoundError, ProcessLookupError):
            return False

    def command_line(self, pid: int) -> list[str]:
        """Return the arguments of a process; empty when it is gone."""
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                content = file.read()
        except (FileNotFoundError, ProcessLookupError):
            return []
        return [os.fsdecode(argument) for argument in content.split(b"\0")[:-1]]

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to one process; 0 and negative ids, which mean groups, name no process."""
        if pid <= 0:
            raise ProcessLookupError(f"no process has the id {pid}")
        os.kill(pid, number)
