"""The next free segmentation id, out of all that VXLAN has, however many are used; memory is not counted here.

Before each pick another id in use is released, in no order: the next free one has to be found each time.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterable

from benchmarks.figure import Figure
from gantry.address import ranges, segments

PICKS = 500
ROUNDS = 15
FILLS = (0.0, 0.5, 0.9, 0.999)
WHOLE = segments.LIMITS["vxlan"]
STRIPES = 1 << 14
LIMIT = 1.0
"""Milliseconds."""


def _scope_ids(used: float, *, stripes: int) -> segments.ScopeIds:
    """Return the ids of a scope with one shared range over all ids, that part of which is used, in equal stripes."""
    scope = segments.ScopeIds("vxlan")
    size = WHOLE.size // stripes
    for index in range(stripes if used else 0):
        first = WHOLE.first + index * size
        scope.used.allocate_range(ranges.Range(first, first + max(1, int(size * used)) - 1))
    scope.add(segments.Claim(WHOLE))
    return scope


def _some_used(used: float, *, stripes: int) -> list[int]:
    """Return ids that ``_scope_ids`` has in use, in no order; none if none is."""
    chance, size = random.Random(1), WHOLE.size // stripes
    length = max(1, int(size * used))
    ids = {WHOLE.first + chance.randrange(stripes) * size + chance.randrange(length) for _ in range(PICKS)}
    return chance.sample(sorted(ids), len(ids)) if used else []


def _picks(scope: segments.ScopeIds, used: list[int]) -> float:
    """Return the milliseconds of processor time of one pick: an id is released, the next free one found and taken."""
    seconds = 0.0
    for turn in range(PICKS):
        start = time.thread_time()
        if len(used) > turn:
            scope.release(used[turn])
        number = scope.next_free(segments.SHARED)
        assert number is not None
        scope.allocate(number)
        seconds += time.thread_time() - start
        if len(used) > turn:
            used[turn] = number
        else:
            used.append(number)
    return seconds / PICKS * 1000


def next_free() -> Iterable[Figure]:
    for name, stripes in (("in one piece", 1), ("scattered", STRIPES)):
        scopes = {used: _scope_ids(used, stripes=stripes) for used in FILLS}
        in_use = {used: _some_used(used, stripes=stripes) for used in FILLS}
        times: dict[float, list[float]] = {used: [] for used in FILLS}
        for _ in range(ROUNDS):
            for used, scope in scopes.items():
                times[used].append(_picks(scope, in_use[used]))
        for used, samples in times.items():
            yield Figure(f"segments: next free id of 16,777,215, {used:.1%} used, {name}", "ms", samples, LIMIT)
        medians = [statistics.median(samples) for samples in times.values()]
        yield Figure(f"segments: slowest to fastest, {name}", "ratio", [max(medians) / min(medians)])


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"segments": next_free}
