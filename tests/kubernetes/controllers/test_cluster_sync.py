"""Pools bound to a network of a cluster: controllers with a real master daemon, on a simulated clock."""

import asyncio
from collections.abc import Iterator
from typing import TypeVar

import pytest
from tests.kubernetes.claims import bound, server
from tests.kubernetes.controllers import api

from gantry import errors
from gantry.kubernetes.api import ipam, meta
from gantry.kubernetes.controllers import cluster_ports, cluster_sync, metrics
from gantry.rpc import luxi
from gantry.sim import cluster

T = TypeVar("T")
HERE = "node1"
LAN = (
    {
        "OP_ID": "OP_NETWORK_ADD",
        "network_name": "net1",
        "subnets": [{"cidr": "10.0.0.0/28", "gateway": "10.0.0.1"}],
        "add_reserved_ips": ["10.0.0.2"],
        "pools": [{"range": "10.0.0.1-10.0.0.14"}],
    },
    {
        "OP_ID": "OP_NETWORK_CONNECT",
        "network_name": "net1",
        "group_name": "default",
        "network_mode": "routed",
        "network_link": "main",
    },
)
WHOLE = {"pools": [{"subnet": "10.0.0.0/28"}]}
FREE = [f"10.0.0.{number}" for number in range(3, 15)]
"""What the network has for anybody: no ends, no gateway, no external reservation."""


class Refusing:
    """Calls the master, but fails each job for the pool ``pool`` with ``error``, if there is one."""

    def __init__(self, inner: luxi.Caller) -> None:
        self.inner = inner
        self.pool = ""
        self.error: errors.GantryError | None = None

    async def call(self, kind: type[T], method: str, *arguments: object) -> T:
        if self.error and method == "RunJob" and f"'tags': ['{self.pool}']" in str(arguments):
            raise self.error
        return await self.inner.call(kind, method, *arguments)


class SyncedCluster:
    """A cluster of one node with a network, and an API server on another machine; controllers run on the master."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self.lab = lab
        self.kube = api.SimulatedKubernetes(lab.world)
        lab.run(self.kube.open())
        lab.run(lab.build())
        for op in LAN:
            lab.run(lab.done(op))

    def start(self, name: str = "site-a") -> None:
        runtime = self.lab.world.machine(HERE)
        socket = cluster.FOLDERS.luxi_socket
        self.caller = Refusing(luxi.Pool(runtime.network, socket))
        self.kube.start(HERE, cluster=cluster_ports.ClusterPorts(self.caller, runtime.clock, site=name))

    async def create(self, name: str, ip: str = "pool") -> bool:
        """Create an instance with an address; return whether one was free."""
        nics = [{"network": "net1", "ip": ip}]
        op = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": name, "disk_template": "diskless", "nics": nics}
        status, _ = await self.lab.wait(await self.lab.submit({**op, "start": False}))
        return status == "success"

    async def owners(self) -> dict[str, str]:
        """Return the owners of addresses, as in gnt-network info."""
        fields = ["address_list", "port_list"]
        answer = await self.lab.luxi("Query", "network", fields, ["=", "name", "net1"])
        assert isinstance(answer, dict)
        (row,) = answer["data"]
        (_, instances), (_, ports) = row
        return {ip: name for ip, name, _ in instances} | {ip: name for _, name, _, ips in ports for ip in ips}

    def addresses(self) -> dict[str, str]:
        """Return the addresses in the status of claims, by claim."""
        known = self.kube.api.known
        names = [ref.name for ref in known.objects if ref.kind == "IPClaim"]
        return {name: text for name in names if (text := server.address_of_claim(known, name))}

    def error(self, name: str) -> str:
        return server.error(self.kube.api.known, name)


@pytest.fixture
def synced_cluster() -> Iterator[SyncedCluster]:
    with cluster.SimulatedCluster(seed=3, nodes=1) as lab:
        yield SyncedCluster(lab)


def claim_ref(name: str) -> meta.Ref:
    return meta.Ref(ipam.GROUP, "IPClaim", server.SITE, name)


def test_the_network_tells_the_claim_as_the_holder_and_no_instance_gets_its_address(
    synced_cluster: SyncedCluster,
) -> None:
    async def check() -> None:
        synced_cluster.kube.put(bound.pool(spec=WHOLE), server.claim("a"))
        synced_cluster.start()
        await synced_cluster.kube.until(lambda: synced_cluster.addresses() == {"a": "10.0.0.3"})
        assert await synced_cluster.owners() == {"10.0.0.3": f"IPClaim {server.SITE}/a"}
        assert not await synced_cluster.create("vm1", "10.0.0.3")
        assert await synced_cluster.create("vm2")
        assert (await synced_cluster.owners())["10.0.0.4"] == "vm2"
        synced_cluster.kube.delete(claim_ref("a"))
        await synced_cluster.kube.until(lambda: claim_ref("a") not in synced_cluster.kube.api.known.objects)
        assert await synced_cluster.create("vm1", "10.0.0.3")

    synced_cluster.lab.run(check())


def test_instances_and_claims_race_for_the_last_addresses_and_none_is_given_twice(
    synced_cluster: SyncedCluster,
) -> None:
    async def check() -> None:
        synced_cluster.kube.put(bound.pool(spec=WHOLE))
        synced_cluster.start()
        await synced_cluster.kube.until(lambda: synced_cluster.kube.made[HERE].is_ready)
        synced_cluster.kube.put(*(server.claim(f"c{number}") for number in range(10)))
        results = await asyncio.gather(*(synced_cluster.create(f"vm{number}") for number in range(10)))
        await synced_cluster.kube.until(lambda: len(synced_cluster.addresses()) == len(FREE) - sum(results))
        owners = await synced_cluster.owners()
        expected = {ip: f"IPClaim {server.SITE}/{name}" for name, ip in synced_cluster.addresses().items()}
        assert len(expected) == len(synced_cluster.addresses())
        assert expected.items() <= owners.items()
        assert sorted(owners) == sorted(FREE)
        waiting = sorted({f"c{number}" for number in range(10)} - synced_cluster.addresses().keys())
        await synced_cluster.kube.until(lambda: all("Exhausted" in synced_cluster.error(name) for name in waiting))
        gone = next(name for name in owners.values() if name.startswith("vm"))
        await synced_cluster.lab.done({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": gone, "ignore_failures": False})
        assert await synced_cluster.kube.until(lambda: len(synced_cluster.addresses()) == len(expected) + 1) < 10

    synced_cluster.lab.run(check())


def test_claims_of_bound_pools_wait_while_the_master_is_away_and_others_do_not(synced_cluster: SyncedCluster) -> None:
    async def check() -> None:
        synced_cluster.kube.put(bound.pool(spec=WHOLE), server.pool("plain", pools=[{"subnet": "10.9.0.0/28"}]))
        synced_cluster.start()
        synced_cluster.kube.put(server.claim("a"))
        await synced_cluster.kube.until(lambda: "a" in synced_cluster.addresses())
        await synced_cluster.lab.stop_master(HERE)
        synced_cluster.kube.put(server.claim("b"), server.claim("c", "plain"))
        await synced_cluster.kube.until(lambda: synced_cluster.addresses().get("c") == "10.9.0.1")
        await synced_cluster.kube.until(lambda: "the cluster is unavailable" in synced_cluster.error("b"))
        await synced_cluster.lab.start_master(HERE)
        await synced_cluster.kube.until(lambda: "b" in synced_cluster.addresses())
        assert (await synced_cluster.owners()).keys() == {"10.0.0.3", "10.0.0.4"}

    synced_cluster.lab.run(check())


@pytest.mark.parametrize("network", ["net9", "net1|net2", "n" * 300])
def test_a_pool_whose_network_does_not_exist_does_not_delay_other_pools(
    synced_cluster: SyncedCluster, network: str
) -> None:
    async def check() -> None:
        synced_cluster.kube.put(bound.pool(spec=WHOLE), bound.pool("astray", network=network, spec=WHOLE))
        synced_cluster.kube.put(server.claim("a"), server.claim("b", "astray"))
        synced_cluster.start()
        await synced_cluster.kube.until(lambda: synced_cluster.addresses() == {"a": "10.0.0.3"})
        await synced_cluster.kube.until(lambda: f"the cluster has no network {network}" in synced_cluster.error("b"))
        synced_cluster.kube.put(server.claim("c"))
        await synced_cluster.kube.until(lambda: "c" in synced_cluster.addresses())
        assert "NetworkNotReady" not in synced_cluster.kube.api.event_reasons("pool-1")

    synced_cluster.lab.run(check())


@pytest.mark.parametrize(
    "error",
    [
        errors.LockError("the lock was removed"),
        errors.HooksError([("check", "node1", "no")]),
        errors.InternalError("a case that nobody foresaw"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_job_that_the_cluster_refuses_does_not_delay_other_pools(
    synced_cluster: SyncedCluster, error: errors.GantryError
) -> None:
    async def check() -> None:
        specs = [{"pools": [{"start": f"10.0.0.{number}", "end": f"10.0.0.{number + 2}"}]} for number in (3, 6)]
        synced_cluster.kube.put(bound.pool(spec=specs[0]), bound.pool("other", spec=specs[1]))
        synced_cluster.start()
        synced_cluster.caller.pool, synced_cluster.caller.error = "other", error
        synced_cluster.kube.put(server.claim("b", "other"))
        await synced_cluster.kube.until(lambda: f"the cluster refused: {error.message}" in synced_cluster.error("b"))
        synced_cluster.kube.put(server.claim("a"))
        await synced_cluster.kube.until(lambda: synced_cluster.addresses() == {"a": "10.0.0.3"})
        await synced_cluster.lab.world.clock.sleep(30)
        assert "NetworkNotReady" not in synced_cluster.kube.api.event_reasons("pool-1")
        synced_cluster.caller.error = None
        await synced_cluster.kube.until(
            lambda: synced_cluster.addresses() == {"a": "10.0.0.3", "b": "10.0.0.6"}, limit=600
        )
        assert not synced_cluster.error("b")

    synced_cluster.lab.run(check())


def test_another_site_is_a_stranger(synced_cluster: SyncedCluster) -> None:
    async def check() -> None:
        synced_cluster.kube.put(bound.pool(spec=WHOLE), server.claim("a"))
        synced_cluster.start("site-a")
        await synced_cluster.kube.until(lambda: "a" in synced_cluster.addresses())
        runtime = synced_cluster.lab.world.machine(HERE)
        theirs = cluster_ports.ClusterPorts(
            luxi.Pool(runtime.network, cluster.FOLDERS.luxi_socket), runtime.clock, site="site-b"
        )
        (net,), reservations = await theirs.read(["net1"])
        assert reservations == []
        assert [str(who) for who in net.used.values()] == [f"port IPClaim {server.SITE}/a"]

    synced_cluster.lab.run(check())


def test_a_reservation_that_somebody_took_away_is_made_again(synced_cluster: SyncedCluster) -> None:
    async def check() -> None:
        synced_cluster.kube.put(bound.pool(spec=WHOLE), server.claim("a"))
        synced_cluster.start()
        await synced_cluster.kube.until(lambda: "a" in synced_cluster.addresses())
        answer = await synced_cluster.lab.luxi("Query", "port", ["uuid"], None)
        assert isinstance(answer, dict)
        (((_, uuid),),) = answer["data"]
        await synced_cluster.lab.done({"OP_ID": "OP_PORT_REMOVE", "port": uuid})
        for _ in range(100):
            if await synced_cluster.owners():
                break
            await synced_cluster.lab.world.clock.sleep(0.1)
        assert await synced_cluster.owners() == {"10.0.0.3": f"IPClaim {server.SITE}/a"}

    synced_cluster.lab.run(check())


def test_an_address_that_rests_is_given_when_its_time_is_up_and_not_asked_for_all_the_while(
    synced_cluster: SyncedCluster,
) -> None:
    async def check() -> None:
        await synced_cluster.lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "ipam_hold_time": 100})
        synced_cluster.kube.put(
            bound.pool(spec={"pools": [{"start": "10.0.0.5", "end": "10.0.0.5"}]}), server.claim("a")
        )
        synced_cluster.start()
        await synced_cluster.kube.until(lambda: "a" in synced_cluster.addresses())
        synced_cluster.kube.delete(claim_ref("a"))
        await synced_cluster.kube.until(lambda: claim_ref("a") not in synced_cluster.kube.api.known.objects)
        synced_cluster.kube.put(server.claim("b"))
        assert await synced_cluster.kube.until(lambda: "b" in synced_cluster.addresses(), limit=300) > 90
        answer = await synced_cluster.lab.luxi("Query", "job", ["id", "status"], None)
        assert isinstance(answer, dict)
        failed = [row for row in answer["data"] if row[1][1] == "error"]
        assert 1 <= len(failed) < 8

    synced_cluster.lab.run(check())


def test_a_site_without_a_name_has_that_of_its_oldest_namespace(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.counts["c1"] = metrics.Metrics()
        user, path = kube.client("c1"), "api/v1/namespaces/kube-system"
        with pytest.raises(errors.ConfigurationError, match="kube-system cannot be read"):
            await cluster_sync.identify(user)
        kube.api.plain[path] = {"metadata": {}}
        with pytest.raises(errors.ConfigurationError, match="has no UID"):
            await cluster_sync.identify(user)
        kube.api.plain[path] = {"metadata": {"uid": "f3b1"}}
        assert await cluster_sync.identify(user) == "f3b1"

    kube.world.run(check())
