"""The address engine: speed at any size and fill of a space, memory use, loading.

All rates are per second of the thread's processor time, so that other work on the machine counts little. Pools that fit
into memory together are measured in turn, a short round each. Larger pools are measured in turn with a reference pool,
and their rates are scaled by the reference's rate meanwhile. Owners are UUIDs, one for each number, as in the product;
a hundred other owners allocate in turn. Before each allocation another number of the pool is released, in no order: the
next free number has to be found each time. The largest pool takes about 5 GB.
"""

import gc
import itertools
import random
import statistics
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from benchmarks.figure import Figure
from gantry.address import policies, ranges, reservations, stored

PAIRS = 5_000
ROUNDS = 15
FILLS = (0.01, 0.5, 0.9, 0.999)
MILLION = 1_000_000
NET6 = ranges.parse_cidr("2001:db8::/64").range
# Odd, so that multiplying by it modulo a power of two is a permutation that scatters.
SCATTER = 0x9E3779B97F4A7C15
SCATTER_OWNERS = 0x9E3779B97F4A7C15F39CC0605CEDC835

Pool = reservations.Reservations


def _uuids(first: int, *, count: int) -> list[str]:
    """Return owners: texts of 36 characters, distinct from those of other numbers, in no order."""
    return [str(uuid.UUID(int=number * SCATTER_OWNERS & (1 << 128) - 1)) for number in range(first, first + count)]


ASKERS = _uuids(1 << 32, count=100)
KEYS = itertools.count()
"""A request with a new key is a new one; repeated, it would get the same number."""


def _pool(whole: ranges.Range, numbers: list[int], *, names: list[str] | None = None) -> Pool:
    """Return a pool in which these numbers are reserved, each by its own owner."""
    pool = reservations.Reservations([whole])
    owners = names or _uuids(1, count=len(numbers))
    pool.adopt_all(numbers, owners, keys=[""] * len(numbers), times=[1.0] * len(numbers))
    return pool


def _scattered(bits: int, used: float) -> list[int]:
    mask, count = (1 << bits) - 1, int(used * (1 << bits))
    return [number for number in range(1 << bits) if number * SCATTER & mask < count]


@dataclass
class Sample:
    """A pool, and up to ``PAIRS`` of the numbers in use, in no order."""

    pool: Pool
    used: list[int]

    def pairs(self, policy: policies.Policy) -> float:
        """Return how many pairs a second release one of the used numbers and reserve another in its place."""
        used, pool = self.used, self.pool
        start = time.thread_time()
        for position, owner in zip(itertools.islice(itertools.cycle(range(len(used))), PAIRS), itertools.cycle(ASKERS)):
            pool.release(used[position], now=2.0)
            used[position] = pool.reserve_any(owner, str(next(KEYS)), now=3.0, policy=policy)
        return PAIRS / (time.thread_time() - start)


def _sample(whole: ranges.Range, numbers: list[int], *, names: list[str] | None = None) -> Sample:
    """Return a pool with these numbers in use; with none, one is reserved."""
    pool = _pool(whole, numbers or [whole.first], names=names)
    return Sample(pool, random.Random(1).sample(numbers, min(PAIRS, len(numbers))) or [whole.first])


def _in_turn(pools: Mapping[str, Sample], policy: policies.Policy = policies.FIRST) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in pools}
    gc.collect()
    for _ in range(ROUNDS):
        for name, pool in pools.items():
            rates[name].append(pool.pairs(policy))
    return rates


def slash_16() -> Iterable[Figure]:
    whole = ranges.sized(10 << 24, 1 << 16)
    pools = {
        name: _sample(whole, list(range(whole.first, whole.first + used)))
        for name, used in (("empty", 0), ("half full", 1 << 15))
    }
    for name, rates in _in_turn(pools).items():
        yield Figure(f"addresses: reserve and release on a /16, {name}", "pairs/s", rates, 200_000, at_least=True)


def _small_pools() -> dict[str, Sample]:
    pools = {
        f"2^{bits}, {used:.1%} full": _sample(ranges.sized(0, 1 << bits), _scattered(bits, used))
        for bits in (8, 16)
        for used in FILLS
    }
    pools["/64, a million in a row"] = _sample(NET6, list(range(NET6.first, NET6.first + MILLION)))
    pools["/64, a million scattered"] = _sample(NET6, _scattered_in_64())
    return pools


def _scattered_in_64() -> list[int]:
    return sorted(NET6.first + (number * SCATTER & NET6.size - 1) for number in range(1, MILLION + 1))


def _large_pools() -> Iterator[tuple[str, Sample]]:
    """Yield pools of 2^24 numbers, one at a time."""
    bits = 24
    names = _uuids(1, count=1 << bits)
    for used in FILLS:
        numbers = _scattered(bits, used)
        yield (
            f"2^{bits}, {used:.1%} full",
            _sample(ranges.sized(0, 1 << bits), numbers, names=list(map(names.__getitem__, numbers))),
        )


def flatness() -> Iterable[Figure]:
    policy = policies.random(random.Random(1).randrange)
    pools = _small_pools()
    first, anywhere = _in_turn(pools), _in_turn(pools, policy)
    reference = pools[f"2^16, {FILLS[0]:.1%} full"]
    pools.clear()
    gc.disable()
    for name, pool in _large_pools():
        first[name] = _scaled(pool, reference, first[f"2^16, {FILLS[0]:.1%} full"], policy=policies.FIRST)
        anywhere[name] = _scaled(pool, reference, anywhere[f"2^16, {FILLS[0]:.1%} full"], policy=policy)
        del pool
    gc.enable()
    for name, rates in first.items():
        yield Figure(f"addresses: reserve the first and release, {name}", "pairs/s", rates)
    medians = [statistics.median(rates) for rates in first.values()]
    yield Figure(
        "addresses: the slowest of these against the fastest", "ratio", [min(medians) / max(medians)], 0.8, True
    )
    for bits in (8, 16, 24):
        empty, full = (statistics.median(anywhere[f"2^{bits}, {used:.1%} full"]) for used in (FILLS[0], FILLS[-1]))
        name = f"addresses: a random one of 2^{bits}, time at 99.9 % against 1 %"
        yield Figure(name, "ratio", [empty / full], 2)


def _scaled(pool: Sample, reference: Sample, usual: list[float], *, policy: policies.Policy) -> list[float]:
    """Return the pool's rates, scaled by what the reference does in the same rounds against its usual rate."""
    rates = _in_turn({"pool": pool, "reference": reference}, policy)
    level = statistics.median(usual)
    return [rate / other * level for rate, other in zip(rates["pool"], rates["reference"], strict=True)]


def any_size() -> Iterable[Figure]:
    wholes = [ranges.sized(1 << 100, 1 << bits) for bits in (2, 8, 16, 24, 64, 100)]
    for name, work in (
        ("create", lambda whole, pool: reservations.Reservations([whole])),
        ("grow", lambda whole, pool: pool.grow(ranges.sized(whole.last + 1, whole.size))),
        ("split", lambda whole, pool: pool.split(whole.first + whole.size // 2)),
    ):
        slowest = max(wholes, key=lambda whole: statistics.median(_times(whole, work)))
        yield Figure(f"addresses: {name} a pool, the slowest of six sizes", "ms", _times(slowest, work), 1)
    sizes = []
    for whole in wholes:
        tracemalloc.start()
        pool = reservations.Reservations([whole])
        sizes.append(float(tracemalloc.get_traced_memory()[0]))
        tracemalloc.stop()
        del pool
    yield Figure("addresses: an empty pool of any size", "bytes", sizes, 4096)


def _times(whole: ranges.Range, work: Callable[[ranges.Range, Pool], object]) -> list[float]:
    samples = []
    for _ in range(200):
        pool = reservations.Reservations([whole])
        start = time.thread_time()
        work(whole, pool)
        samples.append((time.thread_time() - start) * 1e3)
    return samples


def a_million() -> Iterable[Figure]:
    whole = ranges.sized(10 << 24, 1 << 24)
    shapes = {
        "of a /8 in a row": (whole, list(range(whole.first, whole.first + MILLION))),
        "of a /64 in a row": (NET6, list(range(NET6.first, NET6.first + MILLION))),
        "of a /64, scattered": (NET6, _scattered_in_64()),
    }
    for name, (part, numbers) in shapes.items():
        data = msgspec.json.encode(stored.dump(_pool(part, numbers)))
        numbers.clear()
        yield Figure(
            f"addresses: load a million, a UUID for each, {name}", "s", [_load_time(data) for _ in range(3)], 2
        )
        yield Figure(f"addresses: memory of each with its owner, a UUID, {name}", "bytes", [_memory(data)], 200)


def _load_time(data: bytes) -> float:
    gc.collect()
    start = time.thread_time()
    stored.load(msgspec.json.decode(data, type=stored.Stored))
    return time.thread_time() - start


def _memory(data: bytes) -> float:
    tracemalloc.start()
    pool = stored.load(msgspec.json.decode(data, type=stored.Stored))
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / len(pool)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {
    "addresses-16": slash_16,
    "addresses-flat": flatness,
    "addresses-size": any_size,
    "addresses-million": a_million,
}
