"""Calls that reach a node when their master has given them up, or is not the master any more."""

from collections.abc import Iterator

import pytest

from gantry.node import permits
from gantry.rpc import calls, liveness
from gantry.runtime import http_interface
from gantry.runtime.simulated import wires
from gantry.sim import cluster

VM = "vm1.example"
START: cluster.Opcode = {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": VM}
NODED = "gantry-noded"


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    """A cluster of five nodes; node4, which is no candidate, has a stopped instance, and has answered a moment ago."""
    with cluster.SimulatedCluster(seed=5, nodes=5) as simulated:
        simulated.run(simulated.build(candidate_pool_size=3))
        simulated.run(create(simulated, VM, node="node4"))
        yield simulated


@pytest.fixture
def asleep(lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stop the node daemon of node4 when the first call to start an instance is on its way; the list gets the call."""
    sent = list[str]()
    exchange = wires.Wires.exchange

    async def watched(
        net: wires.Wires, source: str, target: str, port: int, request: http_interface.Request, *, tls: bool
    ) -> http_interface.Response:
        if request.path == f"/{calls.InstanceStart.procedure()}" and not sent:
            sent.append(request.path)
            lab.stop("node4", NODED)
        return await exchange(net, source, target, port, request, tls=tls)

    monkeypatch.setattr(wires.Wires, "exchange", watched)
    return sent


async def create(lab: cluster.SimulatedCluster, name: str, *, node: str, start: bool = False) -> None:
    op = {"OP_ID": "OP_INSTANCE_CREATE", "disk_template": "diskless", "instance_name": name, "pnode": node}
    await lab.done({**op, "start": start})


def guests(lab: cluster.SimulatedCluster, node: str) -> list[str]:
    """Return the guests that run on a node."""
    disk, folder = lab.world.machine(node).disk, f"{cluster.FOLDERS.instances}/fake"
    names = disk.names(folder) if disk.exists(folder) else []
    return [name for name in names if b'"running":null' not in disk.read(f"{folder}/{name}").replace(b" ", b"")]


def test_a_node_that_slept_through_a_change_of_master_does_not_start_what_the_old_one_wanted(
    lab: cluster.SimulatedCluster, asleep: list[str]
) -> None:
    async def scenario() -> None:
        await lab.submit(START)
        await lab.world.clock.sleep(1)
        assert asleep
        lab.kill("node1")
        await lab.world.clock.sleep(15)
        await lab.failover("node2")
        lab.leader = "node2"
        await lab.world.clock.sleep(60)
        lab.resume("node4", NODED)
        await lab.world.clock.sleep(2 * permits.WAIT_SECONDS)
        assert guests(lab, "node4") == []
        await lab.done(START)
        assert guests(lab, "node4") == [VM]

    lab.run(scenario())


def test_a_node_that_slept_does_not_carry_out_what_its_master_gave_up(
    lab: cluster.SimulatedCluster, asleep: list[str]
) -> None:
    async def scenario() -> None:
        status, _ = await lab.wait(await lab.submit(START))
        assert (status, len(asleep)) == ("error", 1)
        await lab.world.clock.sleep(60)
        lab.resume("node4", NODED)
        await lab.world.clock.sleep(2 * permits.WAIT_SECONDS)
        assert guests(lab, "node4") == []

    lab.run(scenario())


def test_what_a_node_does_for_long_goes_on_as_long_as_its_master_waits(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done({"OP_ID": "OP_TEST_DELAY", "duration": 100, "on_nodes": ["node4"], "on_master": False})
        await lab.done(START)
        assert guests(lab, "node4") == [VM]

    lab.run(scenario())


def test_a_node_that_slept_for_less_than_its_master_waits_carries_the_call_out(
    lab: cluster.SimulatedCluster, asleep: list[str]
) -> None:
    async def scenario() -> None:
        number = await lab.submit(START)
        await lab.world.clock.sleep(liveness.PATIENT.timeout_seconds)
        assert asleep
        lab.resume("node4", NODED)
        status, results = await lab.wait(number)
        assert (status, guests(lab, "node4")) == ("success", [VM]), results

    lab.run(scenario())


def test_a_new_master_ends_what_the_old_one_left_at_work_on_a_node(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        delay = {"OP_ID": "OP_TEST_DELAY", "duration": 3000, "on_nodes": ["node4"], "on_master": False}
        await lab.submit(delay)
        await lab.world.clock.sleep(20)
        lab.kill("node1")
        await lab.failover("node2")
        lab.leader = "node2"
        await lab.done(START)
        assert guests(lab, "node4") == [VM]

    lab.run(scenario())
    assert "test_delay of a former master is ended" in caplog.text


def test_a_call_of_a_job_that_is_killed_ends_on_its_node_before_the_job_does(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        delay = {"OP_ID": "OP_TEST_DELAY", "duration": 3000, "on_nodes": ["node4"], "on_master": False}
        number = await lab.submit(delay)
        await lab.world.clock.sleep(20)
        began = lab.world.clock.monotonic()
        assert "test_delay" not in caplog.text
        await lab.luxi("CancelJob", number, True)
        status, _ = await lab.wait(number)
        assert (status, lab.world.clock.monotonic() - began < 1) == ("canceled", True)
        assert "test_delay that its master has given up is ended" in caplog.text

    lab.run(scenario())
