"""The interface of a Runtime: clock, randomness, disk, network, processes and bulk streams.

A daemon receives a Runtime when it starts and passes it down; nothing above this package reaches clock, random source,
file system, sockets or processes in another way. Methods that may take time are ``async``; those that only read
something small and local are not. Paths are absolute, and strings.

Errors: the file system raises OSError (FileNotFoundError, and errno ENOSPC for a full disk, among them); the network
raises OSError or TimeoutError. The layers above turn them into the errors of ``gantry.errors``.
"""

import errno
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from gantry.runtime import bytestream, commands, limits

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


@dataclass(frozen=True)
class FileStatus:
    """A file's size in bytes, time of its last change in seconds since the epoch, and permission bits."""

    size: int
    mtime: float
    mode: int
    is_directory: bool


class AppendFile(Protocol):
    """A file that only grows, except that it is truncated after a failed write: for the journal."""

    @property
    def size(self) -> int:
        """Return the length in bytes, including data that is not synced yet."""
        ...

    async def append(self, data: bytes) -> None:
        """Write ``data`` at the end, and return when it is on stable storage; OSError if that fails.

        After an error the end of the file is undefined: ``truncate`` to the last good length.
        """
        ...

    async def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes; this is on stable storage on return."""
        ...

    def close(self) -> None:
        """Close the file; nothing is written after this."""
        ...


class FileSystem(Protocol):
    """An open file system: it reports every write that has failed since, even if that was reported elsewhere too.

    The kernel reports a failure once to each process that had the file system open, otherwise to the first that opens
    it later. So a caller that writes with ``sync=False`` opens the file system first; otherwise the failure may be
    reported to another caller of ``Disk.sync`` only.
    """

    async def sync(self) -> None:
        """Do what ``Disk.sync`` does; OSError if that fails or a write has failed since the previous call.

        After an error, rewrite everything that was written since the previous call: a later sync leaves it out.
        """
        ...

    def close(self) -> None:
        """Close the file system; a second call does nothing."""
        ...


class FileLock(Protocol):
    """An exclusive lock on a file, held until ``release`` or the end of the process."""

    def release(self) -> None:
        """Release the lock."""
        ...


class Disk(Protocol):
    """The file system."""

    def resolve(self, path: str) -> str:
        """Return the absolute path without symbolic links and ``..``; parts that do not exist stay as they are."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory at ``path``."""
        ...

    def status(self, path: str) -> FileStatus:
        """Return the status of the file at ``path``."""
        ...

    def names(self, path: str) -> list[str]:
        """List a directory, sorted, without ``.`` and ``..``."""
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

    def file_system(self, path: str) -> FileSystem:
        """Open the file system of ``path``."""
        ...

    async def append_file(self, path: str, *, mode: int = 0o640) -> AppendFile:
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

    def lock(self, path: str) -> FileLock:
        """Lock a file exclusively, creating it if missing; BlockingIOError if another process holds the lock."""
        ...


class Server(Protocol):
    """A listening server."""

    async def close(self) -> None:
        """Stop listening, end the connections, and return when their handlers have ended."""
        ...


@dataclass(frozen=True)
class HttpRequest:
    """A request as a handler receives it; ``peer_certificate`` is the client's, in DER, if TLS requested one.

    ``peer`` is the client's address, empty on a network without addresses.
    """

    method: str
    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    peer_certificate: bytes | None = None
    peer: str = ""


@dataclass(frozen=True)
class HttpResponse:
    """Status, body and content type of an answer; ``headers`` are the other headers, in lower case at a client.

    ``pieces`` yields more of the body, after ``body``: a server sends each piece at once, and closes the generator when
    the client has disconnected; a client gets it from ``HttpClient.stream``, and closes it to end the connection.
    """

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: AsyncGenerator[bytes, None] | None = None
    known: bool = False
    """Set by the handler for a client that has proven who it is (``limits``); not sent."""


HttpHandler = Callable[[HttpRequest], Awaitable[HttpResponse]]


class HttpGuard(Protocol):
    """What decides about a request before its body is read, and words the refusals of a server."""

    async def admit(self, request: HttpRequest) -> limits.Admission | HttpResponse:
        """Decide about a request by its headers; it has no body yet. An answer is a refusal."""
        ...

    def refuse(self, status: int, message: str) -> HttpResponse:
        """Return the answer for a request that the server refuses, in the form of the protocol."""
        ...


ANSWER_LIMIT = 64 << 20
"""The longest body of an answer that ``HttpClient.request`` receives, in bytes."""


def answer_too_long() -> OSError:
    """Return the error for an answer with more than ``ANSWER_LIMIT`` bytes."""
    return OSError(errno.EMSGSIZE, f"the answer has more than {ANSWER_LIMIT >> 20} MiB")


class UncheckedContext(ssl.SSLContext):
    """A TLS context for a simulated network, which passes ``certificate`` (DER) to a server without any check."""

    certificate: bytes | None = None

    def present(self, certificate: bytes) -> None:
        """Pass a certificate, in PEM, to servers from the next connection on."""
        self.certificate = ssl.PEM_cert_to_DER_cert(certificate.decode())


class HttpClient(Protocol):
    """Pooled connections to any number of servers, all with one TLS context."""

    async def post(
        self, host: str, port: int, path: str, body: bytes, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """Send one POST request; TimeoutError after ``timeout`` seconds, OSError if the connection fails.

        ``headers`` are sent besides those of HTTP itself; their names are in lower case.
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
        """Send one request of any method; arguments and errors are those of ``post``.

        Raises OSError EMSGSIZE for an answer with more than ``ANSWER_LIMIT`` bytes, and reads no more of it.
        """
        ...

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """Send one GET request; return when its answer begins, within ``timeout`` seconds. The body is in ``pieces``.

        A piece is the data that has arrived, however the server divided it. The pieces end with the answer, and raise
        OSError if the connection breaks. The wait for a piece has no timeout: the caller sets one.
        """
        ...

    async def close(self) -> None:
        """End the connections."""
        ...

    async def retire(self) -> None:
        """End the connections when the requests under way have ended, or at once; the caller makes no other."""
        await self.close()


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
    ) -> Server:
        """Listen on a UNIX socket with permissions ``mode``; replace a stale socket file.

        ``limit`` is the longest message in bytes that ``bytestream.Reader.readuntil`` accepts, ``allowed`` are the
        limits of the server, of which a simulated network keeps none.
        """
        ...

    def is_privileged(self, writer: bytestream.Writer) -> bool:
        """Return whether the peer of a connection that ``serve_unix`` accepted is root or this process's own user."""
        ...

    async def connect_unix(self, path: str, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to a UNIX socket."""
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
        handler: HttpHandler,
        *,
        tls: ssl.SSLContext | None,
        body_limit: int,
        allowed: limits.HttpLimits | None = None,
        guard: HttpGuard | None = None,
    ) -> Server:
        """Listen for HTTP; a body of more than ``body_limit`` bytes is answered with status 413.

        ``allowed`` are the limits of the server, of which a simulated network keeps none. Without ``guard`` each body
        up to the limit is read, and refusals are plain text.
        """
        ...

    def http_client(self, *, tls: ssl.SSLContext | None) -> HttpClient:
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
