"""What forbids a move: the policy of another node group, a full target, an offline node, an instance marked offline."""

from typing import TypeVar, cast

import pytest
from msgspec import structs
from tests.operations import build

from gantry import errors
from gantry.model import cluster, instance, opcodes
from gantry.rpc import calls, targets

Result = TypeVar("Result")

TIGHT = cluster.NodeGroup(
    uuid="g2",
    name="tight",
    networks=build.GROUP.networks,
    ipolicy=cluster.Policy(minmax=(cluster.Bounds(max={"memory-size": 64}),)),
)
FAR = cluster.Node(uuid="n4", name="node4", primary_ip="203.0.113.4", group="g2")
UP = instance.AdminState.UP
LOCAL = structs.replace(build.VM, admin_state=UP, beparams={"maxmem": 128})
SHARED = structs.replace(
    LOCAL,
    disk_template="sharedfile",
    disks=(structs.replace(build.DISK, dev_type="sharedfile", logical_id=("sharedfile", "/shared/d1")),),
)
VOLUMES = tuple(
    instance.Disk(uuid=f"d1{part}", dev_type="plain", size=size, logical_id=("xenvg", f"d1_{part}"))
    for part, size in (("data", 64), ("meta", 128))
)
MIRROR = instance.Mirror(minors={"n1": 0, "n2": 0}, port=11000, secret="s")
MIRRORED = structs.replace(
    LOCAL,
    disk_template="drbd",
    disks=(instance.Disk(uuid="d1", dev_type="drbd", size=64, children=VOLUMES, mirror=MIRROR),),
)

FAILOVER = opcodes.InstanceFailover(instance_name="vm1", target_node="node3")
MIGRATE = opcodes.InstanceMigrate(instance_name="vm1", target_node="node3")
MOVE = opcodes.InstanceMove(instance_name="vm1", target_node="node3")
REPLACE = opcodes.InstanceReplaceDisks(instance_name="vm1", mode="replace_new_secondary", remote_node="node3")
RECREATE = opcodes.InstanceRecreateDisks(instance_name="vm1", nodes=("node3",))
MOVES = {"failover": (FAILOVER, SHARED), "migrate": (MIGRATE, SHARED), "move": (MOVE, LOCAL)}
OTHER_GROUP = "instance vm1 violates the instance policy of node group tight: memory-size 128 is above the maximum 64"

Case = tuple[opcodes.InstanceFailover | opcodes.InstanceMigrate | opcodes.InstanceMove, instance.Instance]


@pytest.fixture(params=MOVES.values(), ids=list(MOVES))
def case(request: pytest.FixtureRequest) -> Case:
    return cast("Case", request.param)


class Nodes(build.FakeNodes):
    """Nodes whose volume groups may be full; shared files and mirrored disks are there and complete."""

    full: frozenset[str] = frozenset()

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        answer = await super().call(target, call)
        if isinstance(call, calls.BlockdevPlace) and target.name in self.full:
            raise errors.NoRoomError(f"node {target.name}: volume group xenvg has 10 MiB free")
        if isinstance(call, calls.BlockdevStatus) and call.disks[0].dev_type != "file":
            state = calls.DiskState(path="/d", size=64, active=True, local="UpToDate", connection="Connected")
            return cast("Result", (state,) * len(call.disks))
        return answer


def build_lab(vm: instance.Instance, *, running: bool = True) -> build.MemoryCluster:
    lab = build.MemoryCluster(*build.FIRST[:-1], TIGHT, FAR, vm)
    lab.nodes = lab.environment.nodes = Nodes()
    if running:
        whole = calls.Instance(name="vm1", uuid="i1", hypervisor="fake", beparams={"maxmem": 128, "vcpus": 1})
        lab.machine("node1").running["vm1"] = whole
    return lab


def change_node(lab: build.MemoryCluster, name: str, **fields: object) -> None:
    lab.put(structs.replace(lab.state.node(name), **fields))


def change_status(lab: build.MemoryCluster, name: str, **fields: object) -> None:
    machine = lab.machine(name)
    machine.status = structs.replace(machine.status, **fields)


def storage(free: int) -> tuple[calls.StorageInfo, ...]:
    return (calls.StorageInfo(kind="file", path="/file", free=free, total=9000),)


async def test_a_move_to_a_node_that_fits_is_planned(case: Case) -> None:
    op, vm = case
    assert (await build_lab(vm).plan(op)).finish


async def test_the_instance_policy_of_another_group_forbids_a_move(case: Case) -> None:
    op, vm = case
    lab = build_lab(vm)
    there = structs.replace(op, target_node="node4")
    error = await lab.refused(there)
    assert isinstance(error, errors.InvalidError)
    assert OTHER_GROUP in str(error)
    assert (await lab.plan(structs.replace(there, ignore_ipolicy=True))).finish
    lab.put(structs.replace(TIGHT, ipolicy=cluster.Policy()))
    assert (await lab.plan(there)).finish


async def test_the_policy_of_the_own_group_does_not_forbid_a_move_within_it(case: Case) -> None:
    """An instance that breaks the policy of its group already can leave a node that fails."""
    op, vm = case
    lab = build_lab(vm)
    lab.put(structs.replace(build.GROUP, ipolicy=TIGHT.ipolicy))
    assert (await lab.plan(op)).finish


async def test_a_target_without_free_memory_is_refused_for_an_instance_that_is_up(case: Case) -> None:
    op, vm = case
    lab = build_lab(vm)
    change_status(lab, "node3", memory_free=127)
    error = await lab.refused(op)
    assert isinstance(error, errors.NoRoomError)
    assert "node node3 cannot take instance vm1: needs 128 MiB of memory, 127 MiB are free" in str(error)
    change_status(lab, "node3", memory_free=128)
    assert (await lab.plan(op)).finish


@pytest.mark.parametrize("op, vm", [MOVES["failover"], MOVES["move"]])
async def test_an_instance_that_is_down_needs_no_memory_on_the_target(
    op: opcodes.Opcode, vm: instance.Instance
) -> None:
    lab = build_lab(structs.replace(vm, admin_state=instance.AdminState.DOWN), running=False)
    change_status(lab, "node3", memory_free=0)
    assert (await lab.plan(op)).finish


async def test_memory_that_is_reserved_for_the_failure_of_another_node_is_not_free(case: Case) -> None:
    op, vm = case
    other = structs.replace(MIRRORED, uuid="i2", name="vm2", primary_node="n2", nics=())
    disk = structs.replace(other.disks[0], uuid="d2", mirror=structs.replace(MIRROR, minors={"n2": 0, "n3": 0}))
    lab = build_lab(vm)
    lab.put(structs.replace(other, disks=(disk,)))
    change_status(lab, "node3", memory_free=255)
    assert "128 MiB are reserved for instances that would come here" in str(await lab.refused(op))
    change_status(lab, "node3", memory_free=256)
    assert (await lab.plan(op)).finish


async def test_a_target_without_free_disk_space_is_refused_for_disks_that_are_copied() -> None:
    lab = build_lab(LOCAL)
    change_status(lab, "node3", storage=storage(63))
    error = await lab.refused(MOVE)
    assert isinstance(error, errors.NoRoomError)
    assert "node node3 cannot take instance vm1: needs 64 MiB of disk space, 63 MiB are free" in str(error)
    change_status(lab, "node3", storage=storage(64))
    assert (await lab.plan(MOVE)).finish


@pytest.mark.promise("cluster-87", "cluster-95")
@pytest.mark.parametrize(
    "flag, reason",
    [
        ({"offline": True}, "the node is offline"), ({"drained": True}, "the node is drained"),
        ({"vm_capable": False}, "the node is not vm_capable"),
    ],
)  # fmt: skip
async def test_a_node_that_takes_no_instances_is_no_target(case: Case, flag: dict[str, bool], reason: str) -> None:
    op, vm = case
    lab = build_lab(vm)
    change_node(lab, "node3", **flag)
    error = await lab.refused(op)
    assert isinstance(error, errors.WrongStateError)
    assert f"node node3 cannot take instance vm1: {reason}" in str(error)


async def test_a_node_without_the_network_of_the_instance_and_its_own_node_are_no_targets(case: Case) -> None:
    op, vm = case
    lab = build_lab(vm)
    lab.put(structs.replace(TIGHT, networks={}, ipolicy=cluster.Policy()))
    error = await lab.refused(structs.replace(op, target_node="node4"))
    assert "network net1 is not connected to node group tight" in str(error)
    error = await lab.refused(structs.replace(op, target_node="node1"))
    assert "node node1 is already the primary node of instance vm1" in str(error)


async def test_only_a_failover_leaves_an_offline_node() -> None:
    for op, vm in (MOVES["migrate"], MOVES["move"]):
        lab = build_lab(vm)
        change_node(lab, "node1", offline=True)
        error = await lab.refused(op)
        assert isinstance(error, errors.EnvironmentFaultError)
        assert "node1" in str(error)
        assert "is offline" in str(error)
    lab = build_lab(SHARED)
    change_node(lab, "node1", offline=True)
    plan = await lab.plan(FAILOVER)
    assert [step.text for step in plan.after][-1] == "start vm1 on node3"
    assert not any("node1" in step.text for step in (*plan.steps, *plan.after))


async def test_an_instance_that_is_marked_offline_is_not_moved(case: Case) -> None:
    op, vm = case
    lab = build_lab(structs.replace(vm, admin_state=instance.AdminState.OFFLINE), running=False)
    allowing = structs.replace(op, allow_failover=True) if isinstance(op, opcodes.InstanceMigrate) else op
    error = await lab.refused(allowing)
    assert isinstance(error, errors.WrongStateError)
    assert "instance vm1 is marked offline" in str(error)


async def test_a_failover_or_a_migration_moves_no_disks_that_are_on_one_node_alone() -> None:
    for op in (FAILOVER, MIGRATE):
        assert "exist on its node node1 alone" in str(await build_lab(LOCAL).refused(op))
    assert "do not need to be copied" in str(await build_lab(SHARED).refused(MOVE))


async def test_a_failover_from_an_offline_node_advises_what_can_work() -> None:
    lab = build_lab(LOCAL, running=False)
    lab.put(structs.replace(build.OWNER, master_node="n2"))
    lab.put(structs.replace(lab.state.node("node1"), offline=True))
    error = await lab.refused(structs.replace(FAILOVER, ignore_consistency=True))
    assert "bring node node1 back (gnt-node modify --offline no node1)" in str(error)


async def test_mirrored_disks_have_both_copies_in_one_group() -> None:
    lab = build_lab(MIRRORED)
    lab.put(structs.replace(TIGHT, ipolicy=cluster.Policy()))
    for op in (FAILOVER, MIGRATE):
        error = await lab.refused(structs.replace(op, target_node="node4"))
        assert "not in the node group of the other copy" in str(error)


@pytest.mark.promise("cluster-95")
async def test_a_new_secondary_node_must_be_one_that_can_take_the_disks() -> None:
    lab = build_lab(MIRRORED)
    assert (await lab.plan(REPLACE)).changes
    assert "node node2 already has the disks" in str(await lab.refused(structs.replace(REPLACE, remote_node="node2")))
    lab.allocators["chooser"] = b'{"success": true, "info": "", "result": ["node3"]}'
    chosen = structs.replace(REPLACE, remote_node=None, iallocator="chooser")
    assert (await lab.plan(chosen)).changes
    for flag in ("offline", "drained"):
        change_node(lab, "node3", **{flag: True})
        assert f"the node is {flag}" in str(await lab.refused(REPLACE))
        refused = await lab.refused(chosen)
        assert f"allocator chooser chose unfit node node3: the node is {flag}" in str(refused)
        change_node(lab, "node3", **{flag: False})
    nodes = cast("Nodes", lab.nodes)
    nodes.full = frozenset({"node3"})
    assert isinstance(await lab.refused(REPLACE), errors.NoRoomError)


async def test_the_instance_policy_of_another_group_forbids_a_new_secondary_node() -> None:
    lab = build_lab(MIRRORED)
    there = structs.replace(REPLACE, remote_node="node4")
    assert OTHER_GROUP in str(await lab.refused(there))
    assert (await lab.plan(structs.replace(there, ignore_ipolicy=True))).changes
    lab.allocators["chooser"] = b'{"success": true, "info": "", "result": ["node4"]}'
    assert OTHER_GROUP in str(await lab.refused(structs.replace(REPLACE, remote_node=None, iallocator="chooser")))


async def test_disks_are_replaced_only_beside_a_primary_node_that_answers() -> None:
    lab = build_lab(MIRRORED)
    change_node(lab, "node1", offline=True)
    assert "primary node node1 of instance vm1 is offline" in str(await lab.refused(REPLACE))


@pytest.mark.promise("cluster-87", "cluster-95")
async def test_disks_are_recreated_on_a_node_that_can_take_them() -> None:
    lab = build_lab(LOCAL, running=False)
    assert (await lab.plan(RECREATE)).changes
    for flag in ("offline", "drained"):
        change_node(lab, "node3", **{flag: True})
        assert f"node node3 cannot take instance vm1: the node is {flag}" in str(await lab.refused(RECREATE))
        change_node(lab, "node3", **{flag: False})
    change_status(lab, "node3", storage=storage(63))
    error = await lab.refused(RECREATE)
    assert isinstance(error, errors.NoRoomError)
    assert "node node3 cannot take the disks of instance vm1: needs 64 MiB of disk space, 63 MiB are free" in str(error)
    change_status(lab, "node3", storage=storage(64))
    assert (await lab.plan(RECREATE)).changes
    assert OTHER_GROUP in str(await lab.refused(structs.replace(RECREATE, nodes=("node4",))))


async def test_disks_of_an_offline_node_are_recreated_on_another_one_only() -> None:
    lab = build_lab(LOCAL, running=False)
    change_node(lab, "node1", offline=True)
    assert "node1 is marked offline" in str(await lab.refused(structs.replace(RECREATE, nodes=())))
    assert (await lab.plan(RECREATE)).changes


async def test_disks_of_an_instance_that_runs_are_not_recreated() -> None:
    assert "is running" in str(await build_lab(LOCAL).refused(RECREATE))


async def jobs(lab: build.MemoryCluster, op: opcodes.Opcode) -> tuple[list[list[str]], dict[str, str]]:
    """Return what the jobs of an evacuation do, and why instances stay."""
    plan = await lab.plan(op)
    assert plan.jobs is not None
    stay = cast("dict[str, dict[str, str]]", plan.result())["stay"]
    return [[f"{type(step).__name__} {_target(step)}" for step in job] for job in plan.jobs], stay


def _target(op: opcodes.AnyOpcode) -> str:
    return str(getattr(op, "target_node", None) or getattr(op, "remote_node", None))


EVACUATE = opcodes.NodeEvacuate(node_name="node1", mode="primary-only", remote_node="node3")


async def test_an_evacuation_leaves_what_no_node_can_take_with_the_reason() -> None:
    lab = build_lab(SHARED)
    assert await jobs(lab, EVACUATE) == ([["InstanceMigrate node3"]], {})
    change_status(lab, "node3", memory_free=127)
    _, stay = await jobs(lab, EVACUATE)
    assert "node3: needs 128 MiB of memory, 127 MiB are free" in stay["vm1"]
    _, stay = await jobs(lab, structs.replace(EVACUATE, remote_node="node4"))
    assert "node4: the instance policy of its node group forbids the instance" in stay["vm1"]
    lab.put(structs.replace(SHARED, admin_state=instance.AdminState.OFFLINE))
    assert await jobs(lab, EVACUATE) == ([], {"vm1": "the instance is marked offline"})


async def test_an_evacuation_of_an_offline_node_fails_its_instances_over() -> None:
    lab = build_lab(SHARED)
    change_node(lab, "node1", offline=True)
    assert await jobs(lab, EVACUATE) == ([["InstanceFailover node3"]], {})
    error = await lab.refused(opcodes.NodeMigrate(node_name="node1"))
    assert "node node1 is offline" in str(error)


async def test_an_evacuation_keeps_both_copies_in_one_group() -> None:
    lab = build_lab(MIRRORED)
    lab.put(structs.replace(TIGHT, ipolicy=cluster.Policy()))
    copies = structs.replace(EVACUATE, node_name="node2", mode="secondary-only")
    assert await jobs(lab, copies) == ([["InstanceReplaceDisks node3"]], {})
    planned_jobs, stay = await jobs(lab, structs.replace(copies, remote_node="node4"))
    assert planned_jobs == []
    assert "node4: it is not in the node group of the other copy" in stay["vm1"]
