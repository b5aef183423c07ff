"""The master's role among several machines: taken over, fenced, and what goes with it."""

import asyncio
import itertools
from collections.abc import Iterator

import msgspec
import pytest

from gantry import errors
from gantry.sim import cluster
from gantry.state.journal import backlog

INSTANCE: cluster.Opcode = {
    "OP_ID": "OP_INSTANCE_CREATE",
    "instance_name": "vm1.example",
    "disk_template": "diskless",
    "pnode": "node2",
    "start": False,
}
TAG: cluster.Opcode = {"OP_ID": "OP_TAGS_SET", "kind": "cluster"}
START: cluster.Opcode = {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "vm1.example"}


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    """Make a cluster whose master continues without a majority; ``test_lease`` has the other policies."""
    with cluster.SimulatedCluster(seed=3) as simulated:
        simulated.run(simulated.build(replication="seed"))
        yield simulated


def delay(seconds: float, *nodes: str) -> cluster.Opcode:
    return {"OP_ID": "OP_TEST_DELAY", "duration": seconds, "on_nodes": nodes}


async def rows(lab: cluster.SimulatedCluster, kind: str, *fields: str) -> list[list[object]]:
    answer = msgspec.convert(await lab.luxi("Query", kind, fields, None), dict[str, object])
    return [[value for _, value in row] for row in msgspec.convert(answer["data"], list[list[tuple[int, object]]])]


async def until_running(lab: cluster.SimulatedCluster, number: int) -> None:
    for _ in range(100):
        if [number, "running"] in await rows(lab, "job", "id", "status"):
            return
        await lab.world.clock.sleep(0.1)
    raise TimeoutError(f"job {number} does not run")


def isolate(lab: cluster.SimulatedCluster, name: str, *, cut: bool) -> None:
    for other in lab.names:
        if other != name:
            (lab.world.network.partition if cut else lab.world.network.heal)(name, other)


@pytest.mark.parametrize("first", ["change", "command"])
def test_a_master_that_was_cut_off_and_replaced_starts_no_instance_when_it_is_back(
    lab: cluster.SimulatedCluster, first: str, caplog: pytest.LogCaptureFixture
) -> None:
    """When the connection is back, the old master knows of no successor: the node that it calls refuses it."""

    async def scenario() -> None:
        await lab.done(INSTANCE)
        isolate(lab, "node1", cut=True)
        if first == "change":
            # so that it does not wait for its candidates any more
            await lab.done(delay(0), on="node1")
        await lab.failover("node2")
        assert lab.masters() == ["node1", "node2"]
        isolate(lab, "node1", cut=False)
        # it ends, with or without an answer
        with pytest.raises((errors.GantryError, ConnectionResetError)):
            await lab.done(START, on="node1")
        assert "epoch 1 has passed: node" in caplog.text
        await lab.world.clock.sleep(10)
        assert lab.masters() == ["node2"]
        assert await rows(lab, "instance", "name", "oper_state") == [["vm1.example", False]]
        await lab.done(START)
        assert await rows(lab, "instance", "name", "oper_state") == [["vm1.example", True]]

    lab.run(scenario())


def test_a_node_remembers_over_a_loss_of_power_which_master_it_obeys(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await lab.done(INSTANCE)
        isolate(lab, "node1", cut=True)
        await lab.done(delay(0), on="node1")
        await lab.failover("node2")
        await lab.world.clock.sleep(1)
        lab.crash("node3")
        await lab.restart("node3")
        lab.kill("node2")
        isolate(lab, "node1", cut=False)
        with pytest.raises((errors.GantryError, ConnectionResetError)):
            await lab.done(delay(1, "node3"), on="node1")
        assert "node3: epoch 1 has passed: node3 obeys a master" in caplog.text

    lab.run(scenario())


@pytest.mark.promise("cluster-40")
def test_locks_are_the_masters_own_and_lost_with_it(lab: cluster.SimulatedCluster) -> None:
    async def locked() -> list[object]:
        return [name for name, owner in await rows(lab, "lock", "name", "owner") if owner]

    async def scenario() -> None:
        running = await lab.submit(delay(3600, "node3"))
        await until_running(lab, running)
        # the node's, and the cluster's, which each operation shares
        assert len(await locked()) == 2
        lab.crash("node1")
        await lab.failover("node2")
        assert (await lab.wait(running))[0] == "error"
        assert await locked() == []
        began = lab.world.clock.monotonic()
        await lab.done(delay(0.1, "node3"))
        assert lab.world.clock.monotonic() - began < 5

    lab.run(scenario())


@pytest.mark.promise("cluster-41")
def test_a_living_master_is_not_replaced_while_operations_run(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        running = await lab.submit(delay(60, "node3"))
        await until_running(lab, running)
        with pytest.raises(errors.WrongStateError, match=rf"node1, is alive and runs jobs .*: {running}; wait until"):
            await lab.failover("node2", interrupts_jobs=False)
        assert lab.masters() == ["node1"]
        assert (await lab.wait(running, on="node1"))[0] == "success"
        await lab.failover("node2", interrupts_jobs=False)
        assert lab.masters() == ["node2"]

    lab.run(scenario())


def test_jobs_of_a_master_that_is_gone_do_not_stand_in_the_way(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        running = await lab.submit(delay(3600, "node3"))
        await until_running(lab, running)
        lab.kill_master("node1")
        await lab.failover("node2", interrupts_jobs=False)
        assert (await lab.wait(running))[0] == "error"

    lab.run(scenario())


def test_a_change_of_master_takes_less_than_five_seconds(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        for name, before in (("node2", lab.stop_master), ("node3", None)):
            if before:
                await before(lab.leader)
            began = lab.world.clock.monotonic()
            await lab.failover(name)
            await lab.luxi("QueryClusterInfo")
            assert lab.world.clock.monotonic() - began < 5
        lab.crash("node3")
        began = lab.world.clock.monotonic()
        await lab.failover("node1")
        await lab.luxi("QueryClusterInfo")
        assert lab.world.clock.monotonic() - began < 5

    lab.run(scenario())


def test_a_drained_queue_stays_so_over_a_change_of_master(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        assert await lab.luxi("SetDrainFlag", True)
        lab.crash("node1")
        await lab.failover("node2")
        assert await lab.luxi("QueryConfigValues", ["drain_flag"]) == [True]
        with pytest.raises(errors.QueueDrainedError):
            await lab.submit(delay(0))
        await lab.world.clock.sleep(2)
        drained = f"{cluster.FOLDERS.queue}/drain"
        assert lab.master.disk.exists(drained)
        await lab.luxi("SetDrainFlag", False)
        await lab.done(delay(0))
        await lab.world.clock.sleep(2)
        assert not lab.master.disk.exists(drained)

    lab.run(scenario())


@pytest.mark.parametrize(
    ("restarted", "away"),
    [("", False), *itertools.product(("gets the records after", "gets the whole state"), (False, True))],
)
def test_archived_jobs_can_be_read_after_a_change_of_master(
    lab: cluster.SimulatedCluster,
    restarted: str,
    away: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if the candidate was down until then, and received frames from the disk or the whole state."""
    caplog.set_level("INFO")
    if restarted == "gets the whole state":
        monkeypatch.setattr(backlog, "LIMIT", 0)

    async def scenario() -> None:
        if away:
            lab.kill("node2")
        numbers = [await lab.submit(delay(0)) for _ in range(3)]
        for number in numbers:
            await lab.wait(number)
        unarchived_job, *archived_jobs = numbers
        for number in archived_jobs:
            assert await lab.luxi("ArchiveJob", number)
        if restarted:
            if not away:
                lab.kill("node2")
            await lab.done(delay(0))
            lab.kill_master("node1")
            await lab.start_master()
            await lab.start_node("node2")
            await lab.world.clock.sleep(60)
        assert ("master candidate node2 gets" in caplog.text) is bool(restarted)
        assert restarted in caplog.text
        lab.crash("node1")
        await lab.failover("node2")
        jobs = await lab.luxi("QueryJobs", numbers, ["id", "status", "archived"])
        assert jobs == [[unarchived_job, "success", False], *([number, "success", True] for number in archived_jobs)]

    lab.run(scenario())


def test_an_old_master_that_comes_back_is_refused_and_stays_a_candidate(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lab.crash("node1")
        await lab.failover("node2")
        await lab.done(delay(0))
        with pytest.raises(errors.WrongStateError, match="node1 is not confirmed as the master"):
            await lab.restart("node1")
        await lab.world.clock.sleep(60)
        lab.kill("node1")
        await lab.restart("node1")
        assert lab.masters() == ["node2"]
        lab.crash("node2")
        await lab.restart("node2")
        assert lab.masters() == ["node2"]

    lab.run(scenario())


@pytest.mark.promise("cluster-26", "cluster-27")
def test_a_candidate_is_refused_whose_copy_is_older_than_that_of_a_single_node(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The candidate cannot catch up: the other one received the whole state, without the records that led to it."""
    monkeypatch.setattr(backlog, "LIMIT", 0)

    async def scenario() -> None:
        for name in ("node2", "node3"):
            lab.kill(name)
        await lab.done(delay(0))
        await lab.start_node("node3")
        lab.kill_master("node1")
        await lab.start_master()
        await lab.world.clock.sleep(60)
        lab.crash("node1")
        await lab.start_node("node2")
        with pytest.raises(errors.WrongStateError, match="node node3 holds a newer copy, epoch 2 serial"):
            await lab.failover("node2")
        await lab.failover("node3")
        assert lab.masters() == ["node3"]

    lab.run(scenario())


@pytest.mark.promise("cluster-84")
def test_a_former_candidate_that_kept_its_copy_is_refused_when_it_hears_that_it_is_none(
    lab: cluster.SimulatedCluster,
) -> None:
    """It was cut off when it lost the flag, so that it could not be made to delete its copy of the state."""

    async def scenario() -> None:
        isolate(lab, "node3", cut=True)
        await lab.done({"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node3", "offline": True})
        lab.kill_master("node1")
        isolate(lab, "node3", cut=False)
        with pytest.raises(errors.WrongStateError, match=r"node node3 is not a master candidate .*: node2"):
            await lab.failover("node3")
        await lab.failover("node2")
        assert lab.masters() == ["node2"]

    lab.run(scenario())


@pytest.mark.promise("cluster-31")
def test_with_the_override_an_older_copy_counts_and_replaces_the_newer_one_on_other_nodes(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the master and node3 have the tag; node2 cannot catch up, as in the test above."""
    monkeypatch.setattr(backlog, "LIMIT", 0)

    async def tags() -> object:
        return await lab.luxi("QueryTags", "cluster", "")

    async def scenario() -> None:
        for name in ("node2", "node3"):
            lab.kill(name)
        await lab.done({**TAG, "tags": ["newer"]})
        await lab.start_node("node3")
        lab.kill_master("node1")
        await lab.start_master()
        await lab.world.clock.sleep(60)
        lab.crash("node1")
        await lab.start_node("node2")
        with pytest.raises(errors.WrongStateError, match="node node3 holds a newer copy"):
            await lab.failover("node2")
        await lab.failover("node2", voting=False)
        assert await tags() == []
        await lab.done({**TAG, "tags": ["older"]})
        await lab.world.clock.sleep(60)
        lab.kill_master("node2")
        await lab.failover("node3")
        assert await tags() == ["older"]

    lab.run(scenario())


def test_a_takeover_without_a_majority_needs_the_override(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lab.crash("node1")
        lab.crash("node3")
        with pytest.raises(errors.WrongStateError, match="1 of 3 nodes"):
            await lab.failover("node2")
        await lab.failover("node2", voting=False)
        await lab.done(delay(0))

    lab.run(scenario())


def test_offline_nodes_that_are_silent_are_not_counted_if_an_operator_says_so(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        for name in ("node2", "node3"):
            await lab.done({"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, "offline": True})
            lab.crash(name)
        lab.kill("node1")
        with pytest.raises(errors.WrongStateError) as refusal:
            await lab.restart("node1")
        advice = "not counting node2, node3, marked offline: gnt-cluster master-failover --ignore-offline-nodes"
        assert advice in str(refusal.value)
        await lab.failover("node1", ignoring_offline=True)
        await lab.done(delay(0))

    lab.run(scenario())


def test_a_takeover_that_is_given_up_leaves_nothing_running(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lab.crash("node1")
        lab.crash("node3")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await lab.failover("node2")
        await lab.restart("node1")
        assert lab.masters() == ["node1"]

    lab.run(scenario())
