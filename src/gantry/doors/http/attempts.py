"""Attempts to log in with a password that is not known to be right: how many are checked, in which order.

Attempts are counted for each user and peer together (``runtime.limits``), so nobody is locked out by the wrong
passwords of another machine. Of one user and peer, ``BURST`` attempts are checked at once, then ``PER_SECOND``. The
newest waits least, so that the user's own attempt passes the queue of an attacker on the same machine; of more than
``WAITING`` the oldest is refused. Equal attempts share one check. A right password costs nothing of the number.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gantry.runtime import interface

BURST = 100
PER_SECOND = 5.0
WAITING = 32
WAITING_IN_ALL = 64
"""Attempts of all users and peers that wait; of more, the oldest of the longest queue is refused."""
MIN_WAIT_SECONDS = 0.001
"""Shorter waits may not advance a clock whose numbers are large."""
CONCURRENT_CHECKS = 2
"""Checks at a time for all users and peers: they use the processor."""
QUEUES = 1000
"""From this number on, queues without waiting attempts are removed when they count for nothing any more."""

Key = tuple[str, str]
"""A user's name, empty for all names without a user, and a peer."""


@dataclass(eq=False)
class _Attempt:
    """A password to be checked; the result is None for an attempt that is refused."""

    key: tuple[Key, bytes]
    verify: Callable[[], Awaitable[bool]]
    result: asyncio.Future[bool | None]


@dataclass
class _Queue:
    """The attempts of a user and peer that wait, the newest last, and how many may be checked at once."""

    allowance: float
    since: float
    waiting: list[_Attempt] = field(default_factory=list)
    worker: asyncio.Task[None] | None = None

    def refill(self, now: float) -> None:
        """Add what the time has brought since the last call."""
        self.allowance = min(BURST, self.allowance + (now - self.since) * PER_SECOND)
        self.since = now


class Attempts:
    """The attempts of all users and peers."""

    def __init__(self, clock: interface.Clock) -> None:
        self._clock = clock
        self._queues: dict[Key, _Queue] = {}
        self._shared: dict[tuple[Key, bytes], _Attempt] = {}
        self._slots = asyncio.Semaphore(CONCURRENT_CHECKS)

    async def check(self, key: Key, digest: bytes, verify: Callable[[], Awaitable[bool]]) -> bool | None:
        """Return what ``verify`` returns for the password with this digest; None if too many attempts wait."""
        attempt = self._shared.get((key, digest))
        if attempt is None:
            attempt = _Attempt((key, digest), verify, asyncio.get_running_loop().create_future())
            self._shared[attempt.key] = attempt
            self._add(key, attempt)
        return await asyncio.shield(attempt.result)

    def _add(self, key: Key, attempt: _Attempt) -> None:
        queue = self._queue(key)
        queue.waiting.append(attempt)
        if len(queue.waiting) > WAITING:
            self._end(queue.waiting.pop(0), None)
        if sum(len(each.waiting) for each in self._queues.values()) > WAITING_IN_ALL:
            longest = max(self._queues.values(), key=lambda each: len(each.waiting))
            self._end(longest.waiting.pop(0), None)
        if queue.worker is None:
            queue.worker = asyncio.ensure_future(self._serve(queue))

    def _queue(self, key: Key) -> _Queue:
        now = self._clock.monotonic()
        if key not in self._queues:
            if len(self._queues) >= QUEUES:
                self._forget(now)
            self._queues[key] = _Queue(BURST, now)
        return self._queues[key]

    def _forget(self, now: float) -> None:
        for key, queue in list(self._queues.items()):
            queue.refill(now)
            if queue.worker is None and queue.allowance >= BURST:
                del self._queues[key]

    async def _serve(self, queue: _Queue) -> None:
        """Check the waiting attempts, the newest first."""
        try:
            while queue.waiting:
                queue.refill(self._clock.monotonic())
                if queue.allowance < 1:
                    await self._clock.sleep(max(MIN_WAIT_SECONDS, (1 - queue.allowance) / PER_SECOND))
                    continue
                async with self._slots:
                    if not queue.waiting:  # refused meanwhile
                        break
                    attempt = queue.waiting.pop()
                    queue.allowance -= 1
                    is_right = False
                    try:
                        is_right = await attempt.verify()
                    finally:
                        self._end(attempt, is_right)
                if is_right:
                    queue.allowance += 1
        finally:
            queue.worker = None

    def _end(self, attempt: _Attempt, result: bool | None) -> None:
        del self._shared[attempt.key]
        if not attempt.result.done():
            attempt.result.set_result(result)
