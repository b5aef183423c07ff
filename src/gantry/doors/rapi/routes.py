"""A route of the remote API, the match of a path with a route, and the access to the master.

Paths are written as in contracts/remote-api.md#resources, with the name of each variable part in braces:
``/2/nodes/{node_name}/role``.
"""

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from gantry import errors
from gantry.doors.rapi import wire
from gantry.rpc import luxi
from gantry.runtime import interface

T = TypeVar("T")

WAIT_SECONDS = 10.0
"""Maximum seconds of one request to the master that waits for a change of a job.

See contracts/remote-api.md#waiting-for-a-job.
"""

JOB_TIMEOUT_SECONDS = 60.0
"""Seconds that a read waits for the job that it needs."""


@dataclass(frozen=True)
class Master:
    """The connection to the master, and the clock for the timestamps of reasons."""

    caller: luxi.Caller
    clock: interface.Clock

    async def submit(self, request: wire.Request, ops: Iterable[Mapping[str, object]]) -> int:
        """Submit a job, with the user and the reason of the request; return its number."""
        stamp = int(self.clock.now() * 1e9)
        why = (request.query.get("reason") or [""])[-1]
        trail = [["gnt:user", why, stamp]] if why else []
        source = f"gnt:rapi:{request.user}" if request.user else "gnt:rapi"
        trail.append([source, f"{request.method} /{'/'.join(request.path)}", stamp])
        return await self.caller.call(int, "SubmitJob", [{**op, "reason": trail} for op in ops])

    async def result(self, request: wire.Request, op: Mapping[str, object]) -> object:
        """Run a job of one opcode and return its result; BusyError after the timeout; the job's error if it fails."""
        number = await self.submit(request, [op])
        status: list[object] | None = None
        end = self.clock.monotonic() + JOB_TIMEOUT_SECONDS
        while status not in (["success"], ["error"], ["canceled"]):
            if self.clock.monotonic() > end:
                raise errors.BusyError(
                    f"job {number} has not ended yet", hint=f"request its status later: /2/jobs/{number}"
                )
            change = await self.caller.call(object, "WaitForJobChange", number, ["status"], status, None, WAIT_SECONDS)
            if isinstance(change, list) and change and isinstance(change[0], list):
                status = change[0]
        rows = await self.caller.call(list[list[object]], "QueryJobs", [number], ["opresult"])
        results = rows[0][0] if rows and isinstance(rows[0][0], list) else [None]
        if status != ["success"]:
            raise _failure(results[0])
        return results[0]


def _failure(result: object) -> errors.GantryError:
    if isinstance(result, list) and len(result) == 2 and isinstance(result[1], list):
        return errors.from_luxi(str(result[0]), result[1])
    return errors.ExecutionError(f"the job failed: {result}")


Call = Callable[[Master, wire.Request, Mapping[str, str]], Awaitable[wire.Answer]]
"""The function of a route, which is called with the variable parts of the path."""


@dataclass(frozen=True)
class Route:
    """A method of a resource; ``text`` describes the answer or the change, ``query`` lists the query arguments."""

    method: str
    path: str
    access: wire.Access
    call: Call
    text: str
    query: tuple[str, ...] = ()

    @functools.cached_property
    def parts(self) -> tuple[str, ...]:
        """Return the parts of the path."""
        return tuple(part for part in self.path.split("/") if part)


def match(route: Route, path: tuple[str, ...]) -> dict[str, str] | None:
    """Return the variable parts of a path, None if the path does not match the route."""
    if len(route.parts) != len(path):
        return None
    names: dict[str, str] = {}
    for pattern, part in zip(route.parts, path, strict=True):
        if pattern.startswith("{"):
            names[pattern[1:-1]] = part
        elif pattern != part:
            return None
    return names
