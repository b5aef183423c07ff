"""Node groups: what they set, who may be in them, and where new instances go."""

import pytest
from msgspec.structs import replace
from tests.operations import build

from gantry import errors
from gantry.model import cluster, instance, lock, opcodes, parameters, policy
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

SECOND = cluster.NodeGroup(uuid="h", name="rack2")


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.put(SECOND)
    return lab


def op(**fields: object) -> opcodes.GroupSetParams:
    opcode = opcodes.decode({"OP_ID": "OP_GROUP_SET_PARAMS", "group_name": "default", **fields})
    assert isinstance(opcode, opcodes.GroupSetParams)
    return opcode


def diskless(**fields: object) -> opcodes.InstanceCreate:
    raw = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "new", "disk_template": "diskless", **fields}
    opcode = opcodes.decode(raw)
    assert isinstance(opcode, opcodes.InstanceCreate)
    return opcode


async def test_a_group_is_made_with_only_what_was_set(lab: build.MemoryCluster) -> None:
    add = opcodes.decode(
        {
            "OP_ID": "OP_GROUP_ADD",
            "group_name": "rack3",
            "alloc_policy": "last_resort",
            "ndparams": {"cpu_speed": "1.5", "ssh_port": "default"},
            "diskparams": {"plain": {"stripes": "2"}, "file": {}},
            "ipolicy": {"minmax": [{"max": {"memory-size": "512"}}], "vcpu-ratio": "2"},
            "tags": ["b", "a"],
        }
    )
    await lab.run(add)
    group = lab.state.group("rack3")
    assert group.alloc_policy is cluster.AllocPolicy.LAST_RESORT
    assert (group.ndparams, group.diskparams, group.tags) == ({"cpu_speed": 1.5}, {"plain": {"stripes": 2}}, ("a", "b"))
    assert group.ipolicy == cluster.Policy(minmax=(cluster.Bounds(max={"memory-size": 512}),), vcpu_ratio=2.0)
    assert "exists already" in str(await lab.refused(add))


async def test_what_is_not_named_stays_and_default_takes_it_back(lab: build.MemoryCluster) -> None:
    await lab.run(op(ndparams={"cpu_speed": 2}, diskparams={"drbd": {"protocol": "A"}}, alloc_policy="unallocable"))
    await lab.run(op(ndparams={"ssh_port": 2222}, ipolicy={"disk-templates": ["file"]}))
    group = lab.state.group("default")
    assert group.ndparams == {"cpu_speed": 2.0, "ssh_port": 2222}
    assert group.diskparams == {"drbd": {"protocol": "A"}}
    back = {
        "ndparams": {"cpu_speed": "default", "ssh_port": "default"},
        "diskparams": {"drbd": {"protocol": "default"}},
    }
    await lab.run(op(**back, ipolicy={"disk-templates": "default"}, alloc_policy="preferred"))
    group = lab.state.group("default")
    assert group == replace(build.GROUP, serial_no=group.serial_no, mtime=group.mtime)


async def test_a_change_is_reported_and_one_that_is_none_writes_nothing(lab: build.MemoryCluster) -> None:
    assert await lab.run(op(alloc_policy="last_resort", ndparams={"cpu_speed": 2})) == [
        ("alloc_policy", "last_resort"),
        ("ndparams", {"cpu_speed": 2.0}),
    ]
    plan = await lab.plan(op(alloc_policy="last_resort"))
    assert list(plan.changes) == []
    assert plan.lines == ["nothing changes: node group default already has these settings"]


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ({}, "no change of node group default was requested; specify at least one setting"),
        ({"ndparams": {"cpu_sped": 1}}, "unknown node parameter cpu_sped; did you mean cpu_speed?"),
        ({"ndparams": {"cpu_speed": "fast"}}, "cpu_speed: 'fast' is not a number"),
        ({"ndparams": {"cpu_speed": "nan"}}, "cpu_speed: 'nan' is not a number"),
        ({"ndparams": {"ssh_port": 70000}}, "ssh_port: the number is above the maximum 65535"),
        ({"diskparams": {"plan": {}}}, "unknown disk template plan; did you mean plain?"),
        ({"diskparams": {"plain": {"strips": 2}}}, "unknown plain disk parameter strips; did you mean stripes?"),
        ({"diskparams": {"drbd": {"protocol": "D"}}}, "'D' is not one of A, B, C"),
        ({"ipolicy": {"std": {"cpu-count": 1}}}, "a node group cannot have its own standard specs"),
        ({"ipolicy": {"minmax": [{"min": {"memory-sise": 1}}]}}, "unknown policy parameter memory-sise; did you mean"),
        (
            {"ipolicy": {"minmax": [{"min": {"cpu-count": 4}, "max": {"cpu-count": 2}}]}},
            "the minimum, 4, is above the maximum, 2",
        ),
        ({"ipolicy": {"minmax": [{"max": {"cpu-count": -1}}]}}, "cpu-count: -1 is below the minimum 0"),
        ({"ipolicy": {"disk-templates": ["fil"]}}, "unknown disk template fil; did you mean file?"),
    ],
)
async def test_what_is_not_valid_is_refused_with_a_line_that_helps(
    lab: build.MemoryCluster, requested: dict[str, object], message: str
) -> None:
    error = await lab.refused(op(**requested))
    assert isinstance(error, errors.InvalidError)
    assert message in str(error)


async def test_a_group_that_has_nodes_or_is_the_last_one_stays(lab: build.MemoryCluster) -> None:
    assert "node group default still has node node1, node2, node3" in str(
        await lab.refused(opcodes.GroupRemove(group_name="default"))
    )
    await lab.run(opcodes.GroupRemove(group_name="rack2"))
    assert "rack2" not in {group.name for group in lab.state.nodegroups.values()}
    empty = build.MemoryCluster()
    for node in ("n2", "n3"):
        empty.change([states.Delete("nodes", node)])
    assert "has node node1" in str(await empty.refused(opcodes.GroupRemove(group_name="default")))


async def test_a_group_is_renamed(lab: build.MemoryCluster) -> None:
    assert await lab.run(opcodes.GroupRename(group_name="rack2", new_name="rack9")) == "rack9"
    assert lab.state.group("rack9").uuid == "h"
    assert "exists already" in str(await lab.refused(opcodes.GroupRename(group_name="rack9", new_name="default")))


async def test_nodes_come_to_a_group_with_their_instances(lab: build.MemoryCluster) -> None:
    move = opcodes.GroupAssignNodes(group_name="rack2", nodes=("node2", "node3", "node2"))
    locks = lab.unit(move).locks(lab.state)
    assert locks == dict.fromkeys(
        [*((lock.Level.GROUP, uuid) for uuid in "gh"), *((lock.Level.NODE, uuid) for uuid in ("n2", "n3"))],
        lock.Mode.EXCLUSIVE,
    )
    await lab.run(move)
    assert {node.name: node.group for node in lab.state.nodes.values()} == {"node1": "g", "node2": "h", "node3": "h"}
    assert (await lab.plan(move)).lines == ["nothing changes: the nodes are already in node group rack2"]


async def test_a_node_whose_instance_would_lose_its_network_stays_unless_it_is_forced(lab: build.MemoryCluster) -> None:
    move = opcodes.GroupAssignNodes(group_name="rack2", nodes=("node1",))
    message = "network net1 of instance vm1 on node1 is not connected to node group rack2"
    assert message in str(await lab.refused(move))
    assert lab.state.node("node1").group == "g"
    plan = await lab.plan(replace(move, force=True))
    assert [step.text for step in plan.steps] == [message]
    await lab.run(replace(move, force=True))
    assert lab.state.node("node1").group == "h"


async def test_the_nearest_level_of_node_parameters_wins(lab: build.MemoryCluster) -> None:
    await lab.run(opcodes.ClusterSetParams(ndparams={"cpu_speed": 2.0, "ssh_port": 23}))
    await lab.run(op(ndparams={"ssh_port": 24}))
    await lab.run(opcodes.NodeSetParams(node_name="node2", ndparams={"ssh_port": 25, "spindle_count": 4}))
    state = lab.state
    filled = [
        parameters.fill_node(state.the_cluster, state.nodegroups[node.group], node)
        for node in (state.node("node1"), state.node("node2"))
    ]
    assert [(values["cpu_speed"], values["ssh_port"], values["spindle_count"]) for values in filled] == [
        (2.0, 24, 1),
        (2.0, 25, 4),
    ]
    assert state.node("node2").ndparams == {"ssh_port": 25, "spindle_count": 4}
    result = await lab.run(opcodes.NodeSetParams(node_name="node2", ndparams={"ssh_port": "default"}))
    assert result == [("ndparams/ssh_port", "default")]
    assert lab.state.node("node2").ndparams == {"spindle_count": 4}


async def test_disk_parameters_of_group_and_cluster_are_filled_into_what_nodes_are_sent(
    lab: build.MemoryCluster,
) -> None:
    disk = replace(build.DISK, uuid="d9", dev_type="plain", logical_id=("plain", "xenvg/d9"))
    lab.put(replace(build.VM, disk_template="plain", disks=(disk,), nics=()))
    await lab.run(opcodes.ClusterSetParams(diskparams={"plain": {"stripes": 2}, "drbd": {"protocol": "A"}}))
    await lab.run(opcodes.InstanceStartup(instance_name="vm1"))
    await lab.run(op(diskparams={"plain": {"stripes": 3}}))
    await lab.run(opcodes.InstanceStartup(instance_name="vm1"))
    sent = [call for _, call in lab.nodes.made if isinstance(call, calls.InstanceStart)]
    assert [call.instance.disks[0].params for call in sent] == [{"stripes": 2}, {"stripes": 3}]


async def test_instances_that_name_no_node_go_where_the_policy_of_allocation_lets_them(
    lab: build.MemoryCluster,
) -> None:
    lab.put(replace(build.NODES[2], group="h"))
    create = diskless(no_install=True, nics=[])
    await lab.run(op(alloc_policy="last_resort"))
    assert await lab.run(create) == ["node3"]
    lab.machine("node3").down = True
    assert await lab.run(replace(create, instance_name="new2")) in (["node1"], ["node2"])
    await lab.run(op(alloc_policy="unallocable"))
    error = await lab.refused(replace(create, instance_name="new3"))
    assert isinstance(error, errors.NoRoomError)
    assert (
        "node3: the node does not answer; node group default: it is unallocable, so the node must be specified"
        in str(error)
    )
    assert await lab.run(replace(create, instance_name="new4", pnode="node1")) == ["node1"]


async def test_a_policy_keeps_new_instances_of_the_wrong_size_out_unless_it_is_ignored(
    lab: build.MemoryCluster,
) -> None:
    lab.put(replace(build.NODES[2], group="h"))
    await lab.run(op(ipolicy={"minmax": [{"max": {"memory-size": 256}}, {"min": {"cpu-count": 8}}]}))
    big = diskless(beparams={"memory": 512}, pnode="node1")
    error = await lab.refused(big)
    assert (
        "instance new violates the instance policy of node group default: memory-size 512 is above the maximum 256"
        in str(error)
    )
    assert await lab.run(replace(big, pnode=None)) == ["node3"]
    assert await lab.run(replace(big, instance_name="wide", beparams={"memory": 512, "vcpus": 8})) == ["node1"]
    assert await lab.run(replace(big, instance_name="new2", ignore_ipolicy=True)) == ["node1"]
    refused = await lab.refused(replace(big, instance_name="new3", pnode=None, group_name="default"))
    assert "node group default: its instance policy forbids it: memory-size 512 is above the maximum 256" in str(
        refused
    )


async def test_a_tighter_policy_tells_who_does_not_fit_it_and_lets_them_be(lab: build.MemoryCluster) -> None:
    tight = op(ipolicy={"minmax": [{"min": {"memory-size": 256}}], "disk-templates": ["diskless"]})
    assert (await lab.plan(tight)).lines[-1] == (
        "instance vm1 violates the instance policy now; existing instances stay unchanged"
    )
    await lab.run(tight)
    change = opcodes.InstanceSetParams(instance_name="vm1", beparams={"vcpus": 2})
    await lab.run(change)
    less = replace(change, beparams={"memory": 64})
    assert "memory-size 64 is below the minimum 256" in str(await lab.refused(less))
    await lab.run(replace(less, ignore_ipolicy=True))


async def test_the_policy_of_the_cluster_holds_where_the_group_sets_none(lab: build.MemoryCluster) -> None:
    limit = {
        "OP_ID": "OP_CLUSTER_SET_PARAMS",
        "ipolicy": {"minmax": [{"max": {"nic-count": 1}}], "std": {"cpu-count": 2}},
    }
    plan = await lab.plan(opcodes.decode(limit))
    assert plan.lines == [
        "policy minmax: default becomes max:nic-count=1",
        "policy std: default becomes cpu-count=2",
    ]
    await lab.run(opcodes.decode(limit))
    two = diskless(nics=[{}, {}], pnode="node1")
    assert "nic-count 2 is above the maximum 1" in str(await lab.refused(two))
    await lab.run(op(ipolicy={"minmax": [{"max": {"nic-count": 2}}]}))
    await lab.run(two)


async def test_nodes_that_keep_one_instances_disks_move_together_unless_it_is_forced(lab: build.MemoryCluster) -> None:
    mirror = instance.Mirror(minors={"n2": 0, "n3": 0}, port=11000, secret="s")
    disk = instance.Disk(uuid="d9", dev_type="drbd", size=64, mirror=mirror)
    lab.put(replace(build.VM, primary_node="n2", disk_template="drbd", disks=(disk,), nics=()))
    for node in ("node2", "node3"):
        op = opcodes.GroupAssignNodes(group_name="rack2", nodes=(node,))
        message = "instance vm1 would have its disks in node groups default, rack2"
        assert message in str(await lab.refused(op))
    await lab.run(opcodes.GroupAssignNodes(group_name="rack2", nodes=("node2", "node3")))
    assert {lab.state.node(name).group for name in ("node2", "node3")} == {"h"}
    await lab.run(opcodes.GroupAssignNodes(group_name="default", nodes=("node3",), force=True))


FULL = {
    "min": dict.fromkeys(policy.SPECS, 1) | {"disk-size": 1024, "memory-size": 128},
    "max": dict.fromkeys(policy.SPECS, 8) | {"disk-size": 1 << 20, "memory-size": 32768},
}


def of_cluster(**ipolicy: object) -> opcodes.Opcode:
    return opcodes.decode({"OP_ID": "OP_CLUSTER_SET_PARAMS", "ipolicy": ipolicy})


async def test_one_bound_of_the_cluster_changes_and_all_others_stay(lab: build.MemoryCluster) -> None:
    await lab.run(of_cluster(minmax=[FULL]))
    await lab.run(of_cluster(minmax=[{"min": {"disk-size": 10}}]))
    (bounds,) = lab.state.the_cluster.ipolicy.minmax
    assert bounds == cluster.Bounds(min=FULL["min"] | {"disk-size": 10}, max=FULL["max"])
    await lab.run(of_cluster(minmax=[{"max": {"disk-size": "default"}}]))
    (bounds,) = lab.state.the_cluster.ipolicy.minmax
    assert bounds.max == {name: size for name, size in FULL["max"].items() if name != "disk-size"}


async def test_one_bound_of_a_group_changes_and_the_others_are_its_own_or_the_clusters(
    lab: build.MemoryCluster,
) -> None:
    await lab.run(of_cluster(minmax=[FULL]))
    await lab.run(op(ipolicy={"minmax": [{"max": {"memory-size": 4096}}]}))
    await lab.run(op(ipolicy={"minmax": [{"min": {"disk-size": 10}}]}))
    group = lab.state.group("default")
    assert group.ipolicy.minmax == (cluster.Bounds(min={"disk-size": 10}, max={"memory-size": 4096}),)
    (effective,) = policy.filled(lab.state.the_cluster.ipolicy, group.ipolicy).minmax
    assert effective == cluster.Bounds(min=FULL["min"] | {"disk-size": 10}, max=FULL["max"] | {"memory-size": 4096})


async def test_several_ranges_change_one_by_one(lab: build.MemoryCluster) -> None:
    small, large = {"max": {"memory-size": 512}}, {"min": {"memory-size": 1024}}
    await lab.run(of_cluster(minmax=[small, large]))
    await lab.run(of_cluster(minmax=[{"max": {"cpu-count": 1}}, {"max": {"cpu-count": 4}}]))
    assert lab.state.the_cluster.ipolicy.minmax == (
        cluster.Bounds(max={"memory-size": 512, "cpu-count": 1}),
        cluster.Bounds(min={"memory-size": 1024}, max={"cpu-count": 4}),
    )
    error = await lab.refused(of_cluster(minmax=[small]))
    assert "the policy has 2 ranges, and the change has 1" in str(error)
    await lab.run(of_cluster(minmax=[FULL]))
    assert len(lab.state.the_cluster.ipolicy.minmax) == 1


@pytest.mark.parametrize("empty", [None, [], ["default"], "default"])
@pytest.mark.parametrize("name", ["minmax", "disk-templates"])
async def test_an_empty_setting_of_a_group_is_reset(lab: build.MemoryCluster, name: str, empty: object) -> None:
    await lab.run(op(ipolicy={"minmax": [FULL], "disk-templates": ["file"], "vcpu-ratio": 2}))
    await lab.run(op(ipolicy={name: empty}))
    stored = lab.state.group("default").ipolicy
    assert (stored.minmax == (), stored.disk_templates == ()) == (name == "minmax", name == "disk-templates")
    assert stored.vcpu_ratio == 2
    if empty != "default":
        assert "an empty setting of the cluster" in str(await lab.refused(of_cluster(**{name: empty})))


async def test_no_level_contradicts_another(lab: build.MemoryCluster) -> None:
    await lab.run(of_cluster(minmax=[{"max": {"memory-size": 256}}]))
    error = await lab.refused(op(ipolicy={"minmax": [{"min": {"memory-size": 512}}]}))
    assert "policy memory-size: the minimum, 512, is above the maximum, 256" in str(error)
    await lab.run(op(ipolicy={"minmax": [{"min": {"memory-size": 200}}]}))
    error = await lab.refused(of_cluster(minmax=[{"max": {"memory-size": 128}}]))
    assert "node group default, with its own limits: policy memory-size: the minimum, 200" in str(error)


@pytest.mark.parametrize(("name", "value"), [("oob_program", "/x"), ("exclusive_storage", True), ("ovs", "yes")])
async def test_a_node_parameter_without_effect_is_refused(lab: build.MemoryCluster, name: str, value: object) -> None:
    error = await lab.refused(op(ndparams={name: value}))
    assert f"node parameter {name} cannot be" in str(error)
    await lab.run(op(ndparams={name: "default"}, alloc_policy="preferred"))
