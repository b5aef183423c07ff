"""The address engine: reserving and releasing, however full a pool is."""

import time
from collections.abc import Callable, Iterable

from benchmarks.figure import Figure
from gantry.address import ranges, reservations

PAIRS = 20_000
ROUNDS = 5


def _pool(size: int, used: float) -> reservations.Reservations:
    pool = reservations.Reservations([ranges.Range(0, size - 1)])
    step = max(1, round(1 / used)) if used else 0
    wanted = int(size * used)
    if used >= 0.5:
        numbers: Iterable[int] = range(wanted)
    else:
        numbers = range(0, wanted * step, step) if step else ()
    for number in numbers:
        pool.reserve_one(number, f"o{number}", now=0.0)
    return pool


def _pairs(pool: reservations.Reservations) -> float:
    start = time.perf_counter()
    for _ in range(PAIRS):
        number = pool.reserve_any("bench", "key", now=0.0)
        pool.release(number, now=0.0)
    return PAIRS / (time.perf_counter() - start)


def reserve_and_release() -> Iterable[Figure]:
    for name, used in (("empty", 0.0), ("half full", 0.5), ("99.9 % full", 0.999)):
        pool = _pool(1 << 16, used)
        yield Figure(
            f"addresses: reserve and release on a /16, {name}", "pairs/s", [_pairs(pool) for _ in range(ROUNDS)]
        )


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"addresses": reserve_and_release}
