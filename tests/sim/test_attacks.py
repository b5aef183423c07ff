"""Attacks on the master's role and on replication: each is refused, and the cluster continues to work."""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from typing import TypeVar

import msgspec
import pytest
from tests.sim import broken_nodes
from tests.sim.broken_nodes import isolate, tag

from gantry import errors
from gantry.lib_files import frame
from gantry.rpc import calls, client, targets
from gantry.runtime import http_interface
from gantry.sim import cluster, copies
from gantry.state.journal import growth

Result = TypeVar("Result")


def credentials(lab: cluster.SimulatedCluster, name: str = "node1") -> http_interface.UncheckedContext:
    """Return a context with the last certificate of a master on a machine."""
    tls = http_interface.UncheckedContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.present(lab.world.machine(name).disk.read(f"{cluster.FOLDERS.certificates}/master.pem"))
    return tls


NODE3 = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node3"}


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=7) as simulated:
        simulated.run(simulated.build())
        simulated.run(simulated.world.clock.sleep(10))
        yield simulated


async def call(lab: cluster.SimulatedCluster, name: str, request: calls.Call[Result]) -> Result:
    """Call a node from another machine, with a certificate of the master's role and without its epoch."""
    target = targets.Target("", name, lab.address(name), cluster.PORT)
    return await client.Client(lab.world.machine("node2").network, credentials(lab)).call(target, request)


async def goes_on(lab: cluster.SimulatedCluster, *expected: str, master: str = "node1") -> None:
    """Check that the cluster has one master that changes it, and that all copies end as the master's."""
    await lab.done(tag("goes-on"))
    assert lab.masters() == [master]
    assert await broken_nodes.tags(lab) == sorted([*expected, "goes-on"])
    await lab.world.clock.sleep(60)
    assert lab.daemons[master].candidates.lagging() == []
    replicas = copies.Copies(lab)
    assert {replicas.end(name) for name in lab.names} == {replicas.end(master)}


def captured(lab: cluster.SimulatedCluster, name: str, procedure: str) -> list[http_interface.Request]:
    """Return a list to which each request of a procedure to a node is added."""
    requests: list[http_interface.Request] = []

    def front(handler: http_interface.Handler) -> http_interface.Handler:
        async def answer(request: http_interface.Request) -> http_interface.Response:
            if request.path == f"/{procedure}":
                requests.append(request)
            return await handler(request)

        return answer

    lab.world.network.intercept(name, cluster.PORT, front)
    return requests


async def replay(lab: cluster.SimulatedCluster, name: str, request: http_interface.Request) -> http_interface.Response:
    """Send a captured request again, byte for byte."""
    http = lab.world.machine("node2").network.http_client(tls=credentials(lab))
    address = lab.address(name)
    return await http.post(address, cluster.PORT, request.path, request.body, timeout=5, headers=request.headers)


def test_frames_of_an_earlier_epoch_are_refused_when_they_are_sent_again(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        requests = captured(lab, "node3", "journal_append")
        await lab.done(tag("first"))
        await lab.failover("node2")
        replicas = copies.Copies(lab)
        before = replicas.end("node3")
        assert requests
        for request in list(requests):
            answer = await replay(lab, "node3", request)
            if request is requests[0] or request.body == requests[0].body:
                assert answer.status == errors.FencedError.status
                assert b"epoch 1 has passed" in answer.body
        assert replicas.follows(replicas.end("node3"), before)
        await goes_on(lab, "first", master="node2")

    lab.run(scenario())


def test_a_valid_frame_of_another_history_is_not_taken(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done(tag("first"))
        state = await call(lab, "node3", calls.CandidateStatus())
        record = {"serial": state.serial + 1, "time": 1.0, "epoch": state.epoch, "cause": {}, "changes": []}
        wrong_chain = frame.pack("f" * 64, [msgspec.json.encode(record)])
        wrong_serial = frame.pack(state.digest, [msgspec.json.encode({**record, "serial": state.serial + 2})])
        for line in (wrong_chain, wrong_serial):
            append = calls.JournalAppend(epoch=state.epoch, previous=state.digest, frame=line.decode())
            with pytest.raises(errors.ProtocolError, match="the frame does not follow the one before it"):
                await call(lab, "node3", append)
        elsewhere = calls.JournalAppend(epoch=state.epoch, previous="f" * 64, frame=wrong_chain.decode())
        assert (await call(lab, "node3", elsewhere)).serial == state.serial
        assert await call(lab, "node3", calls.CandidateStatus()) == state
        await goes_on(lab, "first")

    lab.run(scenario())


@pytest.mark.parametrize("wrong", [{"part": 7}, {"part": 0}, {"part": 1, "digest": "e" * 64}, {"epoch": 0}])
def test_a_part_of_another_checkpoint_between_those_of_the_master_leaves_one_whole_copy(
    lab: cluster.SimulatedCluster, wrong: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await lab.done(tag("first"))
        requests = captured(lab, "node3", "checkpoint_store")
        lab.kill("node3")
        disk = lab.world.machine("node3").disk
        await disk.remove(cluster.FOLDERS.config)
        await lab.start_node("node3")
        requests = captured(lab, "node3", "checkpoint_store")
        while not requests:
            await lab.done(tag("first"))
            await lab.world.clock.sleep(0.5)
        stored = msgspec.json.decode(requests[0].body, type=calls.CheckpointStore)
        part = msgspec.structs.replace(stored, **{"last": False, "config": "{}", "jobs": {}, **wrong})
        with contextlib.suppress(errors.ProtocolError, errors.FencedError):
            await call(lab, "node3", part)
        await goes_on(lab, "first")
        lab.crash("node1")
        await lab.failover("node3")
        assert await broken_nodes.tags(lab) == ["first", "goes-on"]

    lab.run(scenario())


def test_grants_that_a_candidate_asks_for_without_end_do_not_disturb_the_master(
    lab: cluster.SimulatedCluster,
) -> None:
    async def ask() -> None:
        while True:
            state = await call(lab, "node3", calls.CandidateStatus())
            for name in ("node3", "node2"):
                request = calls.GrantEpoch(
                    epoch=state.heard + 100, node="node2", newest=(state.epoch + 1, 10**6), stopped={"node2": 10**9}
                )
                with contextlib.suppress(errors.GantryError):
                    await call(lab, name, request)
            await lab.world.clock.sleep(0.5)

    async def scenario() -> None:
        epoch = lab.daemons["node1"].store.epoch
        running = await lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 40, "on_nodes": ["node3"]})
        asking = asyncio.ensure_future(ask())
        for number in range(20):
            await lab.done(tag(f"change-{number}"))
            await lab.world.clock.sleep(2)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert (await lab.wait(running))[0] == "success"
        assert lab.daemons["node1"].store.epoch == epoch
        await goes_on(lab, *(f"change-{number}" for number in range(20)))

    lab.run(scenario())


def test_a_master_that_stood_still_for_a_minute_after_it_got_the_lease_commands_no_node(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        guest = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "disk_template": "diskless", "start": False}
        await lab.done({**guest, "pnode": "node3"})
        await lab.submit(
            {"OP_ID": "OP_TEST_DELAY", "duration": 5}, {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "vm1"}
        )
        old = lab.daemons["node1"]
        assert old.lease.is_held()
        assert lab.stop("node1", cluster.MASTER)
        await lab.failover("node2")
        await lab.world.clock.sleep(60)
        lab.resume("node1", cluster.MASTER)
        await lab.world.clock.sleep(30)
        assert lab.masters() == ["node2"]
        folder = f"{cluster.FOLDERS.instances}/fake"
        disk = lab.world.machine("node3").disk
        assert not disk.exists(folder) or not disk.names(folder)
        await goes_on(lab, master="node2")

    lab.run(scenario())


def test_each_call_may_be_delivered_twice(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lab.world.network.duplicate = 1.0
        expected = []
        for number, leader in enumerate(["node2", "node3", "node1"]):
            expected.append(f"change-{number}")
            await lab.done(tag(expected[-1]))
            await lab.failover(leader)
        number = len(msgspec.convert(await lab.luxi("QueryJobs", None, ["id"]), list[object]))
        await goes_on(lab, *expected)
        assert len(msgspec.convert(await lab.luxi("QueryJobs", None, ["id"]), list[object])) == number + 1

    lab.run(scenario())


def test_a_master_that_hears_all_nodes_and_reaches_none_acknowledges_nothing(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        for other in ("node2", "node3"):
            lab.world.network.partition("node1", other, one_way=True)
        with pytest.raises(errors.NotMasterError):
            await lab.submit(tag("lost"), on="node1")
        old = lab.daemons["node1"]
        await lab.failover("node2")
        assert not old.lease.is_held()
        await lab.done(tag("of-node2"))
        with pytest.raises((errors.GantryError, OSError)):
            await lab.submit(tag("lost"), on="node1")
        isolate(lab, "node1", cut=False)
        await lab.world.clock.sleep(60)
        await goes_on(lab, "of-node2", master="node2")

    lab.run(scenario())


def test_a_candidate_that_is_demoted_and_promoted_while_a_checkpoint_arrives_ends_with_one_whole_copy(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "limits_for", lambda objects: growth.Limits(records=3))

    async def scenario() -> None:
        await lab.stop_master("node1")
        await lab.start_master("node1")
        checkpoints = lab.daemons["node1"].store.checkpointer
        before = checkpoints.last
        lab.world.network.slow_down("node1", "node3", 1.0)
        for number in range(4):
            await lab.done(tag(f"a-{number}"))
        assert checkpoints.last != before
        await lab.done({**NODE3, "master_candidate": False, "force": True})
        await lab.done(tag("between"))
        await lab.done({**NODE3, "master_candidate": True})
        for number in range(4):
            await lab.done(tag(f"b-{number}"))
        lab.world.network.slow_down("node1", "node3", 0)
        expected = [*(f"{letter}-{number}" for letter in "ab" for number in range(4)), "between"]
        await goes_on(lab, *expected)
        lab.crash("node1")
        await lab.failover("node3")
        assert await broken_nodes.tags(lab) == sorted([*expected, "goes-on"])

    lab.run(scenario())


def test_full_disks_of_a_majority_refuse_changes_and_lose_none(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done(tag("before"))
        disks = [lab.world.machine(name).disk for name in ("node2", "node3")]
        for disk in disks:
            free, total = disk.free_space("/")
            disk.capacity = total - free
        with pytest.raises(errors.NotMasterError, match="not acknowledged: 1 of 3 master candidates hold the newest"):
            await lab.submit(tag("in-doubt"))
        with pytest.raises(errors.NotMasterError, match="may not change the cluster at present"):
            await lab.submit(tag("refused"))
        assert await broken_nodes.tags(lab) == ["before"]
        for disk in disks:
            disk.capacity = None
        await lab.world.clock.sleep(40)
        await goes_on(lab, "before", "in-doubt")

    lab.run(scenario())


def test_marks_that_no_machine_can_write_keep_no_change_from_its_end(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        for name in lab.names:
            machine = lab.world.machine(name)
            await machine.disk.remove(cluster.FOLDERS.journal_end)
            await machine.disk.make_directory(cluster.FOLDERS.journal_end)
        await lab.stop_master("node1")
        for name in lab.names:
            machine = lab.world.machine(name)
            await machine.disk.remove_tree(cluster.FOLDERS.journal_end)
            machine.disk.broken = {cluster.FOLDERS.lib + "/journal-end": 1.0}
        await lab.start_master("node1")
        await lab.done(tag("changed"))
        for name in lab.names:
            lab.world.machine(name).disk.broken = {}
        lab.crash("node1")
        await lab.failover("node2")
        assert await broken_nodes.tags(lab) == ["changed"]

    lab.run(scenario())


@pytest.mark.parametrize("after", [0.0, 0.005, 0.02, 0.1, 1.0, 5.0])
def test_a_node_daemon_that_starts_again_in_the_middle_of_a_failover_costs_no_change(
    lab: cluster.SimulatedCluster, after: float
) -> None:
    async def scenario() -> None:
        await lab.done(tag("before"))
        lab.crash("node1")
        claim = asyncio.ensure_future(lab.failover("node2"))
        await lab.world.clock.sleep(after)
        lab.kill("node3")
        await lab.start_node("node3")
        with contextlib.suppress(errors.WrongStateError):
            await claim
        if not lab.masters():
            await lab.failover("node2")
        await lab.done(tag("after"))
        await lab.start_node("node1")
        await goes_on(lab, "after", "before", master="node2")

    lab.run(scenario())
