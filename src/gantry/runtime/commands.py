"""Run other programs: ``Processes`` on this machine, ``Streams`` with their output piped to a program elsewhere.

A part of ``interface``, whose ``Runtime`` has both; errors are as described there. Arguments are always a list,
never a shell command.
"""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gantry.runtime import bytestream


@dataclass(frozen=True)
class Completed:
    """A process that has ended: its exit code (negative: the signal that killed it) and its output."""

    code: int
    stdout: bytes
    stderr: bytes


class Processes(Protocol):
    """The programs that run on this machine."""

    async def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bytes = b"",
        timeout: float = 60.0,
        tracked: bool = False,
    ) -> Completed:
        """Run a program until it ends; after ``timeout`` seconds kill its process group and raise TimeoutError.

        ``environment`` replaces the caller's. A ``tracked`` program does not outlive this process for long (``track``).
        FileNotFoundError if the program does not exist.
        """
        ...

    async def track(self, folder: str) -> None:
        """End the tracked programs that an earlier process with this folder has left; track programs from now on.

        They and their children have ended when this returns. It waits without limit for a process that hangs in the
        kernel, because such a process may still write to its disk.
        """
        ...

    async def start(self, arguments: Sequence[str], *, environment: Mapping[str, str] | None, log: str) -> int:
        """Start a program that outlives this process, in a session of its own; return its process id.

        Standard output and error are appended to the file ``log``.
        """
        ...

    async def in_scope(self, guest: str, arguments: Sequence[str]) -> Sequence[str]:
        """Return the arguments that run a guest's program so that it outlives the service of this daemon.

        Where systemd did not start the daemon, they are ``arguments``. A process keeps all of them among its own.
        """
        ...

    async def run_connected(self, arguments: Sequence[str], handler: bytestream.Handler) -> int:
        """Run a program whose standard input is a connection that ``handler`` serves; return its exit code.

        The program inherits standard output and error. The connection ends when either process ends, however that
        happens. Cancelling this call ends the program, with SIGTERM first, and waits for its end. Once the program has
        ended, an exception of ``handler`` is raised; FileNotFoundError if the program does not exist.
        """
        ...

    def alive(self, pid: int) -> bool:
        """Return whether a process with this id exists (a zombie does not count)."""
        ...

    def command_line(self, pid: int) -> list[str]:
        """Return the arguments that a process was started with; empty if the process does not exist."""
        ...

    def signal(self, pid: int, number: int) -> None:
        """Send a signal; ProcessLookupError if the process does not exist."""
        ...


@dataclass(frozen=True)
class Stage:
    """A program of a pipeline; ``environment`` and ``tracked`` as in ``Processes.run``."""

    arguments: Sequence[str]
    environment: Mapping[str, str] | None = None
    directory: str | None = None
    tracked: bool = False


@dataclass(frozen=True)
class Streamed:
    """A stream that has ended: its bytes, its SHA-256 in hex (receiver only), and the exits of this side's programs."""

    size: int
    digest: str
    exits: Sequence[Completed]


class BulkListener(Protocol):
    """A port that waits for one sender of bulk data, which must present the token."""

    @property
    def port(self) -> int:
        """Return the TCP port that the sender has to connect to."""
        ...

    @property
    def received(self) -> int:
        """Return how many bytes of the stream have arrived."""
        ...

    async def receive(self, stages: Sequence[Stage], *, timeout: float) -> Streamed:
        """Feed the whole stream to the first program of a pipeline; otherwise as ``Streams.send``.

        ConnectionError if the sender aborts the stream, TimeoutError if no sender connects.
        """
        ...

    async def close(self) -> None:
        """Stop listening; abort a stream that is being received."""
        ...


class Streams(Protocol):
    """Bulk data from a program on one machine to a program on another, outside the event loop."""

    async def send(
        self,
        stages: Sequence[Stage],
        *,
        host: str,
        port: int,
        token: str,
        tls: ssl.SSLContext | None,
        timeout: float,
    ) -> Streamed:
        """Run a pipeline and send the output of its last program; only the end of standard error is kept.

        If a program fails, the receiver learns that the stream is aborted, and ``exits`` has the details. All programs
        have ended when this returns or raises: OSError for the connection, TimeoutError, FileNotFoundError.
        """
        ...

    async def listen(self, host: str, *, token: str, tls: ssl.SSLContext | None) -> BulkListener:
        """Listen on a port that the system chooses for the one sender that presents ``token``."""
        ...
