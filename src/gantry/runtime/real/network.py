"""The real network: byte streams on UNIX sockets (``unix_server``), HTTP (``http``, ``http_server``)."""

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import Sequence

from gantry.runtime import bytestream, http_interface, limits
from gantry.runtime.real import entrances, http, http_server, unix_server
from gantry.runtime.real import groups as machine_groups

READ_TIMEOUT = struct.pack("ll", 0, 100_000)
"""How long a read from a passed connection blocks: a struct timeval, a tenth of a second."""

PROBES = 4
"""Number of keep-alive probes on an idle connection within its timeout."""


class Network:
    """The sockets of this machine (see ``interface.Network``)."""

    async def serve_unix(
        self,
        path: str,
        handler: bytestream.Handler,
        *,
        mode: int,
        limit: int,
        allowed: limits.UnixLimits | None = None,
        groups: Sequence[str] = (),
    ) -> unix_server.UnixServer:
        """Listen on a UNIX socket; replace a stale socket file."""
        server = unix_server.UnixServer(path, handler, allowed)
        await server.start(mode=mode, limit=limit, groups=groups)
        return server

    def is_privileged(self, writer: bytestream.Writer) -> bool:
        """Return whether the peer is root or this process's own user, as the kernel recorded it at the connection."""
        assert isinstance(writer, asyncio.StreamWriter)
        credentials = writer.get_extra_info("socket").getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, machine_groups.CREDENTIALS.size
        )
        _, user, _ = machine_groups.CREDENTIALS.unpack(credentials)
        return user in (0, os.geteuid())

    def is_member(self, writer: bytestream.Writer, group: str) -> bool | None:
        """Return whether the peer is in a group, as the kernel recorded it at the connection."""
        assert isinstance(writer, asyncio.StreamWriter)
        number = machine_groups.number(group)
        return None if number is None else number in machine_groups.of_peer(writer.get_extra_info("socket"))

    def peer_user(self, writer: bytestream.Writer) -> str:
        """Return the name of the peer's user, as the kernel recorded it at the connection."""
        assert isinstance(writer, asyncio.StreamWriter)
        return machine_groups.user_of_peer(writer.get_extra_info("socket"))

    def peer_groups(self, writer: bytestream.Writer) -> tuple[str, ...]:
        """Return the names of the peer's groups, as the kernel recorded them at the connection."""
        assert isinstance(writer, asyncio.StreamWriter)
        return machine_groups.names_of_peer(writer.get_extra_info("socket"))

    async def connect_unix(self, path: str, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to a UNIX socket."""
        return await asyncio.open_unix_connection(path, limit=limit)

    async def connect_port(
        self, host: str, port: int, *, tls: ssl.SSLContext | None, limit: int
    ) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to a TCP port, with or without TLS."""
        name = host if tls else None
        reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name, limit=limit)
        entrances.watch_peer(writer.get_extra_info("socket"))
        return reader, writer

    async def listen_once(self, host: str, *, token: str, tls: ssl.SSLContext | None, limit: int) -> entrances.Entrance:
        """Bind a port that the system chooses."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return entrances.Entrance(socket.create_server((host, 0), family=family), token, tls, limit=limit)

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
        handler: http_interface.Handler,
        *,
        tls: ssl.SSLContext | None,
        body_limit: int,
        allowed: limits.HttpLimits | None = None,
        guard: http_interface.Guard | None = None,
    ) -> http_server.Server:
        """Listen for HTTP on TCP."""
        server = http_server.Server(handler, body_limit, allowed=allowed, guard=guard)
        await server.start(host, port, tls=tls)
        return server

    def http_client(self, *, tls: ssl.SSLContext | None) -> http.Client:
        """Return a client; call this while the event loop runs."""
        return http.Client(tls)
