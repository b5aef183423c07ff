"""No guest gets the address of a node, whichever comes first: the node, the network or the guest."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import instance, network, opcodes

OFFICE = network.Network(
    uuid="office",
    name="office",
    subnets=(network.Subnet(uuid="o4", cidr="203.0.113.0/24", pools=(network.Pool(range="203.0.113.4-203.0.113.6"),)),),
)
ADD = opcodes.NodeAdd(node_name="node4", primary_ip="203.0.113.4", join_token=build.TOKEN)
INVITE = opcodes.NodeInvite(node_name="node4", primary_ip="203.0.113.4", secret_hash="0" * 64)


@pytest.fixture
def lab() -> build.MemoryCluster:
    connected = msgspec.structs.replace(
        build.GROUP, networks={**build.GROUP.networks, "office": build.GROUP.networks["net"]}
    )
    lab = build.MemoryCluster(*(connected if value is build.GROUP else value for value in build.FIRST), OFFICE)
    lab.nodes.machines["203.0.113.4"] = build.Machine(joined=False)
    return lab


def guest(net: str, ip: str) -> instance.Instance:
    nic = instance.Nic(uuid="x2", mac="aa:00:00:00:00:02", ip=(ip,), network=net)
    return instance.Instance(uuid="i2", name="vm2", primary_node="n1", hypervisor="fake", nics=(nic,))


def create(**nic: object) -> opcodes.Opcode:
    return opcodes.decode(
        {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm3", "disk_template": "diskless", "pnode": "node1",
         "start": False, "no_install": True, "nics": [nic]}
    )  # fmt: skip


@pytest.mark.parametrize(("net", "where"), [("office", "instance vm2 in network office"), ("", "instance vm2")])
@pytest.mark.parametrize("op", [ADD, INVITE])
async def test_a_node_does_not_get_the_address_of_a_guest(
    lab: build.MemoryCluster, op: opcodes.Opcode, net: str, where: str
) -> None:
    lab.put(guest(net, "203.0.113.4"))
    error = await lab.refused(op)
    assert isinstance(error, errors.NotUniqueError)
    assert f"address 203.0.113.4 of node node4 is in use by {where}" in str(error)
    assert ("nodes", "node4") not in lab.state.names


async def test_the_address_of_a_new_node_is_reserved_in_the_networks_that_contain_it(lab: build.MemoryCluster) -> None:
    await lab.run(ADD)
    assert lab.state.network("office").subnets[0].external == ("203.0.113.4",)
    assert lab.state.network("net1") == build.NET
    await lab.run(create(network="office", ip="pool"))
    assert lab.state.instance("vm3").nics[0].ip == ("203.0.113.5",)


async def test_a_reservation_that_exists_covers_a_new_node(lab: build.MemoryCluster) -> None:
    subnet = msgspec.structs.replace(OFFICE.subnets[0], external=("203.0.113.1-203.0.113.4",))
    lab.put(msgspec.structs.replace(OFFICE, subnets=(subnet,)))
    await lab.run(ADD)
    assert lab.state.network("office").subnets == (subnet,)


async def test_the_check_can_be_omitted(lab: build.MemoryCluster) -> None:
    lab.put(guest("office", "203.0.113.4"))
    await lab.run(msgspec.structs.replace(ADD, conflicts_check=False))
    assert lab.state.network("office") == OFFICE


async def test_a_removed_node_leaves_its_reservation_and_names_it(lab: build.MemoryCluster) -> None:
    await lab.run(ADD)
    plan = await lab.plan(opcodes.NodeRemove(node_name="node4"))
    assert plan.lines[1] == (
        "address 203.0.113.4 stays reserved in network office; release it with "
        "gnt-network modify --remove-reserved-ips 203.0.113.4 office"
    )


@pytest.mark.parametrize("address", ["203.0.113.1", "198.51.100.7"])
async def test_a_nic_outside_of_all_networks_does_not_get_the_address_of_a_node(
    lab: build.MemoryCluster, address: str
) -> None:
    lab.put(msgspec.structs.replace(build.NODES[1], secondary_ip="198.51.100.7"))
    lab.put(build.GROUP)
    error = await lab.refused(create(ip=address))
    assert f"NIC 0: address {address} is in use by node node" in str(error)


async def test_verify_reports_addresses_that_nodes_share_or_could_lose(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.NODES[1], secondary_ip="198.51.100.7"))
    external = msgspec.structs.replace(OFFICE.subnets[0], external=("203.0.113.3",))
    lab.put(msgspec.structs.replace(OFFICE, subnets=(external,)))
    lab.put(guest("office", "203.0.113.1"))
    outside = instance.Nic(uuid="x3", mac="aa:00:00:00:00:03", ip=("198.51.100.7",))
    lab.put(msgspec.structs.replace(guest("", ""), uuid="i3", name="vm3", nics=(outside,)))
    assert await lab.run(opcodes.ClusterVerify(error_codes=True)) is False
    assert [line.strip() for line in lab.log.lines if "ENODENET" in line] == [
        "- ERROR:ENODENET:node:node1: its address 203.0.113.1 is in use by instance vm2 in network office",
        "- WARNING:ENODENET:node:node2: its address 203.0.113.2 is not reserved in network office; reserve it with "
        "gnt-network modify --add-reserved-ips 203.0.113.2 office",
        "- ERROR:ENODENET:node:node2: its address 198.51.100.7 is in use by instance vm3",
    ]
