"""Who has an address, of a million reservations: the command as a whole, with the real daemons.

The reservations are ports that were written in records of a thousand, as large requests write them. So the journal has
the sections that it would have, and the search for the job that allocated an address reads one of them. Ports are asked
for at random; a name and a MAC address are other ways to the same answer.

Most of such a command is its start. So Python without a program, the program without a question (``--version``), and
the question on a connection that is open already are measured in the same rounds.
"""

import asyncio
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator

from tests.cluster import lab

from benchmarks.figure import Figure
from gantry.address import ranges
from gantry.model import network
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime
from gantry.state.journal import record
from gantry.state.objects import snapshot
from gantry.state.store import transaction

RESERVATIONS = 1_000_000
TOGETHER = 1000
ROUNDS = 25
CIDR = ranges.parse_cidr("10.0.0.0/8")
MILLISECONDS = 60
START_SECONDS = 600


def _ip(number: int) -> str:
    return str(ranges.Address(CIDR.family, CIDR.first + 256 + number))


def _port(number: int, now: float) -> network.Port:
    return network.Port(
        uuid=f"00000000-0000-4000-8000-{number:012d}",
        name=f"port{number}",
        network="owners",
        mac=f"aa:01:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}",
        ip=(_ip(number),),
        ctime=now,
        mtime=now,
    )


async def _fill(runtime: RealRuntime, where: paths.Paths, count: int) -> None:
    store = await transaction.Store.open(runtime, where)
    subnet = network.Subnet(
        uuid="owners-subnet", cidr=str(CIDR), pools=(network.Pool(range="10.0.0.0-10.255.255.255"),)
    )
    await store.commit([snapshot.Put(network.Network(uuid="owners", name="owners", subnets=(subnet,)))], record.Cause())
    for first in range(0, count, TOGETHER):
        now = runtime.clock.now()
        ports = [snapshot.Put(_port(number, now)) for number in range(first, first + TOGETHER)]
        await store.commit(ports, record.Cause(job=first // TOGETHER + 1, opcode="OP_PORT_ADD", user="gnt:user"))
    await store.close()


class _ReservedCluster:
    """A cluster with the reservations, the program that is run in it, and a connection to its master."""

    def __init__(self, cluster_lab: lab.Lab, connection: lab.Luxi) -> None:
        self._environment = {**os.environ, "GANTRY_ROOT": str(cluster_lab.master)}
        self._connection = connection

    def run(self, *words: str, expected: str = "") -> float:
        """Return the milliseconds that a program beside this Python takes, from its start to its end."""
        begin = time.perf_counter()
        program = [str(lab.BIN / words[0]), *words[1:]]
        ran = subprocess.run(program, env=self._environment, check=True, capture_output=True, text=True)
        spent = (time.perf_counter() - begin) * 1e3
        assert expected in ran.stdout, ran.stdout
        return spent

    def ask(self, text: str) -> float:
        """Return the milliseconds of the question on an open connection, without a process."""
        begin = time.perf_counter()
        self._connection.call("QueryAddress", text, None, False, 1)
        return (time.perf_counter() - begin) * 1e3


def _questions() -> Iterator[tuple[str, Callable[[int], str]]]:
    yield "address", _ip
    yield "MAC address", lambda number: _port(number, 0.0).mac
    yield "UUID of the port", lambda number: _port(number, 0.0).uuid


def _round(reserved_cluster: _ReservedCluster, number: int) -> Iterator[tuple[str, float, float | None]]:
    """Yield a name, the milliseconds and the limit of each measurement about one port."""
    job = f" {number // TOGETHER + 1} "
    yield "Python without a program, wall clock", reserved_cluster.run("python3", "-c", "pass"), None
    yield "gnt-network --version, wall clock", reserved_cluster.run("gnt-network", "--version"), None
    yield f"QueryAddress on an open connection, {RESERVATIONS:,} reservations", reserved_cluster.ask(_ip(number)), None
    for name, text in _questions():
        spent = reserved_cluster.run("gnt-network", "address", text(number), expected=job)
        yield f"gnt-network address by {name}, {RESERVATIONS:,} reservations, wall clock", spent, MILLISECONDS


def owners() -> Iterable[Figure]:
    samples: dict[str, list[float]] = {}
    limits: dict[str, float | None] = {}
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.stop_master(cluster_lab.nodes[0])
        asyncio.run(_fill(RealRuntime(), paths.Paths.below(str(cluster_lab.master)), RESERVATIONS))
        cluster_lab.start_master(check=False)
        lab.wait_until(cluster_lab.answers, "the master daemon", timeout=START_SECONDS)
        chance = random.Random(1)
        with cluster_lab.luxi() as connection:
            reserved_cluster = _ReservedCluster(cluster_lab, connection)
            for _ in range(ROUNDS):
                for name, spent, limits[name] in _round(reserved_cluster, chance.randrange(RESERVATIONS)):
                    samples.setdefault(name, []).append(spent)
    for name, values in samples.items():
        yield Figure(f"address: {name}", "ms", values, limits[name], goal=True)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"owners": owners}
