"""The end of a cluster; operating systems as all nodes see them."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import opcodes
from gantry.operations import fill
from gantry.rpc import calls


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=1))
    return lab


async def test_a_cluster_with_instances_is_not_destroyed(lab: build.MemoryCluster) -> None:
    error = await lab.refused(opcodes.ClusterDestroy())
    assert "cluster lab.example has 1 instances (vm1); remove the instances first" in str(error)


async def test_every_node_leaves_and_the_master_is_last(lab: build.MemoryCluster) -> None:
    await lab.run(opcodes.InstanceRemove(instance_name="vm1"))
    lab.put(msgspec.structs.replace(build.NODES[1], master_candidate=True))
    lab.machine("node2").down = True
    assert await lab.run(opcodes.ClusterDestroy()) == "node1"
    assert [node.name for node in lab.state.nodes.values() if node.master_candidate] == ["node1"]
    leaving_nodes = [name for name, call in lab.nodes.made if isinstance(call, calls.NodeLeave)]
    assert leaving_nodes == ["node2", "node3", "node1"]
    assert any(line.startswith("WARNING node2 was not notified") for line in lab.log.lines)


@pytest.mark.parametrize("op", [opcodes.ClusterDestroy(), opcodes.NodeRemove(node_name="node2")])
async def test_a_node_does_not_leave_with_a_guest_that_the_state_does_not_have(
    lab: build.MemoryCluster, op: opcodes.Opcode
) -> None:
    whole = fill.fill(lab.state, lab.state.instance("vm1"))
    await lab.run(opcodes.InstanceRemove(instance_name="vm1"))
    lab.machine("node2").running["stray"] = msgspec.structs.replace(whole, name="stray", uuid="unknown")
    error = await lab.refused(op)
    assert isinstance(error, errors.WrongStateError)
    assert "no node can leave the cluster with a stray guest: guest stray on node2; gnt-cluster verify says why" in str(
        error
    )
    lab.machine("node2").down = True
    await lab.run(op)


FIELDS = ("name", "valid", "variants", "node_status", "api_versions", "parameters", "hypervisors")


async def systems(lab: build.MemoryCluster, *names: str) -> dict[str, list[object]]:
    rows = await lab.run(opcodes.OsDiagnose(output_fields=FIELDS, names=names))
    assert isinstance(rows, list)
    return {row[0]: row[1:] for row in rows}


async def test_an_os_is_valid_when_all_nodes_have_it_alike(lab: build.MemoryCluster) -> None:
    plain = build.Machine().systems[0]
    lab.machine("node1").systems = (plain, calls.OsScript(name="only1", path="/os/only1"))
    assert (await systems(lab))["plain"][:2] == [True, []]
    assert (await systems(lab))["only1"][0] is False
    lab.machine("node2").systems = (msgspec.structs.replace(plain, variants=("small",)),)
    assert (await systems(lab))["plain"][0] is False
    lab.machine("node2").systems = (msgspec.structs.replace(plain, problem="no script create"),)
    reported_systems = await systems(lab, "plain")
    assert set(reported_systems) == {"plain"}
    valid, _, status, *_ = reported_systems["plain"]
    assert valid is False
    assert status == {
        "node1": [["/os/plain", True, "", [], [20]]],
        "node2": [["/os/plain", False, "no script create", [], [20]]],
        "node3": [["/os/plain", True, "", [], [20]]],
    }


async def test_a_node_that_does_not_answer_is_marked_and_makes_no_os_invalid(lab: build.MemoryCluster) -> None:
    lab.machine("node3").down = True
    valid, _, status, *_ = (await systems(lab))["plain"]
    assert valid is True
    assert isinstance(status, dict)
    ((path, fine, problem, *_),) = status["node3"]
    assert (path, fine, "node3" in problem) == ("", False, True)


async def test_nodes_that_take_no_instances_need_no_os(lab: build.MemoryCluster) -> None:
    lab.machine("node2").systems = ()
    assert (await systems(lab))["plain"][0] is False
    lab.put(msgspec.structs.replace(build.NODES[1], vm_capable=False))
    assert (await systems(lab))["plain"][0] is True


async def test_systems_that_are_hidden_or_blacklisted_are_not_offered(lab: build.MemoryCluster) -> None:
    variants = msgspec.structs.replace(build.Machine().systems[0], variants=("big", "small"))
    for node in ("node1", "node2", "node3"):
        lab.machine(node).systems = (variants, build.Machine().systems[1])
    fields = ("name", "hidden", "blacklisted", "offered")

    async def displayed_systems() -> object:
        return await lab.run(opcodes.OsDiagnose(output_fields=fields))

    await lab.run(opcodes.ClusterSetParams(hidden_os=(("add", "other"),), blacklisted_os=(("add", "plain+big"),)))
    assert await displayed_systems() == [["other", True, False, []], ["plain", False, False, ["plain+small"]]]
    await lab.run(opcodes.ClusterSetParams(hidden_os=(("remove", "other"),), blacklisted_os=(("add", "plain"),)))
    assert await displayed_systems() == [["other", False, False, ["other"]], ["plain", False, True, []]]
    assert "no node has operating system minix" in str(
        await lab.refused(opcodes.ClusterSetParams(hidden_os=(("add", "minix"),)))
    )


async def test_a_blacklisted_system_is_not_installed(lab: build.MemoryCluster) -> None:
    create = opcodes.InstanceCreate(
        instance_name="new", os_type="other", disk_template="file", disks=(opcodes.DiskSpec(size=8),), start=False
    )
    await lab.run(create)
    await lab.run(opcodes.ClusterSetParams(blacklisted_os=(("add", "other"),)))
    for op in (msgspec.structs.replace(create, instance_name="two"), opcodes.InstanceReinstall(instance_name="new")):
        error = await lab.refused(op)
        assert isinstance(error, errors.WrongStateError)
        assert "OS other is blacklisted" in str(error)
    await lab.run(opcodes.InstanceReinstall(instance_name="new", os_type="plain"))
    await lab.run(opcodes.ClusterSetParams(blacklisted_os=(("remove", "other"),)))
    await lab.run(msgspec.structs.replace(create, instance_name="two"))


async def test_unknown_systems_and_fields_are_refused(lab: build.MemoryCluster) -> None:
    error = await lab.refused(opcodes.OsDiagnose(output_fields=("name",), names=("plain", "minix")))
    assert isinstance(error, errors.NotFoundError)
    assert "no node has an OS named minix" in str(error)
    assert "colour" in str(await lab.refused(opcodes.OsDiagnose(output_fields=("name", "colour"))))
