"""The SQL driver on PostgreSQL, durable: allocations from a /16 at several fills, alone, by eight processes, in bulk.

The server is one of the benchmark's own, as Debian configures it: a commit is on the disk when it is acknowledged. What
stands beside it on the same server comes as further functions here.
"""

import concurrent.futures
import multiprocessing
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier

from tests import postgres

from benchmarks import figure
from benchmarks.figure import Figure
from gantry.ipam.sql import checks, driver, engines, records, requests, schema

FILLS = {"empty": 0.0, "half full": 0.5, "95 % full": 0.95}
HOSTS = (1 << 16) - 2
WORKERS = 8
EACH = 250
ANY = requests.AnyAddress()
_everybody: Barrier


@contextmanager
def _database() -> Iterator[str]:
    with postgres.running() as server:
        url = server.create("ipam")
        schema.prepare(engines.open_database(url))
        yield url


def _open(url: str) -> driver.Driver:
    return driver.Driver(engines.open_database(url), below=random.randrange)


def _filled(url: str, used: float) -> driver.Driver:
    """Return a driver whose subnet ``s`` is a /16 with this part in use, in no order."""
    ipam = _open(url)
    ipam.add_subnet("s", cidr="10.0.0.0/16", pools=["10.0.0.0/16"])
    if used:
        taken = ipam.allocate_many("s", HOSTS)
        surplus = random.Random(1).sample(taken, int(HOSTS * (1 - used)))
        ipam.repair(checks.Difference(surplus=tuple(records.Allocation("s", address) for address in surplus)))
        ipam.allocate("s", ANY)
    return ipam


@dataclass(frozen=True)
class _Share:
    """What one of the workers did: times are seconds since the epoch."""

    addresses: list[str]
    lost: int
    begun: float
    ended: float


def _meet(everybody: Barrier) -> None:
    global _everybody
    _everybody = everybody


def _share(url: str) -> _Share:
    """Be one of the workers: allocate, from the moment on at which all are ready."""
    ipam = _open(url)
    ipam.subnet("s")
    _everybody.wait(timeout=60)
    begun = time.time()
    taken = [ipam.allocate("s", ANY) for _ in range(EACH)]
    return _Share(taken, ipam.lost_races, begun, time.time())


def _together(url: str, ipam: driver.Driver) -> Iterable[Figure]:
    context = multiprocessing.get_context("spawn")
    meeting = (context.Barrier(WORKERS),)
    rates, retries = [], []
    with concurrent.futures.ProcessPoolExecutor(WORKERS, context, initializer=_meet, initargs=meeting) as pool:
        for _ in range(3):
            shares = [future.result() for future in [pool.submit(_share, url) for _ in range(WORKERS)]]
            seconds = max(share.ended for share in shares) - min(share.begun for share in shares)
            rates.append(WORKERS * EACH / seconds)
            retries.append(100 * sum(share.lost for share in shares) / (WORKERS * EACH))
            taken = {address for share in shares for address in share.addresses}
            assert len(taken) == WORKERS * EACH, "an address was allocated twice"
            ipam.repair(checks.Difference(surplus=tuple(records.Allocation("s", address) for address in taken)))
            ipam.deallocate("s", ipam.allocate("s", ANY))
    yield Figure("", "1/s", rates, 1_500, at_least=True)
    yield Figure(" (races lost)", "%", retries, 5)


def allocate() -> Iterable[Figure]:
    for name, used in FILLS.items():
        with _database() as url:
            ipam = _filled(url, used)
            samples = figure.timed(lambda: ipam.allocate("s", ANY), rounds=200)  # noqa: B023
            yield Figure(f"ipam: any address, /16 {name}", "ms", samples, 3)
            for part in _together(url, ipam):
                yield Figure(
                    f"ipam: {WORKERS} processes, /16 {name}{part.name}",
                    part.unit,
                    part.samples,
                    part.limit,
                    part.at_least,
                )


def bulk() -> Iterable[Figure]:
    with _database() as url:
        ipam = _filled(url, 0)
        rates = [1000 / (sample / 1000) for sample in figure.timed(lambda: ipam.allocate_many("s", 1000), rounds=10)]
        yield Figure("ipam: 1,000 addresses in one transaction", "1/s", rates, 10_000, at_least=True)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"ipam any": allocate, "ipam bulk": bulk}
