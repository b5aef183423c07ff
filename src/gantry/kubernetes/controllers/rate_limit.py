"""Pace: how fast we ask a server, and how long we wait after a failure.

Who calls it: ``client`` before each request, and whoever tries something again. All waiting is on the runtime's clock.
"""

import collections
from collections.abc import Hashable

from gantry.runtime import interface

FIRST = 0.05
LONGEST = 30.0
TURNS = 20
"""How often something may be done for one key in a minute without a pause; a claim needs four for all of its life."""


class Limit:
    """Lets ``per_second`` requests through, and ``burst`` of them at once after a pause."""

    def __init__(self, clock: interface.Clock, *, per_second: float, burst: int) -> None:
        self._clock = clock
        self._interval = 1 / per_second
        self._ahead = burst * self._interval
        self._next = clock.monotonic() - self._ahead

    async def take(self) -> float:
        """Return when the next request may go; the seconds that it had to wait."""
        now = self._clock.monotonic()
        self._next = max(self._next, now - self._ahead) + self._interval
        wait = max(0.0, self._next - now)
        if wait:
            await self._clock.sleep(wait)
        return wait

    def hold(self, seconds: float) -> None:
        """Let nothing new through for so long: the server asked for patience."""
        self._next = max(self._next, self._clock.monotonic() + seconds)


def pause(random: interface.Randomness, failures: int) -> float:
    """Return how many seconds to wait after so many failures in a row: doubled each time, by chance up to half less."""
    longest = min(LONGEST, FIRST * float(1 << min(failures, 20)))
    return longest * (1000 - random.below(500)) / 1000


class Turns:
    """Counts what was done for each key within a minute: somebody who wants it otherwise may undo it each time."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self._runtime = runtime
        self._minute = 0
        self._turns: collections.Counter[Hashable] = collections.Counter()

    def rest(self, key: Hashable) -> float:
        """Count one more; return how many seconds to leave the key alone, 0 while it has had no more than ``TURNS``."""
        minute = int(self._runtime.clock.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._turns = minute, collections.Counter()
        self._turns[key] += 1
        beyond = self._turns[key] - TURNS
        return pause(self._runtime.random, beyond) if beyond > 0 else 0.0
