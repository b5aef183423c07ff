"""The real network: byte streams on UNIX sockets; HTTP is in ``http``.

A socket gets its permissions before it listens, so that no unauthorized user can connect in between.
"""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import stat
import struct

from gantry.runtime import bytestream, interface, serving
from gantry.runtime.real import http

BACKLOG = 1024
READ_TIMEOUT = struct.pack("ll", 0, 100_000)
"""How long a read from a passed connection blocks: a struct timeval, a tenth of a second."""

PROBES = 4
"""Number of keep-alive probes on an idle connection within its timeout."""


def _has_listener(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # the backlog of the other process is full
            return True
        return True


def _bind(path: str, mode: int) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            if _has_listener(path):
                raise OSError(errno.EADDRINUSE, "another process is listening on this socket", path)
            os.unlink(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(bound.fileno(), mode)  # bind creates the file with this mode less the umask
        bound.bind(path)
        os.chmod(path, mode)
    except OSError:
        bound.close()
        raise
    return bound


class UnixServer:
    """A listening UNIX socket and the tasks of its connections."""

    def __init__(self, path: str, handler: bytestream.Handler) -> None:
        self._path = path
        self._handler = handler
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, *, mode: int, limit: int) -> None:
        """Bind and listen; OSError EADDRINUSE if another process listens on the socket."""
        bound = _bind(self._path, mode)
        self._server = await asyncio.start_unix_server(self._accept, sock=bound, limit=limit, backlog=BACKLOG)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serving.serve(self._handler, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Remove the socket, cancel the handlers and wait for them; a second call does nothing."""
        server, self._server = self._server, None
        if server is None:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        server.close()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


PEER_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of the peer of a UNIX socket (SO_PEERCRED)."""


class Network:
    """The sockets of this machine (see ``interface.Network``)."""

    async def serve_unix(self, path: str, handler: bytestream.Handler, *, mode: int, limit: int) -> UnixServer:
        """Listen on a UNIX socket; replace a stale socket file."""
        server = UnixServer(path, handler)
        await server.start(mode=mode, limit=limit)
        return server

    def is_privileged(self, writer: bytestream.Writer) -> bool:
        """Return whether the peer is root or this process's own user, as the kernel recorded it at the connection."""
        assert isinstance(writer, asyncio.StreamWriter)
        credentials = writer.get_extra_info("socket").getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, PEER_CREDENTIALS.size
        )
        _, user, _ = PEER_CREDENTIALS.unpack(credentials)
        return user in (0, os.geteuid())

    async def connect_unix(self, path: str, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to a UNIX socket."""
        return await asyncio.open_unix_connection(path, limit=limit)

    async def stdin_connection(self, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Return the connection on standard input."""
        return await asyncio.open_connection(sock=socket.socket(fileno=os.dup(0)), limit=limit)

    async def pass_connection(
        self, writer: bytestream.Writer, message: bytes, *, host: str, port: int, timeout_seconds: float
    ) -> None:
        """Connect to a TCP port and pass the connection on; ``writer`` comes from ``connect_unix``."""
        assert isinstance(writer, asyncio.StreamWriter)
        await writer.drain()
        with await asyncio.to_thread(self.connect_tcp, host, port, timeout_seconds) as connection:
            unix_socket = writer.get_extra_info("socket")
            with socket.socket(fileno=os.dup(unix_socket.fileno())) as duplicate:
                socket.send_fds(duplicate, [message], [connection.fileno()])

    def connect_tcp(self, host: str, port: int, timeout_seconds: float) -> socket.socket:
        """Return a connection with the socket options that ``interface.Network.pass_connection`` describes."""
        connection = socket.create_connection((host, port), timeout=timeout_seconds)
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, READ_TIMEOUT)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
            connection.setsockopt(socket.IPPROTO_TCP, option, max(1, int(timeout_seconds / PROBES)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(timeout_seconds * 1000))
        return connection

    async def serve_http(
        self,
        host: str,
        port: int,
        handler: interface.HttpHandler,
        *,
        tls: ssl.SSLContext | None,
        body_limit: int,
    ) -> http.Server:
        """Listen for HTTP on TCP."""
        server = http.Server(handler, body_limit)
        await server.start(host, port, tls=tls)
        return server

    def http_client(self, *, tls: ssl.SSLContext | None) -> http.Client:
        """Return a client; call this while the event loop runs."""
        return http.Client(tls)
