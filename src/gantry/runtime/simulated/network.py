"""A simulated machine's access to the network, and to its own UNIX sockets.

What travels to other machines goes over the ``wires`` of the world. TLS is not simulated, except that both sides must
use it, and that the server receives the certificate of the client (``http_interface.UncheckedContext``).
"""

import asyncio
import contextlib
import dataclasses
import errno
import functools
import os
import ssl
from collections.abc import Callable, Mapping, Sequence

from gantry.runtime import bytestream, http_interface, limits
from gantry.runtime.simulated import boot, disk, entrances, streams, wires


class HttpServer:
    """An open port of a simulated machine."""

    def __init__(self, wires: wires.Wires, machine: str, port: int, listener: wires.Listener) -> None:
        self._wires = wires
        self._machine = machine
        self._port = port
        self._listener = listener

    def renew_tls(self, tls: ssl.SSLContext) -> None:
        """Do nothing: a simulated server checks no certificate."""

    async def close(self) -> None:
        """Close the port, cancel the handlers and wait for them."""
        self._wires.unlisten(self._machine, self._port, self._listener)
        tasks = list(self._listener.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class HttpClient(http_interface.Client):
    """A client on a simulated machine; a TLS context may have a certificate, which the server gets."""

    def __init__(self, network: "Network", tls: ssl.SSLContext | None) -> None:
        self._network = network
        self._tls = tls

    def _certificate(self) -> bytes | None:
        return self._tls.certificate if isinstance(self._tls, http_interface.UncheckedContext) else None

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
        answer_limit: int | None = None,
    ) -> http_interface.Response:
        """Send one request, and wait for all pieces of its answer; a lost message results in TimeoutError."""
        answer = await self._send(method, host, port, path, body=body, timeout=timeout, headers=headers)
        limit = answer_limit or http_interface.ANSWER_LIMIT
        if len(answer.body) > limit:
            raise http_interface.answer_too_long(limit, answer.status)
        if answer.pieces is None:
            return answer
        async with asyncio.timeout(timeout), contextlib.aclosing(answer.pieces):
            streamed_body = b"".join([piece async for piece in answer.pieces])
        return dataclasses.replace(answer, body=answer.body + streamed_body, pieces=None)

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> http_interface.Response:
        """Send one GET request; return when its answer begins. Pieces stop arriving during a partition."""
        answer = await self._send("GET", host, port, path, body=b"", timeout=timeout, headers=headers)
        wires, machine = self._network.wires, self._network.machine
        pieces = wires.follow(answer, wires.resolve(host, machine), machine)
        return dataclasses.replace(answer, body=b"", pieces=pieces)

    async def _send(
        self,
        method: str,
        host: str,
        port: int,
        path: str,
        *,
        body: bytes,
        timeout: float,
        headers: Mapping[str, str] | None,
    ) -> http_interface.Response:
        boot.check()
        wires, machine = self._network.wires, self._network.machine
        request = http_interface.Request(
            method=method,
            path=path,
            body=body,
            headers={"host": f"{host}:{port}", "content-type": "application/json", **(headers or {})},
            peer_certificate=self._certificate(),
        )
        async with asyncio.timeout(timeout):
            target = wires.resolve(host, machine)
            answer = await wires.exchange(machine, target, port, request, tls=self._tls is not None)
        if not answer.headers:
            return answer
        lower_case_headers = {name.lower(): value for name, value in answer.headers.items()}
        return dataclasses.replace(answer, headers=lower_case_headers)

    async def close(self) -> None:
        """Do nothing: connections are not kept between requests."""


class Network:
    """A machine's access to the network and to its own UNIX sockets; it outlives the machine's boots.

    A new server belongs to the boot that ``owner`` returns at that moment.
    """

    def __init__(
        self, wires: wires.Wires, machine: str, machine_disk: disk.Disk, owner: Callable[[], boot.Boot]
    ) -> None:
        self.wires = wires
        self.machine = machine
        self._disk = machine_disk
        self._owner = owner
        self._sockets: dict[str, streams.Server] = {}

    async def serve_unix(
        self,
        path: str,
        handler: bytestream.Handler,
        *,
        mode: int,
        limit: int,
        allowed: limits.UnixLimits | None = None,
        groups: Sequence[str] = (),
    ) -> streams.Server:
        """Listen on a UNIX socket; replace a stale socket file."""
        del groups
        boot.check()
        present = self._sockets.get(path)
        if present is not None and present.open:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), path)
        self._disk.place_socket(path, mode)
        forget = functools.partial(self._disk.remove_socket, path)
        server = self._sockets[path] = streams.Server(handler, limit, owner=self._owner(), forget=forget)
        return server

    def is_privileged(self, writer: bytestream.Writer) -> bool:
        """Return true: all processes of a simulated machine are root's."""
        return True

    def is_member(self, writer: bytestream.Writer, group: str) -> bool | None:
        """Return None: a simulated machine has no groups."""
        return None

    def peer_user(self, writer: bytestream.Writer) -> str:
        """Return root: all processes of a simulated machine are root's."""
        return "root"

    def peer_groups(self, writer: bytestream.Writer) -> tuple[str, ...]:
        """Return no groups."""
        return ()

    async def connect_unix(self, path: str, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to a UNIX socket of this machine."""
        self._disk.status(path)
        await asyncio.sleep(0)
        server = self._sockets.get(path)
        if server is None or not server.open:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED), path)
        return server.accept(limit)

    async def connect_port(
        self, host: str, port: int, *, tls: ssl.SSLContext | None, limit: int
    ) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to an entrance of a machine."""
        boot.check()
        await asyncio.sleep(0)
        target = self.wires.resolve(host, self.machine)
        if self.wires.is_cut(self.machine, target):
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH), f"{host}:{port}")
        return self.wires.entrances.enter(target, port, limit=limit)

    async def listen_once(self, host: str, *, token: str, tls: ssl.SSLContext | None, limit: int) -> entrances.Entrance:
        """Listen on all addresses of the machine; ``host`` is ignored, and TLS is not simulated here."""
        boot.check()
        return entrances.Entrance(self.wires.entrances, self.machine, token, limit=limit)

    async def stdin_connection(self, *, limit: int) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Raise OSError: simulated daemons have no standard input."""
        raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))

    async def pass_connection(
        self, writer: bytestream.Writer, message: bytes, *, host: str, port: int, timeout_seconds: float
    ) -> None:
        """Raise OSError: programs of simulated machines cannot receive connections."""
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

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
        """Open a port on all addresses of the machine; ``host`` is ignored."""
        boot.check()
        listener = wires.Listener(handler, tls is not None, body_limit, self._owner())
        self.wires.listen(self.machine, port, listener)
        return HttpServer(self.wires, self.machine, port, listener)

    def http_client(self, *, tls: ssl.SSLContext | None) -> HttpClient:
        """Return a client."""
        return HttpClient(self, tls)
