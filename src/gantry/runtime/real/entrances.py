"""Ports that wait for one client, which must present a token, beside any number of strangers.

At most ``STRANGERS`` connections have not presented the token; of more, the oldest is closed. One with another token,
or without TLS, is closed at once. The client has a moment for its handshake, so that strangers do not keep it out.
"""

import asyncio
import hmac
import socket
import ssl

from gantry.runtime.real import accepting

STRANGERS = 16
TOKEN_TIMEOUT_SECONDS = 10.0
"""For the TLS handshake and the token of a connection."""
BACKLOG = 64
PROBE_IDLE_SECONDS = 10
PROBE_INTERVAL_SECONDS = 5
PROBES = 4
SILENCE_SECONDS = 30
"""A stream breaks if its peer's machine has not answered for that time; the probes of an idle stream find out."""

End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def watch_peer(wire: socket.socket) -> None:
    """Let the kernel break a connection whose peer's machine is silent (RFC 5482, RFC 9293 section 3.8.4)."""
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_IDLE_SECONDS)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_INTERVAL_SECONDS)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_SECONDS * 1000)


class Entrance:
    """A listening socket for one client (see ``bytestream.Entrance``)."""

    def __init__(self, listener: socket.socket, token: str, tls: ssl.SSLContext | None, *, limit: int) -> None:
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        self._token = token.encode() + b"\n"
        self._tls = tls
        self._limit = limit
        self._strangers: dict[asyncio.Task[None], None] = {}
        self._arrived: asyncio.Future[End] = asyncio.get_running_loop().create_future()

    async def accept(self, *, timeout: float) -> End:
        """Return the stream of the client that presents the token."""
        accepting_all = asyncio.ensure_future(self._accept_all())
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self._arrived)
        except BaseException:
            if self._arrived.done() and not self._arrived.cancelled():
                self._arrived.result()[1].close()
            raise
        finally:
            accepting_all.cancel()
            await asyncio.wait([accepting_all])
            await self.close()

    async def close(self) -> None:
        """Stop listening, and close the connections of strangers."""
        self._listener.close()
        self._arrived.cancel()
        tasks = list(self._strangers)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                wire, _ = await loop.sock_accept(self._listener)
            except OSError:  # no file descriptor is free, or the client has disconnected already
                await asyncio.sleep(accepting.BACK_OFF_SECONDS)
                continue
            if len(self._strangers) >= STRANGERS:
                next(iter(self._strangers)).cancel()
            task = asyncio.ensure_future(self._serve(wire))
            self._strangers[task] = None
            task.add_done_callback(lambda done: self._strangers.pop(done, None))

    async def _serve(self, wire: socket.socket) -> None:
        """Read the token of a connection; close the connection if it is another."""
        writer: asyncio.StreamWriter | None = None
        is_client = False
        try:
            watch_peer(wire)
            async with asyncio.timeout(TOKEN_TIMEOUT_SECONDS):
                reader, writer = await self._stream(wire)
                has_token = hmac.compare_digest(await reader.readuntil(b"\n"), self._token)
            if has_token and not self._arrived.done():
                self._arrived.set_result((reader, writer))
                is_client = True
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # a stranger, or a client that has gone; a TimeoutError is an OSError too
        finally:
            if writer and not is_client:
                writer.close()
            elif not writer:
                wire.close()

    async def _stream(self, wire: socket.socket) -> End:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=self._limit)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, wire, ssl=self._tls)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
