"""Inside: requests to the embedded server from its own process, without a connection.

Who calls it: ``daemons.apiserver``, for controllers that run beside the server. It fits ``interface.HttpClient``, so
they send the same requests and get the same answers as from any API server. Nothing is lost on the way: a request is
answered when it has been carried out, so there are no time limits.
"""

import dataclasses
from collections.abc import AsyncGenerator, Mapping

from gantry.runtime import interface


class Inside(interface.HttpClient):
    """A way to a handler; hosts and ports are not looked at."""

    def __init__(self, handler: interface.HttpHandler) -> None:
        self._handler = handler

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
    ) -> interface.HttpResponse:
        """Have one request of any method answered."""
        return await self._handler(interface.HttpRequest(method, path, body, headers or {}))

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> interface.HttpResponse:
        """Have one GET answered, in pieces."""
        answer = await self._handler(interface.HttpRequest("GET", path, b"", headers or {}))
        return answer if answer.pieces else dataclasses.replace(answer, body=b"", pieces=_whole(answer.body))

    async def close(self) -> None:
        """Nothing is open."""


async def _whole(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
