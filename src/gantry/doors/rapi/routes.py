"""A route of the remote API, the match of a path with a route, and the access to the master.

Paths are written as in contracts/remote-api.md#resources, with the name of each variable part in braces:
``/2/nodes/{node_name}/role``.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from gantry import errors
from gantry.doors.rapi import wire
from gantry.rpc import luxi
from gantry.runtime import http_interface, interface

T = TypeVar("T")

WAIT_SECONDS = 10.0
"""Maximum seconds of one request to the master that waits for a change of a job.

See contracts/remote-api.md#waiting-for-a-job.
"""

READING_JOBS = 20
"""The maximum number of unfinished jobs of requests that only read, but are answered with a job by contract."""

UNFINISHED = ("queued", "waiting", "running", "canceling")


@dataclass
class _ReadingJobs:
    """The jobs that only read and may not have ended: their numbers by their opcodes."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    jobs: dict[bytes, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Master:
    """The connection to the master, and the clock for the timestamps of reasons."""

    caller: luxi.Caller
    clock: interface.Clock
    reading: _ReadingJobs = field(default_factory=_ReadingJobs)

    async def submit(self, request: wire.Request, ops: Iterable[Mapping[str, object]]) -> int:
        """Submit a job, with the user and the reason of the request; return its number."""
        trail = self.trail(request)
        return await self.caller.call(int, "SubmitJob", [{**op, "reason": trail} for op in ops])

    def trail(self, request: wire.Request) -> list[list[object]]:
        """Return the reason trail of the opcodes of a request."""
        stamp = int(self.clock.now() * 1e9)
        why = (request.query.get("reason") or [""])[-1]
        trail: list[list[object]] = [["gnt:user", why, stamp]] if why else []
        source = f"gnt:rapi:{request.user}" if request.user else "gnt:rapi"
        trail.append([source, f"{request.method} /{'/'.join(request.path)}", stamp])
        return trail

    async def read(self, op: Mapping[str, object]) -> object:
        """Return the result of an opcode that only reads; the master makes no job for it."""
        result, _ = await self.caller.call(tuple[object, list[str]], "ReadOpcode", op)
        return result

    async def submit_read(self, request: wire.Request, ops: Sequence[Mapping[str, object]]) -> int:
        """Return the number of a job that reads: a new one, or that of an equal request that has not ended.

        Raises BusyError while ``READING_JOBS`` of them have not ended.
        """
        # The job of another user may be one that this user does not see.
        key = msgspec.json.encode((luxi.USER.get(luxi.WITHOUT_RIGHTS), ops))
        async with self.reading.lock:
            await self._forget_ended()
            number = self.reading.jobs.get(key)
            if number is None:
                if len(self.reading.jobs) >= READING_JOBS:
                    raise errors.BusyError(
                        f"{READING_JOBS} jobs that only read have not ended", hint="repeat the request in a few seconds"
                    )
                number = self.reading.jobs[key] = await self.submit(request, ops)
        return number

    async def _forget_ended(self) -> None:
        if not self.reading.jobs:
            return
        numbers = list(self.reading.jobs.values())
        rows = await self.caller.call(list[list[object]], "QueryJobs", numbers, ["id", "status"])
        ended = {number for number, status in rows if status not in UNFINISHED}
        for key, number in list(self.reading.jobs.items()):
            if number in ended:
                del self.reading.jobs[key]


Call = Callable[[Master, wire.Request, Mapping[str, str]], Awaitable[wire.Answer | http_interface.Response]]
"""The function of a route, which is called with the variable parts of the path."""


@dataclass(frozen=True)
class Route:
    """A method of a resource; ``text`` describes the answer or the change, ``query`` lists the query arguments.

    ``call`` is None for what the application answers from its own memory: sessions and streams. ``form`` is the content
    type of an answer that has no other.
    """

    method: str
    path: str
    access: wire.Access
    call: Call | None
    text: str
    query: tuple[str, ...] = ()
    form: str = ""

    @functools.cached_property
    def parts(self) -> tuple[str, ...]:
        """Return the parts of the path."""
        return tuple(part for part in self.path.split("/") if part)


class Table:
    """All routes. A route has no variable part before the third, so a path is compared with few of them."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes: dict[tuple[int, tuple[str, ...]], list[Route]] = {}
        for route in routes:
            self._routes.setdefault((len(route.parts), route.parts[:2]), []).append(route)

    def matching(self, path: tuple[str, ...]) -> list[tuple[Route, dict[str, str]]]:
        """Return the routes that match a path, each with the variable parts of the path."""
        routes = self._routes.get((len(path), path[:2]), ())
        return [(route, names) for route in routes if (names := _match(route, path)) is not None]


def _match(route: Route, path: tuple[str, ...]) -> dict[str, str] | None:
    names: dict[str, str] = {}
    for pattern, part in zip(route.parts, path, strict=True):
        if pattern.startswith("{"):
            names[pattern[1:-1]] = part
        elif pattern != part:
            return None
    return names
