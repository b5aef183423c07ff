"""The lease of the master, and what a master without a majority does (explanation/replication.md)."""

import asyncio
from collections.abc import Iterator

import pytest

from gantry import errors
from gantry.mastership import role
from gantry.rpc import calls, targets
from gantry.sim import cluster
from gantry.state.candidates import lease, replication

TAG = {"OP_ID": "OP_TAGS_SET", "kind": "cluster"}
INSTANCE: cluster.Opcode = {
    "OP_ID": "OP_INSTANCE_CREATE",
    "instance_name": "vm1.example",
    "disk_template": "diskless",
    "pnode": "node3",
    "start": False,
}


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=3) as simulated:
        simulated.run(simulated.build())
        simulated.run(simulated.world.clock.sleep(10))
        yield simulated


def isolate(lab: cluster.SimulatedCluster, name: str, *, cut: bool) -> None:
    for other in lab.names:
        if other != name:
            (lab.world.network.partition if cut else lab.world.network.heal)(name, other)


def tag(*tags: str) -> cluster.Opcode:
    return {**TAG, "tags": list(tags)}


async def tags(lab: cluster.SimulatedCluster) -> object:
    return await lab.luxi("QueryTags", "cluster", "")


def test_a_master_that_closes_while_it_is_cut_off_still_says_so(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        isolate(lab, "node1", cut=True)
        await lab.world.clock.sleep(60)
        candidates = lab.daemons["node1"].candidates
        await candidates.close()
        assert "1 of 3 master candidates obey this master" in candidates.notice()

    lab.run(scenario())


def test_a_master_that_is_cut_off_changes_nothing_says_so_and_goes_on_when_it_is_back(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        isolate(lab, "node1", cut=True)
        with pytest.raises(errors.NotMasterError, match="stored on node1, but not acknowledged: 1 of 3 master candid"):
            await lab.submit(tag("in-doubt"))
        began = lab.world.clock.monotonic()
        with pytest.raises(errors.NotMasterError, match=r"may not change .* 2 are needed, missing: node2, node3"):
            await lab.submit(tag("refused"))
        assert lab.world.clock.monotonic() - began < 0.1
        assert await tags(lab) == []
        assert "may be out of date" in lab.daemons["node1"].candidates.notice()
        await lab.world.clock.sleep(300)
        isolate(lab, "node1", cut=False)
        await lab.world.clock.sleep(40)
        await lab.done(tag("later"))
        assert await tags(lab) == ["in-doubt", "later"]
        assert lab.masters() == ["node1"]
        assert lab.daemons["node1"].candidates.notice() == ""

    lab.run(scenario())


def test_an_idle_master_notices_that_it_is_cut_off(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        isolate(lab, "node1", cut=True)
        await lab.world.clock.sleep(replication.TIMEOUT + 2 * lease.IDLE_SECONDS)
        with pytest.raises(errors.NotMasterError, match="may not change the cluster at present: 1 of 3"):
            await lab.submit(tag("refused"))
        isolate(lab, "node1", cut=False)
        await lab.world.clock.sleep(2 * lease.IDLE_SECONDS)
        await lab.done(tag("later"))
        assert await tags(lab) == ["later"]

    lab.run(scenario())


def test_no_other_node_gets_the_role_before_the_lease_of_a_silent_master_has_ended(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        old = lab.daemons["node1"]
        for other in ("node2", "node3"):
            lab.world.network.partition("node1", other)
        claim = asyncio.ensure_future(lab.failover("node2"))
        while not claim.done():
            assert not old.lease.is_held() or lab.masters() == ["node1"]
            await lab.world.clock.sleep(0.01)
        await claim
        assert not old.lease.is_held()
        await lab.done(tag("of-node2"))
        with pytest.raises(errors.NotMasterError):
            await lab.submit(tag("of-node1"), on="node1")
        isolate(lab, "node1", cut=False)
        await lab.world.clock.sleep(60)
        assert lab.masters() == ["node2"]
        assert await tags(lab) == ["of-node2"]

    lab.run(scenario())


@pytest.mark.parametrize("power", [False, True])
def test_a_failover_waits_for_the_lease_only_if_the_old_master_may_be_alive(
    lab: cluster.SimulatedCluster, power: bool
) -> None:
    async def scenario() -> None:
        if power:
            lab.crash("node1")
        else:
            lab.kill_master("node1")
        began = lab.world.clock.monotonic()
        await lab.failover("node2")
        seconds = lab.world.clock.monotonic() - began
        assert (calls.LEASE_SECONDS - 1 < seconds < calls.LEASE_SECONDS + 8) if power else seconds < 3

    lab.run(scenario())


def test_a_master_that_works_is_not_replaced_by_a_node_that_does_not_reach_it(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        running = await lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 200, "on_nodes": ["node3"]})
        lab.world.network.partition("node1", "node2")
        with pytest.raises(errors.WrongStateError, match="node1 has the lease and works as the master"):
            await lab.failover("node2")
        lab.world.network.heal("node1", "node2")
        await lab.world.clock.sleep(30)
        assert lab.masters() == ["node1"]
        assert (await lab.wait(running))[0] == "success"
        await lab.done(tag("goes-on"))

    lab.run(scenario())


def test_the_word_of_one_node_does_not_end_the_master_or_its_jobs(lab: cluster.SimulatedCluster) -> None:
    """A node that was cut off granted the role to another, which never began."""

    async def scenario() -> None:
        running = await lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 200, "on_nodes": ["node2"]})
        epoch = lab.daemons["node1"].store.epoch
        isolate(lab, "node3", cut=True)
        await lab.world.clock.sleep(30)
        machine = lab.world.machine("node3")
        grant = calls.GrantedEpoch(epoch=epoch + 5, node="node2")
        await machine.disk.write(f"{cluster.FOLDERS.lib}/promise", b'{"epoch":%d,"node":"node2"}' % grant.epoch)
        isolate(lab, "node3", cut=False)
        await lab.done(tag("goes-on"))
        await lab.world.clock.sleep(60)
        assert lab.masters() == ["node1"]
        assert lab.daemons["node1"].store.epoch > grant.epoch
        assert lab.daemons["node1"].candidates.lagging() == []
        assert (await lab.wait(running))[0] == "success"

    lab.run(scenario())


def test_a_job_of_a_master_without_its_lease_waits_before_it_commands_a_node(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done(INSTANCE)
        start = await lab.submit(
            {"OP_ID": "OP_TEST_DELAY", "duration": 20},
            {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "vm1.example"},
        )
        await lab.world.clock.sleep(1)
        lab.world.network.partition("node1", "node2", one_way=True)
        lab.world.network.partition("node2", "node1", one_way=True)
        disk = lab.world.machine("node3").disk
        disk.fail_write = 1.0
        await lab.world.clock.sleep(60)
        disk.fail_write = 0.0
        guests = f"{cluster.FOLDERS.instances}/fake"
        assert not disk.exists(guests) or not disk.names(guests)
        lab.world.network.heal("node1", "node2")
        assert (await lab.wait(start))[0] == "success"

    lab.run(scenario())


def test_a_candidate_that_is_added_while_the_master_is_cut_off_neither_counts_nor_is_acknowledged() -> None:
    async def scenario(lab: cluster.SimulatedCluster) -> None:
        await lab.build(candidate_pool_size=3)
        await lab.world.clock.sleep(10)
        for other in ("node2", "node3"):
            lab.world.network.partition("node1", other)
        add: cluster.Opcode = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node4", "master_candidate": True}
        with pytest.raises(errors.NotMasterError, match="not acknowledged: 1 of 3 master candid"):
            await lab.submit(add)
        await lab.world.clock.sleep(30)
        with pytest.raises(errors.NotMasterError, match="2 are needed, missing: node2, node3"):
            await lab.submit(tag("refused"))
        await lab.failover("node2")
        await lab.done(tag("of-node2"))
        for other in ("node2", "node3"):
            lab.world.network.heal("node1", other)
        await lab.world.clock.sleep(60)
        assert lab.masters() == ["node2"]
        state = lab.daemons["node2"].store.snapshot
        assert sorted(node.name for node in state.nodes.values() if node.master_candidate) == [
            "node1",
            "node2",
            "node3",
        ]
        assert not lab.world.machine("node4").disk.exists(cluster.FOLDERS.config)
        assert await tags(lab) == ["of-node2"]

    with cluster.SimulatedCluster(seed=3, nodes=4) as lab:
        lab.run(scenario(lab))


def test_a_running_job_that_adds_a_candidate_while_the_master_is_cut_off_waits_and_adds_none() -> None:
    """The job was accepted before the cut; no change of the candidates counts by the old or the new rule alone."""

    async def scenario(lab: cluster.SimulatedCluster) -> None:
        await lab.build(candidate_pool_size=3)
        await lab.world.clock.sleep(10)
        add: cluster.Opcode = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node4", "master_candidate": True}
        number = await lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 10}, add)
        await lab.world.clock.sleep(1)
        for other in ("node2", "node3"):
            lab.world.network.partition("node1", other)
        await lab.world.clock.sleep(60)
        daemon = lab.daemons["node1"]
        assert "node4" not in {node.name for node in daemon.store.durable.nodes.values() if node.master_candidate}
        with pytest.raises(errors.NotMasterError):
            await lab.submit(tag("refused"))
        for other in ("node2", "node3"):
            lab.world.network.heal("node1", other)
        assert (await lab.wait(number))[0] == "success"
        await lab.world.clock.sleep(30)
        assert lab.world.machine("node4").disk.exists(cluster.FOLDERS.config)
        assert await tags(lab) == []

    with cluster.SimulatedCluster(seed=3, nodes=4) as lab:
        lab.run(scenario(lab))


@pytest.mark.parametrize("seed", range(4))
def test_of_two_people_who_fail_over_at_one_moment_one_succeeds_and_nothing_acknowledged_is_lost(seed: int) -> None:
    """The old master is alive behind a cut cable, and both commands reach the same two nodes."""

    async def outcome(lab: cluster.SimulatedCluster, name: str) -> str:
        try:
            await lab.failover(name)
        except errors.GantryError as error:
            return str(error)
        return ""

    async def scenario(lab: cluster.SimulatedCluster) -> None:
        await lab.build()
        await lab.world.clock.sleep(10)
        await lab.done(tag("before"))
        isolate(lab, "node1", cut=True)
        both = await asyncio.gather(outcome(lab, "node2"), outcome(lab, "node3"))
        if "" not in both:
            # Each was refused because of the other; a repetition is the answer.
            assert await outcome(lab, "node2") == ""
        masters = [name for name in lab.masters() if name != "node1"]
        assert len(masters) == 1
        await lab.done(tag("after"), on=masters[0])
        isolate(lab, "node1", cut=False)
        await lab.world.clock.sleep(60)
        assert lab.masters() == masters
        assert await lab.luxi("QueryTags", "cluster", "", on=masters[0]) == ["after", "before"]

    with cluster.SimulatedCluster(seed) as lab:
        lab.run(scenario(lab))


def test_a_master_that_waits_for_its_lease_does_not_flood_candidates_that_refuse_it(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals: list[float] = []

    async def refuse(target: targets.Target, call: calls.Call[object]) -> object:
        if isinstance(call, calls.LeaseRenew):
            renewals.append(lab.world.clock.monotonic())
            # Answers of different candidates never end at the same moment.
            await lab.world.clock.sleep(0.001 * int(target.name[-1]))
        raise errors.RemoteError(f"{target.name} does not answer")

    async def scenario() -> None:
        daemon = lab.daemons["node1"]
        monkeypatch.setattr(daemon.nodes, "call", refuse)
        await lab.world.clock.sleep(2 * lease.RIGHT_SECONDS)
        assert not daemon.lease.is_held()
        waiting = asyncio.ensure_future(daemon.lease.hold())
        renewals.clear()
        await lab.world.clock.sleep(10)
        waiting.cancel()
        assert 10 / lease.IDLE_SECONDS <= len(renewals) <= 2 * 10 / lease.BACK_OFF_SECONDS + 2

    lab.run(scenario())


def test_a_master_that_has_its_lease_again_names_no_missing_candidate(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        daemon = lab.daemons["node1"]
        isolate(lab, "node1", cut=True)
        await lab.world.clock.sleep(20)
        assert daemon.candidates.stalled.is_set()
        isolate(lab, "node1", cut=False)
        while not daemon.lease.is_held():
            assert "missing: node" in daemon.candidates.notice()
            await lab.world.clock.sleep(0.001)
        assert daemon.candidates.notice() == ""

    lab.run(scenario())


@pytest.mark.parametrize("policy", ["majority", "all"])
@pytest.mark.parametrize("name", ["node1", "node2"])
def test_without_a_vote_a_master_goes_on_without_the_candidates_that_are_lost_for_good(policy: str, name: str) -> None:
    async def scenario(lab: cluster.SimulatedCluster) -> None:
        await lab.build(replication=policy)
        await lab.done(tag("before"))
        for other in lab.names:
            lab.crash(other)
        await lab.start_node(name)
        request = role.Request(taking_over=name != "node1", voting=False)
        await lab.start_master(name, request)
        lab.leader = name
        await lab.done(tag("after"))
        assert await tags(lab) == ["after", "before"]
        lost = [other for other in lab.names if other != name]
        assert await offline(lab) == lost
        for other in lost:
            await lab.start_node(other)
            await lab.done({"OP_ID": "OP_NODE_SET_PARAMS", "node_name": other, "offline": False})
        assert await offline(lab) == []
        await lab.world.clock.sleep(60)
        lab.kill(name)
        # Under ``all``, a dead master is one more lost candidate.
        await lab.failover(lost[0], voting=policy != "all")
        lab.leader = lost[0]
        assert await tags(lab) == ["after", "before"]

    with cluster.SimulatedCluster(seed=3) as simulated:
        simulated.run(scenario(simulated))


def test_without_a_vote_under_all_a_lost_candidate_is_given_up_and_the_others_stay() -> None:
    async def scenario(lab: cluster.SimulatedCluster) -> None:
        await lab.build(replication="all")
        lab.crash("node3")
        lab.kill_master("node1")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(120):
                await lab.start_master("node1")
        lab.kill_master("node1")
        await lab.start_master("node1", role.Request(voting=False))
        await lab.done(tag("after"))
        assert await offline(lab) == ["node3"]
        lab.crash("node1")
        await lab.failover("node2", voting=False)
        lab.leader = "node2"
        assert await tags(lab) == ["after"]

    with cluster.SimulatedCluster(seed=3) as simulated:
        simulated.run(scenario(simulated))


def test_without_a_vote_no_candidate_is_given_up_while_a_majority_answers(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lab.crash("node3")
        lab.kill_master("node1")
        await lab.start_master("node1", role.Request(voting=False))
        await lab.done(tag("after"))
        assert await offline(lab) == []

    lab.run(scenario())


async def offline(lab: cluster.SimulatedCluster) -> list[object]:
    """Return the names of the nodes that are marked offline."""
    answer = await lab.luxi("Query", "node", ["name", "offline"], None)
    assert isinstance(answer, dict)
    return [name for (_, name), (_, is_offline) in answer["data"] if is_offline]
