"""The environment of hooks and the nodes on which they run; whole environments are in ``tests/golden/hooks``."""

from typing import cast

import pytest
from msgspec import structs
from tests.operations import build

from gantry.model import cluster, instance, network, opcodes
from gantry.operations import base, hook_environment
from gantry.rpc import targets

WIDE = network.Network(
    uuid="wide",
    name="wide",
    subnets=(
        network.Subnet(uuid="a", cidr="10.1.0.0/24", gateway="10.1.0.1"),
        network.Subnet(uuid="b", cidr="10.2.0.0/24", dhcp=True),
    ),
)


def build_lab(*ips: str, net: str = "net") -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.put(WIDE)
    card = structs.replace(build.VM.nics[0], ip=ips, network=net, nicparams={"mode": "bridged", "link": "br7"})
    lab.put(structs.replace(build.VM, nics=(card,)))
    return lab


def nic(lab: build.MemoryCluster) -> dict[str, str]:
    """Return the hook variables of the NIC, without their prefix."""
    variables = hook_environment.instance_variables(lab.state, lab.state.instances["i1"])
    prefix = "INSTANCE_NIC0_"
    return {name.removeprefix(prefix): value for name, value in variables.items() if name.startswith(prefix)}


@pytest.mark.promise("networks-76", "networks-83")
def test_a_nic_with_one_address_keeps_its_hook_variables() -> None:
    assert nic(build_lab("192.0.2.10")) == {
        "IP": "192.0.2.10",
        "MAC": "aa:00:00:00:00:01",
        "MODE": "bridged",
        "LINK": "br7",
        "BRIDGE": "br7",
        "VLAN": "",
        "UUID": "x1",
        "NETWORK_NAME": "net1",
        "NETWORK_UUID": "net",
        "NETWORK_SUBNET": "192.0.2.0/24",
        "NETWORK_GATEWAY": "192.0.2.1",
        "NETWORK_SUBNET6": "2001:db8::/64",
        "NETWORK_TAGS": "",
    }


@pytest.mark.promise("networks-76")
def test_the_variables_of_each_nic_have_the_number_of_the_nic() -> None:
    lab = build_lab("10.1.0.8", net="wide")
    first = lab.state.instances["i1"].nics[0]
    second = structs.replace(first, uuid="x2", mac="aa:00:00:00:00:02", ip=("10.2.0.9", "10.1.0.9"))
    lab.put(structs.replace(lab.state.instances["i1"], nics=(first, second)))
    variables = hook_environment.instance_variables(lab.state, lab.state.instances["i1"])
    expected = {
        "INSTANCE_NIC_COUNT": "2",
        "INSTANCE_NIC0_UUID": "x1",
        "INSTANCE_NIC0_IP": "10.1.0.8",
        "INSTANCE_NIC0_NETWORK_SUBNET": "10.1.0.0/24",
        "INSTANCE_NIC1_UUID": "x2",
        "INSTANCE_NIC1_MAC": "aa:00:00:00:00:02",
        "INSTANCE_NIC1_IP": "10.2.0.9",
        "INSTANCE_NIC1_IP:1": "10.1.0.9",
        "INSTANCE_NIC1_NETWORK_SUBNET:1": "10.1.0.0/24",
        "INSTANCE_NIC1_NETWORK_DHCP:0": "True",
    }
    assert {name: variables.get(name) for name in expected} == expected


def test_hooks_receive_each_address_of_a_nic_with_its_subnet() -> None:
    variables = nic(build_lab("10.2.0.9", "10.1.0.9", net="wide"))
    numbered = {
        "IP:0": "10.2.0.9",
        "IP:1": "10.1.0.9",
        "NETWORK_SUBNET:0": "10.2.0.0/24",
        "NETWORK_SUBNET:1": "10.1.0.0/24",
        "NETWORK_GATEWAY:1": "10.1.0.1",
        "NETWORK_DHCP:0": "True",
        "NETWORK_DHCP:1": "False",
    }
    assert numbered.items() <= variables.items()
    assert {name.replace(":", "_"): value for name, value in numbered.items()}.items() <= variables.items()
    assert (variables["IP"], variables["IP_COUNT"], variables["NETWORK_SUBNET"]) == ("10.2.0.9", "2", "10.2.0.0/24")
    assert "NETWORK_GATEWAY" not in variables


async def test_a_change_tells_what_is_wanted_before_and_old_and_new_after() -> None:
    lab = build_lab("192.0.2.10")
    op = cast(
        "opcodes.InstanceSetParams",
        opcodes.decode(
            {
                "OP_ID": "OP_INSTANCE_SET_PARAMS",
                "instance_name": "vm1",
                "nics": [["modify", 0, {"ip": "192.0.2.15"}]],
            }
        ),
    )
    plan = await lab.plan(op)
    assert plan.hooks
    before = hook_environment.environment(lab.state, plan.hooks, op_code=op.op_id, phase="pre")
    lab.change(plan.changes)
    after = hook_environment.environment(
        lab.state, plan.hooks, op_code=op.op_id, phase="post", after=plan.hooks.after(lab.state)
    )
    assert before["GANETI_INSTANCE_NIC0_IP"] == "192.0.2.15"
    assert after["GANETI_INSTANCE_NIC0_IP"] == "192.0.2.10"
    assert after["GANETI_POST_INSTANCE_NIC0_IP"] == "192.0.2.15"


async def test_scripts_hear_of_the_end_of_what_was_removed() -> None:
    lab = build_lab("192.0.2.10")
    plan = await lab.plan(opcodes.InstanceRemove(instance_name="vm1"))
    assert plan.hooks
    assert plan.finish
    lab.change([*plan.changes, *plan.finish(lab.state)])
    assert plan.hooks.after(lab.state)["INSTANCE_NIC0_IP"] == "192.0.2.10"


def names(where: object) -> list[str]:
    assert isinstance(where, list)
    return [target.name for target in where if isinstance(target, targets.Target)]


async def test_each_node_is_asked_once() -> None:
    lab = build_lab("192.0.2.10")
    plan = await lab.plan(opcodes.InstanceStartup(instance_name="vm1", force=True))
    assert plan.hooks
    assert names(plan.hooks.nodes_pre) == names(plan.hooks.nodes_post) == ["node1"]


async def test_a_network_is_connected_after_the_nodes_of_the_group_were_asked_and_no_others() -> None:
    lab = build_lab("192.0.2.10")
    lab.put(cluster.NodeGroup(uuid="far", name="far"), structs.replace(build.NODES[2], group="far"))
    op = opcodes.NetworkConnect(network_name="wide", group_name="far", network_mode="routed", network_link="7")
    plan = await lab.plan(op)
    assert plan.hooks
    assert names(plan.hooks.nodes_pre) == ["node3"]


async def test_a_node_that_is_offline_is_among_those_to_be_asked_as_such() -> None:
    lab = build.MemoryCluster(*(node for node in build.FIRST if node is not build.VM))
    lab.put(structs.replace(build.NODES[1], offline=True))
    plan = await lab.plan(opcodes.NodeRemove(node_name="node3"))
    assert plan.hooks
    assert [(node.name, node.offline) for node in plan.hooks.nodes_pre] == [("node1", False), ("node2", True)]
    assert names(plan.hooks.nodes_leaving) == ["node3"]


@pytest.mark.parametrize(
    ("outcome", "verdict", "line"),
    [
        ([], True, ""),
        ([("node2", "10-check", "disk is old")], False, "node node2: script 10-check failed, output: disk is old"),
        ([("node2", "", "no route")], False, "node node2: hooks got no answer: no route"),
    ],
)
async def test_verify_adds_what_hooks_found(outcome: list[base.HookFailure], verdict: bool, line: str) -> None:
    lab = build_lab("192.0.2.10")
    lab.put(structs.replace(lab.state.instances["i1"], admin_state=instance.AdminState.DOWN))
    lab.put(*(structs.replace(node, master_candidate=True) for node in build.NODES))
    plan = await lab.plan(opcodes.ClusterVerify())
    assert plan.hooks
    assert plan.hooks.report
    plan.hooks.report(outcome)
    assert plan.result() is verdict
    assert "* Hooks Results" in lab.log.lines
    assert any(line in logged_line for logged_line in lab.log.lines)
