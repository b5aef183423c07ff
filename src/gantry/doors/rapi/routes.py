"""What the two tables of the remote API are made of: a route, the master behind it, and how to find one.

A path is written as in contracts/remote-api.md#resources, with the name of each part that varies in braces:
``/2/nodes/{node_name}/role``.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from gantry import errors
from gantry.doors.rapi import wire
from gantry.rpc import luxi
from gantry.runtime import interface

T = TypeVar("T")

WAIT = 10.0
"""Seconds that one question to the master for a change of a job takes at most.

See contracts/remote-api.md#waiting-for-a-job.
"""

JOB_PATIENCE = 60.0
"""Seconds that a read which needs a job waits for it."""


@dataclass(frozen=True)
class Master:
    """The master behind the door, and the clock that reasons are stamped by."""

    caller: luxi.Caller
    clock: interface.Clock

    async def submit(self, request: wire.Request, ops: Iterable[Mapping[str, object]]) -> int:
        """Submit a job that says by whom and why it was asked for; return its number."""
        stamp = int(self.clock.now() * 1e9)
        why = (request.query.get("reason") or [""])[-1]
        trail = [["gnt:user", why, stamp]] if why else []
        source = f"gnt:rapi:{request.user}" if request.user else "gnt:rapi"
        trail.append([source, f"{request.method} /{'/'.join(request.path)}", stamp])
        return await self.caller.call(int, "SubmitJob", [{**op, "reason": trail} for op in ops])

    async def result(self, request: wire.Request, op: Mapping[str, object]) -> object:
        """Run a job of one opcode and return its result; BusyError when it takes too long, its error when it fails."""
        number = await self.submit(request, [op])
        status: list[object] | None = None
        end = self.clock.monotonic() + JOB_PATIENCE
        while status not in (["success"], ["error"], ["canceled"]):
            if self.clock.monotonic() > end:
                raise errors.BusyError(f"job {number} has not ended yet", hint=f"ask for /2/jobs/{number}")
            change = await self.caller.call(object, "WaitForJobChange", number, ["status"], status, None, WAIT)
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
"""What a route does, with the parts of the path that vary."""


@dataclass(frozen=True)
class Route:
    """One method of one resource; ``text`` says what is answered or done, ``query`` which query arguments it has."""

    method: str
    path: str
    access: wire.Access
    call: Call
    text: str
    query: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the parts of the path."""
        return tuple(part for part in self.path.split("/") if part)


def matched(route: Route, path: tuple[str, ...]) -> dict[str, str] | None:
    """Return the parts of a path that vary, None when it is another resource's."""
    if len(route.parts) != len(path):
        return None
    found: dict[str, str] = {}
    for pattern, part in zip(route.parts, path, strict=True):
        if pattern.startswith("{"):
            found[pattern[1:-1]] = part
        elif pattern != part:
            return None
    return found
