"""Neutron's reference driver and ours under Neutron's driver interface, side by side on one PostgreSQL.

Each allocates in processes of Neutron's environment, in transactions of Neutron's database, from a /16 at several
fills; the subnet is made by a neutron-server, the fill is written straight into the tables.
"""

import json
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypedDict

from tests import postgres
from tests.neutron import server

from benchmarks.figure import Figure
from benchmarks.ipam import FILLS, HOSTS
from gantry.ipam.sql import checks, driver, engines, records

WORKERS = 8
PEER = "Neutron's reference driver"
OURS = "ours in Neutron"


class Report(TypedDict):
    """The figures that one process of the benchmark reports."""

    ms: list[float]
    addresses: list[str]
    end: float
    statements: float


class FilledNeutron:
    """A Neutron with one subnet, and how full that is."""

    def __init__(self, database: postgres.Server, neutron: server.Neutron, subnet: str) -> None:
        self._database = database
        self._neutron = neutron
        self._subnet = subnet

    def fill(self, used: float) -> None:
        """Use this part of the subnet, in no order."""
        if self._neutron.own:
            ours = driver.Driver(engines.open_database(self._neutron.own), below=random.randrange)
            taken = ours.allocate_many(self._subnet, HOSTS - 1) if used else []
            surplus = random.Random(1).sample(taken, int(len(taken) * (1 - used)))
            ours.repair(
                checks.Difference(surplus=tuple(records.Allocation(self._subnet, address) for address in surplus))
            )
            return
        self._database.run(
            self._neutron.database.rpartition("/")[2],
            "SELECT setseed(0.5); INSERT INTO ipamallocations (ip_address, status, ipam_subnet_id)"
            " SELECT host(inet '10.0.0.0' + n), 'ALLOCATED', ipamsubnets.id"
            " FROM ipamsubnets, generate_series(2, 65534) n"
            f" WHERE neutron_subnet_id = '{self._subnet}' AND random() < {used}",
        )

    def allocate(self, count: int, *, workers: int = 1) -> list[Report]:
        """Return the reports of ``workers`` processes that begin together and allocate ``count`` addresses each."""
        # Loading Neutron takes seconds of a processor, and all have to be done with it when they begin.
        begin = str(time.time() + 8 + 3 * workers)
        words = [self._subnet, str(count), begin, *self._neutron.arguments]
        with ThreadPoolExecutor(workers) as pool:
            outputs = pool.map(
                lambda _: self._neutron.python("tests.neutron.inside.allocations", *words), range(workers)
            )
            answers: list[Report] = [json.loads(text.splitlines()[-1]) for text in outputs]
        addresses = [address for answer in answers for address in answer["addresses"]]
        assert len(set(addresses)) == workers * count, "an address was allocated twice"
        for answer in answers:
            answer["end"] -= float(begin)
        return answers


@contextmanager
def _filled_neutron(name: str) -> Iterator[FilledNeutron]:
    with postgres.running() as database:
        own = database.create("gantry") if name == OURS else ""
        neutrons = server.running(database.create("neutron"), own, driver="gantry" if own else "internal", workers=1)
        with neutrons as (neutron, client):
            yield FilledNeutron(database, neutron, client.network("10.0.0.0/16")[1])


def beside() -> Iterable[Figure]:
    for fill, used in FILLS.items():
        medians = {}
        for name in (PEER, OURS):
            with _filled_neutron(name) as neutron:
                neutron.fill(used)
                quick = name == OURS or not used
                (report,) = neutron.allocate(50 if quick else 5)
                medians[name] = statistics.median(report["ms"])
                yield Figure(f"ipam: {name}, any address, /16 {fill}", "ms", report["ms"])
                if name == PEER:
                    yield Figure(f"ipam: {name}, statements for each, /16 {fill}", "", [report["statements"]])
                each = 200 if name == OURS else 25 if quick else 3
                slowest = max(answer["end"] for answer in neutron.allocate(each, workers=WORKERS))
                yield Figure(f"ipam: {name}, {WORKERS} processes, /16 {fill}", "1/s", [WORKERS * each / slowest])
        yield Figure(f"ipam: how much quicker ours is, /16 {fill}", "times", [medians[PEER] / medians[OURS]])


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"ipam neutron": beside}
