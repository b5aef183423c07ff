"""Remembers which nodes do not answer which calls, so that reading waits for a silent node once (``liveness``).

A node that does not answer ``Version``, the smallest call, is silent for all calls. One that does not answer another
call is silent for calls of that kind only: its disks may hang. A task asks a silent node again, with increasing
intervals, until it answers. Nothing runs while no node is silent. Queries and jobs of a master share one memory.
"""

import asyncio
import contextlib
import logging
from typing import Protocol, TypeVar

from gantry import errors
from gantry.rpc import calls, targets
from gantry.runtime import interface

Result = TypeVar("Result")

log = logging.getLogger(__name__)

FIRST_INTERVAL_SECONDS = 1.0
MAX_INTERVAL_SECONDS = 30.0
"""Between two attempts in the background; the interval doubles after each."""
VERSION_SECONDS = 5.0
"""The longest interval, and the timeout of an attempt, for ``Version``: all who read skip the node meanwhile."""
REFUSAL_SECONDS = 1.0
"""A call that fails sooner has not met a silent node but one that refuses connections."""
UNUSED_SECONDS = 900.0
"""After this time in which nobody wants it, a silent node is not asked any more; it may have been removed."""

_Key = tuple[targets.Target, str]


class Caller(Protocol):
    """What asks silent nodes again (``client.Client``)."""

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Call one node; raises its error, or RemoteError when it is offline or does not answer."""
        ...

    def last_answer(self, target: targets.Target) -> float:
        """Return when a node last answered any call, also with an error, by the time of the event loop."""
        ...


class Silence:
    """The calls that nodes do not answer, with the moments since when, by the time of the event loop."""

    def __init__(self, nodes: Caller, clock: interface.Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._tasks: dict[_Key, asyncio.Task[None]] = {}
        self._since: dict[_Key, float] = {}
        self._used: dict[_Key, float] = {}

    def seconds(self, target: targets.Target, call: calls.Call[Result]) -> float:
        """Return for how long a node has not answered calls of this kind, or nothing at all; 0 if it answers them."""
        whole = target, calls.Version.procedure()
        if self._nodes.last_answer(target) > self._since.get(whole, float("inf")):
            self._forget(whole)
        now = asyncio.get_running_loop().time()
        keys = [key for key in (whole, (target, call.procedure())) if key in self._since]
        for key in keys:
            self._used[key] = now
        return max((now - self._since[key] for key in keys), default=0.0)

    def note(
        self,
        target: targets.Target,
        call: calls.Call[Result],
        *,
        since: float,
        asking: asyncio.Future[Result] | None = None,
    ) -> None:
        """Note that a node has not answered a call since a moment; ``asking`` is the call, which continues."""
        key = target, call.procedure()
        is_alive = isinstance(call, calls.Version) and self._nodes.last_answer(target) > since
        if is_alive or key in self._tasks:
            if asking:
                asking.cancel()
            return
        log.warning("node %s does not answer %s: reading does not wait for it", target.name, call.procedure())
        self._since[key], self._used[key] = since, asyncio.get_running_loop().time()
        self._tasks[key] = asyncio.create_task(self._follow(target, call, asking), name=f"silence {target.name}")

    async def close(self) -> None:
        """Stop asking silent nodes."""
        tasks = list(self._tasks.values())
        for key in list(self._tasks):
            self._forget(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, key: _Key) -> None:
        self._tasks.pop(key).cancel()
        del self._since[key], self._used[key]

    async def _follow(
        self, target: targets.Target, call: calls.Call[Result], asking: asyncio.Future[Result] | None
    ) -> None:
        """Ask a silent node until it answers."""
        key, interval, started = (target, call.procedure()), FIRST_INTERVAL_SECONDS, float("-inf")
        is_version = isinstance(call, calls.Version)
        loop, max_interval = asyncio.get_running_loop(), VERSION_SECONDS if is_version else MAX_INTERVAL_SECONDS
        if asking:
            started = self._since[key]
        else:
            asking = asyncio.ensure_future(self._nodes.call(target, call))
            started = loop.time()
        try:
            while not await _has_answered(asking, VERSION_SECONDS if is_version else None):
                if asking.done() and loop.time() - started < REFUSAL_SECONDS:
                    break
                asking.cancel()
                await self._clock.sleep(interval)
                interval = min(2 * interval, max_interval)
                if loop.time() - self._used[key] > UNUSED_SECONDS:
                    break
                asking, started = asyncio.ensure_future(self._nodes.call(target, call)), loop.time()
            log.info("node %s is asked for %s again", target.name, call.procedure())
            self._tasks.pop(key)
            del self._since[key], self._used[key]
        finally:
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([asking])


async def _has_answered(asking: asyncio.Future[Result], timeout: float | None) -> bool:
    """Wait for a call to end; return whether the node answered, which it also does with an error."""
    if not (await asyncio.wait([asking], timeout=timeout))[0] or asking.cancelled():
        return False
    return not isinstance(asking.exception(), errors.RemoteError)
