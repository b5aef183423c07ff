"""Bulk data from a program on one machine to a program on another, over TCP with TLS.

A thread for each stream moves the data; the event loop never sees it, so even a terabyte costs a daemon no more than
that thread. On the wire:

    token, newline
    repeated: 4 bytes with the length (big endian), then that many bytes of data
    4 zero bytes: the data is complete; the receiver answers with 1 byte when it has processed all of it

This distinguishes a stream that is aborted from a stream that ends. The listener presents its certificate; the sender
presents the token, which is valid for one stream. The system's pipes join the programs of a pipeline.
"""

import asyncio
import concurrent.futures
import contextlib
import fcntl
import hashlib
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
from gantry.runtime.real import bulk_accept, open_files, tracking

T = TypeVar("T")

CHUNK_BYTES = 1 << 20
HEAD = struct.Struct("!I")
ARRIVED = b"\x06"
CONNECT_TIMEOUT_SECONDS = 60.0
"""For a sender to connect to the listener."""
CONNECT_ATTEMPTS = 5
"""For a sender whose connection ends before its first message."""
CONNECT_BACK_OFF_SECONDS = 0.1
IDLE_TIMEOUT_SECONDS = 900.0
"""Without a byte from the peer."""
STDERR_BYTES = 1 << 20
"""How much of a program's standard error is kept, from its end."""


class _Pipeline:
    """Running programs, each of which reads its predecessor's output; ``fed``: we write the first program's input."""

    def __init__(self, stages: Sequence[commands.Stage], tracker: tracking.Tracker, *, fed: bool) -> None:
        self._stages = stages
        self._tracker = tracker
        self._programs: list[subprocess.Popen[bytes]] = []
        self._listeners: list[threading.Thread] = []
        self._stderr: list[bytearray] = []
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
            pass_fds=self._tracker.descriptors(stage.tracked),
        )  # fmt: skip
        open_files.restore_for(program.pid)
        self._tracker.started(program.pid, stage.tracked)
        self._programs.append(program)
        for pipe in filter(None, (program.stdin, program.stdout)):
            with contextlib.suppress(OSError):  # this user may have reached the kernel's limit of pipe memory
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, CHUNK_BYTES)
        stderr = bytearray()
        self._stderr.append(stderr)
        assert program.stderr is not None
        listener = threading.Thread(target=_listen, args=(program.stderr, stderr), daemon=True)
        self._listeners.append(listener)
        listener.start()

    def kill(self) -> None:
        """Kill all programs and their children."""
        self._killed = True
        for program in self._programs:
            if program.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)

    def finish(self) -> list[commands.Completed]:
        """Wait for all programs, and return their exit codes and standard error."""
        codes = [program.wait() for program in self._programs]
        # A child that outlives its parent may keep the pipe open; it belongs to the process group.
        for program, listener in zip(self._programs, self._listeners, strict=True):
            listener.join(0 if self._killed else 5.0)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            listener.join(5.0)
            for pipe in (program.stdin, program.stdout):
                with contextlib.suppress(OSError):
                    if pipe:
                        pipe.close()
        for program, stage in zip(self._programs, self._stages, strict=False):
            self._tracker.ended(program.pid, stage.tracked)
        return [
            commands.Completed(code, b"", bytes(stderr[-STDERR_BYTES:]))
            for code, stderr in zip(codes, self._stderr, strict=True)
        ]


def _listen(pipe: IO[bytes], stderr: bytearray) -> None:
    with pipe:
        while data := pipe.read(1 << 16):
            stderr += data
            if len(stderr) > 2 * STDERR_BYTES:
                del stderr[:-STDERR_BYTES]


class _Transfer:
    """The transfer of one stream, in a thread; ``cancel`` aborts it from another thread."""

    def __init__(self, tracker: tracking.Tracker) -> None:
        self._tracker = tracker
        self._lock = threading.Lock()
        self._canceled = False
        self.received = 0
        self._socket: socket.socket | None = None
        self._pipeline: _Pipeline | None = None

    def _connected(self, connection: socket.socket) -> socket.socket:
        with self._lock:
            self._socket = connection
            if self._canceled:
                raise ConnectionAbortedError("canceled")
        return connection

    @contextlib.contextmanager
    def _running(self, stages: Sequence[commands.Stage], *, fed: bool) -> Iterator[_Pipeline]:
        with self._lock:
            if self._canceled:
                raise ConnectionAbortedError("canceled")
            self._pipeline = _Pipeline(stages, self._tracker, fed=fed)
        try:
            yield self._pipeline
        except BaseException:  # no program may outlive the transfer
            self._pipeline.kill()
            raise
        finally:
            self._pipeline.finish()

    def cancel(self) -> None:
        """Abort the transfer; its thread ends soon."""
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
        with self._connection(host, port, token, tls) as wire, self._running(stages, fed=False) as pipeline:
            wire.settimeout(IDLE_TIMEOUT_SECONDS)
            size = _pump_out(pipeline.end, wire)
            exits = pipeline.finish()
            if all(program.code == 0 for program in exits):
                wire.sendall(HEAD.pack(0))
                if wire.recv(1) != ARRIVED:
                    raise ConnectionResetError("the receiver aborted the stream")
        return commands.Streamed(size, "", exits)

    def _connection(self, host: str, port: int, token: str, tls: ssl.SSLContext | None) -> socket.socket:
        """Connect to a listener and present the token; again if it has closed the connection: our first byte was late.

        It comes before the programs start, which may take a while.
        """
        attempts = CONNECT_ATTEMPTS
        while True:
            attempts -= 1
            wire = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_SECONDS)
            try:
                if tls:
                    wire = tls.wrap_socket(wire, server_hostname=host, do_handshake_on_connect=False)
                self._connected(wire)
                if isinstance(wire, ssl.SSLSocket):
                    wire.do_handshake()
                wire.sendall(token.encode() + b"\n")
                return wire
            except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
                wire.close()
                if not attempts:
                    raise
                time.sleep(CONNECT_BACK_OFF_SECONDS)
            except BaseException:
                wire.close()
                raise

    def _check(self) -> None:
        """Raise ConnectionAbortedError once the transfer is cancelled."""
        if self._canceled:
            raise ConnectionAbortedError("canceled")

    def receive(
        self, listener: socket.socket, stages: Sequence[commands.Stage], *, token: str, tls: ssl.SSLContext | None
    ) -> commands.Streamed:
        with listener:
            reception = bulk_accept.Reception(self._connected(listener), token, tls)
            wire = self._connected(reception.accept(timeout=CONNECT_TIMEOUT_SECONDS, check=self._check))
        with wire, self._running(stages, fed=True) as pipeline:
            wire.settimeout(IDLE_TIMEOUT_SECONDS)
            try:
                digest = self._pump_in(wire, pipeline.end)
            except BrokenPipeError:
                return commands.Streamed(0, "", pipeline.finish())
            pipeline.end.close()
            exits = pipeline.finish()
            if all(program.code == 0 for program in exits):
                wire.sendall(ARRIVED)
        return commands.Streamed(self.received, digest, exits)

    def _pump_in(self, wire: socket.socket, sink: IO[bytes]) -> str:
        """Pass the data of a stream on, and return its SHA-256 in hex."""
        digest = hashlib.sha256()
        view, head = memoryview(bytearray(CHUNK_BYTES)), memoryview(bytearray(HEAD.size))
        while True:
            _fill(wire, head)
            (count,) = HEAD.unpack(head)
            if not count:
                return digest.hexdigest()
            if count > CHUNK_BYTES:
                raise ConnectionAbortedError(f"the sender announced {count} bytes at once, the limit is {CHUNK_BYTES}")
            data = view[:count]
            _fill(wire, data)
            digest.update(data)
            written = 0
            while written < count:
                written += sink.write(data[written:])
            self.received += count


def _pump_out(source: IO[bytes], wire: socket.socket) -> int:
    size = 0
    view = memoryview(bytearray(HEAD.size + CHUNK_BYTES))
    data = view[HEAD.size :]
    while count := os.readv(source.fileno(), [data]):
        HEAD.pack_into(view, 0, count)
        wire.sendall(view[: HEAD.size + count])
        size += count
    return size


def _fill(wire: socket.socket, view: memoryview) -> None:
    have = 0
    while have < len(view):
        count = wire.recv_into(view[have:])
        if not count:
            raise ConnectionResetError("the sender aborted the stream")
        have += count


async def _threaded(transfer: _Transfer, work: Callable[[], T], timeout: float) -> T:
    """Run the work of a transfer in a thread of its own; abort it after ``timeout`` seconds or when cancelled."""
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


class BulkListener:
    """A listening socket for one stream (see ``commands.BulkListener``)."""

    def __init__(
        self, listener: socket.socket, token: str, tls: ssl.SSLContext | None, *, tracker: tracking.Tracker
    ) -> None:
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        self._token = token
        self._tls = tls
        self._transfer = _Transfer(tracker)
        self._is_receiving = False

    @property
    def received(self) -> int:
        """Return how many bytes have arrived and were passed on."""
        return self._transfer.received

    async def receive(self, stages: Sequence[commands.Stage], *, timeout: float) -> commands.Streamed:
        """Feed the stream to a pipeline."""

        def work() -> commands.Streamed:
            return self._transfer.receive(self._listener, stages, token=self._token, tls=self._tls)

        self._is_receiving = True
        return await _threaded(self._transfer, work, timeout)

    async def close(self) -> None:
        """Stop listening; abort the transfer."""
        self._transfer.cancel()
        if not self._is_receiving:  # otherwise its thread closes the listener
            self._listener.close()


class Streams:
    """The streams of this machine (see ``commands.Streams``)."""

    def __init__(self, tracker: tracking.Tracker | None = None) -> None:
        self._tracker = tracker or tracking.Tracker()

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
        """Run a pipeline and send the output of its last program."""
        transfer = _Transfer(self._tracker)

        def work() -> commands.Streamed:
            return transfer.send(stages, host=host, port=port, token=token, tls=tls)

        return await _threaded(transfer, work, timeout)

    async def listen(self, host: str, *, token: str, tls: ssl.SSLContext | None) -> BulkListener:
        """Bind a port that the system chooses."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return BulkListener(socket.create_server((host, 0), family=family), token, tls, tracker=self._tracker)
