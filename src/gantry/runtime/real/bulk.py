"""Bulk data from a program on one machine to a program on another: TCP with TLS, pumped by a thread of its own.

The event loop never sees the data; a disk of a terabyte costs a daemon no more than the thread. On the wire:

    token, a newline
    4 bytes of length (big endian), so many bytes of data; again and again
    4 bytes of zero: the data is complete               then one byte back: it has arrived

So data that breaks off is told from data that ends. Who listens shows its certificate; who sends shows the token, which
opens the one stream that it was made for. The programs of a pipeline are joined by the system's pipes.
"""

import asyncio
import concurrent.futures
import contextlib
import fcntl
import hashlib
import hmac
import os
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TypeVar

from gantry.runtime import commands

T = TypeVar("T")

CHUNK = 1 << 20
HEAD = struct.Struct("!I")
ARRIVED = b"\x06"
# seconds until a sender has to come, until it has to show its token, and without a byte from it
ACCEPT, GREETING, SILENCE = 60.0, 10.0, 900.0
# bytes of what a program complains that are kept: the last ones
COMPLAINTS = 1 << 20


class _Pipeline:
    """Running programs, each reading what the one before writes; ``fed`` when the first reads what we write."""

    def __init__(self, stages: Sequence[commands.Stage], *, fed: bool) -> None:
        self._programs: list[subprocess.Popen[bytes]] = []
        self._listeners: list[threading.Thread] = []
        self._said: list[bytearray] = []
        self._killed = False
        before: IO[bytes] | int = subprocess.PIPE if fed else subprocess.DEVNULL
        try:
            for number, stage in enumerate(stages, 1):
                last = fed and number == len(stages)
                self._start(stage, before, subprocess.DEVNULL if last else subprocess.PIPE)
                if not isinstance(before, int):
                    before.close()
                before = self._programs[-1].stdout or subprocess.DEVNULL
        except OSError:
            self.kill()
            self.finish()
            raise
        end = self._programs[0].stdin if fed else self._programs[-1].stdout
        assert end is not None
        self.end = end

    def _start(self, stage: commands.Stage, before: IO[bytes] | int, out: int) -> None:
        program = subprocess.Popen(
            stage.arguments, bufsize=0, stdin=before, stdout=out, stderr=subprocess.PIPE,
            env=stage.environment, cwd=stage.directory, start_new_session=True,
        )  # fmt: skip
        self._programs.append(program)
        for pipe in filter(None, (program.stdin, program.stdout)):
            with contextlib.suppress(OSError):  # the user's pipes may have taken all the room there is
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, CHUNK)
        said = bytearray()
        self._said.append(said)
        assert program.stderr is not None
        listener = threading.Thread(target=_listen, args=(program.stderr, said), daemon=True)
        self._listeners.append(listener)
        listener.start()

    def kill(self) -> None:
        """Kill all programs with their children."""
        self._killed = True
        for program in self._programs:
            if program.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)

    def finish(self) -> list[commands.Completed]:
        """Wait for all programs and return how they ended."""
        codes = [program.wait() for program in self._programs]
        # a child that outlives its parent may hold the pipe; it belongs to the group
        for program, listener in zip(self._programs, self._listeners, strict=True):
            listener.join(0 if self._killed else 5.0)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            listener.join(5.0)
            for pipe in (program.stdin, program.stdout):
                with contextlib.suppress(OSError):
                    if pipe:
                        pipe.close()
        return [
            commands.Completed(code, b"", bytes(said[-COMPLAINTS:]))
            for code, said in zip(codes, self._said, strict=True)
        ]


def _listen(pipe: IO[bytes], said: bytearray) -> None:
    with pipe:
        while data := pipe.read(1 << 16):
            said += data
            if len(said) > 2 * COMPLAINTS:
                del said[:-COMPLAINTS]


class _Transfer:
    """What a thread does for one stream, and how it is broken off from outside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._canceled = False
        self._socket: socket.socket | None = None
        self._pipeline: _Pipeline | None = None

    def _connected(self, made: socket.socket) -> socket.socket:
        with self._lock:
            self._socket = made
            if self._canceled:
                raise ConnectionAbortedError("canceled")
        return made

    @contextlib.contextmanager
    def _running(self, stages: Sequence[commands.Stage], *, fed: bool) -> Iterator[_Pipeline]:
        with self._lock:
            if self._canceled:
                raise ConnectionAbortedError("canceled")
            self._pipeline = _Pipeline(stages, fed=fed)
        try:
            yield self._pipeline
        except BaseException:  # whatever ends the transfer, no program outlives it
            self._pipeline.kill()
            raise
        finally:
            self._pipeline.finish()

    def cancel(self) -> None:
        """Break off; the thread ends soon."""
        with self._lock:
            self._canceled = True
            if self._pipeline:
                self._pipeline.kill()
            if self._socket:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def send(
        self, stages: Sequence[commands.Stage], *, host: str, port: int, token: str, tls: ssl.SSLContext | None
    ) -> commands.Streamed:
        with socket.create_connection((host, port), timeout=ACCEPT) as plain:
            wire = tls.wrap_socket(plain, server_hostname=host) if tls else plain
            with self._connected(wire), self._running(stages, fed=False) as pipeline:
                wire.settimeout(SILENCE)
                wire.sendall(token.encode() + b"\n")
                size = _pump_out(pipeline.end, wire)
                ended = pipeline.finish()
                if all(one.code == 0 for one in ended):
                    wire.sendall(HEAD.pack(0))
                    if wire.recv(1) != ARRIVED:
                        raise ConnectionResetError("the receiver broke off")
        return commands.Streamed(size, "", ended)

    def receive(
        self, listener: socket.socket, stages: Sequence[commands.Stage], *, token: str, tls: ssl.SSLContext | None
    ) -> commands.Streamed:
        with listener:
            wire = self._connected(_accepted(self._connected(listener), token, tls))
        with wire, self._running(stages, fed=True) as pipeline:
            wire.settimeout(SILENCE)
            try:
                size, digest = _pump_in(wire, pipeline.end)
            except BrokenPipeError:
                return commands.Streamed(0, "", pipeline.finish())
            pipeline.end.close()
            ended = pipeline.finish()
            if all(one.code == 0 for one in ended):
                wire.sendall(ARRIVED)
        return commands.Streamed(size, digest, ended)


def _pump_out(source: IO[bytes], wire: socket.socket) -> int:
    size = 0
    view = memoryview(bytearray(HEAD.size + CHUNK))
    data = view[HEAD.size :]
    while count := os.readv(source.fileno(), [data]):
        HEAD.pack_into(view, 0, count)
        wire.sendall(view[: HEAD.size + count])
        size += count
    return size


def _pump_in(wire: socket.socket, sink: IO[bytes]) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    view, head = memoryview(bytearray(CHUNK)), memoryview(bytearray(HEAD.size))
    while True:
        _fill(wire, head)
        (count,) = HEAD.unpack(head)
        if not count:
            return size, digest.hexdigest()
        if count > CHUNK:
            raise ConnectionAbortedError("what came is no stream")
        data = view[:count]
        _fill(wire, data)
        digest.update(data)
        size += count
        written = 0
        while written < count:
            written += sink.write(data[written:])


def _fill(wire: socket.socket, view: memoryview) -> None:
    have = 0
    while have < len(view):
        count = wire.recv_into(view[have:])
        if not count:
            raise ConnectionResetError("the sender broke off")
        have += count


def _accepted(listener: socket.socket, token: str, tls: ssl.SSLContext | None) -> socket.socket:
    """Return the connection of whoever shows the token; others are sent away."""
    deadline = time.monotonic() + ACCEPT
    while (left := deadline - time.monotonic()) > 0:
        listener.settimeout(left)
        plain, _ = listener.accept()
        plain.settimeout(GREETING)
        wire = plain
        with contextlib.suppress(OSError):
            wire = tls.wrap_socket(plain, server_side=True) if tls else plain
            shown = b""
            while len(shown) <= len(token) and (byte := wire.recv(1)):
                shown += byte
            if hmac.compare_digest(shown, token.encode() + b"\n"):
                return wire
        wire.close()
    raise TimeoutError("nobody came with the token")


async def _threaded(transfer: _Transfer, work: Callable[[], T], timeout: float) -> T:
    """Run the work of a transfer in a thread of its own; break it off after ``timeout`` or when we are cancelled."""
    executor = concurrent.futures.ThreadPoolExecutor(1)
    running = asyncio.get_running_loop().run_in_executor(executor, work)
    try:
        async with asyncio.timeout(timeout):
            return await asyncio.shield(running)
    finally:
        if not running.done():
            transfer.cancel()
            await asyncio.wait([running])
            running.exception()
        executor.shutdown(wait=False)


class Arrival:
    """A stream that is waited for (see ``commands.Arrival``)."""

    def __init__(self, listener: socket.socket, token: str, tls: ssl.SSLContext | None) -> None:
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        self._token = token
        self._tls = tls
        self._transfer = _Transfer()

    async def receive(self, stages: Sequence[commands.Stage], *, timeout: float) -> commands.Streamed:
        """Feed a pipeline with what comes."""

        def work() -> commands.Streamed:
            return self._transfer.receive(self._listener, stages, token=self._token, tls=self._tls)

        return await _threaded(self._transfer, work, timeout)

    async def close(self) -> None:
        """Stop waiting, break off."""
        self._transfer.cancel()
        self._listener.close()


class Streams:
    """The streams of this machine (see ``commands.Streams``)."""

    async def send(
        self,
        stages: Sequence[commands.Stage],
        *,
        host: str,
        port: int,
        token: str,
        tls: ssl.SSLContext | None,
        timeout: float,
    ) -> commands.Streamed:
        """Run a pipeline and send what its last program writes."""
        transfer = _Transfer()

        def work() -> commands.Streamed:
            return transfer.send(stages, host=host, port=port, token=token, tls=tls)

        return await _threaded(transfer, work, timeout)

    async def listen(self, host: str, *, token: str, tls: ssl.SSLContext | None) -> Arrival:
        """Bind a port of the system's choice."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return Arrival(socket.create_server((host, 0), family=family), token, tls)
