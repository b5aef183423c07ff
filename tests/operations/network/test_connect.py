"""Connections of networks with a segment: requirements, refusals, and the calls to nodes."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import cluster, instance, network, opcodes
from gantry.operations import fill
from gantry.rpc import calls


def net(name: str, kind: str, number: int, physical: str = "") -> network.Network:
    segment = network.Segment(network_type=kind, segmentation_id=number, physical_network=physical)
    return network.Network(uuid=name, name=name, segment=segment)


RED, BLUE = net("red", "vlan", 101, "physnet1"), net("blue", "vlan", 101, "physnet2")
TUNNEL = net("tunnel", "vxlan", 70_000)


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.put(RED, BLUE, TUNNEL, net("far", "geneve", 9), net("old", "gre", 9))
    return lab


def connect(name: str, *, link: str = "br5", mode: str = "bridged", vlan: str = "") -> opcodes.NetworkConnect:
    return msgspec.convert(
        {"network_name": name, "group_name": "default", "network_mode": mode, "network_link": link}
        | {"network_vlan": vlan},
        opcodes.NetworkConnect,
    )


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (connect("red", mode="routed"), "network red has vlan segment 101, .*as link a VLAN-aware bridge"),
        (connect("red", vlan="101"), "so its NICs must be bridged, without another VLAN"),
        (connect("tunnel", vlan="5"), "network tunnel has vxlan segment 70000, .*by which the nodes reach"),
        (connect("far"), "network far has a segment of type geneve, which nodes cannot create; .*vlan and vxlan"),
        (connect("old"), "network old has a segment of type gre, which nodes cannot create"),
    ],
)
async def test_connections_that_do_not_lead_to_the_segment_are_refused(
    lab: build.MemoryCluster, op: opcodes.NetworkConnect, message: str
) -> None:
    error = await lab.refused(op)
    assert isinstance(error, errors.InvalidError)
    with pytest.raises(errors.InvalidError, match=message):
        raise error


@pytest.mark.parametrize("op", [connect("office", mode="routed"), connect("office", vlan="5")])
async def test_a_flat_network_is_bridged_and_untagged(lab: build.MemoryCluster, op: opcodes.NetworkConnect) -> None:
    flat = network.Unsegmented(network_type="flat", physical_network="physnet1")
    lab.put(network.Network(uuid="office", name="office", unsegmented=flat))
    message = "network office is flat, so its NICs must be bridged, without a VLAN; .*on physical network physnet1"
    with pytest.raises(errors.InvalidError, match=message):
        raise await lab.refused(op)
    await lab.run(connect("office"))
    assert lab.state.group("default").networks["office"] == cluster.Connection(mode="bridged", link="br5")


async def test_a_local_network_is_connected_as_its_administrator_says(lab: build.MemoryCluster) -> None:
    lab.put(network.Network(uuid="lab", name="lab", unsegmented=network.Unsegmented(network_type="local")))
    await lab.run(connect("lab", mode="routed"))
    assert lab.state.group("default").networks["lab"] == cluster.Connection(mode="routed", link="br5")


async def test_one_vlan_of_a_link_is_one_network_if_a_segment_is_to_keep_them_apart(lab: build.MemoryCluster) -> None:
    await lab.run(connect("red"))
    error = await lab.refused(connect("blue"))
    assert isinstance(error, errors.ExistsError)
    assert "VLAN 101 of br5 is already network red in node group default; use another link" in str(error)
    assert "VLAN 101 of br5 is already network red in node group default" in str(
        await lab.refused(connect("spare", vlan=":7:101"))
    )
    await lab.run(connect("blue", link="br6"))
    await lab.run(connect("spare", vlan=":7:8"))


async def test_networks_without_a_segment_share_a_vlan_as_they_always_did(lab: build.MemoryCluster) -> None:
    await lab.run(connect("spare", link="br7", vlan="12"))


async def test_a_nic_gets_its_vlan_from_the_segment_alone(lab: build.MemoryCluster) -> None:
    await lab.run(connect("red"))
    assert lab.state.group("default").networks["red"] == cluster.Connection(mode="bridged", link="br5")
    vm = instance.Nic(uuid="x", mac="m", network="red", nicparams={"mode": "bridged", "link": "br5"})
    filled_nic = fill.fill_nic(lab.state.the_cluster, 0, vm, net=RED)
    assert (filled_nic.mode, filled_nic.link, filled_nic.vlan, filled_nic.mtu) == ("bridged", "br5", "101", 0)
    assert filled_nic.network is not None
    assert filled_nic.network.segment == calls.Segment(
        network_type="vlan", segmentation_id=101, physical_network="physnet1"
    )


async def test_a_nic_in_a_tunnel_has_no_vlan_and_a_shorter_packet(lab: build.MemoryCluster) -> None:
    vm = instance.Nic(uuid="x", mac="m", network="tunnel", nicparams={"mode": "bridged", "link": "eth1"})
    filled_nic = fill.fill_nic(lab.state.the_cluster, 0, vm, net=TUNNEL)
    assert (filled_nic.vlan, filled_nic.mtu) == ("", 1450)


@pytest.mark.parametrize("vlan", ["abc", "0", "5:", "4095"])
async def test_a_vlan_that_is_none_is_refused_for_a_nic_and_for_the_clusters_default(
    lab: build.MemoryCluster, vlan: str
) -> None:
    change = opcodes.NicChange(action="add", target=opcodes.NicMod(vlan=vlan))
    for op in (
        opcodes.ClusterSetParams(nicparams={"vlan": vlan}),
        opcodes.InstanceSetParams(instance_name="vm1", nics=(change,)),
    ):
        assert f"VLAN {vlan} is not valid" in str(await lab.refused(op))


async def test_verify_asks_each_node_for_one_nic_of_each_kind_of_segment_on_a_link(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=1), net("third", "vlan", 103, "physnet1"))
    for op in (connect("red"), connect("third"), connect("tunnel", link="eth1"), connect("spare", link="br9")):
        await lab.run(op)
    await lab.run(opcodes.ClusterVerify())
    (call,) = lab.nodes.calls_of(calls.NodeVerify, "node1")
    assert isinstance(call, calls.NodeVerify)
    assert sorted((nic.link, nic.vlan, nic.mtu) for nic in call.nics) == [
        ("br5", "101", 0),
        ("br7", "12", 0),
        ("br9", "", 0),
        ("eth1", "", 1450),
    ]
