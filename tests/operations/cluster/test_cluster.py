"""The end of a cluster; operating systems as all nodes see them."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import opcodes
from gantry.rpc import calls


@pytest.fixture
def house() -> build.House:
    lab = build.House()
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=1))
    return lab


async def test_a_cluster_with_instances_is_not_destroyed(house: build.House) -> None:
    error = await house.refused(opcodes.ClusterDestroy())
    assert "cluster lab.example has 1 instances (vm1); remove the instances first" in str(error)


async def test_every_node_leaves_and_the_master_is_last(house: build.House) -> None:
    await house.run(opcodes.InstanceRemove(instance_name="vm1"))
    house.put(msgspec.structs.replace(build.NODES[1], master_candidate=True))
    house.machine("node2").down = True
    assert await house.run(opcodes.ClusterDestroy()) == "node1"
    assert [node.name for node in house.state.nodes.values() if node.master_candidate] == ["node1"]
    leaving_nodes = [name for name, call in house.nodes.made if isinstance(call, calls.NodeLeave)]
    assert leaving_nodes == ["node2", "node3", "node1"]
    assert any(line.startswith("WARNING node2 was not notified") for line in house.log.lines)


FIELDS = ("name", "valid", "variants", "node_status", "api_versions", "parameters", "hypervisors")


async def systems(house: build.House, *names: str) -> dict[str, list[object]]:
    rows = await house.run(opcodes.OsDiagnose(output_fields=FIELDS, names=names))
    assert isinstance(rows, list)
    return {row[0]: row[1:] for row in rows}


async def test_an_os_is_valid_when_all_nodes_have_it_alike(house: build.House) -> None:
    plain = build.Machine().systems[0]
    house.machine("node1").systems = (plain, calls.OsScript(name="only1", path="/os/only1"))
    assert (await systems(house))["plain"][:2] == [True, []]
    assert (await systems(house))["only1"][0] is False
    house.machine("node2").systems = (msgspec.structs.replace(plain, variants=("small",)),)
    assert (await systems(house))["plain"][0] is False
    house.machine("node2").systems = (msgspec.structs.replace(plain, problem="no script create"),)
    reported_systems = await systems(house, "plain")
    assert set(reported_systems) == {"plain"}
    valid, _, status, *_ = reported_systems["plain"]
    assert valid is False
    assert status == {
        "node1": [["/os/plain", True, "", [], [20]]],
        "node2": [["/os/plain", False, "no script create", [], [20]]],
        "node3": [["/os/plain", True, "", [], [20]]],
    }


async def test_a_node_that_does_not_answer_is_marked_and_makes_no_os_invalid(house: build.House) -> None:
    house.machine("node3").down = True
    valid, _, status, *_ = (await systems(house))["plain"]
    assert valid is True
    assert isinstance(status, dict)
    ((path, fine, problem, *_),) = status["node3"]
    assert (path, fine, "node3" in problem) == ("", False, True)


async def test_nodes_that_take_no_instances_need_no_os(house: build.House) -> None:
    house.machine("node2").systems = ()
    assert (await systems(house))["plain"][0] is False
    house.put(msgspec.structs.replace(build.NODES[1], vm_capable=False))
    assert (await systems(house))["plain"][0] is True


async def test_systems_that_are_hidden_or_blacklisted_are_not_offered(house: build.House) -> None:
    variants = msgspec.structs.replace(build.Machine().systems[0], variants=("big", "small"))
    for node in ("node1", "node2", "node3"):
        house.machine(node).systems = (variants, build.Machine().systems[1])
    fields = ("name", "hidden", "blacklisted", "offered")

    async def displayed_systems() -> object:
        return await house.run(opcodes.OsDiagnose(output_fields=fields))

    await house.run(opcodes.ClusterSetParams(hidden_os=(("add", "other"),), blacklisted_os=(("add", "plain+big"),)))
    assert await displayed_systems() == [["other", True, False, []], ["plain", False, False, ["plain+small"]]]
    await house.run(opcodes.ClusterSetParams(hidden_os=(("remove", "other"),), blacklisted_os=(("add", "plain"),)))
    assert await displayed_systems() == [["other", False, False, ["other"]], ["plain", False, True, []]]
    assert "no node has operating system minix" in str(
        await house.refused(opcodes.ClusterSetParams(hidden_os=(("add", "minix"),)))
    )


async def test_a_blacklisted_system_is_not_installed(house: build.House) -> None:
    create = opcodes.InstanceCreate(
        instance_name="new", os_type="other", disk_template="file", disks=(opcodes.DiskSpec(size=8),), start=False
    )
    await house.run(create)
    await house.run(opcodes.ClusterSetParams(blacklisted_os=(("add", "other"),)))
    for op in (msgspec.structs.replace(create, instance_name="two"), opcodes.InstanceReinstall(instance_name="new")):
        error = await house.refused(op)
        assert isinstance(error, errors.WrongStateError)
        assert "OS other is blacklisted" in str(error)
    await house.run(opcodes.InstanceReinstall(instance_name="new", os_type="plain"))
    await house.run(opcodes.ClusterSetParams(blacklisted_os=(("remove", "other"),)))
    await house.run(msgspec.structs.replace(create, instance_name="two"))


async def test_unknown_systems_and_fields_are_refused(house: build.House) -> None:
    error = await house.refused(opcodes.OsDiagnose(output_fields=("name",), names=("plain", "minix")))
    assert isinstance(error, errors.NotFoundError)
    assert "no node has an OS named minix" in str(error)
    assert "colour" in str(await house.refused(opcodes.OsDiagnose(output_fields=("name", "colour"))))
