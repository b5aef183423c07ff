"""Candidates that do not come back: how a living master continues without them (explanation/replication.md)."""

from collections.abc import Iterator, Sequence

import pytest

from gantry import errors
from gantry.sim import cluster
from gantry.state.candidates import replication

CUT_SECONDS = replication.TIMEOUT + 10


def tag(name: str) -> cluster.Opcode:
    return {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": [name]}


def offline(name: str) -> cluster.Opcode:
    return {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, "offline": True}


def policy(name: str) -> cluster.Opcode:
    return {"OP_ID": "OP_CLUSTER_SET_PARAMS", "replication": name}


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[cluster.SimulatedCluster]:
    """Return a cluster with a number of candidates and a policy."""
    count, name = request.param
    with cluster.SimulatedCluster(seed=5, nodes=count) as simulated:
        simulated.run(simulated.build(replication=name))
        simulated.run(simulated.world.clock.sleep(10))
        yield simulated


async def stall(lab: cluster.SimulatedCluster, silent: Sequence[str]) -> None:
    """Let candidates lose their power, and the master wait for them with a change that it cannot acknowledge."""
    for name in silent:
        lab.crash(name)
    with pytest.raises(errors.NotMasterError, match="not acknowledged"):
        await lab.submit(tag("in-doubt"))
    await lab.world.clock.sleep(CUT_SECONDS)
    with pytest.raises(errors.NotMasterError, match="may not change the cluster"):
        await lab.submit(tag("refused"))


WAYS_OUT = [
    ((3, "all"), ["node3"], offline("node3")),
    ((3, "all"), ["node3"], policy("majority")),
    ((3, "all"), ["node3"], policy("seed")),
    ((2, "majority"), ["node2"], offline("node2")),
    ((4, "majority"), ["node3", "node4"], offline("node4")),
]


@pytest.mark.parametrize(("lab", "silent", "op"), WAYS_OUT, indirect=["lab"])
def test_a_master_goes_on_when_a_silent_candidate_is_given_up(
    lab: cluster.SimulatedCluster, silent: Sequence[str], op: cluster.Opcode
) -> None:
    async def scenario() -> None:
        await stall(lab, silent)
        await lab.done(op)
        await lab.world.clock.sleep(10)
        await lab.done(tag("later"))
        assert await lab.luxi("QueryTags", "cluster", "") == ["in-doubt", "later"]
        assert lab.daemons["node1"].candidates.notice() == ""
        # Those that lacked all of that come back, and get it; so does the next master.
        for name in silent:
            await lab.restart(name)
        await lab.world.clock.sleep(60)
        if len(lab.names) > 2:
            await lab.failover("node2")
            assert await lab.luxi("QueryTags", "cluster", "") == ["in-doubt", "later"]

    lab.run(scenario())


@pytest.mark.parametrize("lab", [(3, "all"), (4, "majority")], indirect=True)
def test_a_change_that_gives_a_candidate_up_needs_a_majority_of_the_others(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        silent = lab.names[1:]
        await stall(lab, silent)
        with pytest.raises(errors.NotMasterError, match="not acknowledged"):
            await lab.submit(offline(silent[-1]))
        await lab.world.clock.sleep(60)
        assert lab.daemons["node1"].store.durable.node(silent[-1]).offline is False
        assert await lab.luxi("QueryTags", "cluster", "") == []
        for name in silent:
            await lab.restart(name)
        await lab.world.clock.sleep(60)
        assert lab.daemons["node1"].store.durable.node(silent[-1]).offline is True
        assert await lab.luxi("QueryTags", "cluster", "") == ["in-doubt"]

    lab.run(scenario())


@pytest.mark.parametrize("lab", [(2, "majority")], indirect=True)
def test_a_candidate_that_was_given_up_does_not_take_over_without_the_master(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lab.world.network.partition("node1", "node2")
        with pytest.raises(errors.NotMasterError, match="not acknowledged"):
            await lab.submit(tag("in-doubt"))
        await lab.world.clock.sleep(CUT_SECONDS)
        await lab.done(offline("node2"))
        await lab.done(tag("later"))
        with pytest.raises(errors.WrongStateError, match="not confirmed as the master"):
            await lab.failover("node2")
        lab.kill_master("node1")
        lab.world.network.heal("node1", "node2")
        with pytest.raises(errors.WrongStateError, match="not confirmed as the master"):
            await lab.failover("node2")
        await lab.start_master("node1")
        assert await lab.luxi("QueryTags", "cluster", "") == ["in-doubt", "later"]

    lab.run(scenario())


@pytest.mark.parametrize("lab", [(3, "all")], indirect=True)
def test_the_job_that_gives_a_candidate_up_says_what_it_left_out(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await stall(lab, ["node3"])
        number = await lab.luxi("SubmitManyJobs", [[offline("node3")]])
        assert isinstance(number, list)
        ((accepted, job),) = number
        assert accepted
        rows = await lab.luxi("QueryJobs", [job], ["status", "opresult", "oplog"])
        assert isinstance(rows, list)
        ((status, (result,), (log,)),) = rows
        assert status == "success"
        assert ["offline", True] in result
        text = "\n".join(entry[3] for entry in log)
        assert "left out, because too few master candidates answered: delete the copy of the state on node3" in text

    lab.run(scenario())
