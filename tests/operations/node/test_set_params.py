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
def lab() -> build.MemoryCluster:
    """Node 1 is the master, 2 a candidate, 3 a regular node; the pool takes two."""
    lab = build.MemoryCluster()
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=2))
    lab.put(msgspec.structs.replace(build.NODES[1], master_candidate=True))
    lab.machine("node2").files = dict.fromkeys(PAPERS, "")
    return lab


def roles(lab: build.MemoryCluster) -> str:
    nodes = sorted(lab.state.nodes.values(), key=lambda node: node.name)
    return "".join(node.role(lab.state.the_cluster).value for node in nodes)


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
    lab: build.MemoryCluster, flags: dict[str, bool], expected: str
) -> None:
    await lab.run(modify("node2", **flags))
    assert roles(lab) == expected
    assert set(lab.machine("node3").files) >= PAPERS
    assert not PAPERS & set(lab.machine("node2").files)


@pytest.mark.promise("cluster-83")
async def test_a_candidate_that_leaves_the_cluster_is_replaced(lab: build.MemoryCluster) -> None:
    await lab.run(opcodes.NodeRemove(node_name="node2"))
    assert roles(lab) == "MC"
    assert set(lab.machine("node3").files) >= PAPERS


async def test_a_node_that_does_not_answer_is_passed_over(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.NODES[2], uuid="n4", name="node4", primary_ip="203.0.113.4"))
    lab.machine("node3").down = True
    await lab.run(modify("node2", offline=True))
    assert roles(lab) == "MORC"
    assert any("node3 cannot become a master candidate" in line for line in lab.log.lines)


async def test_the_last_possible_candidate_stays_unless_demoted_by_force(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.NODES[2], drained=True))
    message = str(await lab.refused(modify("node2", master_candidate=False)))
    assert "the pool of master candidates would be too small without node node2" in message
    await lab.run(modify("node2", master_candidate=False, force=True))
    assert roles(lab) == "MRD"


async def test_a_broken_candidate_is_demoted_without_a_replacement(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.NODES[2], drained=True))
    lab.machine("node2").down = True
    await lab.run(modify("node2", offline=True))
    assert roles(lab) == "MOD"
    assert any("may still have the cluster's key" in line for line in lab.log.lines)


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
    lab: build.MemoryCluster, op: opcodes.Opcode, replication: str, regular: bool, warned: bool
) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=3, replication=replication))
    lab.put(msgspec.structs.replace(build.NODES[2], master_candidate=True))
    if regular:
        lab.put(msgspec.structs.replace(build.NODES[2], uuid="n4", name="node4", primary_ip="203.0.113.4"))
    steps = [step.text for step in (await lab.plan(op)).steps]
    assert any("keeps 2 master candidates, so its replication policy becomes seed" in text for text in steps) is warned


def policy(lab: build.MemoryCluster) -> str:
    return lab.state.replication_policy.value


async def test_the_default_of_replication_counts_a_lost_candidate_until_it_is_demoted_or_replaced(
    lab: build.MemoryCluster,
) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=3))
    lab.put(msgspec.structs.replace(build.NODES[2], master_candidate=True))
    assert policy(lab) == "majority"
    lab.machine("node2").down = True
    await lab.run(modify("node2", offline=True))
    assert roles(lab) == "MOC"
    assert policy(lab) == "majority"
    assert not any("replication policy" in line for line in lab.log.lines)
    # It comes back: the policy is the same before and after it is a candidate again.
    lab.machine("node2").down = False
    plan = await lab.plan(modify("node2", offline=False))
    assert lab.state.apply(plan.changes, serial=lab.state.serial).replication_policy == "majority"
    await lab.run(modify("node2", offline=False))
    assert roles(lab) == "MCC"
    assert not lab.state.node("node2").lost_candidate
    # It is demoted although it is offline.
    await lab.run(modify("node2", offline=True))
    demotion = modify("node2", master_candidate=False)
    for op in (demotion, opcodes.NodeRemove(node_name="node2")):
        steps = [step.text for step in (await lab.plan(op)).steps]
        assert any("keeps 2 master candidates, so its replication policy becomes seed" in text for text in steps)
    await lab.run(demotion)
    assert policy(lab) == "seed"
    assert roles(lab) == "MOC"


async def test_a_lost_candidate_does_not_count_beside_the_node_that_replaces_it(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=2))
    lab.machine("node2").down = True
    await lab.run(modify("node2", offline=True))
    assert roles(lab) == "MOC"
    assert policy(lab) == "seed"


@pytest.mark.promise("cluster-96")
async def test_at_most_one_flag_holds_whatever_is_set_after_whatever(lab: build.MemoryCluster) -> None:
    letters = {"master_candidate": "C", "drained": "D", "offline": "O"}
    for first, second in itertools.permutations(letters, 2):
        lab = build.MemoryCluster()
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
async def test_the_master_has_no_flags(lab: build.MemoryCluster, flag: str, value: bool) -> None:
    message = str(await lab.refused(modify("node1", **{flag: value})))
    assert "node node1 is the master, so it cannot have another role" in message


@pytest.mark.promise("cluster-87", "cluster-88")
async def test_a_node_with_primary_instances_cannot_be_offline_or_lose_them(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.VM, uuid="i2", name="vm2", primary_node="n2", nics=()))
    for flags in ({"offline": True}, {"vm_capable": False}, {"vm_capable": False, "force": True}):
        message = str(await lab.refused(modify("node2", **flags)))
        assert "it is the primary node of instance vm2" in message
    assert "node node2 answers" in str(await lab.refused(modify("node2", offline=True, force=True)))
    await lab.run(modify("node2", drained=True))
    assert roles(lab) == "MDC"


async def test_a_node_that_is_really_down_can_be_given_up_with_its_instances(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.VM, uuid="i2", name="vm2", primary_node="n2", nics=()))
    lab.machine("node2").down = True
    assert "move or remove these instances first" in str((await lab.refused(modify("node2", offline=True))).hint)
    await lab.run(modify("node2", offline=True, force=True))
    assert lab.state.node("node2").offline


@pytest.mark.parametrize("flags", [{"offline": True, "force": True}, {"drained": True}, {"master_candidate": False}])
async def test_a_dead_node_is_waited_for_once(lab: build.MemoryCluster, flags: dict[str, bool]) -> None:
    lab.put(msgspec.structs.replace(build.VM, uuid="i2", name="vm2", primary_node="n2", nics=()))
    lab.machine("node2").down = True
    plan = await lab.plan(modify("node2", **flags))
    assert plan.hooks
    assert {target.name for target in (*plan.hooks.nodes_pre, *plan.hooks.nodes_post)} == {"node1"}
    lab.nodes.made.clear()
    await lab.run(modify("node2", **flags))
    assert [type(call) for name, call in lab.nodes.made if name == "node2"] == [calls.Version]
    assert roles(lab)[2] == "C"
    assert any("node2 may still have the cluster's key" in line for line in lab.log.lines)


async def test_a_dead_node_becomes_no_candidate(lab: build.MemoryCluster) -> None:
    lab.machine("node3").down = True
    assert "node node3 cannot be reached" in str(await lab.refused(modify("node3", master_candidate=True)))


@pytest.mark.parametrize("flag", ["offline", "drained"])
async def test_a_node_that_is_out_becomes_no_candidate_by_the_way(lab: build.MemoryCluster, flag: str) -> None:
    lab.put(msgspec.structs.replace(build.NODES[2], **{flag: True}))
    assert f"node node3 is {flag}" in str(await lab.refused(modify("node3", master_candidate=True)))
    await lab.run(modify("node3", **{flag: False, "master_candidate": True}))
    assert roles(lab) == "MCC"


async def test_a_node_that_comes_back_has_to_answer_and_fills_the_pool(lab: build.MemoryCluster) -> None:
    lab.put(
        msgspec.structs.replace(build.NODES[1], offline=True), msgspec.structs.replace(build.NODES[2], drained=True)
    )
    lab.machine("node2").down = True
    with pytest.raises(Exception, match="node2 cannot be reached"):
        await lab.run(modify("node2", offline=False))
    lab.machine("node2").down = False
    assert await lab.run(modify("node2", offline=False)) == [("offline", False)]
    assert roles(lab) == "MCD"
    assert lab.state.node("node2").accelerator == "tcg"
    assert set(lab.machine("node2").files) >= PAPERS


async def test_a_node_that_may_not_be_a_candidate_is_not_made_one(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.NODES[2], master_capable=False))
    assert "node node3 is not master_capable, so it cannot be a master candidate" in str(
        await lab.refused(modify("node3", master_candidate=True))
    )
    await lab.run(modify("node2", offline=True))
    assert roles(lab) == "MOR"


async def test_nothing_to_do_is_refused_and_what_is_so_already_changes_nothing(lab: build.MemoryCluster) -> None:
    assert "no change of node node3 was requested" in str(await lab.refused(modify("node3")))
    before = lab.state.node("node2")
    assert await lab.run(modify("node2", master_candidate=True)) == []
    assert lab.state.node("node2") == before


async def test_redistribution_reaches_all_nodes_and_only_candidates_get_the_key(lab: build.MemoryCluster) -> None:
    lab.put(cluster.NodeGroup(uuid="g2", name="other"))
    await lab.run(opcodes.ClusterRedistConf())
    assert {name for name, call in lab.nodes.made if isinstance(call, calls.WriteSsconf)} == {
        "node1",
        "node2",
        "node3",
    }
    assert {name for name, call in lab.nodes.made if isinstance(call, calls.UploadFile)} == {"node2"}


async def test_redistribution_leaves_a_node_alone_whose_addition_was_not_completed(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.NODES[2], joining=True))
    await lab.run(opcodes.ClusterRedistConf())
    assert {name for name, _ in lab.nodes.made} == {"node1", "node2"}


@pytest.mark.promise("cluster-85")
async def test_verify_complains_of_a_candidate_whose_copy_lags_and_of_a_pool_that_is_not_full(
    lab: build.MemoryCluster,
) -> None:
    behind = calls.CandidateState(serial=lab.state.serial - 1, digest="d", epoch=1, job=0, master="node1")
    lab.machine("node2").copy = behind
    assert await lab.run(opcodes.ClusterVerify()) is False
    assert any(f"its copy of the state ends with serial {behind.serial}" in line for line in lab.log.lines)
    lab.machine("node2").copy = msgspec.structs.replace(behind, serial=lab.state.serial)
    lab.machine("node3").copy = behind
    assert not any("node3" in line for line in lab.log.lines)
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=3))
    lab.log.lines.clear()
    await lab.run(opcodes.ClusterVerify())
    assert any("2 master candidates, 3 are required" in line for line in lab.log.lines)


async def test_who_gave_the_flag_up_may_be_chosen_again_unless_it_may_be_none_at_all(lab: build.MemoryCluster) -> None:
    plan = await lab.plan(modify("node2", master_candidate=False))
    assert "node2 may become a candidate again if the pool lacks one; --master-capable no prevents that" in plan.lines
    await lab.run(modify("node2", master_candidate=False))
    assert roles(lab) == "MRC"
    await lab.run(modify("node3", offline=True))
    assert roles(lab) == "MCO"
    await lab.run(modify("node3", offline=False))
    await lab.run(modify("node2", master_capable=False))
    assert roles(lab) == "MRC"
    await lab.run(opcodes.ClusterSetParams(candidate_pool_size=4))
    assert roles(lab) == "MRC"
