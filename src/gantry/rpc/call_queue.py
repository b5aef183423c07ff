"""The queue of calls to each node: how many calls the master has under way at one node, however many jobs it runs.

The calls of jobs go through one queue (``client.Queued``), those of queries through another (``liveness.Reader``). All
other calls of the master are few by themselves and never wait here: its lease, votes, the copies on the candidates, the
ssconf files. Nor does ``Version``, which asks whether a node answers.

Calls get the slots of a node in the order of their arrival. A call without an answer after ``LONG_SECONDS`` waits
for something on the node, such as an installation or a guest that shuts down: it releases its slot to the next call
and continues beside it, so that short calls do not wait for the end of long ones. ``MAX_LONG`` calls of a node may do
so. The caller sends the call, and begins to count its timeout, when it has the slot.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator

from gantry.rpc import targets

JOB_SLOTS = 24
"""Calls of jobs at one node at a time."""
QUERY_SLOTS = 8
"""Calls of queries at one node at a time: with those of jobs 32 connections."""
LONG_SECONDS = 2.0
"""A call under way for longer than this releases its slot; a node answers 24 short calls in a tenth of that."""
MAX_LONG = 400
"""Calls of one node that have released their slots and are still under way; a node daemon works on 700 requests."""


class _UnderWay:
    """A call that has a slot, or has released it because it ``is_long``."""

    is_long = False


class _Node:
    """The slots of one node, the calls that wait for one, and the long calls that may not release theirs yet."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._long = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._overdue: dict[_UnderWay, None] = {}

    async def enter(self) -> None:
        """Wait for a slot."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot came at the moment of the cancellation
                self._release()
            raise

    def _release(self) -> None:
        """Pass a slot to the first call that still waits for one."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def outlast(self, call: _UnderWay) -> None:
        """Let a long call release its slot, at once or when another long call has ended."""
        if self._long >= MAX_LONG:
            self._overdue[call] = None
            return
        self._long += 1
        call.is_long = True
        self._release()

    def end(self, call: _UnderWay) -> None:
        """Note the end of a call."""
        self._overdue.pop(call, None)
        if not call.is_long:
            self._release()
            return
        self._long -= 1
        if self._overdue:
            following = next(iter(self._overdue))
            del self._overdue[following]
            self.outlast(following)


class Slots:
    """The slots of all nodes, ``number`` at each of them."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._nodes: dict[tuple[str, int], _Node] = {}

    @contextlib.asynccontextmanager
    async def slot(self, target: targets.Target) -> AsyncGenerator[None, None]:
        """Wait for a slot of a node, then run the block; after ``LONG_SECONDS`` the block keeps the slot no longer."""
        node = self._nodes.setdefault((target.address, target.port), _Node(self._number))
        await node.enter()
        call = _UnderWay()
        timer = asyncio.get_running_loop().call_later(LONG_SECONDS, node.outlast, call)
        try:
            yield
        finally:
            timer.cancel()
            node.end(call)
