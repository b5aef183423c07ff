"""What a change that is not acknowledged does outside of its master: nothing (explanation/replication.md)."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from gantry.model import network
from gantry.rpc import calls
from gantry.sim import cluster
from gantry.state.objects import snapshot
from gantry.state.store import transaction

CAUSE = transaction.Cause(reason="test")


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    """Return a cluster of four candidates."""
    with cluster.SimulatedCluster(seed=3, nodes=4) as simulated:
        simulated.run(simulated.build())
        simulated.run(simulated.world.clock.sleep(10))
        yield simulated


def keys_known_to(lab: cluster.SimulatedCluster, name: str) -> set[str]:
    """Return the UUIDs of the nodes that a node takes for master candidates."""
    path = f"{cluster.FOLDERS.ssconf}/ssconf_master_candidates_certs"
    return set(calls.nodes_by_key(lab.world.machine(name).disk.read(path).decode()).values())


def demote(lab: cluster.SimulatedCluster, *names: str) -> asyncio.Future[snapshot.Snapshot]:
    """Begin to demote candidates that the master does not reach."""
    store = lab.daemons["node1"].store
    for name in names:
        lab.world.network.partition("node1", name)
    nodes = [msgspec.structs.replace(store.snapshot.node(name), master_candidate=False) for name in names]
    return store.submit([snapshot.Put(node) for node in nodes], CAUSE)


def test_a_node_knows_the_former_candidates_until_their_change_is_acknowledged(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done({"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node4", "master_capable": False})
        await lab.world.clock.sleep(10)
        former = keys_known_to(lab, "node4")
        ticket = demote(lab, "node2", "node3")
        for _ in range(60):
            await lab.world.clock.sleep(0.5)
            assert keys_known_to(lab, "node4") == former
        assert not ticket.done()
        lab.crash("node1")
        await lab.failover("node2")
        await lab.done({"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["of-node2"]})
        assert keys_known_to(lab, "node4") == former

    lab.run(scenario())


def test_a_lease_brings_no_candidates_that_no_majority_has_acknowledged(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        former = keys_known_to(lab, "node4")
        ticket = demote(lab, "node2", "node3")
        for _ in range(60):
            await lab.world.clock.sleep(0.5)
            assert keys_known_to(lab, "node4") == former
        assert not ticket.done()
        for name in ("node2", "node3"):
            lab.world.network.heal("node1", name)
        await ticket
        await lab.world.clock.sleep(10)
        assert keys_known_to(lab, "node4") == {
            lab.daemons["node1"].store.durable.node(n).uuid for n in ("node1", "node4")
        }

    lab.run(scenario())


READS: dict[str, tuple[object, ...]] = {
    "QueryTags": ("cluster", ""),
    "QueryClusterInfo": (),
    "QueryConfigValues": (["watcher_pause", "drain_flag"],),
    "Query": ("network", ["name"], None),
    "QueryNetworks": ([], ["name"], False),
    "ExportConfig": (),
    "ReadOpcode": ({"OP_ID": "OP_TAGS_SEARCH", "pattern": "of-node1"},),
}
"""Methods that read what the test changes, with their arguments."""


async def answers(lab: cluster.SimulatedCluster) -> dict[str, object]:
    """Return what clients of the master read."""
    return {method: await lab.luxi(method, *arguments) for method, arguments in READS.items()}


def change_everything(store: transaction.Store) -> asyncio.Future[snapshot.Snapshot]:
    """Submit a change that each of the methods would show."""
    owner = msgspec.structs.replace(
        store.snapshot.the_cluster, tags=("of-node1",), watcher_pause=2e9, queue_drained=True
    )
    net = network.Network(uuid="u1", name="net1")
    return store.submit([snapshot.Put(owner), snapshot.Put(net)], CAUSE)


def test_clients_read_a_change_when_it_is_acknowledged_and_not_before(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        before = await answers(lab)
        for name in ("node2", "node3", "node4"):
            lab.world.network.partition("node1", name)
        ticket = change_everything(lab.daemons["node1"].store)
        for _ in range(20):
            assert await answers(lab) == before
            await lab.world.clock.sleep(0.5)
        for name in ("node2", "node3", "node4"):
            lab.world.network.heal("node1", name)
        await ticket
        after = await answers(lab)
        assert [method for method in READS if after[method] == before[method]] == []

    lab.run(scenario())


def test_a_client_reads_its_own_change_right_after_the_answer(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        for moment in (2e9, None, 3e9):
            await lab.luxi("SetWatcherPause", moment)
            assert await lab.luxi("QueryConfigValues", ["watcher_pause"]) == [moment]
        await lab.luxi("RunJob", [{"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["mine"]}], 60.0)
        assert await lab.luxi("QueryTags", "cluster", "") == ["mine"]

    lab.run(scenario())
