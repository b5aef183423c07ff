"""A proxy in front of an API server, which forwards requests, injects faults, and cuts watches.

It adds the credentials, so its clients need neither certificate nor token.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import aiohttp
from aiohttp import web
from tests.kubernetes.contract import backends

Fault = Callable[[web.Request], web.Response | None]
"""Answers a request in the server's place, if it wants to."""
FORWARDED = ("Content-Type", "Accept")
RETURNED = ("Content-Type", "Retry-After", "Warning")


class Proxy:
    """``fault`` is called before a request is forwarded, ``after`` before its answer is returned."""

    def __init__(self, base: str, session: aiohttp.ClientSession) -> None:
        self._base, self._session = base, session
        self._watches: set[asyncio.Task[object]] = set()
        self.fault: Fault = lambda _: None
        self.after: Fault = lambda _: None
        self.url = ""

    @property
    def watches(self) -> int:
        return sum(not watch.done() for watch in self._watches)

    def cut(self) -> int:
        """Break all watches; return their number."""
        cut = [watch for watch in self._watches if watch.cancel()]
        return len(cut)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if spoiled := self.fault(request):
            return spoiled
        headers = {name: request.headers[name] for name in FORWARDED if name in request.headers}
        watches = "watch=true" in request.path_qs
        timeout = aiohttp.ClientTimeout(total=None if watches else 30)
        try:
            async with self._session.request(
                request.method, self._base + request.path_qs, data=await request.read(), headers=headers,
                timeout=timeout,
            ) as answer:  # fmt: skip
                headers_returned = {name: answer.headers[name] for name in RETURNED if name in answer.headers}
                if watches and answer.status == 200:
                    return await self._streamed(request, answer, headers_returned)
                body = await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            return refused(502, "BadGateway")
        return self.after(request) or web.Response(status=answer.status, body=body, headers=headers_returned)

    async def _streamed(
        self, request: web.Request, answer: aiohttp.ClientResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        stream = web.StreamResponse(headers=headers)
        await stream.prepare(request)
        pumping = asyncio.ensure_future(_pump(answer, stream))
        self._watches.add(pumping)
        try:
            await asyncio.wait({pumping})
        finally:
            pumping.cancel()
            self._watches.discard(pumping)
        if request.transport:
            request.transport.abort()
        return stream


async def _pump(answer: aiohttp.ClientResponse, stream: web.StreamResponse) -> object:
    with contextlib.suppress(aiohttp.ClientError, ConnectionError):
        async for piece in answer.content.iter_any():
            await stream.write(piece)
    return None


def refused(status: int, reason: str, **headers: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason}
    return web.json_response({**body, "message": f"said {reason}"}, status=status, headers=headers)


def writes(request: web.Request) -> bool:
    """Return whether a request changes anything but Events."""
    return request.method != "GET" and "/events" not in request.path


@contextlib.asynccontextmanager
async def proxy(entrance: backends.Entrance) -> AsyncIterator[Proxy]:
    async with entrance.session() as session:
        new_proxy = Proxy(entrance.base, session)
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", new_proxy.answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        listening = web.TCPSite(runner, "127.0.0.1", 0)
        await listening.start()
        assert runner.addresses
        new_proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield new_proxy
        finally:
            new_proxy.cut()
            await runner.cleanup()
