"""One change in a large cluster: what the creation of an instance costs the master's processor, whatever there is.

The master daemon is the real one, from its queue to its journal and its messages to the nodes. The nodes are answers in
memory, so that the processor time of a thousand node daemons is not counted. Instances are created steadily, for longer
than the names of instances wait to be sent to all nodes, so that a fair share of that is in the figure.
"""

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from benchmarks.figure import Figure
from gantry import security
from gantry.daemons import master
from gantry.lib_files import member
from gantry.mastership import identity, role
from gantry.model import cluster, instance, network, opcodes
from gantry.rpc import calls
from gantry.runtime import http_interface, paths
from gantry.runtime.real import RealRuntime
from gantry.state.objects import snapshot
from gantry.state.start import creation as first_state

SMALL = 10, 500
LARGE = 1000, 50_000
MASTER, ADDRESS = "node0000.example.com", "10.0.0.1"
RATE = 20
SECONDS = 35
TIMES = 2.0

_STATUS = calls.NodeStatus(
    bootid="b",
    memory_total=1 << 20,
    memory_free=1 << 19,
    memory_node=1 << 10,
    cpu_total=64,
    storage=(calls.StorageInfo(kind="file", path="/file", free=1 << 20, total=1 << 20),),
)


def _payload(result: object) -> bytes:
    return msgspec.json.encode((True, result))


ANSWERS = {"/node_info": _payload(_STATUS), "/update_ssconf": _payload(()), "/hooks_run": _payload(())}
NOTHING = _payload(None)


class _Nodes:
    """All nodes of the cluster, as far as the master's connections show."""

    messages = 0

    async def post(
        self, host: str, port: int, path: str, body: bytes, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> http_interface.Response:
        del host, port, body, timeout, headers
        self.messages += 1
        await asyncio.sleep(0)
        return http_interface.Response(200, ANSWERS.get(path, NOTHING))

    async def close(self) -> None:
        pass


def _objects(nodes: int, instances: int) -> list[snapshot.Change]:
    groups = [
        cluster.NodeGroup(
            uuid=f"group{number}",
            name=f"group{number}",
            networks={"net": cluster.Connection(mode="bridged", link="br0")},
        )
        for number in range(max(1, nodes // 100))
    ]
    members = [
        cluster.Node(
            uuid=f"node{number}",
            name=f"node{number:04}.example.com",
            primary_ip=f"10.{number // 250}.{number % 250}.1",
            group=groups[number % len(groups)].uuid,
            master_candidate=number == 0,
        )
        for number in range(nodes)
    ]
    owner = cluster.Cluster(uuid="cluster", name="bench.example", master_node="node0", enabled_hypervisors=("fake",))
    pool = network.Pool(range="10.0.0.1-10.255.255.250")
    net = network.Network(
        uuid="net", name="net", subnets=(network.Subnet(uuid="subnet", cidr="10.0.0.0/8", pools=(pool,)),)
    )
    everything: list[snapshot.Stored] = [*groups, *members, owner, net]
    everything += [_instance(number, f"node{number % nodes}") for number in range(instances)]
    return [snapshot.Put(entry) for entry in everything]


def _instance(number: int, node: str) -> instance.Instance:
    ip = f"10.{1 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}"
    nic = instance.Nic(uuid=f"nic{number}", mac=f"aa:01:{number:08x}", ip=(ip,), network="net")
    return instance.Instance(
        uuid=f"vm{number}",
        name=f"vm{number:05}.example.com",
        primary_node=node,
        hypervisor="fake",
        admin_state=instance.AdminState.UP,
        disk_template="diskless",
        nics=(nic,),
    )


async def _prepare(runtime: RealRuntime, where: paths.Paths, nodes: int, instances: int) -> None:
    """Make the files of a master that was stopped."""
    for folder in (where.lib, where.run, where.log):
        await runtime.disk.make_directory(folder)
    authority = await identity.create(runtime, where, "bench.example")
    key, request = security.make_request(MASTER)
    certificate = authority.issue(request.decode(), uuid="node0", name=MASTER, address=ADDRESS)
    await runtime.disk.write(f"{where.certificates}/node.key", key, mode=0o600)
    await runtime.disk.write(f"{where.certificates}/node.pem", certificate.encode())
    own = member.Member(cluster="bench.example", node=MASTER, uuid="node0", address=ADDRESS)
    await runtime.disk.write(member.path(where.certificates), member.encode(own))
    await first_state.create(runtime, where, _objects(nodes, instances))


async def _create(daemon: master.Master, number: int) -> None:
    nic = opcodes.NicSpec(ip=("pool",), network="net")
    op = opcodes.InstanceCreate(instance_name=f"new{number}.example.com", disk_template="diskless", nics=(nic,))
    job = await daemon.queue.submit([op])
    changed = await daemon.queue.wait_for_change(
        job, lambda entry: [entry.end_timestamp], previous=[None], serial=1 << 60, timeout=60
    )
    done = daemon.queue.jobs()[job]
    if changed is None or done.status.value != "success":
        raise RuntimeError(f"job {job}: {done.status}: {done.ops[0].result}")


async def _costs(folder: str, nodes: int, instances: int) -> tuple[list[float], float]:
    """Return the milliseconds of processor time that a creation costs, second by second, and messages for each."""
    runtime, where, wires = RealRuntime(), paths.Paths.below(folder), _Nodes()
    await _prepare(runtime, where, nodes, instances)
    runtime.network.http_client = lambda *, tls: wires  # type: ignore[method-assign, assignment, return-value]
    daemon = master.Master(runtime, where, request=role.Request(voting=False))
    await daemon.start()
    try:
        await asyncio.sleep(2)
        before, samples = wires.messages, []
        for second in range(SECONDS):
            begin, spent = time.perf_counter(), time.process_time()
            for turn in range(RATE):
                await asyncio.sleep(max(0.0, begin + turn / RATE - time.perf_counter()))
                await _create(daemon, second * RATE + turn)
            await asyncio.sleep(max(0.0, begin + 1 - time.perf_counter()))
            samples.append((time.process_time() - spent) / RATE * 1e3)
        return samples, (wires.messages - before) / (RATE * SECONDS)
    finally:
        await daemon.close()


def creation() -> Iterable[Figure]:
    logging.getLogger("gantry").setLevel(logging.ERROR)
    means = []
    for nodes, instances in (SMALL, LARGE):
        with tempfile.TemporaryDirectory() as folder:
            samples, messages = asyncio.run(_costs(folder, nodes, instances))
        means.append(sum(samples) / len(samples))
        name = f"scale: an instance more in {nodes} nodes and {instances} instances"
        yield Figure(f"{name}, CPU of the master", "ms", samples)
        yield Figure(f"{name}, messages to nodes", "messages", [messages])
    yield Figure("scale: mean CPU in the large against the small cluster", "ratio", [means[1] / means[0]], TIMES)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"scale": creation}
