"""A real master daemon, killed repeatedly under load: no acknowledged result is lost, and each recovery is short."""

import os
import random
import statistics
import time
from collections.abc import Callable

import pytest
from tests.cluster import lab
from tests.cluster.test_survival import Client

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not os.environ.get("GANTRY_LONG"), reason="takes minutes; make test-long runs it"),
]

KILLS = int(os.environ.get("GANTRY_KILLS", "200"))
RECOVERY = 2.0
"""Seconds from the start of the daemon to its first answer."""


def test_two_hundred_kills_lose_nothing_and_each_recovery_is_short(figure: Callable[[str], None]) -> None:
    with lab.lab() as cluster:
        cluster.init()
        cluster.run(
            "gnt-network", "add", "--subnet", "cidr=10.20.0.0/16", "--subnet", "cidr=2001:db8:20::/64",
            "--pool", "10.20.0.0/16", "--pool", "2001:db8:20::/112,name=wide6", "wide",
        )  # fmt: skip
        cluster.run("gnt-network", "connect", "-N", "mode=routed,link=main", "wide", "default")
        clients = [Client(cluster, f"c{number}") for number in range(4)]
        for client in clients:
            client.start()
        times = _kill_often(cluster, clients)
        for client in clients:
            client.ended.set()
        for client in clients:
            client.join(lab.TIMEOUT)
        times.append(_recovery(cluster))
        figure(f"{len(times)} recoveries: median {statistics.median(times):.2f} s, longest {max(times):.2f} s")
        _check(cluster, clients)
        assert max(times) < RECOVERY


def _kill_often(cluster: lab.Lab, clients: list[Client]) -> list[float]:
    chance = random.Random(11)
    times = []
    for number in range(1, KILLS):
        time.sleep(chance.choice((chance.uniform(0, 0.1), chance.uniform(0, 0.6))))
        times.append(_recovery(cluster))
        if number % 20 == 0:
            # keep the queue from filling up, and check that archiving loses nothing
            cluster.run("gnt-job", "autoarchive", "all")
            _check(cluster, clients)
    return times


def _recovery(cluster: lab.Lab) -> float:
    cluster.kill_master()
    begin = time.monotonic()
    cluster.start_master()
    return time.monotonic() - begin


def _check(cluster: lab.Lab, clients: list[Client]) -> None:
    created = {name for client in clients for name in list(client.created)}
    submitted = [number for client in clients for number in list(client.submitted)]
    rows = cluster.rows("gnt-instance", "name,nic.ips")
    assert created <= {name for name, _ in rows}
    addresses = [address for _, text in rows for address in text.split("/")]
    assert len(addresses) == 2 * len(rows)
    assert len(set(addresses)) == len(addresses)
    assert len(set(submitted)) == len(submitted)
    # the files of archived jobs follow a second later
    lab.wait_until(lambda: set(submitted) <= _known_jobs(cluster), "the archived jobs")


def _known_jobs(cluster: lab.Lab) -> set[int]:
    with cluster.luxi() as luxi:
        jobs = luxi.value("QueryJobs", None, ["id", "archived"])
    assert isinstance(jobs, list)
    return {number for number, _ in jobs}
