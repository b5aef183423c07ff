"""Equal calls of queries that wait for their turn at a node are made once: they share the answer.

A hundred open pages ask the same of a node when something has changed. A query is answered by a call that began after
it, never by one that is under way already: it would show the node as it was before.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar, cast

import msgspec

from gantry.rpc import calls, targets

Result = TypeVar("Result")

_Key = tuple[targets.Target, str, bytes]


class _Turn:
    """A call that waits for its turn or is under way, and how many wait for its answer."""

    def __init__(self, task: asyncio.Task[object]) -> None:
        self.task = task
        self.waiting = 0


class SharedTurns:
    """Makes the calls: ``turn`` is the block in which a call to a node is made, as ``call_queue.Slots.slot``."""

    def __init__(self, turn: Callable[[targets.Target], AbstractAsyncContextManager[None]]) -> None:
        self._turn = turn
        self._queued: dict[_Key, _Turn] = {}

    async def call(
        self,
        target: targets.Target,
        call: calls.Call[Result],
        make: Callable[[targets.Target, calls.Call[Result]], Awaitable[Result]],
    ) -> Result:
        """Make a call when its turn comes, or wait for an equal one whose turn has not come; its errors are raised."""
        key = target, call.procedure(), msgspec.msgpack.encode(call)
        turn = self._queued.get(key)
        if turn is None:
            turn = self._queued[key] = _Turn(asyncio.create_task(self._take(key, target, call, make)))
        turn.waiting += 1
        try:
            return cast("Result", await asyncio.shield(turn.task))
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                turn.task.cancel()
                if self._queued.get(key) is turn:  # its turn has not come
                    del self._queued[key]

    async def _take(
        self,
        key: _Key,
        target: targets.Target,
        call: calls.Call[Result],
        make: Callable[[targets.Target, calls.Call[Result]], Awaitable[Result]],
    ) -> object:
        async with self._turn(target):
            del self._queued[key]
            return await make(target, call)
