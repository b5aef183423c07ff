"""All nodes hear how far changes are acknowledged, also those that have no copy."""

import contextlib
from collections.abc import Iterator

import pytest

from gantry import errors
from gantry.rpc.calls import reach
from gantry.sim import cluster

TAG = {"OP_ID": "OP_TAGS_SET", "kind": "cluster"}


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    """Make a cluster of four nodes, of which the first three are candidates."""
    with cluster.SimulatedCluster(seed=4, nodes=4) as simulated:
        simulated.run(simulated.build(candidate_pool_size=3))
        simulated.run(simulated.world.clock.sleep(10))
        yield simulated


def known_end(lab: cluster.SimulatedCluster, name: str) -> reach.Reach:
    return reach.read(lab.world.machine(name).disk, cluster.FOLDERS)


def end(lab: cluster.SimulatedCluster) -> reach.Reach:
    position = lab.daemons[lab.leader].store.position
    return position.epoch, position.serial


def test_each_node_hears_within_seconds_of_a_change_that_is_no_business_of_its_own(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        before = known_end(lab, "node4")
        await lab.done({**TAG, "tags": ["a"]})
        await lab.world.clock.sleep(5)
        assert before < known_end(lab, "node4") == end(lab)
        assert {known_end(lab, name) for name in lab.names} == {end(lab)}

    lab.run(scenario())


@pytest.mark.parametrize("policy", ["majority", "seed"])
def test_what_has_no_majority_is_not_reported_whatever_the_policy(lab: cluster.SimulatedCluster, policy: str) -> None:
    async def scenario() -> None:
        await lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "replication": policy})
        await lab.world.clock.sleep(5)
        for name in ("node2", "node3"):
            lab.kill(name)
        before = end(lab)
        with contextlib.suppress(errors.GantryError):
            await lab.done({**TAG, "tags": ["alone"]})
        await lab.world.clock.sleep(20)
        assert (end(lab) > before) is (policy == "seed")
        assert known_end(lab, "node4") == before

    lab.run(scenario())
