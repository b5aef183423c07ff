"""What verify finds, and the end of a cluster; operating systems as all nodes see them."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import instance, network, opcodes
from gantry.operations import filled
from gantry.rpc import calls
from gantry.state import history

UP = instance.AdminState.UP
VERIFY = opcodes.ClusterVerify()


@pytest.fixture
def house() -> build.House:
    made = build.House()
    made.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=1))
    return made


def runs(house: build.House, name: str, node: str) -> None:
    whole = msgspec.structs.replace(filled.fill(house.state, build.VM), name=name)
    house.machine(node).running[name] = whole


async def found(house: build.House, *, codes: bool = False) -> list[str]:
    """Return the complaints of a verification; its result tells whether there were any."""
    house.log.lines.clear()
    result = await house.run(msgspec.structs.replace(VERIFY, error_codes=codes))
    lines = [line.strip() for line in house.log.lines if "ERROR" in line]
    assert result is (not lines)
    return [line.removeprefix("- ") for line in lines]


async def test_a_healthy_cluster_has_no_complaints_and_every_section(house: build.House) -> None:
    assert await found(house) == []
    headings = [line for line in house.log.lines if line.startswith("* ")]
    assert headings[:3] == ["* Verifying cluster config", "* Verifying node status", "* Verifying instance status"]


async def test_damage_of_the_journal_is_an_error_with_its_place(house: build.House) -> None:
    house.environment.journal = history.Check(1, 1, "damaged: journal/1.log, byte offset 77")
    assert await found(house, codes=True) == ["ERROR:ECLUSTERJOURNAL:cluster:: damaged: journal/1.log, byte offset 77"]


async def test_each_node_is_asked_for_what_the_cluster_expects_of_it(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.NODES[2], vm_capable=False))
    await found(house)
    (call,) = house.nodes.asked(calls.NodeVerify, "node1")
    assert isinstance(call, calls.NodeVerify)
    assert [(nic.link, nic.vlan) for nic in call.nics] == [("br7", "12")]
    assert call.hypervisors == ("fake", "kvm")
    assert call.ssconf["master_node"] == calls.digest_of("node1\n")
    (call,) = house.nodes.asked(calls.NodeVerify, "node3")
    assert isinstance(call, calls.NodeVerify)
    assert (call.nics, call.hypervisors) == ((), ())


async def test_complaints_of_nodes_have_the_codes_of_the_contract(house: build.House) -> None:
    house.machine("node2").complaints = {"bridges": ["no bridge br7"], "time": ["600 s off"], "hypervisor": []}
    house.machine("node3").down = True
    assert await found(house, codes=True) == [
        "ERROR:ENODENET:node:node2: no bridge br7",
        "ERROR:ENODETIME:node:node2: 600 s off",
        "ERROR:ENODERPC:node:node3: it does not answer: node node3 cannot be reached",
    ]
    assert (await found(house))[0] == "ERROR: node node2: no bridge br7"


async def test_instances_in_the_wrong_state_or_place_are_found(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.VM, admin_state=UP))
    assert await found(house) == ["ERROR: instance vm1: it should run on node1 and does not"]
    runs(house, "vm1", "node2")
    assert await found(house) == ["ERROR: instance vm1: it runs on node2, its primary node is node1"]
    runs(house, "vm1", "node1")
    assert await found(house) == ["ERROR: instance vm1: it runs on node2, its primary node is node1"]
    house.machine("node2").running.clear()
    assert await found(house) == []


async def test_an_instance_that_should_not_exist_is_found_wherever_it_runs(house: build.House) -> None:
    runs(house, "stray", "node2")
    runs(house, "stray", "node3")
    assert await found(house, codes=True) == [
        f"ERROR:ENODEORPHANINSTANCE:node:{name}: instance stray should not exist" for name in ("node2", "node3")
    ]


async def test_a_silent_node_is_not_said_to_have_lost_its_instances(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.VM, admin_state=UP))
    house.machine("node1").down = True
    assert await found(house) == ["ERROR: node node1: it does not answer: node node1 cannot be reached"]


@pytest.mark.promise("cluster-91")
async def test_offline_and_drained_nodes_are_noted_and_not_asked(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.NODES[1], offline=True))
    house.put(msgspec.structs.replace(build.NODES[2], drained=True))
    house.put(msgspec.structs.replace(build.VM, primary_node="n2"))
    assert await found(house) == ["ERROR: instance vm1: its primary node node2 is offline"]
    notes = house.log.lines[house.log.lines.index("* Other Notes") :]
    assert "  - NOTICE: 1 offline node(s) found." in notes
    assert "  - NOTICE: 1 drained node(s) found." in notes
    assert not [call for name, call in house.nodes.made if name == "node2"]


@pytest.mark.promise("cluster-85")
async def test_too_few_candidates_are_found(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=10))
    assert await found(house, codes=True) == ["ERROR:ECLUSTERCFG:cluster:: 1 master candidates, 3 are wanted"]


async def test_ranges_outside_of_their_subnet_are_found(house: build.House) -> None:
    broken = network.Subnet(uuid="s", cidr="10.0.0.0/24", external=("10.0.1.1",))
    house.put(network.Network(uuid="b", name="broken", subnets=(broken,)))
    assert await found(house) == ["ERROR: network broken: range 10.0.1.1 is outside subnet 10.0.0.0/24"]


async def test_a_cluster_with_instances_is_not_destroyed(house: build.House) -> None:
    error = await house.refused(opcodes.ClusterDestroy())
    assert "cluster lab.example has 1 instances (vm1); remove them first" in str(error)


async def test_every_node_is_told_of_the_end_the_master_last(house: build.House) -> None:
    await house.run(opcodes.InstanceRemove(instance_name="vm1"))
    house.machine("node2").down = True
    assert await house.run(opcodes.ClusterDestroy()) == "node1"
    told = [name for name, call in house.nodes.made if isinstance(call, calls.NodeLeave)]
    assert told == ["node2", "node3", "node1"]
    assert any(line.startswith("WARNING node2 did not leave") for line in house.log.lines)


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
    found = await systems(house, "plain")
    assert set(found) == {"plain"}
    valid, _, status, *_ = found["plain"]
    assert valid is False
    assert status == {
        "node1": [["/os/plain", True, "", [], [20]]],
        "node2": [["/os/plain", False, "no script create", [], [20]]],
        "node3": [["/os/plain", True, "", [], [20]]],
    }


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

    async def shown() -> object:
        return await house.run(opcodes.OsDiagnose(output_fields=fields))

    await house.run(opcodes.ClusterSetParams(hidden_os=(("add", "other"),), blacklisted_os=(("add", "plain+big"),)))
    assert await shown() == [["other", True, False, []], ["plain", False, False, ["plain+small"]]]
    await house.run(opcodes.ClusterSetParams(hidden_os=(("remove", "other"),), blacklisted_os=(("add", "plain"),)))
    assert await shown() == [["other", False, False, ["other"]], ["plain", False, True, []]]
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
    assert "no such OS on any node: minix" in str(error)
    assert "colour" in str(await house.refused(opcodes.OsDiagnose(output_fields=("name", "colour"))))
