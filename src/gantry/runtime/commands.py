"""What may be asked of other programs: ``Processes`` runs them, ``Streams`` pipes one's output to another machine's.

A part of ``interface``, whose ``Runtime`` has both; errors are as said there. Arguments are always a list,
never a shell.
"""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gantry.runtime import bytestream


@dataclass(frozen=True)
class Completed:
    """The end of a process: its exit code (negative: signal) and what it wrote."""

    code: int
    stdout: bytes
    stderr: bytes


class Processes(Protocol):
    """Other programs of this machine."""

    async def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bytes = b"",
        timeout: float = 60.0,
    ) -> Completed:
        """Run a program to its end; it is killed, with its process group, and TimeoutError raised after ``timeout``.

        ``environment`` replaces the caller's. FileNotFoundError when there is no such program.
        """
        ...

    async def start(self, arguments: Sequence[str], *, environment: Mapping[str, str] | None, log: str) -> int:
        """Start a program that lives on by itself, in a session of its own; return its process id.

        Standard output and error are appended to the file ``log``.
        """
        ...

    async def attend(self, arguments: Sequence[str], handler: bytestream.Handler) -> int:
        """Run a program whose standard input is a connection to us, which ``handler`` serves; return its exit code.

        Its standard output and error are ours. Of the two, each sees by the end of the connection that the other has
        ended, by whatever death. When this is cancelled it ends the program, by SIGTERM first, and waits for that.
        Raises what ``handler`` raises, when the program has ended; FileNotFoundError.
        """
        ...

    def alive(self, pid: int) -> bool:
        """Tell whether a process with this id exists (a zombie does not count)."""
        ...

    def command_line(self, pid: int) -> list[str]:
        """Return the arguments a process was started with; empty when it is gone."""
        ...

    def signal(self, pid: int, number: int) -> None:
        """Send a signal; ProcessLookupError when there is no such process."""
        ...


@dataclass(frozen=True)
class Stage:
    """A program of a pipeline; ``environment`` replaces the caller's."""

    arguments: Sequence[str]
    environment: Mapping[str, str] | None = None
    directory: str | None = None


@dataclass(frozen=True)
class Streamed:
    """What went over a stream: bytes, how each program at this end ended, and where it arrived the SHA-256 in hex."""

    size: int
    digest: str
    ended: Sequence[Completed]


class Arrival(Protocol):
    """A stream that is waited for."""

    @property
    def port(self) -> int:
        """Return the TCP port that its sender has to connect to."""
        ...

    async def receive(self, stages: Sequence[Stage], *, timeout: float) -> Streamed:
        """Feed the first program of a pipeline with what comes, to the end; as ``Streams.send`` otherwise.

        ConnectionError when the sender broke off, TimeoutError when none came.
        """
        ...

    async def close(self) -> None:
        """Stop waiting; what is being received is broken off."""
        ...


class Streams(Protocol):
    """Bulk data from a program's output on one machine to a program's input on another, past the event loop."""

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
        """Run a pipeline and send what its last program writes; of standard error only the end is kept.

        When a program fails, the receiver hears that the stream is broken off, and ``ended`` says the rest. All
        programs are gone when this returns or raises: OSError for the connection, TimeoutError, FileNotFoundError.
        """
        ...

    async def listen(self, host: str, *, token: str, tls: ssl.SSLContext | None) -> Arrival:
        """Wait on a port of the system's choice for the one sender that shows ``token``."""
        ...
