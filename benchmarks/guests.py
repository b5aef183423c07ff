"""Real guests of the ``kvm`` hypervisor: from the command to the first ping, and the pause of a live migration.

Both need root and QEMU, and are left out with a word where they are missing. The cluster is the demonstration's; the
migrations are those of the node daemons' drivers, with the guest of their tests, which writes numbers all the time.
"""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable

from tests.real import demonstration, machines

from benchmarks.figure import Figure

ROUNDS = 5
NAME = "bench.example"
ADD = ("gnt-instance", "add", "-t", "file", "-o", "busybox", "--disk", "0:size=64m", "-n", "node1", "-B", "memory=128M")
POLL = 0.02


def _can_run() -> bool:
    if os.geteuid() == 0 and shutil.which("qemu-system-x86_64"):
        return True
    print("guests are left out: they need root and QEMU", file=sys.stderr)
    return False


def creation() -> Iterable[Figure]:
    """Use an address only once: a node that has seen it before asks for its new MAC address after most of a minute."""
    if not _can_run():
        return
    samples = []
    with demonstration.up("gb") as demo:
        for turn in range(ROUNDS):
            address = f"198.51.100.{101 + turn}"
            begun = time.perf_counter()
            demo.gnt(*ADD, "--net", f"0:ip={address},network={demonstration.NETWORK}", NAME)
            while not demo.answers(address):
                time.sleep(POLL)
            samples.append(time.perf_counter() - begun)
            demo.gnt("gnt-instance", "remove", "-f", "--shutdown-timeout", "0", NAME)
    yield Figure("guest: gnt-instance add, kvm, file disk, busybox, to the first ping", "s", samples, 8)


async def _pauses() -> list[float]:
    samples = []
    async with machines.lab() as cluster_lab:
        here, there = await cluster_lab.up(), cluster_lab.nodes[1]
        for _ in range(2 * ROUNDS):
            with cluster_lab.pinged() as gap:
                await cluster_lab.writes(here)
                await cluster_lab.send(here, there)
                await cluster_lab.finish(here, there)
                await cluster_lab.writes(there)
                samples.append(gap())
            here, there = there, here
    return samples


def migration() -> Iterable[Figure]:
    """Measure the longest time without an answer; that nothing is lost is looked at before and after each move."""
    if _can_run():
        yield Figure("guest: live migration of 128 MiB, a ping each 10 ms, pause", "ms", asyncio.run(_pauses()), 300)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"guest creation": creation, "guest migration": migration}
