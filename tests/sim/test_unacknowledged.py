"""What a change that is not acknowledged does outside of its master: nothing (explanation/replication.md)."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from gantry.rpc import calls
from gantry.sim import cluster
from gantry.state import snapshot, transaction

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
