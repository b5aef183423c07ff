"""A pool on an embedded API server, bound to a cluster's network, all as real processes."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from tests import ports
from tests.cluster import lab as labs

from gantry.kubernetes.api import ipam, meta, schema
from gantry.kubernetes.controllers import client, metrics, rate_limit
from gantry.kubernetes.controllers import kubeconfig as controllers_kubeconfig
from gantry.runtime import real

PATH = "/apis/ipam.metal3.io/v1alpha1/namespaces/default"
FREE_ADDRESSES = 14 - 1
"""A /28 without its ends and the gateway."""
CLAIMS = INSTANCES = 12


class _Claims(msgspec.Struct):
    items: list[schema.Json]


@pytest.fixture(scope="module")
def cluster() -> Iterator[labs.Lab]:
    with labs.lab() as running_lab:
        running_lab.init()
        running_lab.run(
            *(
                "gnt-network",
                "add",
                "--subnet",
                "cidr=192.0.2.0/28,gateway=192.0.2.1",
                "--pool",
                "192.0.2.1-192.0.2.14",
            ),
            "net1",
        )
        running_lab.run("gnt-network", "connect", "-N", "mode=routed,link=main", "net1", "default")
        yield running_lab


@contextlib.contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run gantry-kube, and kill it afterwards."""
    running = subprocess.Popen([sys.executable, "-m", "gantry.daemons.kube", *arguments])
    try:
        yield running
    finally:
        running.kill()
        running.wait(labs.TIMEOUT)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data, port = tmp_path_factory.mktemp("server"), ports.free()
    with program("serve", "--no-controllers", "--data", str(data), "--port", str(port)):
        labs.wait_until(lambda: (data / "kubeconfig").exists() and labs.listens(port), "the API server")
        yield data / "kubeconfig"


def controllers(kubeconfig: Path, cluster: labs.Lab) -> contextlib.AbstractContextManager[object]:
    where = ["--kubeconfig", str(kubeconfig), "--cluster", str(cluster.master / "run/master.sock")]
    return program("controllers", *where, "--no-leader-elect", "--health-port", "0")


@contextlib.asynccontextmanager
async def talking(kubeconfig: Path) -> AsyncIterator[client.Client]:
    runtime = real.RealRuntime()
    target = controllers_kubeconfig.from_kubeconfig(runtime, str(kubeconfig))
    tls = await controllers_kubeconfig.tls(runtime, target, folder=str(kubeconfig.parent))
    limit = rate_limit.RateLimit(runtime.clock, per_second=1000, burst=1000)
    api = client.Client(runtime, target, tls=tls, limit=limit, counts=metrics.Metrics())
    try:
        yield api
    finally:
        await api.close()


async def ask(talk: client.Client, number: int) -> None:
    metadata = {"name": f"c{number}"}
    spec = {"pool": {"name": "lan"}}
    body: schema.Json = {"apiVersion": ipam.API_VERSION, "kind": "IPClaim", "metadata": metadata, "spec": spec}
    await talk.send("POST", f"{PATH}/ipclaims", body)


async def claims(talk: client.Client) -> list[ipam.IPClaim]:
    listed = msgspec.convert(await talk.get(f"{PATH}/ipclaims"), _Claims)
    return [
        meta.read({"apiVersion": ipam.API_VERSION, "kind": "IPClaim", **item}, ipam.IPClaim) for item in listed.items
    ]


async def claimed_addresses(talk: client.Client) -> dict[str, str]:
    """Return the addresses of claims that are not being deleted.

    The status of a deleted claim may still have an address that has another owner by now.
    """
    claims_kept = [claim for claim in await claims(talk) if not claim.is_deleting]
    listed = msgspec.convert(await talk.get(f"{PATH}/ipaddresses"), _Claims)
    read = [
        meta.read({"apiVersion": ipam.API_VERSION, "kind": "IPAddress", **item}, ipam.IPAddress)
        for item in listed.items
    ]
    known = {address.metadata.name: address.spec.address for address in read}
    return {each.metadata.name: known[each.address_name] for each in claims_kept if each.address_name in known}


def owners(cluster: labs.Lab) -> list[tuple[str, str]]:
    """Return every address that is in use in the network, with its owner."""
    with cluster.luxi() as luxi:
        answer = luxi.call("Query", "network", ["address_list", "port_list"], ["=", "name", "net1"])
    data = answer["data"]
    assert isinstance(data, list)
    (_, instances), (_, ports) = data[0]
    return [(ip, name) for ip, name, _ in instances] + [(ip, name) for _, name, _, ips in ports for ip in ips]


def create_instances(cluster: labs.Lab) -> int:
    """Create instances concurrently; return how many got an address."""
    jobs = [
        [
            {
                "OP_ID": "OP_INSTANCE_CREATE",
                "instance_name": f"vm{number}.example",
                "disk_template": "diskless",
                "nics": [{"network": "net1", "ip": "pool"}],
                "start": False,
            }
        ]
        for number in range(INSTANCES)
    ]
    with cluster.luxi() as luxi:
        numbers = luxi.value("SubmitManyJobs", jobs)
        assert isinstance(numbers, list)
        return sum(luxi.finished(number)[0] == "success" for _, number in numbers)


async def until_served(talk: client.Client, count: int) -> dict[str, str]:
    async with asyncio.timeout(labs.TIMEOUT):
        while True:
            addresses = await claimed_addresses(talk)
            if len(addresses) >= count:
                return addresses
            await asyncio.sleep(0.1)


async def test_instances_and_claims_never_get_one_address_while_controllers_are_killed(
    cluster: labs.Lab, kubeconfig: Path
) -> None:
    pool: schema.Json = {
        "apiVersion": ipam.API_VERSION,
        "kind": "IPPool",
        "metadata": {"name": "lan", "annotations": {ipam.NETWORK_ANNOTATION: "net1"}},
        "spec": {"namePrefix": "lan", "pools": [{"subnet": "192.0.2.0/28"}]},
    }
    async with talking(kubeconfig) as talk:
        await talk.send("POST", f"{PATH}/ippools", pool)
        with controllers(kubeconfig, cluster):
            await ask(talk, 0)
            await until_served(talk, 1)
            creation = asyncio.get_running_loop().run_in_executor(None, create_instances, cluster)
            for number in range(1, CLAIMS):
                await ask(talk, number)
        # killed, perhaps between a reservation and its address
        instances = await creation
        with controllers(kubeconfig, cluster):
            addresses = await until_served(talk, FREE_ADDRESSES - instances)
            owners_by_address = dict(owners(cluster))
            assert len(owners(cluster)) == len(owners_by_address) == FREE_ADDRESSES
            assert {
                ip: f"IPClaim default/{name}" for name, ip in addresses.items()
            }.items() <= owners_by_address.items()
            info = cluster.run("gnt-network", "info", "net1").stdout
            assert all(f"IPClaim default/{name}" in info for name in addresses)
            for name in addresses:
                await talk.send("DELETE", f"{PATH}/ipclaims/{name}")
            waiting = CLAIMS - len(addresses)
            served = await until_served(talk, min(waiting, len(addresses)))
            assert len(set(served.values())) == len(served)
