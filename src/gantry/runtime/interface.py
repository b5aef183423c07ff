"""What the floors above may ask of the world: one Runtime, six doors.

A daemon is handed a Runtime when it starts and hands it down; nothing above this folder reaches clock, random
source, file system, sockets or processes in another way. Everything that may take time is ``async``; what only
looks at something small and local is not. Paths are plain absolute strings.

Errors: file system doors raise OSError (FileNotFoundError, and errno ENOSPC for a full disk, among them); network
doors raise OSError or TimeoutError. The floors above turn them into the errors of ``gantry.errors``.
"""

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from gantry.runtime import bytestream, commands

T = TypeVar("T")


class Clock(Protocol):
    """Time: of the calendar, and of the process."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some moment; never goes backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        ...


class Randomness(Protocol):
    """The random source; cryptographically strong in the real runtime, seeded in the simulated one."""

    def below(self, limit: int) -> int:
        """Return a number from 0 to ``limit - 1``."""
        ...

    def uuid(self) -> str:
        """Return a random UUID (RFC 4122 version 4) in lower case."""
        ...

    def token(self, size: int) -> bytes:
        """Return ``size`` random bytes, fit for a secret."""
        ...


@dataclass(frozen=True)
class FileStatus:
    """What ``Disk.status`` tells of a file: size in bytes, time of change in seconds, permission bits."""

    size: int
    mtime: float
    mode: int
    is_directory: bool


class AppendFile(Protocol):
    """A file that only grows, apart from being cut back after a failed write: the journal's."""

    @property
    def size(self) -> int:
        """Return the length in bytes, what is not yet synced included."""
        ...

    async def append(self, data: bytes) -> None:
        """Write ``data`` at the end and return when it is on stable storage; OSError when it is not.

        After an error the end of the file is undefined: ``truncate`` back to the last good length.
        """
        ...

    async def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, on stable storage when this returns."""
        ...

    def close(self) -> None:
        """Close the file; nothing is written any more."""
        ...


class FileSystem(Protocol):
    """A file system that is held open: it tells of every write that failed since, whoever else has heard of it.

    A system tells of a failure once to each who had the file system open, and to one who opens it later. So who writes
    with ``sync=False`` opens it before, or another's ``Disk.sync`` may be the one that is told.
    """

    async def sync(self) -> None:
        """Do what ``Disk.sync`` does; OSError when that fails, or something failed since the call before.

        What was written since the call before has to be written again then: a later sync leaves it out.
        """
        ...

    def close(self) -> None:
        """Let it go; a second call does nothing."""
        ...


class FileLock(Protocol):
    """An exclusive lock on a file, held until ``release`` or the end of the process."""

    def release(self) -> None:
        """Give the lock back."""
        ...


class Disk(Protocol):
    """The file system."""

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or directory at ``path``."""
        ...

    def status(self, path: str) -> FileStatus:
        """Describe the file at ``path``."""
        ...

    def names(self, path: str) -> list[str]:
        """List a directory, sorted, without ``.`` and ``..``."""
        ...

    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""
        ...

    async def write(self, path: str, data: bytes, *, mode: int = 0o640, sync: bool = True) -> None:
        """Replace the file at ``path`` as a whole: temporary file, sync, rename, sync of the directory.

        ``sync=False`` leaves out both syncs: the file is old or new after a crash of the process, undefined after
        a crash of the machine.
        """
        ...

    async def write_all(self, files: Mapping[str, bytes]) -> dict[str, OSError]:
        """Replace files as ``write`` does without ``sync``, in one visit; return what failed, by path."""
        ...

    async def digest(self, path: str) -> str:
        """Return the SHA-256 of a file of any size, in hex."""
        ...

    async def sync(self, path: str) -> None:
        """Bring all that was written with ``sync=False``, renamed or removed on the file system of ``path`` to storage.

        One call for any number of files: a thousand files cost one flush, not a thousand.
        """
        ...

    def file_system(self, path: str) -> FileSystem:
        """Hold the file system of ``path`` open."""
        ...

    async def append_file(self, path: str, *, mode: int = 0o640) -> AppendFile:
        """Open a file for appending, creating it (its directory entry on stable storage) when missing."""
        ...

    async def make_directory(self, path: str, *, mode: int = 0o750) -> None:
        """Create a directory and those above it; it may exist."""
        ...

    async def rename(self, moves: Mapping[str, str]) -> None:
        """Move files or directories inside the file system in one visit, replacing files; ends at the first failure."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file; FileNotFoundError when there is none."""
        ...

    async def remove_tree(self, path: str) -> None:
        """Remove a directory with all below it; nothing happens when it does not exist."""
        ...

    async def make_sparse(self, path: str, size: int, *, mode: int = 0o600) -> None:
        """Create a new file of ``size`` bytes that takes no room yet; FileExistsError when there is one."""
        ...

    def free_space(self, path: str) -> tuple[int, int]:
        """Return free and total bytes of the file system that holds ``path``."""
        ...

    def lock(self, path: str) -> FileLock:
        """Lock a file exclusively, creating it when missing; BlockingIOError when another process holds it."""
        ...


class Server(Protocol):
    """Something that listens."""

    async def close(self) -> None:
        """Stop listening, end the connections, return when their handlers have ended."""
        ...


@dataclass(frozen=True)
class HttpRequest:
    """A request as a handler sees it; ``peer_certificate`` is the client's, in DER, where TLS asked for one.

    ``peer`` is the address it came from, empty where the network has none.
    """

    method: str
    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    peer_certificate: bytes | None = None
    peer: str = ""


@dataclass(frozen=True)
class HttpResponse:
    """Status, body and content type of an answer; ``headers`` are more of them, a client sees the names in lower case.

    ``pieces`` is more of the body, after ``body``, as it comes: a server sends each piece at once, and closes the
    generator when the client has gone; a client has them from ``HttpClient.stream``, and closes the generator to end
    the connection.
    """

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: AsyncGenerator[bytes, None] | None = None


HttpHandler = Callable[[HttpRequest], Awaitable[HttpResponse]]


class HttpClient(Protocol):
    """Pooled connections to any number of servers, all with one TLS context."""

    async def post(
        self, host: str, port: int, path: str, body: bytes, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """Send one POST; TimeoutError after ``timeout`` seconds, OSError when there is no connection.

        ``headers`` go along with those of HTTP itself; their names are in lower case.
        """
        return await self.request("POST", host, port, path, body=body, timeout=timeout, headers=headers)

    async def request(
        self,
        method: str,
        host: str,
        port: int,
        path: str,
        *,
        body: bytes = b"",
        timeout: float,
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """Send one request of any method; the rest is as for ``post``."""
        ...

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """Send one GET and return when its answer begins, within ``timeout`` seconds: all of the body is ``pieces``.

        A piece is what came, however a server cut it; they end when the answer does, and raise OSError when the
        connection breaks. Silence is not limited: who waits for a piece sets the limit.
        """
        ...

    async def close(self) -> None:
        """End the connections."""
        ...


class Network(Protocol):
    """Sockets: byte streams on UNIX sockets, HTTP with or without TLS on TCP."""

    async def serve_unix(self, path: str, handler: bytestream.Handler, *, mode: int, limit: int) -> Server:
        """Listen on a UNIX socket with permissions ``mode``; a stale socket file is replaced.

        ``limit`` is the longest message in bytes that ``bytestream.Reader.readuntil`` takes.
        """
        ...

    async def connect_unix(self, path: str, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to a UNIX socket."""
        ...

    async def inherited(self, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Return the connection that is our standard input (``Processes.attend``); OSError when it is none."""
        ...

    async def pass_connection(
        self, writer: bytestream.Writer, message: bytes, *, host: str, port: int, patience: float
    ) -> None:
        """Connect to a TCP port and give the connection, with ``message``, to the program behind a UNIX socket.

        The kernel breaks it when the other side acknowledges nothing, or takes nothing in, for ``patience`` seconds
        (RFC 5482). The program can write to it as it likes, and is never held up for long when it reads where nothing
        comes: it is told to try again. OSError when there is no connection within ``patience`` seconds.
        """
        ...

    async def serve_http(
        self, host: str, port: int, handler: HttpHandler, *, tls: ssl.SSLContext | None, body_limit: int
    ) -> Server:
        """Listen for HTTP; a body beyond ``body_limit`` bytes is answered with 413."""
        ...

    def http_client(self, *, tls: ssl.SSLContext | None) -> HttpClient:
        """Return a client; with ``tls`` the server's certificate is checked as the context says."""
        ...


class Runtime(Protocol):
    """The world as a daemon sees it; ``host`` is the name of the machine it runs on."""

    @property
    def host(self) -> str:
        """Return the machine's name."""
        ...

    @property
    def clock(self) -> Clock:
        """Return the clock."""
        ...

    @property
    def random(self) -> Randomness:
        """Return the random source."""
        ...

    @property
    def disk(self) -> Disk:
        """Return the file system."""
        ...

    @property
    def network(self) -> Network:
        """Return the network."""
        ...

    @property
    def processes(self) -> commands.Processes:
        """Return the door to other programs."""
        ...

    @property
    def streams(self) -> commands.Streams:
        """Return the door to bulk data between machines."""
        ...

    async def compute(self, work: Callable[[], bytes]) -> bytes:
        """Run pure, long computation (encoding a whole configuration) beside the event loop."""
        ...

    async def block(self, work: Callable[[], T]) -> T:
        """Run work of a library that waits for others by itself, such as a database's, beside the event loop.

        Nothing else waits for its thread. Who is cancelled meanwhile leaves it running.
        """
        ...
