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
ROUNDS = 5


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


async def _commit_costs(folder: str, count: int) -> list[float]:
    """Return the microseconds of processor time of one transaction, over several rounds.

    Each includes its part of a checkpoint, which is due after as many records as ``growth`` says: too many to make in
    each round, so the checkpoint is made and timed once a round, and divided by them.
    """
    where = paths.Paths.below(folder)
    runtime = RealRuntime()
    for path in (where.lib, where.queue):
        await runtime.disk.make_directory(path)
    await creation.create(runtime, where, objects(count))
    store = await transaction.Store.open(runtime, where)
    samples = []
    for round_ in range(ROUNDS):
        start = time.process_time()
        for number in range(COMMITS):
            vm = store.snapshot.instances[f"vm{number % count}"]
            changed = structs.replace(vm, serial_no=vm.serial_no + 1, tags=(f"round{round_}",))
            await store.commit([snapshot.Put(changed)], transaction.Cause(reason="benchmark"))
        middle = time.process_time()
        checkpoint.encode(store.durable, store.position, now=runtime.clock.now())
        part = (time.process_time() - middle) / growth.limits_for(store.durable.size).records
        samples.append(((middle - start) / COMMITS + part) * 1e6)
    await store.close()
    return samples


def transactions() -> Iterable[Figure]:
    medians = {}
    for count in (500, 50_000):
        with tempfile.TemporaryDirectory() as folder:
            samples = asyncio.run(_commit_costs(folder, count))
        figure = Figure(
            f"transaction: one durable change and its part of a checkpoint among {count} instances, CPU", "us", samples
        )
        medians[count] = figure.median
        yield figure
    ratio = max(medians.values()) / min(medians.values())
    yield Figure("transaction: cost among 50000 against 500 instances", "ratio", [ratio], limit=1.2)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"transaction": transactions}
