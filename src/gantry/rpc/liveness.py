"""Nodes that do not answer: how reading avoids waiting for them, and how long work waits for a node that froze.

``Reader`` makes the calls of queries. A call that has no answer after ``READ_TIMEOUT_SECONDS`` fails, and its target is
silent for calls of this kind: such calls fail at once from then on, while a task asks again, with increasing intervals,
until the node answers. Other kinds of calls are not affected, because a hung disk does not delay all of them. Nothing
runs while no node is silent. A node that refuses connections is not silent: its answer takes no time.

At each node only some calls of queries are under way at a time (``call_queue``); the timeout begins with the call.

Jobs wait as long as a node is alive, also when it is busy: ``attend`` and ``read`` give up a node only if it answers no
call at all meanwhile, whoever made it.
"""

import abc
import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from gantry import errors
from gantry.rpc import call_queue, calls, targets
from gantry.runtime import interface

Result = TypeVar("Result")

log = logging.getLogger(__name__)

READ_TIMEOUT_SECONDS = 1.5
"""For a call that only reads; below the 2 s within which a query is answered."""
FIRST_INTERVAL_SECONDS = 1.0
MAX_INTERVAL_SECONDS = 30.0
"""Between two attempts in the background; the interval doubles after each."""
UNUSED_SECONDS = 900.0
"""After this time without a query for it, a silent node is not asked any more; it may have been removed."""


@dataclass(frozen=True)
class Checks:
    """When to check a node that has not answered a call yet, and how long to wait for the answer to a check.

    ``only_if_unanswered``: not if the node has answered another call since the last check.
    """

    interval_seconds: float
    timeout_seconds: float
    only_if_unanswered: bool = False


PATIENT = Checks(interval_seconds=2.0, timeout_seconds=5.0, only_if_unanswered=True)
"""Thousands of jobs may wait for one busy node: they need no checks as long as it answers any of their calls."""
BRIEF = Checks(interval_seconds=0.4, timeout_seconds=1.4)
"""For a job that only reads: below the 2 s within which it is answered."""

NEVER = float("-inf")
"""When a node answered that has not answered yet."""

_Key = tuple[targets.Target, str]


class Caller(Protocol):
    """What makes the calls (``rpc.client.Client``)."""

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Call one node; raises its error, or RemoteError when it is offline or does not answer."""
        ...

    async def fan_out(self, where: Sequence[targets.Target], call: calls.Call[Result]) -> list[targets.Answer[Result]]:
        """Call many nodes at once; the answers are in the order of ``where``, failures among them."""
        ...

    async def join(self, target: targets.Target, token: str, call: calls.Call[Result]) -> Result:
        """Call a node that has not joined, over the certificate in its join token."""
        ...

    def last_answer(self, target: targets.Target) -> float:
        """Return when a node last answered any call, also with an error, by the time of the event loop."""
        ...


class Relay(abc.ABC):
    """Calls nodes through another caller, in a way of its own."""

    def __init__(self, nodes: Caller) -> None:
        self._nodes = nodes

    @abc.abstractmethod
    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Call one node."""

    async def fan_out(self, where: Sequence[targets.Target], call: calls.Call[Result]) -> list[targets.Answer[Result]]:
        """Call many nodes as ``call`` does; the answers are in the order of ``where``, failures among them."""
        return await asyncio.gather(*(answer(self, target, call) for target in where))

    async def join(self, target: targets.Target, token: str, call: calls.Call[Result]) -> Result:
        """Call a node that has not joined, over the certificate in its join token."""
        return await self._nodes.join(target, token, call)

    def last_answer(self, target: targets.Target) -> float:
        """Return when a node last answered any call, also with an error, by the time of the event loop."""
        return self._nodes.last_answer(target)


class Reader(Relay):
    """Calls nodes for queries; it does not wait for silent nodes. Answers the ``Nodes`` protocol of the operations."""

    def __init__(self, nodes: Caller, clock: interface.Clock) -> None:
        super().__init__(nodes)
        self._clock = clock
        self._silent: dict[_Key, asyncio.Task[None]] = {}
        self._used: dict[_Key, float] = {}
        self._slots = call_queue.Slots(call_queue.QUERY_SLOTS)

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Call one node in its turn; RemoteError if it is silent or does not answer in time."""
        if target.offline or isinstance(call, calls.Version) or (target, call.procedure()) in self._silent:
            return await self._call(target, call)
        async with self._slots.slot(target):
            return await self._call(target, call)

    async def _call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        key = target, call.procedure()
        now = self._clock.monotonic()
        if key in self._silent:
            self._used[key] = now
            raise _no_answer(target, call, "lately")
        asking = asyncio.ensure_future(self._nodes.call(target, call))
        try:
            await asyncio.wait([asking], timeout=READ_TIMEOUT_SECONDS)
        except asyncio.CancelledError:
            asking.cancel()
            raise
        if asking.done():
            return asking.result()
        if key in self._silent:  # another query was waiting for the same node
            asking.cancel()
        else:
            log.warning("node %s does not answer %s: queries do not wait for it", target.name, call.procedure())
            self._used[key] = now
            self._silent[key] = asyncio.ensure_future(self._follow(key, asking, call))
        raise _no_answer(target, call, f"within {READ_TIMEOUT_SECONDS:g} s")

    async def close(self) -> None:
        """Stop asking silent nodes."""
        following = list(self._silent.values())
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)

    async def _follow(self, key: _Key, asking: asyncio.Future[Result], call: calls.Call[Result]) -> None:
        """Ask a silent node until it answers; ``asking`` is the call that it has not answered yet."""
        clock, interval, started = self._clock, FIRST_INTERVAL_SECONDS, self._used[key]
        try:
            while not await _has_answered(asking) and clock.monotonic() - started >= READ_TIMEOUT_SECONDS:
                await clock.sleep(interval)
                interval = min(2 * interval, MAX_INTERVAL_SECONDS)
                if clock.monotonic() - self._used[key] > UNUSED_SECONDS:
                    return
                started = clock.monotonic()
                asking = asyncio.ensure_future(self._nodes.call(key[0], call))
            log.info("node %s is asked for %s by queries again", key[0].name, key[1])
        finally:
            asking.cancel()
            del self._silent[key], self._used[key]


async def _has_answered(asking: asyncio.Future[Result]) -> bool:
    """Wait for a call to end; return whether the node answered, which it also does with an error."""
    await asyncio.wait([asking])
    error = asking.exception()
    return not isinstance(error, errors.RemoteError)


async def answer(nodes: Caller, target: targets.Target, call: calls.Call[Result]) -> targets.Answer[Result]:
    """Call one node, and return its answer or its error."""
    try:
        return targets.Answer(target, value=await nodes.call(target, call))
    except errors.GantryError as error:
        return targets.Answer(target, error=error, offline=target.offline)


def _no_answer(target: targets.Target, call: calls.Call[Result], when: str) -> errors.RemoteError:
    return errors.RemoteError(
        f"node {target.name} ({target.address} port {target.port}) did not answer {call.procedure()} {when}",
        hint="the master asks it again in the background; if it is down for good, mark it offline",
    )


async def is_silent(nodes: Caller, target: targets.Target, *, timeout: float = READ_TIMEOUT_SECONDS) -> bool:
    """Return whether a node answers neither the smallest call in time nor any other call meanwhile."""
    begin = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(timeout):
            await nodes.call(target, calls.Version())
    except (errors.RemoteError, TimeoutError):
        return nodes.last_answer(target) < begin
    return False


async def attend(
    nodes: Caller, where: Sequence[targets.Target], call: calls.Call[Result], *, checks: Checks = PATIENT
) -> list[targets.Answer[Result]]:
    """Call many nodes at once, as ``fan_out`` does, but give up a node that answers no other call meanwhile."""
    return await asyncio.gather(*(_attended(nodes, target, call, checks=checks) for target in where))


async def read(
    nodes: Caller, where: Sequence[targets.Target], call: calls.Call[Result]
) -> list[targets.Answer[Result]]:
    """Call many nodes at once for a job that only reads; give up a node that is silent for about 2 s."""
    return await attend(nodes, where, call, checks=BRIEF)


async def _attended(
    nodes: Caller, target: targets.Target, call: calls.Call[Result], *, checks: Checks
) -> targets.Answer[Result]:
    asking = asyncio.ensure_future(nodes.fan_out([target], call))
    try:
        while not (await asyncio.wait([asking], timeout=checks.interval_seconds))[0]:
            last_check = asyncio.get_running_loop().time() - checks.interval_seconds
            if checks.only_if_unanswered and nodes.last_answer(target) > last_check:
                continue
            checking = asyncio.ensure_future(is_silent(nodes, target, timeout=checks.timeout_seconds))
            try:
                await asyncio.wait([asking, checking], return_when=asyncio.FIRST_COMPLETED)
                if not asking.done() and checking.result():
                    return targets.Answer(target, error=_no_answer(target, call, "and does not answer at all"))
            finally:
                checking.cancel()
        return asking.result()[0]
    finally:
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([asking])
