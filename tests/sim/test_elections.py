"""Which node may become the master: faults that scenarios found, each in the smallest cluster that shows it."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from gantry import errors
from gantry.mastership import role
from gantry.sim import cluster, copies

TAG = {"OP_ID": "OP_TAGS_SET", "kind": "cluster"}


async def failure_of(work: asyncio.Future[None] | asyncio.Future[list[object]]) -> str:
    try:
        await work
    except (errors.GantryError, OSError) as error:
        return str(error)
    return ""


def cut(lab: cluster.SimulatedCluster, name: str) -> None:
    for other in lab.names:
        if other != name:
            lab.world.network.partition(name, other)


def heal(lab: cluster.SimulatedCluster, name: str) -> None:
    for other in lab.names:
        lab.world.network.heal(name, other)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("nodes", [3, 4])
def test_of_two_that_take_the_role_at_one_moment_one_gets_it(seed: int, nodes: int) -> None:
    async def scenario() -> None:
        await lab.build()
        await lab.world.clock.sleep(10)
        lab.crash("node1")
        tasks = [asyncio.ensure_future(lab.failover(name)) for name in ("node2", "node3")]
        failures = [await failure_of(task) for task in tasks]
        assert failures.count("") == 1, failures
        (master,) = lab.masters()
        await lab.done({**TAG, "tags": ["counts"]}, on=master)

    with cluster.SimulatedCluster(seed, nodes=nodes) as lab:
        lab.run(scenario())


@pytest.mark.parametrize("marked", [True, False])
def test_a_start_needs_a_majority_of_all_nodes_that_changes_do_not_need(marked: bool) -> None:
    """All candidates are alive, and more than half of the nodes are off; those marked offline need not count."""
    ignoring_offline = role.Request(ignore_offline=True)

    async def scenario() -> None:
        await lab.build(candidate_pool_size=3)
        await lab.world.clock.sleep(10)
        off = [f"node{number}" for number in (4, 5, 6, 7)]
        for name in off:
            if marked:
                await lab.done({"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, "offline": True})
            lab.crash(name)
        await lab.done({**TAG, "tags": ["acknowledged"]})
        lab.crash("node1")
        with pytest.raises(errors.WrongStateError, match="3 of 7 nodes take node1 for the master, 4 are needed"):
            await lab.restart("node1")
        if marked:
            await lab.start_master("node1", ignoring_offline)
            await lab.done({**TAG, "tags": ["again"]})
        else:
            with pytest.raises(errors.WrongStateError, match="4 are needed"):
                await lab.start_master("node1", ignoring_offline)
            await lab.restart("node4")
            await lab.start_master("node1")

    with cluster.SimulatedCluster(1, nodes=7) as lab:
        lab.run(scenario())


def one_of_several_wins(seed: int, nodes: int, *, rivals: Sequence[str] = ("node2", "node3")) -> None:
    """Cut the master off, let candidates take its role within two seconds, and check that one of them has it."""

    async def failover(name: str) -> None:
        await lab.world.clock.sleep(lab.world.machine("node1").random.below(1000) / 500)
        await lab.failover(name)

    async def scenario() -> None:
        await lab.build(candidate_pool_size=1 + len(rivals))
        await lab.world.clock.sleep(10)
        cut(lab, "node1")
        await lab.world.clock.sleep(lab.world.machine("node1").random.below(15))
        failures = await asyncio.gather(*(failure_of(asyncio.ensure_future(failover(name))) for name in rivals))
        assert failures.count("") == 1, failures
        winner = rivals[failures.index("")]
        assert lab.masters() == ["node1", winner]
        await lab.done({**TAG, "tags": ["counts"]}, on=winner)
        assert all(winner in failure for failure in failures if failure)

    with cluster.SimulatedCluster(seed, nodes=nodes) as lab:
        lab.run(scenario())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("nodes", [4, 5])
def test_of_two_that_replace_a_lost_master_at_one_moment_one_wins(seed: int, nodes: int) -> None:
    one_of_several_wins(seed, nodes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 53))
def test_of_two_that_replace_a_lost_master_at_one_moment_one_wins_whatever_the_order(seed: int) -> None:
    one_of_several_wins(seed, 4 + seed % 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_of_three_that_replace_a_lost_master_at_one_moment_one_wins(seed: int) -> None:
    one_of_several_wins(seed, 5 + seed % 2, rivals=("node2", "node3", "node4"))


@pytest.mark.slow
def test_of_two_that_take_the_role_at_one_moment_without_a_vote_the_candidates_follow_one() -> None:
    """Both take the same epoch, because neither asks for grants; if each has the half of the others, none begins."""

    async def scenario() -> int:
        await lab.build(candidate_pool_size=5)
        await lab.world.clock.sleep(10)
        lab.crash("node1")
        tasks = [asyncio.ensure_future(lab.failover(name, voting=False)) for name in ("node2", "node3")]
        ready, waiting = await asyncio.wait(tasks, timeout=60)
        assert len(ready) <= 1
        if ready:
            (master,) = lab.masters()
            await lab.done({**TAG, "tags": ["counts"]}, on=master)
            await lab.world.clock.sleep(60)
            assert lab.masters() == [master]
            replicas = copies.Copies(lab)
            assert {replicas.end(name) for name in ("node4", "node5")} == {replicas.end(master)}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return len(ready)

    masters = 0
    for seed in range(8):
        with cluster.SimulatedCluster(seed, nodes=5) as lab:
            masters += lab.run(scenario())
    assert masters


def test_a_node_that_gave_up_a_newer_copy_keeps_an_older_one_from_the_role() -> None:
    async def scenario() -> None:
        await lab.build(candidate_pool_size=3, replication="seed")
        await lab.world.clock.sleep(10)
        cut(lab, "node3")
        await lab.done({**TAG, "tags": ["on-node1-and-node2"]})
        op = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node2", "drained": True}
        await lab.done(op)
        lab.crash("node1")
        heal(lab, "node3")
        with pytest.raises(errors.WrongStateError, match=r"node2 gave up a newer copy, epoch 1 serial \d+, here it is"):
            await lab.failover("node3")
        await lab.restart("node1")
        (tags,) = [await lab.luxi("QueryTags", "cluster", "")]
        assert tags == ["on-node1-and-node2"]

    with cluster.SimulatedCluster(1, nodes=4) as lab:
        lab.run(scenario())


def test_what_the_masters_own_disk_did_not_take_is_with_no_candidate() -> None:
    async def scenario() -> None:
        await lab.build()
        await lab.world.clock.sleep(10)
        lab.master.disk.fail_sync = 1.0
        with pytest.raises(errors.StorageError):
            await lab.submit({**TAG, "tags": ["lost"]})
        await lab.world.clock.sleep(1)
        lab.crash("node1")
        # Otherwise one of the two would hold a newer record than the other, and no node would be confirmed.
        await lab.failover("node2")
        assert await lab.luxi("QueryTags", "cluster", "") == []
        await lab.world.clock.sleep(10)
        assert await lab.luxi("QueryJobs", [3], ["status"]) == [[None]]

    with cluster.SimulatedCluster(2) as lab:
        lab.run(scenario())


@pytest.mark.parametrize("seed", range(5))
def test_a_disk_is_there_or_gone_after_a_loss_of_power_as_the_job_said(seed: int) -> None:
    op = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "disk_template": "file", "no_install": True}

    async def disks() -> list[str]:
        await lab.world.clock.sleep(0.001)
        lab.crash("node2")
        await lab.restart("node2")
        disk, folder = lab.world.machine("node2").disk, cluster.FOLDERS.file_storage
        return [file for subfolder in disk.names(folder) for file in disk.names(f"{folder}/{subfolder}")]

    async def scenario() -> None:
        await lab.build()
        await lab.done({**op, "disks": [{"size": 64}], "pnode": "node2", "start": False})
        assert len(await disks()) == 1
        await lab.done({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "vm1"})
        assert await disks() == []

    with cluster.SimulatedCluster(seed) as lab:
        lab.run(scenario())


def test_a_node_whose_adding_was_broken_off_has_no_vote() -> None:
    async def scenario() -> None:
        await lab.build()
        await lab.done({"OP_ID": "OP_NODE_REMOVE", "node_name": "node2"})
        await lab.world.clock.sleep(2)
        token = lab.world.machine("node2").disk.read(f"{cluster.FOLDERS.lib}/join-token").decode()
        address = lab.address("node2")
        await lab.submit(
            {"OP_ID": "OP_NODE_ADD", "node_name": "node2", "primary_ip": address, "join_token": token.strip()}
        )
        store = lab.daemons["node1"].store
        async with asyncio.timeout(60):
            while len(store.durable.nodes) < 2:
                await lab.world.clock.sleep(0.001)
        assert store.durable.node("node2").joining
        lab.crash("node1")
        lab.crash("node2")
        await lab.restart("node1")
        assert lab.masters() == ["node1"]
        assert [name for name, *_ in await names(lab)] == ["node1", "node2"]

    async def names(lab: cluster.SimulatedCluster) -> list[list[object]]:
        return msgspec.convert(await lab.luxi("QueryNodes", [], ["name"], False), list[list[object]])

    with cluster.SimulatedCluster(1, nodes=2) as lab:
        lab.run(scenario())


def test_a_master_is_confirmed_again_when_who_was_granted_its_role_never_begins() -> None:
    async def scenario() -> None:
        await lab.build(replication="seed")
        await lab.world.clock.sleep(10)
        grant, disk = f"{cluster.FOLDERS.lib}/promise", lab.world.machine("node3").disk
        lab.world.network.partition("node1", "node2")
        claim = asyncio.ensure_future(failure_of(asyncio.ensure_future(lab.failover("node2"))))
        while not disk.exists(grant):
            await lab.world.clock.sleep(0.0001)
        lab.crash("node2")
        assert await claim
        lab.world.network.heal("node1", "node2")
        epoch = lab.daemons["node1"].store.epoch
        await lab.done({**TAG, "tags": ["in-doubt"]})
        assert lab.masters() == ["node1"]
        assert lab.daemons["node1"].store.epoch > epoch
        await lab.done({**TAG, "tags": ["kept"]})
        await lab.restart("node2")
        await lab.world.clock.sleep(60)
        await lab.failover("node2")
        assert lab.masters() == ["node2"]
        assert {"in-doubt", "kept"} <= set(msgspec.convert(await lab.luxi("QueryTags", "cluster", ""), list[str]))

    with cluster.SimulatedCluster(4) as lab:
        lab.run(scenario())


def test_a_master_that_is_replaced_while_it_is_confirmed_again_ends() -> None:
    """Its record that begins the confirmed epoch is never acknowledged, and it must not wait for that alone."""

    async def scenario() -> None:
        await lab.build(replication="majority")
        await lab.world.clock.sleep(10)
        grant, disk = f"{cluster.FOLDERS.lib}/promise", lab.world.machine("node1").disk
        before = disk.read(grant)
        lab.daemons["node1"].candidates.refuse(errors.NotGrantedError("node2 has granted epoch 2 to node2"))
        while disk.read(grant) == before:
            await lab.world.clock.sleep(0.0001)
        cut(lab, "node1")
        await lab.failover("node2")
        assert lab.masters() == ["node1", "node2"]
        heal(lab, "node1")
        await lab.world.clock.sleep(60)
        assert lab.masters() == ["node2"]

    with cluster.SimulatedCluster(7) as lab:
        lab.run(scenario())


@pytest.mark.parametrize("policy", ["majority", "seed"])
def test_a_replaced_master_that_is_marked_offline_ends_although_the_nodes_do_not_know_it_any_more(policy: str) -> None:
    async def scenario() -> None:
        await lab.build(replication=policy)
        await lab.world.clock.sleep(10)
        cut(lab, "node1")
        await lab.failover("node2")
        await lab.done({"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node1", "offline": True})
        await lab.world.clock.sleep(120)
        assert lab.masters() == ["node1", "node2"]
        heal(lab, "node1")
        if policy == "seed":
            # An idle master calls no node under this policy.
            await failure_of(asyncio.ensure_future(lab.done({**TAG, "tags": ["of-node1"]}, on="node1")))
        await lab.world.clock.sleep(120)
        assert lab.masters() == ["node2"]

    with cluster.SimulatedCluster(7, nodes=4) as lab:
        lab.run(scenario())


def test_a_master_goes_on_if_one_candidate_does_not_know_it(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        await lab.build(replication="majority")
        await lab.world.clock.sleep(10)
        daemon, disk = lab.daemons["node1"], lab.world.machine("node3").disk
        keys = f"{cluster.FOLDERS.ssconf}/ssconf_master_candidates_certs"
        await disk.write(keys, b"0000=unknown")
        await lab.done({**TAG, "tags": ["goes-on"]})
        await lab.world.clock.sleep(60)
        assert daemon.candidates.lagging() == ["node3"]
        assert "refuses this master" not in caplog.text
        assert lab.masters() == ["node1"]

    with cluster.SimulatedCluster(8) as lab:
        lab.run(scenario())


def test_a_master_that_cannot_store_its_confirmation_tries_again() -> None:
    async def scenario() -> None:
        await lab.build(replication="majority")
        await lab.world.clock.sleep(10)
        daemon, disk = lab.daemons["node1"], lab.world.machine("node1").disk
        epoch = daemon.store.epoch
        disk.fail_write = 1.0
        daemon.candidates.refuse(errors.NotGrantedError("node2 has granted epoch 2 to node2"))
        await lab.world.clock.sleep(20)
        disk.fail_write = 0.0
        await lab.world.clock.sleep(20)
        assert daemon.candidates.doubt is None
        assert daemon.store.epoch > epoch
        await lab.done({**TAG, "tags": ["goes-on"]})

    with cluster.SimulatedCluster(8) as lab:
        lab.run(scenario())


def test_a_master_that_few_nodes_know_of_takes_its_role_again() -> None:
    async def scenario() -> None:
        replicas = copies.Copies(lab)
        await lab.build()
        await lab.world.clock.sleep(10)
        lab.kill_master("node1")
        claim = asyncio.ensure_future(failure_of(asyncio.ensure_future(lab.failover("node2"))))
        while (begun := replicas.frames.get(replicas.end("node2"))) is None or begun.epoch == 1:
            await lab.world.clock.sleep(0.0001)
        lab.crash("node2")
        assert await claim
        with pytest.raises(errors.WrongStateError, match="1 of 3 nodes take node2 for the master") as caught:
            await lab.restart("node2")
        assert "or make this node the master with gnt-cluster master-failover" in str(caught.value)
        await lab.failover("node2")
        assert lab.masters() == ["node2"]
        assert lab.daemons["node2"].store.epoch > begun.epoch
        await lab.done({**TAG, "tags": ["counts"]})
        await lab.stop_master("node2")
        await lab.start_master("node2")
        with pytest.raises(errors.WrongStateError, match="the state is in use"):
            await lab.failover("node2")
        assert lab.masters() == ["node2"]

    with cluster.SimulatedCluster(5) as lab:
        lab.run(scenario())


def test_a_master_of_the_past_that_takes_its_role_again_catches_up_and_ends_its_successor() -> None:
    async def scenario() -> None:
        await lab.build()
        await lab.world.clock.sleep(10)
        lab.crash("node1")
        await lab.failover("node2")
        await lab.done({**TAG, "tags": ["of-node2"]})
        await lab.start_node("node1")
        await lab.failover("node1")
        assert lab.masters() == ["node1"]
        assert await lab.luxi("QueryTags", "cluster", "") == ["of-node2"]

    with cluster.SimulatedCluster(6) as lab:
        lab.run(scenario())


def test_a_master_of_the_past_that_reaches_only_its_successor_does_not_replace_it() -> None:
    """The successor does not report its state while it writes, and the third node is down."""

    async def scenario() -> None:
        await lab.build()
        await lab.world.clock.sleep(10)
        lab.crash("node1")
        await lab.failover("node2")
        lab.crash("node3")
        await lab.start_node("node1")
        with pytest.raises(errors.WrongStateError, match="not confirmed as the master: node node2 takes itself for"):
            await lab.failover("node1")
        assert lab.masters() == ["node2"]
        await lab.world.clock.sleep(10)
        await lab.done({**TAG, "tags": ["goes-on"]}, on="node2")

    with cluster.SimulatedCluster(7) as lab:
        lab.run(scenario())
