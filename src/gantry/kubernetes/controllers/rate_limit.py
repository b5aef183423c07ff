"""Rate limit of requests, and back-off after failures, on the runtime's clock."""

import collections
from collections.abc import Hashable

from gantry.runtime import interface

FIRST_DELAY_SECONDS = 0.05
MAX_DELAY_SECONDS = 30.0
FREE_DECISIONS = 20
"""Decisions per key and minute without a delay; a claim needs four in its whole life."""


class RateLimit:
    """Token bucket: ``per_second`` requests, and up to ``burst`` at once after a pause."""

    def __init__(self, clock: interface.Clock, *, per_second: float, burst: int) -> None:
        self._clock = clock
        self._interval = 1 / per_second
        self._ahead = burst * self._interval
        self._next = clock.monotonic() - self._ahead

    async def take(self) -> float:
        """Wait until the next request may be sent; return the seconds waited."""
        now = self._clock.monotonic()
        self._next = max(self._next, now - self._ahead) + self._interval
        wait = max(0.0, self._next - now)
        if wait:
            await self._clock.sleep(wait)
        return wait

    def pause(self, seconds: float) -> None:
        """Let no request through for this time, because the server asked for it."""
        self._next = max(self._next, self._clock.monotonic() + seconds)


def back_off(random: interface.Randomness, failures: int) -> float:
    """Return the seconds to wait after this number of failures: exponential, minus up to half of it at random."""
    longest = min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * float(1 << min(failures, 20)))
    return longest * (1000 - random.below(500)) / 1000


class RequeueLimit:
    """Slows down a fight with another controller that undoes each decision: counts the decisions per key and minute."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self._runtime = runtime
        self._minute = 0
        self._turns: collections.Counter[Hashable] = collections.Counter()

    def delay(self, key: Hashable) -> float:
        """Count a decision; return the seconds to delay the key, 0 up to ``FREE_DECISIONS`` decisions."""
        minute = int(self._runtime.clock.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._turns = minute, collections.Counter()
        self._turns[key] += 1
        beyond = self._turns[key] - FREE_DECISIONS
        return back_off(self._runtime.random, beyond) if beyond > 0 else 0.0
