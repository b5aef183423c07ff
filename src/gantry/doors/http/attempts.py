"""Attempts to log in with a password that is not known to be right: how many are checked, in which order.

Attempts are counted for each user and peer together (``runtime.limits``), so nobody is locked out by the wrong
passwords of another machine. Of one user and peer, ``BURST`` attempts are checked at once, then ``PER_SECOND``. Equal
attempts share one check. A right password costs nothing of the number.

A check may take half a second of a processor, so few are made at a time, and the order is fair:

1. Peers without a wrong password lately come first, then other users of the peers that had one (``Standing``). Those
   who guess may use all slots but one, so that an attempt of anybody else begins at once.
2. Then it is the turn of the user whose last check is longest ago, and of that user's peer whose last check is.
3. Of one user and peer, the newest attempt is checked first, one at a time.

A flood thus delays its own user and peer only. The attempts that wait are bounded too: what is refused is the oldest of
the user and peer with most of them, and among equals of the one whose turn comes last.
"""

import asyncio
import enum
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from gantry.runtime import interface

BURST = 100
PER_SECOND = 5.0
WAITING = 32
"""Attempts of one user and peer that wait once their burst is used up; until then, as many as the burst allows."""
WAITING_IN_ALL = 128
"""Attempts of all users and peers that wait: fewer than a server's requests, so that others have room."""
MIN_WAIT_SECONDS = 0.001
"""Shorter waits may not advance a clock whose numbers are large."""
CONCURRENT_CHECKS = 2
"""Checks at a time for all users and peers: they use the processor."""
GUESSED_SECONDS = 60.0
"""For that long after a wrong password, its peer has a lower standing."""
QUEUES = 1000
"""From this number on, what is known of users and peers is removed when it counts for nothing any more."""

Key = tuple[str, str]
"""A user's name, empty for all names without a user, and a peer."""


class Standing(enum.IntEnum):
    """The order of users and peers by their wrong passwords in the last ``GUESSED_SECONDS``."""

    NO_WRONG_PASSWORD = 0
    WRONG_FOR_OTHER_USERS = 1
    WRONG = 2


@dataclass(eq=False)
class _Attempt:
    """A password to be checked; the result is None for an attempt that is refused."""

    key: tuple[Key, bytes]
    verify: Callable[[], Coroutine[object, object, bool]]
    result: asyncio.Future[bool | None]


@dataclass(eq=False)
class _Queue:
    """The attempts of a user and peer that wait, the newest last, and how many may be checked at once.

    ``since`` is the time of the allowance; the other times are those of the last check and of the last wrong password.
    """

    key: Key
    allowance: float
    since: float
    waiting: list[_Attempt] = field(default_factory=list)
    is_checking: bool = False
    last_check: float = -math.inf
    last_wrong: float = -math.inf

    def refill(self, now: float) -> None:
        """Add what the time has brought since the last call."""
        self.allowance = min(BURST, self.allowance + (now - self.since) * PER_SECOND)
        self.since = now


class Attempts:
    """The attempts of all users and peers."""

    def __init__(self, clock: interface.Clock) -> None:
        self._clock = clock
        self._queues: dict[Key, _Queue] = {}
        self._waiting: dict[Key, _Queue] = {}
        self._shared: dict[tuple[Key, bytes], _Attempt] = {}
        self._checked_users: dict[str, float] = {}
        self._guessing_peers: dict[str, float] = {}
        self._checks: set[asyncio.Task[bool]] = set()
        self._refill: asyncio.Task[None] | None = None

    async def check(
        self, key: Key, digest: bytes, verify: Callable[[], Coroutine[object, object, bool]]
    ) -> bool | None:
        """Return what ``verify`` returns for the password with this digest; None if too many attempts wait."""
        attempt = self._shared.get((key, digest))
        if attempt is None:
            attempt = _Attempt((key, digest), verify, asyncio.get_running_loop().create_future())
            self._shared[attempt.key] = attempt
            self._add(self._queue(key), attempt)
        return await asyncio.shield(attempt.result)

    def _add(self, queue: _Queue, attempt: _Attempt) -> None:
        queue.waiting.append(attempt)
        self._waiting[queue.key] = queue
        self._begin_checks()
        queue.refill(self._clock.monotonic())
        if len(queue.waiting) > max(WAITING, queue.allowance):
            self._refuse_oldest(queue)
        if sum(len(each.waiting) for each in self._waiting.values()) > WAITING_IN_ALL:
            now = self._clock.monotonic()
            self._refuse_oldest(
                max(self._waiting.values(), key=lambda each: (len(each.waiting), self._turn(each, now)))
            )

    def _queue(self, key: Key) -> _Queue:
        now = self._clock.monotonic()
        if key not in self._queues:
            if len(self._queues) >= QUEUES:
                self._forget(now)
            self._queues[key] = _Queue(key, BURST, now)
        return self._queues[key]

    def _forget(self, now: float) -> None:
        for key, queue in list(self._queues.items()):
            queue.refill(now)
            is_idle = not queue.waiting and not queue.is_checking
            if is_idle and queue.allowance >= BURST and not _is_recent(queue.last_wrong, now):
                del self._queues[key]
        for times in (self._checked_users, self._guessing_peers):
            for name in [name for name, time in times.items() if not _is_recent(time, now)]:
                del times[name]

    def _standing(self, queue: _Queue, now: float) -> Standing:
        if _is_recent(queue.last_wrong, now):
            return Standing.WRONG
        has_guessed = _is_recent(self._guessing_peers.get(queue.key[1], -math.inf), now)
        return Standing.WRONG_FOR_OTHER_USERS if has_guessed else Standing.NO_WRONG_PASSWORD

    def _turn(self, queue: _Queue, now: float) -> tuple[Standing, float, float]:
        """Return the place of a user and peer in the order of checks: the smallest is next."""
        last_check = self._checked_users.get(queue.key[0], -math.inf)
        return self._standing(queue, now), last_check, queue.last_check

    def _begin_checks(self) -> None:
        """Begin as many checks as there are slots; if all that wait have used up their burst, continue later."""
        now = self._clock.monotonic()
        for queue in self._waiting.values():
            queue.refill(now)
        while len(self._checks) < CONCURRENT_CHECKS:
            idle = [queue for queue in self._waiting.values() if not queue.is_checking]
            ready = [queue for queue in idle if queue.allowance >= 1]
            if not ready:
                if idle and self._refill is None:
                    seconds = (1 - max(queue.allowance for queue in idle)) / PER_SECOND
                    self._refill = asyncio.ensure_future(self._go_on(max(MIN_WAIT_SECONDS, seconds)))
                break
            queue = min(ready, key=lambda each: self._turn(each, now))
            is_last_slot = len(self._checks) == CONCURRENT_CHECKS - 1
            if is_last_slot and self._standing(queue, now) is Standing.WRONG:
                break
            self._begin_check(queue, now)

    async def _go_on(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._refill = None
        self._begin_checks()

    def _begin_check(self, queue: _Queue, now: float) -> None:
        attempt = self._take(queue, -1)
        queue.allowance -= 1
        queue.is_checking = True
        queue.last_check = self._checked_users[queue.key[0]] = now
        task = asyncio.ensure_future(attempt.verify())
        self._checks.add(task)

        def end(ended: asyncio.Task[bool]) -> None:
            self._checks.discard(ended)
            queue.is_checking = False
            if ended.cancelled():
                self._end(attempt, False)
                return
            error = ended.exception()
            if error:  # for those who asked; the others continue
                attempt.result.set_exception(error)
            elif ended.result():
                queue.allowance += 1
            else:
                queue.last_wrong = self._guessing_peers[queue.key[1]] = self._clock.monotonic()
            self._end(attempt, error is None and ended.result())
            self._begin_checks()

        task.add_done_callback(end)

    def _refuse_oldest(self, queue: _Queue) -> None:
        self._end(self._take(queue, 0), None)

    def _take(self, queue: _Queue, index: int) -> _Attempt:
        """Remove an attempt from those that wait."""
        attempt = queue.waiting.pop(index)
        if not queue.waiting:
            del self._waiting[queue.key]
        return attempt

    def _end(self, attempt: _Attempt, result: bool | None) -> None:
        del self._shared[attempt.key]
        if not attempt.result.done():
            attempt.result.set_result(result)


def _is_recent(time: float, now: float) -> bool:
    return now - time < GUESSED_SECONDS
