"""The pick of an address for a claim, at 100 to 60,000 in use, in a /16 and an IPv6 /64, in order and at random.

After each pick its address is put in use and another one is removed, in no order and outside the time that is measured:
the next free address has to be found each time.
"""

import ipaddress
import random
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
        seen.put(_address(str(network[number])))
    return seen


def _address(address: str) -> ipam.IPAddress:
    name = f"p-{address}"
    return ipam.IPAddress(
        api_version=ipam.API_VERSION,
        kind="IPAddress",
        metadata=meta.ObjectMeta(name=name, namespace="default", uid=name),
        spec=ipam.AddressSpec(
            address=address,
            pool=meta.ObjectReference(name="pool", namespace="default"),
            claim=meta.ObjectReference(name=f"claim-{address}", namespace="default"),
        ),
    )


def _microseconds(seen: cache.Cache, below: Callable[[int], int], in_use: list[str]) -> float:
    """Return the processor time of one pick."""
    seconds = 0.0
    for turn in range(PICKS):
        claim, position = _claim(10**6 + turn), turn % len(in_use)
        seen.remove(_address(in_use[position]).ref)
        start = time.thread_time()
        allocation = allocate.pick(seen, claim, below=below)
        seconds += time.thread_time() - start
        assert isinstance(allocation, pool_space.Allocation)
        in_use[position] = str(allocation.address)
        seen.put(_address(in_use[position]))
    return seconds / PICKS * 1e6


def flatness() -> Iterable[Figure]:
    below = real.RealRuntime().random.below
    for strategy in ("", ipam.RANDOM):
        for name, subnet in SUBNETS.items():
            seen = {used: _index(subnet, strategy, used=used) for used in USED}
            network = ipaddress.ip_network(subnet)
            chance = random.Random(1)
            some = {used: chance.sample(range(1, used + 1), min(used, PICKS)) for used in USED}
            in_use = {used: [str(network[number]) for number in numbers] for used, numbers in some.items()}
            times: dict[int, list[float]] = {used: [] for used in USED}
            for _ in range(ROUNDS):
                for used, index in seen.items():
                    times[used].append(_microseconds(index, below, in_use[used]))
            what = f"pick: {name}, {strategy or 'in order'}"
            for used, samples in times.items():
                yield Figure(f"{what}, {used} in use", "us", samples)
            medians = [statistics.median(samples) for samples in times.values()]
            yield Figure(f"{what}: slowest to fastest", "ratio", [max(medians) / min(medians)], FLAT)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"pick": flatness}
