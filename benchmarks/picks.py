"""The pick of an address for a claim, at 100 to 60,000 in use, in a /16 and an IPv6 /64, in order and at random."""

import ipaddress
import statistics
import time
from collections.abc import Callable, Iterable

from benchmarks.figure import Figure
from gantry.kubernetes.api import ipam, meta
from gantry.kubernetes.claims import allocate, cache, pool_space
from gantry.runtime import real

PICKS = 500
ROUNDS = 15
FLAT = 1.5
USED = (100, 1_000, 10_000, 60_000)
SUBNETS = {"IPv4 /16": "10.1.0.0/16", "IPv6 /64": "2001:db8::/64"}


def _claim(number: int) -> ipam.IPClaim:
    metadata = meta.ObjectMeta(name=f"claim-{number}", namespace="default", uid=str(number))
    spec = ipam.ClaimSpec(pool=meta.ObjectReference(name="pool"))
    return ipam.IPClaim(api_version=ipam.API_VERSION, kind="IPClaim", metadata=metadata, spec=spec)


def _index(subnet: str, strategy: str, *, used: int) -> cache.Cache:
    """Return an index with one pool, of which the first addresses are in use."""
    spec = ipam.PoolSpec(name_prefix="p", pools=(ipam.Range(subnet=subnet),), allocation_strategy=strategy)
    metadata = meta.ObjectMeta(name="pool", namespace="default", uid="pool")
    pool = ipam.IPPool(api_version=ipam.API_VERSION, kind="IPPool", metadata=metadata, spec=spec)
    seen = cache.Cache()
    seen.put(pool)
    network = ipaddress.ip_network(subnet)
    for number in range(1, used + 1):
        address = str(network[number])
        seen.put(
            ipam.IPAddress(
                api_version=ipam.API_VERSION,
                kind="IPAddress",
                metadata=meta.ObjectMeta(name=f"p-{number}", namespace="default", uid=f"p-{number}"),
                spec=ipam.AddressSpec(
                    address=address,
                    pool=meta.ObjectReference(name="pool", namespace="default"),
                    claim=meta.ObjectReference(name=f"claim-{number}", namespace="default"),
                ),
            )
        )
    return seen


def _microseconds(seen: cache.Cache, below: Callable[[int], int]) -> float:
    """Return the processor time of one pick."""
    claims = [_claim(10**6 + number) for number in range(PICKS)]
    start = time.thread_time()
    allocations = [allocate.pick(seen, claim, below=below) for claim in claims]
    seconds = time.thread_time() - start
    assert all(isinstance(each, pool_space.Allocation) for each in allocations)
    return seconds / PICKS * 1e6


def flatness() -> Iterable[Figure]:
    below = real.RealRuntime().random.below
    for strategy in ("", ipam.RANDOM):
        for name, subnet in SUBNETS.items():
            seen = {used: _index(subnet, strategy, used=used) for used in USED}
            times: dict[int, list[float]] = {used: [] for used in USED}
            for _ in range(ROUNDS):
                for used, index in seen.items():
                    times[used].append(_microseconds(index, below))
            what = f"pick: {name}, {strategy or 'in order'}"
            for used, samples in times.items():
                yield Figure(f"{what}, {used} in use", "us", samples)
            medians = [statistics.median(samples) for samples in times.values()]
            yield Figure(f"{what}: slowest to fastest", "ratio", [max(medians) / min(medians)], FLAT)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"pick": flatness}
