"""The HTTP client of the real network, with aiohttp: a pool of connections; the server is ``http_server``."""

import asyncio
import dataclasses
import errno
import resource
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping

import aiohttp
import yarl

from gantry.runtime import http_interface

CLIENT_IDLE_SECONDS = 15.0
"""A client closes idle connections long before the server does, so it never sends a POST on a closing connection."""
PEER_TIMEOUT_SECONDS = 15
"""Without acknowledgements from a peer, before the connection fails; much shorter than most requests' timeouts."""


def _max_connections() -> int:
    """Return the maximum number of a client's connections: half of the process's file descriptors.

    A request that waits for a connection loses time of its timeout, so callers limit their requests to each server.
    """
    return max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def _as_os_error(error: aiohttp.ClientError) -> OSError:
    """Return the OSError that a socket would have raised; its class depends on the error number."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ETIMEDOUT:
        # The machine is unreachable; a TimeoutError would mean that its answer took too long.
        number = errno.EHOSTUNREACH
    return OSError(number or errno.ECONNRESET, str(error) or type(error).__name__)


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a client's socket; the kernel sends keep-alive probes to a silent peer."""
    family, kind, protocol, _, _ = address
    client_socket = socket.socket(family, kind, protocol)
    client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PEER_TIMEOUT_SECONDS)
    client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PEER_TIMEOUT_SECONDS // 3)
    client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PEER_TIMEOUT_SECONDS * 1000)
    return client_socket


_UNLIMITED = aiohttp.ClientTimeout(total=None)


def _response(answer: aiohttp.ClientResponse, body: bytes) -> http_interface.Response:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return http_interface.Response(answer.status, body, answer.headers.get("Content-Type", ""), headers)


async def _body(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the whole body; one that is too long is not read to its end, so its connection is closed."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > limit:
            answer.close()
            raise http_interface.answer_too_long(limit, answer.status)
    return bytes(body)


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """Yield the body as it arrives; the connection ends with the generator."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except aiohttp.ClientError as error:
        raise _as_os_error(error) from error
    finally:
        answer.close()


class Client(http_interface.Client):
    """Connections to any number of servers, kept open while they are in use."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._scheme = "https" if tls else "http"
        connector = aiohttp.TCPConnector(
            ssl=tls or True, limit=_max_connections(), keepalive_timeout=CLIENT_IDLE_SECONDS, socket_factory=_socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": "application/json"},
        )
        self._under_way = 0
        self._retired = False

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
        """Send one request; do not follow redirects."""
        limit = aiohttp.ClientTimeout(total=timeout)
        url = self._url(host, port, path)
        sending = self._session.request(
            method, url, data=body or None, headers=headers, timeout=limit, allow_redirects=False
        )
        self._under_way += 1
        try:
            async with sending as answer:
                return _response(answer, await _body(answer, answer_limit or http_interface.ANSWER_LIMIT))
        except TimeoutError:
            raise
        except aiohttp.ClientError as error:
            raise _as_os_error(error) from error
        finally:
            self._under_way -= 1
            if self._retired and not self._under_way:
                await self.close()

    async def retire(self) -> None:
        """End the connections when the requests under way have ended."""
        self._retired = True
        if not self._under_way:
            await self.close()

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> http_interface.Response:
        """Send one GET request; return when its answer begins."""
        try:
            async with asyncio.timeout(timeout):
                answer = await self._session.get(
                    self._url(host, port, path), headers=headers, timeout=_UNLIMITED, allow_redirects=False
                )
        except aiohttp.ClientError as error:
            raise _as_os_error(error) from error
        return dataclasses.replace(_response(answer, b""), pieces=_pieces(answer))

    def _url(self, host: str, port: int, path: str) -> yarl.URL:
        name = f"[{host}]" if ":" in host else host
        return yarl.URL(f"{self._scheme}://{name}:{port}{path}", encoded=True)

    async def close(self) -> None:
        """End the connections."""
        await self._session.close()
