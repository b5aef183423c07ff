"""The real network: byte streams on UNIX sockets here, HTTP in ``http``.

A socket is bound with its permissions and only then listens, so nobody connects who may not.
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
HELD_UP = struct.pack("ll", 0, 100_000)
"""How long reading from a connection that is passed on holds its reader up: struct timeval, a tenth of a second."""

PROBES = 4
"""How often the other side of an idle connection is asked within the patience that its maker has."""


def _someone_listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # its backlog is full
            return True
        return True


def _bind(path: str, mode: int) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            if _someone_listens(path):
                raise OSError(errno.EADDRINUSE, "another process listens on this socket", path)
            os.unlink(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(bound.fileno(), mode)  # the file is born with this mode less the umask
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
        """Bind and listen; OSError EADDRINUSE when another process listens there."""
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


class Network:
    """The sockets of this machine (see ``interface.Network``)."""

    async def serve_unix(self, path: str, handler: bytestream.Handler, *, mode: int, limit: int) -> UnixServer:
        """Listen on a UNIX socket; a socket file on which nobody listens is replaced."""
        server = UnixServer(path, handler)
        await server.start(mode=mode, limit=limit)
        return server

    async def connect_unix(self, path: str, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to a UNIX socket."""
        return await asyncio.open_unix_connection(path, limit=limit)

    async def inherited(self, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Return the connection that is our standard input."""
        return await asyncio.open_connection(sock=socket.socket(fileno=os.dup(0)), limit=limit)

    async def pass_connection(
        self, writer: bytestream.Writer, message: bytes, *, host: str, port: int, patience: float
    ) -> None:
        """Connect to a TCP port and send the connection along; ``writer`` is one of ``connect_unix``."""
        assert isinstance(writer, asyncio.StreamWriter)
        await writer.drain()
        with await asyncio.to_thread(self.connect_tcp, host, port, patience) as made:
            door = writer.get_extra_info("socket")
            with socket.socket(fileno=os.dup(door.fileno())) as own:
                socket.send_fds(own, [message], [made.fileno()])

    def connect_tcp(self, host: str, port: int, patience: float) -> socket.socket:
        """Return a connection as ``interface.Network.pass_connection`` says."""
        made = socket.create_connection((host, port), timeout=patience)
        made.settimeout(None)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, HELD_UP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
            made.setsockopt(socket.IPPROTO_TCP, option, max(1, int(patience / PROBES)))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(patience * 1000))
        return made

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
        """Return a client; to be called while the event loop runs."""
        return http.Client(tls)
