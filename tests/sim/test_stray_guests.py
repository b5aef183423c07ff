"""Guests that a master started behind a cut cable, and the heal (explanation/replication.md#after-the-heal)."""

from collections.abc import Iterator

import msgspec
import pytest

from gantry import errors
from gantry.doors import watcher
from gantry.rpc import luxi
from gantry.sim import cluster

NETWORK: cluster.Opcode = {
    "OP_ID": "OP_NETWORK_ADD",
    "network_name": "net1",
    "subnets": [{"cidr": "192.0.2.0/24"}],
    "pools": [{"range": "192.0.2.10-192.0.2.13", "name": "lan4"}],
}
CONNECT: cluster.Opcode = {
    "OP_ID": "OP_NETWORK_CONNECT",
    "network_name": "net1",
    "group_name": "default",
    "network_mode": "routed",
    "network_link": "main",
}
REPAIR: cluster.Opcode = {"OP_ID": "OP_CLUSTER_REPAIR_STRAY_GUESTS"}
VERIFY: cluster.Opcode = {"OP_ID": "OP_CLUSTER_VERIFY"}


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=3) as simulated:
        simulated.run(simulated.build(replication="seed"))
        simulated.run(simulated.done(NETWORK))
        simulated.run(simulated.done(CONNECT))
        yield simulated


def isolate(lab: cluster.SimulatedCluster, name: str, *, cut: bool) -> None:
    for other in lab.names:
        if other != name:
            (lab.world.network.partition if cut else lab.world.network.heal)(name, other)


def guest(name: str, node: str, *, ip: str) -> cluster.Opcode:
    return {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "disk_template": "diskless",
        "pnode": node,
        "nics": [{"network": "net1", "ip": [ip]}],
    }


async def healed(lab: cluster.SimulatedCluster, *ops: cluster.Opcode, later: cluster.Opcode | None = None) -> None:
    """Let node1, a master that is cut off, carry out ``ops``; node2 takes over, does ``later``, and the cable heals."""
    isolate(lab, "node1", cut=True)
    for op in ops:
        await lab.done(op, on="node1")
    await lab.failover("node2")
    if later:
        await lab.done(later, on="node2")
    isolate(lab, "node1", cut=False)
    await lab.world.clock.sleep(60)
    assert lab.masters() == ["node2"]


async def verified(lab: cluster.SimulatedCluster) -> list[str]:
    """Return the complaints of verify about instances and nodes."""
    # ssconf follows changes of instances a little later.
    await lab.world.clock.sleep(5)
    number = await lab.submit(VERIFY)
    await lab.wait(number)
    ((logs,),) = msgspec.convert(await lab.luxi("QueryJobs", [number], ["oplog"]), list[tuple[list[list[object]]]])
    entries = msgspec.convert(logs[0], list[tuple[int, object, str, object]])
    lines = [text.removeprefix("  - ") for *_, text in entries if isinstance(text, str)]
    return [line for line in lines if line.startswith(("ERROR", "WARNING")) and "instance" in line]


async def guests(lab: cluster.SimulatedCluster, name: str) -> list[str]:
    disk = lab.world.machine(name).disk
    folder = f"{cluster.FOLDERS.instances}/fake"
    return disk.names(folder) if disk.exists(folder) else []


async def repaired(lab: cluster.SimulatedCluster, **fields: object) -> tuple[list[str], dict[str, str]]:
    """Apply a rule; return the ends of the jobs, and why guests were left."""
    (result,) = await lab.done({**REPAIR, **fields})
    answer = msgspec.convert(result, dict[str, object])
    submitted = msgspec.convert(answer["jobs"], list[tuple[bool, int]])
    ends = [(await lab.wait(number))[0] for _, number in submitted]
    return ends, msgspec.convert(answer["left"], dict[str, str])


async def rows(lab: cluster.SimulatedCluster, *fields: str) -> list[list[object]]:
    answer = msgspec.convert(await lab.luxi("Query", "instance", fields, None), dict[str, object])
    return [[value for _, value in row] for row in msgspec.convert(answer["data"], list[list[tuple[int, object]]])]


async def watch(lab: cluster.SimulatedCluster) -> None:
    """Do a round of the watcher on the master's machine."""
    caller = luxi.Client(lab.master.network, cluster.FOLDERS.luxi_socket)
    try:
        authority = f"{cluster.FOLDERS.certificates}/authority.pem"
        await watcher.Watcher(lab.master, "/gantry/lib/watcher.data", master=caller, authority=authority).run()
    finally:
        await caller.close()
    await lab.world.clock.sleep(200)


def test_a_guest_with_an_address_of_another_instance_is_found_with_both_owners_and_never_adopted(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        ours = guest("new.example", "node2", ip="192.0.2.10")
        await healed(lab, guest("old.example", "node1", ip="192.0.2.10"), later=ours)
        owners = (
            "address 192.0.2.10 of network net1 has two owners: guest old.example on node1 and "
            "instance new.example on node2"
        )
        complaints = await verified(lab)
        assert "ERROR: node node1: instance old.example should not exist" in complaints
        assert f"ERROR: instance old.example: {owners}" in complaints
        assert await repaired(lab) == ([], {"guest old.example on node1": "the rule is to report only"})
        ends, remaining = await repaired(lab, rule="adopt")
        assert ends == []
        assert owners in remaining["guest old.example on node1"]
        assert await guests(lab, "node1") == ["old.example"]
        assert await repaired(lab, rule="stop") == (["success"], {})
        assert await guests(lab, "node1") == []
        assert await guests(lab, "node2") == ["new.example"]
        assert await verified(lab) == []

    lab.run(scenario())


def test_a_guest_without_a_conflict_is_adopted_with_its_addresses(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        old = {**guest("old.example", "node1", ip="192.0.2.11"), "beparams": {"maxmem": 256, "minmem": 256}}
        await healed(lab, old)
        assert await rows(lab, "name") == []
        assert await repaired(lab, rule="adopt") == (["success"], {})
        columns = ("name", "pnode", "admin_state", "status", "be/maxmem", "nic.ips", "nic.networks.names")
        (row,) = await rows(lab, *columns)
        assert row[:5] == ["old.example", "node1", "up", "running", 256]
        assert "192.0.2.11" in str(row[5])
        assert "net1" in str(row[6])
        assert await verified(lab) == []
        with pytest.raises(errors.ExecutionError, match=r"192\.0\.2\.11"):
            await lab.done(guest("later.example", "node2", ip="192.0.2.11"))
        # What is recorded starts the same guest again.
        await lab.done({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "old.example"})
        await lab.done({"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "old.example"})
        assert await guests(lab, "node1") == ["old.example"]

    lab.run(scenario())


@pytest.mark.parametrize(("rule", "admin_state", "running"), [("stop", "down", []), ("adopt", "up", ["vm.example"])])
def test_an_instance_that_the_old_master_started_is_stopped_or_wanted(
    lab: cluster.SimulatedCluster, rule: str, admin_state: str, running: list[str]
) -> None:
    async def scenario() -> None:
        await lab.done({**guest("vm.example", "node1", ip="192.0.2.10"), "start": False})
        await healed(lab, {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "vm.example"})
        assert await verified(lab) == [
            "WARNING: instance vm.example: instance vm.example runs, but its admin state is down"
        ]
        assert await repaired(lab, rule=rule) == (["success"], {})
        assert await guests(lab, "node1") == running
        assert await rows(lab, "admin_state") == [[admin_state]]
        assert await verified(lab) == []

    lab.run(scenario())


@pytest.mark.parametrize("rule", ["stop", "adopt"])
def test_of_an_instance_that_runs_twice_the_copy_on_the_other_node_is_stopped(
    lab: cluster.SimulatedCluster, rule: str
) -> None:
    """The new master, which did not reach node1, failed the instance over; on node1 it continued."""

    async def scenario() -> None:
        await lab.done(guest("vm.example", "node1", ip="192.0.2.10"))
        offline: cluster.Opcode = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node1", "offline": True}
        isolate(lab, "node1", cut=True)
        await lab.failover("node2")
        await lab.done({**offline, "force": True}, on="node2")
        failover = {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": "vm.example", "target_node": "node3"}
        await lab.done({**failover, "ignore_consistency": True}, on="node2")
        isolate(lab, "node1", cut=False)
        await lab.done({**offline, "offline": False}, on="node2")
        await lab.world.clock.sleep(60)
        assert await guests(lab, "node1") == await guests(lab, "node3") == ["vm.example"]
        assert "ERROR: instance vm.example: it runs on node1, but its primary node is node3" in await verified(lab)
        assert await repaired(lab, rule=rule) == (["success"], {})
        assert await guests(lab, "node1") == []
        assert await guests(lab, "node3") == ["vm.example"]

    lab.run(scenario())


@pytest.mark.parametrize(("rule", "count"), [("report", 1), ("stop", 0), ("adopt", 1)])
def test_the_watcher_applies_the_rule_of_the_cluster_within_a_round(
    lab: cluster.SimulatedCluster, rule: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "stray_guests": rule})
        await healed(lab, guest("old.example", "node1", ip="192.0.2.11"))
        await watch(lab)
        assert "node node1 runs guests that it should not run by the state: old.example" in caplog.text
        assert len(await guests(lab, "node1")) == count
        assert await rows(lab, "name") == ([["old.example"]] if rule == "adopt" else [])
        jobs = msgspec.convert(await lab.luxi("QueryJobs", None, ["summary"]), list[tuple[str]])
        await watch(lab)
        assert msgspec.convert(await lab.luxi("QueryJobs", None, ["summary"]), list[tuple[str]]) == jobs
        assert any("REPAIR_STRAY_GUESTS" in summary for (summary,) in jobs) is (rule != "report")

    lab.run(scenario())


def test_a_guest_that_a_job_has_created_meanwhile_is_left_alone(lab: cluster.SimulatedCluster) -> None:
    """What looked stray when the job was submitted may not be so when the job has its locks."""

    async def scenario() -> None:
        create = await lab.submit(
            {"OP_ID": "OP_TEST_DELAY", "duration": 5}, guest("vm.example", "node3", ip="192.0.2.10")
        )
        await lab.wait(create)
        ((uuid,),) = await rows(lab, "uuid")
        repair = {"OP_ID": "OP_STRAY_GUEST_REPAIR", "guest_name": "vm.example", "node_name": "node3", "rule": "stop"}
        assert await lab.done({**repair, "guest_uuid": uuid}) == ["none"]
        assert await guests(lab, "node3") == ["vm.example"]

    lab.run(scenario())


def test_under_majority_a_master_that_is_cut_off_starts_no_guest(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "replication": "majority"})
        await lab.done({**guest("down.example", "node1", ip="192.0.2.10"), "start": False})
        start: cluster.Opcode = {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "down.example"}
        waiting = await lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 20}, start, on="node1")
        await lab.world.clock.sleep(1)
        isolate(lab, "node1", cut=True)
        for op in (guest("old.example", "node1", ip="192.0.2.11"), start):
            with pytest.raises(errors.NotMasterError):
                await lab.done(op, on="node1")
        await lab.world.clock.sleep(60)
        assert await guests(lab, "node1") == []
        await lab.failover("node2")
        await lab.world.clock.sleep(60)
        assert await guests(lab, "node1") == []
        isolate(lab, "node1", cut=False)
        await lab.world.clock.sleep(60)
        assert lab.masters() == ["node2"]
        assert await guests(lab, "node1") == []
        assert (await lab.wait(waiting))[0] == "error"
        assert await verified(lab) == []

    lab.run(scenario())
