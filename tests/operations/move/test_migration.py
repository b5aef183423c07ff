import asyncio

import pytest
from msgspec import structs
from tests.operations import build

from gantry import errors
from gantry.model import instance, opcodes
from gantry.operations import fill
from gantry.operations.move import migration
from gantry.rpc import calls

VM = structs.replace(build.VM, disk_template="diskless", disks=(), admin_state=instance.AdminState.UP)
TO_3 = opcodes.InstanceMigrate(instance_name="vm1", target_node="node3")


def build_lab(vm: instance.Instance = VM) -> build.MemoryCluster:
    lab = build.MemoryCluster(*(vm if value is build.VM else value for value in build.FIRST))
    lab.machine("node1").running["vm1"] = fill.fill(lab.state, vm)
    return lab


def runs(lab: build.MemoryCluster) -> list[str]:
    """Return where the guest's processors may run."""
    machines = [(node.name, lab.machine(node.name)) for node in build.NODES]
    return [
        name
        for name, machine in machines
        if "vm1" in machine.running and machine.state.get("vm1", "running") == "running"
    ]


async def fails(lab: build.MemoryCluster, op: opcodes.Opcode) -> errors.GantryError:
    """Do what the processor does when a step fails."""
    plan, done = await lab.plan(op), []
    try:
        for step in plan.steps:
            done.append(step)
            await lab.do(step)
    except errors.GantryError as error:
        for step in reversed(done):
            await lab.undo(step)
        return error
    raise AssertionError("it did not fail")


async def test_the_other_node_is_recorded_before_anything_runs_there() -> None:
    lab = build_lab()
    plan = await lab.plan(TO_3)
    for step in plan.steps:
        await lab.do(step)
    assert runs(lab) == []
    assert plan.finish
    lab.change(plan.finish(lab.state))
    assert lab.state.instance("vm1").primary_node == "n3"
    for step in plan.after:
        await lab.do(step)
    assert runs(lab) == ["node3"]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_migration_that_fails_lets_it_go_on_where_it_was(status: str) -> None:
    lab = build_lab()
    lab.machine("node1").progress = calls.MigrationStatus(status=status, reason="the target died")
    error = await fails(lab, TO_3)
    assert "the target died" in error.message
    assert runs(lab) == ["node1"]
    assert "vm1" not in lab.machine("node3").running


async def test_a_target_that_dies_half_way_is_no_obstacle_to_going_on() -> None:
    lab = build_lab()
    plan = await lab.plan(TO_3)
    for step in plan.steps:
        await lab.do(step)
    lab.machine("node3").down = True
    for step in reversed(plan.steps):
        await lab.undo(step)
    assert runs(lab) == ["node1"]


async def test_a_migration_to_a_node_that_falls_silent_is_given_up() -> None:
    lab = build_lab()
    lab.machine("node1").progress = calls.MigrationStatus(status="active", transferred=1 << 20, total=1 << 30)
    async with asyncio.timeout(60):
        ending = asyncio.ensure_future(fails(lab, TO_3))
        for _ in range(20 * migration.STALLED_POLLS):
            await asyncio.sleep(0)
        assert len(lab.nodes.calls_of(calls.InstanceMigrationStatus)) > 2 * migration.STALLED_POLLS
        assert not ending.done()  # the job waits for a target that answers
        lab.machine("node3").down = True
        error = await ending
    assert "failed: node node3" in error.message
    assert "the instance continues on node1" in error.hint
    assert runs(lab) == ["node1"]


async def test_a_target_that_is_silent_at_the_end_is_for_a_cleanup() -> None:
    lab = build_lab()
    plan = await lab.plan(TO_3)
    for step in plan.steps:
        await lab.do(step)
    assert plan.finish
    lab.change(plan.finish(lab.state))
    lab.machine("node3").down = True
    with pytest.raises(errors.RemoteError, match="instance vm1 was sent from node1") as caught:
        await lab.do(plan.after[0])
    assert "--cleanup vm1" in caught.value.hint
    assert runs(lab) == []
    cleanup = opcodes.InstanceMigrate(instance_name="vm1", cleanup=True)
    assert "mark it offline" in (await lab.refused(cleanup)).hint
    lab.put(structs.replace(lab.state.node("node3"), offline=True))
    await lab.run(cleanup)
    assert runs(lab) == ["node1"]
    assert lab.state.instance("vm1").primary_node == "n1"


async def test_a_cleanup_after_a_stop_clears_the_paused_guest_on_the_source() -> None:
    lab = build_lab()
    plan = await lab.plan(TO_3)
    for step in plan.steps:
        await lab.do(step)
    assert plan.finish
    lab.change(plan.finish(lab.state))
    await lab.run(opcodes.InstanceShutdown(instance_name="vm1"))
    assert lab.machine("node1").state["vm1"] == "migrated"
    await lab.run(opcodes.InstanceMigrate(instance_name="vm1", cleanup=True))
    assert "vm1" not in lab.machine("node1").running
    assert runs(lab) == []
    assert lab.state.instance("vm1").primary_node == "n3"


async def test_a_cleanup_leaves_the_paused_guest_of_a_removed_instance_of_the_same_name() -> None:
    lab = build_lab()
    removed = structs.replace(VM, uuid="removed")
    lab.machine("node2").running["vm1"] = fill.fill(lab.state, removed)
    lab.machine("node2").state["vm1"] = "migrated"
    del lab.machine("node1").running["vm1"]
    await lab.run(opcodes.InstanceMigrate(instance_name="vm1", cleanup=True))
    assert lab.state.instance("vm1").primary_node == "n1"
    assert runs(lab) == []
    assert lab.machine("node2").state["vm1"] == "migrated"


async def test_a_canceled_job_stops_the_migration() -> None:
    lab = build_lab()
    lab.machine("node1").progress = calls.MigrationStatus(status="active", total=1 << 30)
    lab.canceled = True
    lab.machine("node1").state["vm1"] = "running"
    error = await fails(lab, TO_3)
    assert isinstance(error, errors.JobCanceledError)
    assert lab.nodes.calls_of(calls.InstanceMigrateCancel)
    assert runs(lab) == ["node1"]


async def test_one_that_is_down_is_not_migrated_unless_it_may_fail_over() -> None:
    lab = build_lab()
    lab.machine("node1").running.clear()
    assert "instance vm1 cannot be migrated: it is not running" in (await lab.refused(TO_3)).message
    await lab.run(structs.replace(TO_3, allow_failover=True))
    assert lab.state.instance("vm1").primary_node == "n3"


async def test_the_parameter_always_failover_is_obeyed() -> None:
    lab = build_lab(structs.replace(VM, beparams={"always_failover": True}))
    assert "always_failover" in (await lab.refused(TO_3)).message


async def test_both_nodes_write_to_mirrored_disks_only_while_it_moves() -> None:
    mirror = instance.Mirror(minors={"n1": 0, "n2": 0}, port=11000, secret="s")
    disk = instance.Disk(uuid="d1", dev_type="drbd", size=64, mirror=mirror)
    lab = build_lab(structs.replace(VM, disk_template="drbd", disks=(disk,)))
    for name in ("node1", "node2"):
        lab.machine(name).disks["d1"] = 64
        lab.machine(name).active["d1"] = "primary" if name == "node1" else "secondary"
    await lab.run(opcodes.InstanceMigrate(instance_name="vm1"))
    modes = [call.multimaster for call in lab.nodes.calls_of(calls.DrbdAttachNet)]
    assert modes == [True, True, False, False]
    assert lab.machine("node2").active["d1"] == "primary"
    assert lab.machine("node1").active["d1"] == "secondary"
    assert runs(lab) == ["node2"]
