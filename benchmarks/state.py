"""Transactions: the cost of one, its part of the checkpoints included, does not grow with the cluster."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable

from msgspec import structs

from benchmarks.figure import Figure
from gantry.model import cluster, instance, network
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime
from gantry.state.files import checkpoint
from gantry.state.journal import growth
from gantry.state.objects import snapshot
from gantry.state.start import creation
from gantry.state.store import transaction

COMMITS = 300
ROUNDS = 15
SMALL, LARGE = 500, 50_000


def objects(count: int) -> list[snapshot.Change]:
    """Return a cluster with ``count`` instances, each with a NIC of two addresses and a disk."""
    group = cluster.NodeGroup(uuid="group", name="default")
    nodes = [
        cluster.Node(uuid=f"node{i}", name=f"node{i}", primary_ip=f"10.0.0.{i}", group="group") for i in range(1, 11)
    ]
    owner = cluster.Cluster(uuid="cluster", name="bench.example", master_node="node1", enabled_hypervisors=("fake",))
    subnets = (network.Subnet(uuid="s4", cidr="10.0.0.0/8"), network.Subnet(uuid="s6", cidr="2001:db8::/64"))
    net = network.Network(uuid="net", name="net", subnets=subnets)
    vms = [_instance(number) for number in range(count)]
    everything: tuple[snapshot.Stored, ...] = (group, *nodes, owner, net, *vms)
    return [snapshot.Put(entry) for entry in everything]


def _instance(number: int) -> instance.Instance:
    high, low = divmod(number, 250)
    addresses = (f"10.{high // 250 + 1}.{high % 250}.{low + 1}", f"2001:db8::{number + 1:x}")
    return instance.Instance(
        uuid=f"vm{number}",
        name=f"vm{number}.example",
        primary_node=f"node{number % 10 + 1}",
        hypervisor="fake",
        admin_state=instance.AdminState.UP,
        disk_template="diskless",
        nics=(instance.Nic(uuid=f"nic{number}", mac=f"aa:00:{number:08x}", ip=addresses, network="net"),),
    )


class _Measured:
    """A store of a cluster with ``count`` instances, whose transactions are measured in rounds."""

    def __init__(self, count: int, runtime: RealRuntime, store: transaction.Store) -> None:
        self.count = count
        self._runtime = runtime
        self._store = store
        self.samples: list[float] = []

    @classmethod
    async def open(cls, folder: str, count: int) -> "_Measured":
        """Create the cluster in a folder."""
        where = paths.Paths.below(folder)
        runtime = RealRuntime()
        for path in (where.lib, where.queue):
            await runtime.disk.make_directory(path)
        await creation.create(runtime, where, objects(count))
        return cls(count, runtime, await transaction.Store.open(runtime, where))

    async def run_round(self, tag: str) -> float:
        """Return the microseconds of processor time of one transaction.

        They include its part of a checkpoint, which is due after as many records as ``growth`` says: too many to make
        in each round, so the checkpoint is made and timed once a round, and divided by them.
        """
        store = self._store
        start = time.process_time()
        for number in range(COMMITS):
            vm = store.snapshot.instances[f"vm{number % self.count}"]
            changed = structs.replace(vm, serial_no=vm.serial_no + 1, tags=(tag,))
            await store.commit([snapshot.Put(changed)], transaction.Cause(reason="benchmark"))
        middle = time.process_time()
        checkpoint.encode(store.durable, store.position, now=self._runtime.clock.now())
        part = (time.process_time() - middle) / growth.limits_for(store.durable.size).records
        self.samples.append(((middle - start) / COMMITS + part) * 1e6)
        return self.samples[-1]

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()


async def _side_by_side() -> tuple[list[_Measured], list[float]]:
    """Return both clusters after their rounds, and what a transaction of the large one costs in those of the small one.

    Rounds alternate: the speed of a machine changes within a minute by more than the difference that is looked for.
    """
    with tempfile.TemporaryDirectory() as small_folder, tempfile.TemporaryDirectory() as large_folder:
        small, large = await _Measured.open(small_folder, SMALL), await _Measured.open(large_folder, LARGE)
        ratios = []
        for number in range(ROUNDS):
            small_cost = await small.run_round(f"round{number}")
            ratios.append(await large.run_round(f"round{number}") / small_cost)
        await small.close()
        await large.close()
    return [small, large], ratios


def transactions() -> Iterable[Figure]:
    measured, ratios = asyncio.run(_side_by_side())
    for each in measured:
        about = f"one durable change and its part of a checkpoint among {each.count} instances, CPU"
        yield Figure(f"transaction: {about}", "us", each.samples)
    yield Figure(f"transaction: cost among {LARGE} against {SMALL} instances", "ratio", ratios, limit=1.2)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"transaction": transactions}
