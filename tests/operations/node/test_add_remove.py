"""Nodes that come and go."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors, security
from gantry.model import cluster, opcodes
from gantry.rpc import calls, targets

ADD = opcodes.NodeAdd(node_name="node4", primary_ip="203.0.113.4", join_token=build.TOKEN)


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.nodes.machines["203.0.113.4"] = build.Machine(joined=False)
    return lab


async def test_a_node_joins_and_becomes_a_candidate_with_the_authoritys_papers(lab: build.MemoryCluster) -> None:
    await lab.run(ADD)
    node = lab.state.node("node4")
    assert (node.group, node.port, node.master_candidate, node.accelerator) == ("g", 1811, True, "tcg")
    assert node.accelerator_reason == "there is no /dev/kvm"
    machine = lab.machine("node4")
    assert machine.joined
    assert machine.files == {
        "ssconf": "written",
        "authority.pem": "first",
        "authority.key": "authority's key",
    }
    join, enrol = (call for _, call in lab.nodes.made if isinstance(call, calls.Join | calls.Enrol))
    assert join == calls.Join(
        secret="secret", cluster="lab.example", node="node4", uuid=node.uuid, address="203.0.113.4"
    )
    assert isinstance(enrol, calls.Enrol)
    issued = security.facts_of(enrol.certificate.encode())
    assert node.certificate == cluster.Certificate(keys=(issued.key,), serial=issued.serial, end=issued.end)
    assert enrol.masters == (f"{node.uuid}={issued.key}",)


async def test_a_node_whose_clock_is_wrong_gets_no_certificate(lab: build.MemoryCluster) -> None:
    lab.nodes.machines["203.0.113.4"].clock = build.NOW + 3 * 86400
    with pytest.raises(errors.EnvironmentFaultError) as refused:
        await lab.run(ADD)
    assert str(refused.value) == (
        "node node4 cannot join: its clock is 3.0 days ahead, it shows 1970-01-04 00:16:40 UTC and this machine's "
        "clock 1970-01-01 00:16:40 UTC; the limit is 2 days; set both clocks, for example by NTP, "
        "and repeat the command"
    )
    assert not [call for _, call in lab.nodes.made if isinstance(call, calls.Join | calls.Enrol)]


async def test_a_cluster_without_kvm_does_not_ask_a_node_for_its_accelerator(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, enabled_hypervisors=("fake",)))
    await lab.run(ADD)
    assert [call.probe for call in lab.nodes.calls_of(calls.NodeInfo)] == [False]
    node = lab.state.node("node4")
    assert (node.accelerator, node.accelerator_reason) == ("", "")


@pytest.mark.promise("cluster-86")
async def test_a_node_that_is_no_candidate_has_the_masters_name_and_no_key(lab: build.MemoryCluster) -> None:
    await lab.run(msgspec.structs.replace(ADD, master_capable=False))
    assert lab.state.node("node4").master_candidate is False
    assert lab.machine("node4").files == {"ssconf": "written"}


async def test_a_full_pool_of_candidates_takes_no_more(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=1))
    await lab.run(ADD)
    assert lab.state.node("node4").master_candidate is False


async def test_a_node_can_go_to_a_group(lab: build.MemoryCluster) -> None:
    lab.put(cluster.NodeGroup(uuid="g2", name="a-group"))
    await lab.run(msgspec.structs.replace(ADD, group="a-group"))
    assert lab.state.node("node4").group == "g2"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"node_name": "node1"}, "node node1 is already part of the cluster"),
        ({"node_name": "localhost"}, "localhost is what every machine is called"),
        ({"join_token": ""}, "node node4 needs a join token"),
        ({"primary_ip": ""}, "'' is not an IP address"),
        ({"primary_ip": "node4"}, "'node4' is not an IP address"),
        ({"primary_ip": "203.0.113.1"}, "node node1 already has address 203.0.113.1 port 1811"),
        ({"group": "nobody"}, "no such node group: nobody"),
    ],
)
async def test_nodes_that_are_refused(lab: build.MemoryCluster, fields: dict[str, object], message: str) -> None:
    assert message in str(await lab.refused(msgspec.structs.replace(ADD, **fields)))


async def test_a_token_that_is_none_is_refused_before_anything_travels(lab: build.MemoryCluster) -> None:
    with pytest.raises(errors.InvalidError, match="this is not a join token"):
        await lab.run(msgspec.structs.replace(ADD, join_token="x"))
    assert lab.nodes.made == []


async def test_two_nodes_may_share_an_address_with_different_ports(lab: build.MemoryCluster) -> None:
    await lab.plan(msgspec.structs.replace(ADD, primary_ip="203.0.113.1", port=1812, dry_run=True))


async def test_a_dry_run_asks_no_machine(lab: build.MemoryCluster) -> None:
    plan = await lab.plan(msgspec.structs.replace(ADD, dry_run=True))
    assert plan.lines == ["add node node4 at 203.0.113.4"]
    assert lab.nodes.made == []


async def test_the_state_has_the_key_of_a_machine_before_the_machine_is_called_as_a_node(
    lab: build.MemoryCluster,
) -> None:
    recorded: list[tuple[str, ...]] = []

    class Watched(build.FakeNodes):
        async def call(self, target: targets.Target, call: calls.Call[build.Result]) -> build.Result:
            if target.name == "node4":
                recorded.append(lab.state.node("node4").certificate.keys)
            return await super().call(target, call)

    watched = Watched()
    watched.machines = lab.nodes.machines
    lab.nodes = lab.environment.nodes = watched
    await lab.run(ADD)
    assert set(recorded) == {(security.key_of_request(build.REQUEST.encode()),)}
    assert lab.state.node("node4").joining is False


async def test_a_node_without_instances_leaves(lab: build.MemoryCluster) -> None:
    await lab.run(opcodes.NodeRemove(node_name="node2"))
    assert ("nodes", "node2") not in lab.state.names
    assert lab.nodes.machines["203.0.113.2"].joined is False


async def test_an_unreachable_node_is_removed_all_the_same(lab: build.MemoryCluster) -> None:
    lab.machine("node2").down = True
    await lab.run(opcodes.NodeRemove(node_name="node2"))
    assert ("nodes", "node2") not in lab.state.names
    assert any("node2 was removed, but" in line for line in lab.log.lines)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("node1", "node node1 is the master"),
        ("node2", "node node2 is the primary node of instance vm2"),
        ("node9", "no such node: node9"),
    ],
)
async def test_nodes_that_are_needed_stay(lab: build.MemoryCluster, name: str, message: str) -> None:
    lab.put(msgspec.structs.replace(build.VM, uuid="i2", name="vm2", primary_node="n2", nics=()))
    assert message in str(await lab.refused(opcodes.NodeRemove(node_name=name)))
