"""A master that is killed while it creates an instance: what its successor finds is recorded as it is."""

from collections.abc import Iterator

import msgspec
import pytest

from gantry.doors import watcher
from gantry.rpc import luxi
from gantry.sim import cluster

VERIFY: cluster.Opcode = {"OP_ID": "OP_CLUSTER_VERIFY"}


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=5) as simulated:
        simulated.run(simulated.build())
        yield simulated


def creation(name: str) -> cluster.Opcode:
    return {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": name, "disk_template": "diskless", "pnode": "node2"}


def guests(lab: cluster.SimulatedCluster) -> list[str]:
    disk = lab.world.machine("node2").disk
    folder = f"{cluster.FOLDERS.instances}/fake"
    return disk.names(folder) if disk.exists(folder) else []


async def statuses(lab: cluster.SimulatedCluster) -> dict[str, str]:
    """Return the status of each instance, as lists display it."""
    answer = msgspec.convert(await lab.luxi("Query", "instance", ["name", "status"], None), dict[str, object])
    rows = msgspec.convert(answer["data"], list[list[tuple[int, str]]])
    return {name: status for (_, name), (_, status) in rows}


async def complaints(lab: cluster.SimulatedCluster) -> list[str]:
    """Return what verify reports about instances."""
    number = await lab.submit(VERIFY)
    await lab.wait(number)
    ((logs,),) = msgspec.convert(await lab.luxi("QueryJobs", [number], ["oplog"]), list[tuple[list[list[object]]]])
    entries = msgspec.convert(logs[0], list[tuple[int, object, str, object]])
    return [text for *_, text in entries if isinstance(text, str) and "instance" in text and "ERROR" in text]


async def watch(lab: cluster.SimulatedCluster) -> None:
    """Do a round of the watcher on the master's machine."""
    caller = luxi.Client(lab.master.network, cluster.FOLDERS.luxi_socket)
    try:
        authority = f"{cluster.FOLDERS.certificates}/authority.pem"
        await watcher.Watcher(lab.master, "/gantry/lib/watcher.data", master=caller, authority=authority).run()
    finally:
        await caller.close()
    await lab.world.clock.sleep(60)


@pytest.mark.parametrize("successor", ["node1", "node3"])
def test_a_guest_that_was_started_just_before_the_master_was_killed_is_recorded_as_up(
    lab: cluster.SimulatedCluster, successor: str
) -> None:
    async def scenario() -> None:
        await lab.submit(creation("new.example"))
        while not guests(lab):
            await lab.world.clock.sleep(0.0001)
        lab.kill("node1")
        await lab.world.clock.sleep(60)
        await (lab.restart("node1") if successor == "node1" else lab.failover(successor))
        await lab.world.clock.sleep(60)
        assert guests(lab) == ["new.example"]
        assert await statuses(lab) == {"new.example": "running"}
        assert await complaints(lab) == []

    lab.run(scenario())


def test_wherever_the_master_is_killed_the_watcher_makes_the_nodes_equal_the_state(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        expected = dict[str, str]()
        for visits in range(1, 40):
            name = f"new{visits}.example"
            lab.end_at("node1", visits, power=False)
            try:
                await lab.done(creation(name))
            except (OSError, ConnectionError):
                await lab.world.clock.sleep(60)
                await lab.restart("node1")
                await lab.world.clock.sleep(60)
                await watch(lab)
                is_complete = False
            else:
                is_complete, lab.world.machine("node1").disk.on_visit = True, None
            now = await statuses(lab)
            assert now.items() >= expected.items()
            assert now.get(name, "") in ("running", "ADMIN_down", "")
            expected = now
            assert await complaints(lab) == []
            if is_complete:
                break
        assert {*expected.values()} == {"running", "ADMIN_down"}
        assert guests(lab) == sorted(name for name, status in expected.items() if status == "running")

    lab.run(scenario())
