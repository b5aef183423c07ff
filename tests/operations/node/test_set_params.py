"""The flags of nodes, one against the other, and the pool of candidates that is kept full."""

import itertools

import msgspec
import pytest
from tests.operations import build

from gantry.model import cluster, opcodes
from gantry.rpc import calls

PAPERS = {"authority.pem", "authority.key"}


def modify(name: str, **fields: object) -> opcodes.NodeSetParams:
    return msgspec.convert({"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name} | fields, opcodes.NodeSetParams)


@pytest.fixture
def house() -> build.House:
    """Node 1 is the master, 2 a candidate, 3 a regular node; the pool takes two."""
    lab = build.House()
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=2))
    lab.put(msgspec.structs.replace(build.NODES[1], master_candidate=True))
    lab.machine("node2").files = dict.fromkeys(PAPERS, "")
    return lab


def roles(house: build.House) -> str:
    nodes = sorted(house.state.nodes.values(), key=lambda node: node.name)
    return "".join(node.role(house.state.the_cluster).value for node in nodes)


@pytest.mark.promise("cluster-83")
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"offline": True}, "MOC"),
        ({"drained": True}, "MDC"),
        ({"master_candidate": False}, "MRC"),
        ({"master_capable": False}, "MRC"),
    ],
)
async def test_another_node_takes_the_place_of_a_candidate(
    house: build.House, flags: dict[str, bool], expected: str
) -> None:
    await house.run(modify("node2", **flags))
    assert roles(house) == expected
    assert set(house.machine("node3").files) >= PAPERS
    assert not PAPERS & set(house.machine("node2").files)


@pytest.mark.promise("cluster-83")
async def test_a_candidate_that_leaves_the_cluster_is_replaced(house: build.House) -> None:
    await house.run(opcodes.NodeRemove(node_name="node2"))
    assert roles(house) == "MC"
    assert set(house.machine("node3").files) >= PAPERS


async def test_a_node_that_does_not_answer_is_passed_over(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.NODES[2], uuid="n4", name="node4", primary_ip="203.0.113.4"))
    house.machine("node3").down = True
    await house.run(modify("node2", offline=True))
    assert roles(house) == "MORC"
    assert any("node3 cannot become a master candidate" in line for line in house.log.lines)


async def test_the_last_possible_candidate_stays_unless_demoted_by_force(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.NODES[2], drained=True))
    message = str(await house.refused(modify("node2", master_candidate=False)))
    assert "the pool of master candidates would be too small without node node2" in message
    await house.run(modify("node2", master_candidate=False, force=True))
    assert roles(house) == "MRD"


async def test_a_broken_candidate_is_demoted_without_a_replacement(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.NODES[2], drained=True))
    house.machine("node2").down = True
    await house.run(modify("node2", offline=True))
    assert roles(house) == "MOD"
    assert any("may still have the cluster's key" in line for line in house.log.lines)


@pytest.mark.parametrize(
    ("op", "replication", "regular", "warned"),
    [
        (modify("node2", drained=True), "", False, True),
        (modify("node2", master_capable=False), "", False, True),
        (modify("node2", master_candidate=False, force=True), "", False, True),
        (opcodes.NodeRemove(node_name="node2"), "", False, True),
        (modify("node2", drained=True), "majority", False, False),
        (modify("node2", drained=True), "", True, False),
        (opcodes.NodeRemove(node_name="node2"), "", True, False),
        (modify("node2", offline=True), "", False, False),
    ],
)
async def test_a_default_of_replication_that_becomes_weaker_is_a_warning(
    house: build.House, op: opcodes.Opcode, replication: str, regular: bool, warned: bool
) -> None:
    house.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=3, replication=replication))
    house.put(msgspec.structs.replace(build.NODES[2], master_candidate=True))
    if regular:
        house.put(msgspec.structs.replace(build.NODES[2], uuid="n4", name="node4", primary_ip="203.0.113.4"))
    steps = [step.text for step in (await house.plan(op)).steps]
    assert any("keeps 2 master candidates, so its replication policy becomes seed" in text for text in steps) is warned


def policy(house: build.House) -> str:
    return house.state.replication_policy.value


async def test_the_default_of_replication_counts_a_lost_candidate_until_it_is_demoted_or_replaced(
    house: build.House,
) -> None:
    house.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=3))
    house.put(msgspec.structs.replace(build.NODES[2], master_candidate=True))
    assert policy(house) == "majority"
    house.machine("node2").down = True
    await house.run(modify("node2", offline=True))
    assert roles(house) == "MOC"
    assert policy(house) == "majority"
    assert not any("replication policy" in line for line in house.log.lines)
    # It comes back: the policy is the same before and after it is a candidate again.
    house.machine("node2").down = False
    plan = await house.plan(modify("node2", offline=False))
    assert house.state.apply(plan.changes, serial=house.state.serial).replication_policy == "majority"
    await house.run(modify("node2", offline=False))
    assert roles(house) == "MCC"
    assert not house.state.node("node2").lost_candidate
    # It is demoted although it is offline.
    await house.run(modify("node2", offline=True))
    demotion = modify("node2", master_candidate=False)
    for op in (demotion, opcodes.NodeRemove(node_name="node2")):
        steps = [step.text for step in (await house.plan(op)).steps]
        assert any("keeps 2 master candidates, so its replication policy becomes seed" in text for text in steps)
    await house.run(demotion)
    assert policy(house) == "seed"
    assert roles(house) == "MOC"


async def test_a_lost_candidate_does_not_count_beside_the_node_that_replaces_it(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=2))
    house.machine("node2").down = True
    await house.run(modify("node2", offline=True))
    assert roles(house) == "MOC"
    assert policy(house) == "seed"


@pytest.mark.promise("cluster-96")
async def test_at_most_one_flag_holds_whatever_is_set_after_whatever(house: build.House) -> None:
    letters = {"master_candidate": "C", "drained": "D", "offline": "O"}
    for first, second in itertools.permutations(letters, 2):
        lab = build.House()
        await lab.run(modify("node3", **{first: True}))
        op = {second: True} | ({first: False} if second == "master_candidate" else {})
        await lab.run(modify("node3", **op))
        node = lab.state.node("node3")
        assert node.role(lab.state.the_cluster).value == letters[second]
        assert [getattr(node, name) for name in letters].count(True) == 1
        together = str(await lab.refused(modify("node3", **{first: True, second: True})))
        assert "exclude each other" in together


@pytest.mark.promise("cluster-96", "cluster-88")
@pytest.mark.parametrize("flag", ["offline", "drained", "master_candidate"])
@pytest.mark.parametrize("value", [True, False])
async def test_the_master_has_no_flags(house: build.House, flag: str, value: bool) -> None:
    message = str(await house.refused(modify("node1", **{flag: value})))
    assert "node node1 is the master, so it cannot have another role" in message


@pytest.mark.promise("cluster-87", "cluster-88")
async def test_a_node_with_primary_instances_cannot_be_offline_or_lose_them(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.VM, uuid="i2", name="vm2", primary_node="n2", nics=()))
    for flags in ({"offline": True}, {"vm_capable": False}, {"vm_capable": False, "force": True}):
        message = str(await house.refused(modify("node2", **flags)))
        assert "it is the primary node of instance vm2" in message
    assert "node node2 answers" in str(await house.refused(modify("node2", offline=True, force=True)))
    await house.run(modify("node2", drained=True))
    assert roles(house) == "MDC"


async def test_a_node_that_is_really_down_can_be_given_up_with_its_instances(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.VM, uuid="i2", name="vm2", primary_node="n2", nics=()))
    house.machine("node2").down = True
    assert "move or remove these instances first" in str((await house.refused(modify("node2", offline=True))).hint)
    await house.run(modify("node2", offline=True, force=True))
    assert house.state.node("node2").offline


@pytest.mark.parametrize("flags", [{"offline": True, "force": True}, {"drained": True}, {"master_candidate": False}])
async def test_a_dead_node_is_waited_for_once(house: build.House, flags: dict[str, bool]) -> None:
    house.put(msgspec.structs.replace(build.VM, uuid="i2", name="vm2", primary_node="n2", nics=()))
    house.machine("node2").down = True
    plan = await house.plan(modify("node2", **flags))
    assert plan.hooks
    assert {target.name for target in (*plan.hooks.nodes_pre, *plan.hooks.nodes_post)} == {"node1"}
    house.nodes.made.clear()
    await house.run(modify("node2", **flags))
    assert [type(call) for name, call in house.nodes.made if name == "node2"] == [calls.Version]
    assert roles(house)[2] == "C"
    assert any("node2 may still have the cluster's key" in line for line in house.log.lines)


async def test_a_dead_node_becomes_no_candidate(house: build.House) -> None:
    house.machine("node3").down = True
    assert "node node3 cannot be reached" in str(await house.refused(modify("node3", master_candidate=True)))


@pytest.mark.parametrize("flag", ["offline", "drained"])
async def test_a_node_that_is_out_becomes_no_candidate_by_the_way(house: build.House, flag: str) -> None:
    house.put(msgspec.structs.replace(build.NODES[2], **{flag: True}))
    assert f"node node3 is {flag}" in str(await house.refused(modify("node3", master_candidate=True)))
    await house.run(modify("node3", **{flag: False, "master_candidate": True}))
    assert roles(house) == "MCC"


async def test_a_node_that_comes_back_has_to_answer_and_fills_the_pool(house: build.House) -> None:
    house.put(
        msgspec.structs.replace(build.NODES[1], offline=True), msgspec.structs.replace(build.NODES[2], drained=True)
    )
    house.machine("node2").down = True
    with pytest.raises(Exception, match="node2 cannot be reached"):
        await house.run(modify("node2", offline=False))
    house.machine("node2").down = False
    assert await house.run(modify("node2", offline=False)) == [("offline", False)]
    assert roles(house) == "MCD"
    assert house.state.node("node2").accelerator == "tcg"
    assert set(house.machine("node2").files) >= PAPERS


async def test_a_node_that_may_not_be_a_candidate_is_not_made_one(house: build.House) -> None:
    house.put(msgspec.structs.replace(build.NODES[2], master_capable=False))
    assert "node node3 is not master_capable, so it cannot be a master candidate" in str(
        await house.refused(modify("node3", master_candidate=True))
    )
    await house.run(modify("node2", offline=True))
    assert roles(house) == "MOR"


async def test_nothing_to_do_is_refused_and_what_is_so_already_changes_nothing(house: build.House) -> None:
    assert "no change of node node3 was requested" in str(await house.refused(modify("node3")))
    before = house.state.node("node2")
    assert await house.run(modify("node2", master_candidate=True)) == []
    assert house.state.node("node2") == before


async def test_redistribution_reaches_all_nodes_and_only_candidates_get_the_key(house: build.House) -> None:
    house.put(cluster.NodeGroup(uuid="g2", name="other"))
    await house.run(opcodes.ClusterRedistConf())
    assert {name for name, call in house.nodes.made if isinstance(call, calls.WriteSsconf)} == {
        "node1",
        "node2",
        "node3",
    }
    assert {name for name, call in house.nodes.made if isinstance(call, calls.UploadFile)} == {"node2"}


@pytest.mark.promise("cluster-85")
async def test_verify_complains_of_a_candidate_whose_copy_lags_and_of_a_pool_that_is_not_full(
    house: build.House,
) -> None:
    behind = calls.CandidateState(serial=house.state.serial - 1, digest="d", epoch=1, job=0, master="node1")
    house.machine("node2").copy = behind
    assert await house.run(opcodes.ClusterVerify()) is False
    assert any(f"its copy of the state ends with serial {behind.serial}" in line for line in house.log.lines)
    house.machine("node2").copy = msgspec.structs.replace(behind, serial=house.state.serial)
    house.machine("node3").copy = behind
    assert not any("node3" in line for line in house.log.lines)
    house.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=3))
    house.log.lines.clear()
    await house.run(opcodes.ClusterVerify())
    assert any("2 master candidates, 3 are required" in line for line in house.log.lines)


async def test_who_gave_the_flag_up_may_be_chosen_again_unless_it_may_be_none_at_all(house: build.House) -> None:
    plan = await house.plan(modify("node2", master_candidate=False))
    assert "node2 may become a candidate again if the pool lacks one; --master-capable no prevents that" in plan.lines
    await house.run(modify("node2", master_candidate=False))
    assert roles(house) == "MRC"
    await house.run(modify("node3", offline=True))
    assert roles(house) == "MCO"
    await house.run(modify("node3", offline=False))
    await house.run(modify("node2", master_capable=False))
    assert roles(house) == "MRC"
    await house.run(opcodes.ClusterSetParams(candidate_pool_size=4))
    assert roles(house) == "MRC"
