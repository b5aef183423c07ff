"""What the built-in allocator minds beside room: tags that must not meet, processors, spare memory."""

from dataclasses import replace

from msgspec import structs
from tests.operations import build

from gantry.model import cluster, instance
from gantry.operations.placement import builtin_allocator

UP = structs.replace(build.VM, admin_state=instance.AdminState.UP, tags=("service:web", "colour:red"))
NODE = build.NODES[0]


def why(lab: build.MemoryCluster, need: builtin_allocator.Need, node: cluster.Node = NODE, *, free: int = 2048) -> str:
    return builtin_allocator.unfit(lab.state, node, structs.replace(build.STATUS, memory_free=free), need)


def build_lab(owner: cluster.Cluster = build.OWNER, vm: instance.Instance = UP) -> build.MemoryCluster:
    return build.MemoryCluster(owner, build.GROUP, *build.NODES, build.NET, vm)


def test_instances_with_one_exclusive_tag_do_not_meet() -> None:
    exclusive = build_lab(structs.replace(build.OWNER, tags=("htools:iextags:service",)))
    need = builtin_allocator.Need(128, 0, (), tags=("service:web",))
    assert "instance vm1 on this node also has the exclusion tag service:web" in why(exclusive, need)
    assert why(exclusive, need, build.NODES[1]) == ""
    assert why(build_lab(), need) == ""
    assert why(exclusive, replace(need, tags=("service:db", "colour:red"))) == ""
    assert why(exclusive, replace(need, ignored=("i1",))) == ""


def test_processors_are_limited_where_a_policy_says_so() -> None:
    need = builtin_allocator.Need(128, 0, (), vcpus=4)
    assert why(build_lab(), need) == ""
    tight = build_lab(structs.replace(build.OWNER, ipolicy=cluster.Policy(vcpu_ratio=1.0)))
    assert "needs 4 virtual processors, 1 of 4 are in use" in why(tight, need)
    assert why(tight, need, build.NODES[1]) == ""


def test_memory_is_kept_for_the_worst_failure_of_one_other_node() -> None:
    mirror = instance.Mirror(minors={"n1": 0, "n2": 0}, port=11000, secret="s")
    disk = instance.Disk(uuid="d1", dev_type="drbd", size=64, mirror=mirror)
    mirrored = build_lab(vm=structs.replace(UP, disk_template="drbd", disks=(disk,), beparams={"maxmem": 1000}))
    second = mirrored.state.nodes["n2"]
    assert builtin_allocator.reserve(mirrored.state, second) == 1000
    need = builtin_allocator.Need(500, 0, ())
    assert why(mirrored, need, second, free=1600) == ""
    assert "if another node failed" in why(mirrored, need, second, free=1400)
    assert why(mirrored, need, build.NODES[2], free=500) == ""


def test_the_choice_is_explained_with_those_that_came_close_and_those_passed_over() -> None:
    lab = build_lab()
    lab.put(structs.replace(build.NODES[2], drained=True))
    free = {"n1": 1000, "n2": 2000, "n3": 4000}
    statuses = {uuid: structs.replace(build.STATUS, memory_free=value) for uuid, value in free.items()}
    need = builtin_allocator.Need(128, 0, ())
    chosen = builtin_allocator.choose(lab.state, statuses, need)
    assert chosen.name == "node2"
    lines = builtin_allocator.explain(lab.state, statuses, need, chosen=chosen)
    assert lines == [
        "the allocator chose node2 with 2000 MiB of memory free, of 3 nodes that were asked",
        "less memory: node1, 1000 MiB free",
        "not fitting: node3: the node is drained",
    ]
