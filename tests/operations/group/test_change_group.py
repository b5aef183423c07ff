"""Instances that go to other node groups: one, or all of a group."""

from collections.abc import Mapping
from typing import cast

import pytest
from msgspec import structs
from tests.operations import build
from tests.operations.disk import test_disks

from gantry.model import cluster, instance, opcodes
from gantry.operations import base

FAR = cluster.NodeGroup(uuid="f", name="far", networks=build.GROUP.networks)
DISTANT = tuple(cluster.Node(uuid=f"n{i}", name=f"node{i}", primary_ip=f"203.0.113.{i}", group="f") for i in (7, 8))
SHARED = structs.replace(build.VM, disk_template="diskless", disks=(), admin_state=instance.AdminState.UP)
LOCAL = structs.replace(build.VM, uuid="i2", name="vm2", primary_node="n2", nics=())
ASIDE = structs.replace(LOCAL, uuid="i3", name="vm3", admin_state=instance.AdminState.OFFLINE, disks=())


def op(**fields: object) -> opcodes.Opcode:
    return opcodes.decode({"OP_ID": "OP_GROUP_EVACUATE", "group_name": "default", **fields})


@pytest.fixture
def lab() -> build.MemoryCluster:
    first = [value for value in build.FIRST if value is not build.VM]
    lab = build.MemoryCluster(*first, FAR, *DISTANT, SHARED, LOCAL, ASIDE)
    lab.put(structs.replace(lab.state.the_cluster, enabled_disk_templates=test_disks.TEMPLATES))
    return lab


def jobs(plan: base.Plan) -> list[list[str]]:
    return [[op.summary for op in job] for job in plan.jobs or ()]


def stay(plan: base.Plan) -> Mapping[str, str]:
    return cast("Mapping[str, Mapping[str, str]]", plan.result())["stay"]


async def test_each_instance_of_a_group_goes_as_its_disks_can(lab: build.MemoryCluster) -> None:
    await lab.run(
        test_disks.op("drbd", opcodes.DiskSpec(size=64), instance_name="mirrored", pnode="node2", snode="node3")
    )
    plan = await lab.plan(op())
    assert sorted(jobs(plan)) == [
        ["INSTANCE_MIGRATE(vm1)"],
        ["INSTANCE_MOVE(vm2)"],
        ["INSTANCE_REPLACE_DISKS(mirrored)", "INSTANCE_MIGRATE(mirrored)", "INSTANCE_REPLACE_DISKS(mirrored)"],
    ]
    assert stay(plan) == {"vm3": "the instance is marked offline"}
    going = {
        getattr(op, "target_node", None) or getattr(op, "remote_node", "") for job in plan.jobs or () for op in job
    }
    assert going == {"node7", "node8"}


async def test_they_go_one_after_the_other_and_are_stopped_where_that_is_wanted(lab: build.MemoryCluster) -> None:
    plan = await lab.plan(op(sequential=True, force_failover=True))
    assert {summary for job in jobs(plan) for summary in job} == {"INSTANCE_FAILOVER(vm1)", "INSTANCE_MOVE(vm2)"}
    first, second = (job[0] for job in plan.jobs or ())
    assert (first.depends, second.depends) == (None, (opcodes.Dependency(job=-1),))


async def test_those_that_no_group_takes_stay_and_say_why(lab: build.MemoryCluster) -> None:
    lab.put(structs.replace(FAR, networks={}))
    assert "node8: network net1 is not connected to node group far" in stay(await lab.plan(op()))["vm1"]
    lab.put(structs.replace(FAR, alloc_policy=cluster.AllocPolicy.UNALLOCABLE))
    assert "node group far: it is unallocable, so the node must be specified" in stay(await lab.plan(op()))["vm1"]
    refused = await lab.refused(opcodes.InstanceChangeGroup(instance_name="vm1"))
    assert "instance vm1 cannot leave its node group" in str(refused)


@pytest.mark.parametrize(("name", "default"), [("p", ""), (".", "p")])
async def test_a_program_is_asked_for_all_of_them_at_once(lab: build.MemoryCluster, name: str, default: str) -> None:
    lab.put(structs.replace(lab.state.the_cluster, default_iallocator=default))
    moved = '[["vm1", "f", ["node7"]]], [["vm2", "full"]], [[{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "vm1"}]]'
    lab.allocators["p"] = f'{{"success": true, "info": "so", "result": [{moved}]}}'.encode()
    plan = await lab.plan(op(iallocator=name))
    assert (jobs(plan), stay(plan)) == ([["INSTANCE_MIGRATE(vm1)"]], {"vm2": "full"})
    ((_, request, _),) = lab.requests
    assert b'"type":"change-group"' in request


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"target_groups": ["default"]}, "target node group default is already the node group of the evacuated group"),
        ({"target_groups": ["nowhere"]}, "no such node group: nowhere"),
        ({"group_name": "nowhere"}, "no such node group: nowhere"),
    ],
)
async def test_what_is_refused(lab: build.MemoryCluster, fields: dict[str, object], message: str) -> None:
    assert message in str(await lab.refused(op(**fields)))


async def test_a_group_without_instances_needs_nothing(lab: build.MemoryCluster) -> None:
    plan = await lab.plan(op(group_name="far"))
    assert (jobs(plan), stay(plan)) == ([], {})
