"""The interface of a Runtime: clock, randomness, disk, network, processes and bulk streams.

A daemon receives a Runtime when it starts and passes it down; nothing above this package reaches clock, random source,
file system, sockets or processes in another way. Methods that may take time are ``async``; those that only read
something small and local are not. Paths are absolute, and strings.

``bytestream`` (UNIX sockets), ``file_interface``, ``http_interface`` and ``commands`` (programs and bulk streams) are
parts of it.

Errors: the file system raises OSError (FileNotFoundError, and errno ENOSPC for a full disk, among them); the network
raises OSError or TimeoutError. The layers above turn them into the errors of ``gantry.errors``.
"""

import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from gantry.runtime import bytestream, commands, file_interface, http_interface, limits

T = TypeVar("T")


class Clock(Protocol):
    """The time of day, and a monotonic clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never decreases."""
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


class Disk(Protocol):
    """The file system."""

    def resolve(self, path: str) -> str:
        """Return the absolute path without symbolic links and ``..``; parts that do not exist stay as they are."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory at ``path``."""
        ...

    def status(self, path: str) -> file_interface.FileStatus:
        """Return the status of the file at ``path``."""
        ...

    def names(self, path: str) -> list[str]:
        """List a directory, sorted, without ``.`` and ``..``."""
        ...

    def read_part(self, path: str, offset: int, size: int) -> bytes:
        """Return ``size`` bytes of a file from ``offset``, fewer at its end."""
        ...

    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""
        ...

    async def write(self, path: str, data: bytes, *, mode: int = 0o640, sync: bool = True) -> None:
        """Replace the file at ``path`` atomically: temporary file, sync, rename, sync of the directory.

        ``sync=False`` omits both syncs: the file is old or new after a crash of the process, undefined after a crash
        of the machine.
        """
        ...

    async def write_all(self, files: Mapping[str, bytes]) -> dict[str, OSError]:
        """Replace files as ``write`` with ``sync=False`` does, in one call; return the errors by path."""
        ...

    async def digest(self, path: str) -> str:
        """Return the SHA-256 of a file of any size, in hex."""
        ...

    async def sync(self, path: str) -> None:
        """Flush all writes with ``sync=False``, renames and removals on the file system of ``path`` to stable storage.

        A thousand files cost one flush, not a thousand.
        """
        ...

    def file_system(self, path: str) -> file_interface.FileSystem:
        """Open the file system of ``path``."""
        ...

    async def append_file(self, path: str, *, mode: int = 0o640) -> file_interface.AppendFile:
        """Open a file for appending; create it if missing, with its directory entry on stable storage."""
        ...

    async def make_directory(self, path: str, *, mode: int = 0o750) -> None:
        """Create a directory and its parents; the directory may exist."""
        ...

    async def rename(self, moves: Mapping[str, str]) -> None:
        """Rename files or directories within a file system, replacing files; stop at the first failure."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file; FileNotFoundError if it does not exist."""
        ...

    async def remove_all(self, paths: Sequence[str]) -> None:
        """Remove files in this order, in one call; missing files are skipped; stop at the first failure."""
        ...

    async def remove_tree(self, path: str) -> None:
        """Remove a directory and everything below it; the directory may be missing."""
        ...

    async def make_sparse(self, path: str, size: int, *, mode: int = 0o600) -> None:
        """Create a sparse file of ``size`` bytes, without allocated blocks; FileExistsError if the file exists."""
        ...

    def free_space(self, path: str) -> tuple[int, int]:
        """Return free and total bytes of the file system that holds ``path``."""
        ...

    def lock(self, path: str) -> file_interface.FileLock:
        """Lock a file exclusively, creating it if missing; BlockingIOError if another process holds the lock."""
        ...


class Server(Protocol):
    """A listening server."""

    async def close(self) -> None:
        """Stop listening, end the connections, and return when their handlers have ended."""
        ...


class HttpServer(Server, Protocol):
    """A server for HTTP."""

    def renew_tls(self, tls: ssl.SSLContext) -> None:
        """Use another TLS context from the next connection on; connections that are open continue."""
        ...


class Network(Protocol):
    """Sockets: byte streams on UNIX sockets, HTTP with or without TLS on TCP."""

    async def serve_unix(
        self,
        path: str,
        handler: bytestream.Handler,
        *,
        mode: int,
        limit: int,
        allowed: limits.UnixLimits | None = None,
        groups: Sequence[str] = (),
    ) -> Server:
        """Listen on a UNIX socket with permissions ``mode``; replace a stale socket file.

        Those of ``groups`` that exist on the machine have access to it too.

        ``limit`` is the longest message in bytes that ``bytestream.Reader.readuntil`` accepts, ``allowed`` are the
        limits of the server, of which a simulated network keeps none.
        """
        ...

    def is_privileged(self, writer: bytestream.Writer) -> bool:
        """Return whether the peer of a connection that ``serve_unix`` accepted is root or this process's own user."""
        ...

    def is_member(self, writer: bytestream.Writer, group: str) -> bool | None:
        """Return whether the peer of such a connection is in a group; None if the machine does not have the group."""
        ...

    def peer_user(self, writer: bytestream.Writer) -> str:
        """Return the name of the peer's user, ``#UID`` if the machine has no name for it."""
        ...

    def peer_groups(self, writer: bytestream.Writer) -> tuple[str, ...]:
        """Return the names of the peer's groups."""
        ...

    async def connect_unix(self, path: str, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to a UNIX socket."""
        ...

    async def connect_port(
        self, host: str, port: int, *, tls: ssl.SSLContext | None, limit: int
    ) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to a TCP port; OSError. The stream breaks if the peer's machine has been silent for 30 seconds."""
        ...

    async def listen_once(
        self, host: str, *, token: str, tls: ssl.SSLContext | None, limit: int
    ) -> bytestream.Entrance:
        """Listen on a port that the system chooses for the one client that begins with ``token`` and a newline.

        Its stream breaks as that of ``connect_port`` does.
        """
        ...

    async def stdin_connection(self, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Return the connection on standard input (``Processes.run_connected``); OSError if there is none."""
        ...

    async def pass_connection(
        self, writer: bytestream.Writer, message: bytes, *, host: str, port: int, timeout_seconds: float
    ) -> None:
        """Connect to a TCP port, and pass the connection and ``message`` to the program behind a UNIX socket.

        The kernel breaks the connection if the peer acknowledges no data, or receives none, for ``timeout_seconds``
        (RFC 5482). The program can write without restriction; a read without data returns EAGAIN after a moment, so it
        never blocks the program for long. OSError if the connection is not established within ``timeout_seconds``.
        """
        ...

    async def serve_http(
        self,
        host: str,
        port: int,
        handler: http_interface.Handler,
        *,
        tls: ssl.SSLContext | None,
        body_limit: int,
        allowed: limits.HttpLimits | None = None,
        guard: http_interface.Guard | None = None,
    ) -> HttpServer:
        """Listen for HTTP; a body of more than ``body_limit`` bytes is answered with status 413.

        ``allowed`` are the limits of the server, of which a simulated network keeps none. Without ``guard`` each body
        up to the limit is read, and refusals are plain text.
        """
        ...

    def http_client(self, *, tls: ssl.SSLContext | None) -> http_interface.Client:
        """Return a client; with ``tls`` it verifies the server's certificate by that context."""
        ...


class Runtime(Protocol):
    """The machine on which a daemon runs; ``host`` is the machine's name."""

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
        """Return the runner of other programs."""
        ...

    @property
    def streams(self) -> commands.Streams:
        """Return the streams of bulk data between machines."""
        ...

    async def compute(self, work: Callable[[], bytes]) -> bytes:
        """Run a long, pure computation (encoding a whole configuration) outside the event loop."""
        ...

    async def block(self, work: Callable[[], T]) -> T:
        """Run calls of a blocking library, such as a database client, outside the event loop.

        Its threads do no other work. Cancelling this call does not stop ``work``.
        """
        ...
