"""Nodes that do not answer: how reading avoids waiting for them, and how long work waits for a node that froze.

``Reader`` makes the calls of queries. A call that has no answer after ``READ_TIMEOUT_SECONDS`` fails, and its target is
silent for calls of this kind: such calls fail at once from then on (``silence``). Other kinds of calls are not
affected, because a hung disk does not delay all of them, unless the node does not answer the smallest call either: then
it is silent for all. A node that refuses connections is not silent: its answer takes no time.

At each node only some calls of queries are under way at a time (``call_queue``); the timeout begins with the call.
Equal calls that wait share an answer (``shared_turns``).

Jobs wait as long as a node is alive, even when it is busy: ``attend`` and ``read`` give up a node only if it answers no
call at all meanwhile, whoever made it. A job that only reads does not wait again for a node that has been silent for as
long as the job would wait; a job that changes something asks once more, briefly, because the node may just be back.
"""

import abc
import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from gantry import errors
from gantry.rpc import call_queue, calls, shared_turns, silence, targets

Result = TypeVar("Result")

READ_TIMEOUT_SECONDS = 1.5
"""For a call that only reads; below the 2 s within which a query is answered."""
DOUBT_SECONDS = 0.4
"""How long a query waits for an answer before the node is asked for the smallest one too."""


@dataclass(frozen=True)
class Checks:
    """When to check a node that has not answered a call yet, and how long to wait for the answer to a check.

    ``only_if_unanswered``: not if the node has answered another call since the last check. ``trusts_silence``: a node
    that has been silent for as long as this would take is not called at all.
    """

    interval_seconds: float
    timeout_seconds: float
    only_if_unanswered: bool = False
    trusts_silence: bool = False


PATIENT = Checks(interval_seconds=2.0, timeout_seconds=5.0, only_if_unanswered=True)
"""Thousands of jobs may wait for one busy node: they need no checks as long as it answers any of their calls."""
THOROUGH = Checks(interval_seconds=2.0, timeout_seconds=5.0, only_if_unanswered=True, trusts_silence=True)
"""For a job that reports a node without an answer as a fault: a busy node must not seem to be one."""
BRIEF = Checks(interval_seconds=0.4, timeout_seconds=1.4, trusts_silence=True)
"""For a job that only reads: below the 2 s within which it is answered."""

NEVER = float("-inf")
"""When a node answered that has not answered yet."""


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

    def silence(self) -> silence.Silence | None:
        """Return the nodes that are known not to answer; None if nothing is remembered about them."""
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

    def silence(self) -> silence.Silence | None:
        """Return the nodes that are known not to answer; None if nothing is remembered about them."""
        return self._nodes.silence()


class Reader(Relay):
    """Calls nodes for queries; it does not wait for silent nodes. Answers the ``Nodes`` protocol of the operations."""

    def __init__(self, nodes: Caller, silent: silence.Silence) -> None:
        super().__init__(nodes)
        self._silent = silent
        self._turns = shared_turns.SharedTurns(call_queue.Slots(call_queue.QUERY_SLOTS).slot)

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Call one node in its turn; RemoteError if it is silent or does not answer in time."""
        if target.offline or isinstance(call, calls.Version) or self._silent.seconds(target, call):
            return await self._call(target, call)
        return await self._turns.call(target, call, self._call)

    async def _call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        if self._silent.seconds(target, call):
            raise no_answer(target, call, "lately")
        begin = asyncio.get_running_loop().time()
        asking = asyncio.ensure_future(self._nodes.call(target, call))
        try:
            if not (await asyncio.wait([asking], timeout=DOUBT_SECONDS))[0]:
                await self._doubt(target, asking, begin)
        except BaseException:
            asking.cancel()
            raise
        if asking.done():
            return asking.result()
        self._silent.note(target, call, since=begin, asking=asking)
        raise no_answer(target, call, f"within {READ_TIMEOUT_SECONDS:g} s")

    async def _doubt(self, target: targets.Target, asking: asyncio.Future[Result], begin: float) -> None:
        """Wait for an answer for the rest of the time; meanwhile find out whether the node answers anything."""
        timeout_seconds = READ_TIMEOUT_SECONDS - DOUBT_SECONDS
        checking = asyncio.ensure_future(is_silent(self._nodes, target, timeout=timeout_seconds))
        try:
            await asyncio.wait([asking], timeout=timeout_seconds)
            if not asking.done():
                with contextlib.suppress(errors.GantryError):  # which is an answer
                    if await checking:
                        self._silent.note(target, calls.Version(), since=begin)
        finally:
            checking.cancel()

    def silence(self) -> silence.Silence | None:
        """Return the nodes that are known not to answer."""
        return self._silent


async def answer(nodes: Caller, target: targets.Target, call: calls.Call[Result]) -> targets.Answer[Result]:
    """Call one node, and return its answer or its error."""
    try:
        return targets.Answer(target, value=await nodes.call(target, call))
    except errors.GantryError as error:
        return targets.Answer(target, error=error, offline=target.offline)


def no_answer(target: targets.Target, call: calls.Call[Result], when: str) -> errors.RemoteError:
    """Return the error for a call that nobody waits for any more; ``when`` says since when or for how long."""
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
    begin, silent = asyncio.get_running_loop().time(), nodes.silence()
    interval_seconds, timeout_seconds = checks.interval_seconds, checks.timeout_seconds
    if silent and not target.offline and silent.seconds(target, call) >= interval_seconds + timeout_seconds:
        if checks.trusts_silence:
            return targets.Answer(target, error=no_answer(target, call, "lately"))
        if silent.seconds(target, calls.Version()):
            interval_seconds, timeout_seconds = 0.0, BRIEF.timeout_seconds
    asking = asyncio.ensure_future(answer(nodes, target, call))
    try:
        while not (await asyncio.wait([asking], timeout=interval_seconds))[0]:
            last_check = asyncio.get_running_loop().time() - interval_seconds
            if not checks.only_if_unanswered or nodes.last_answer(target) <= last_check:
                checking = asyncio.ensure_future(is_silent(nodes, target, timeout=timeout_seconds))
                try:
                    await asyncio.wait([asking, checking], return_when=asyncio.FIRST_COMPLETED)
                    if not asking.done() and checking.result():
                        if silent:
                            silent.note(target, calls.Version(), since=begin)
                        return targets.Answer(target, error=no_answer(target, call, "and does not answer at all"))
                finally:
                    checking.cancel()
            interval_seconds, timeout_seconds = checks.interval_seconds, checks.timeout_seconds
        return asking.result()
    finally:
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([asking])
