"""Default segment ranges: the meaning of a file, the errors of a damaged one, and changes by a command."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import cluster, network, opcodes
from gantry.operations.segment import default_ranges

FILE = """
[DEFAULT]
verbose = true

[ml2]
type_drivers = local,flat,vlan,vxlan
tenant_network_types = vxlan , local, vlan
mechanism_drivers = openvswitch

[ml2_type_vlan]
network_vlan_ranges = physnet1:100:199,physnet1:300:300,
    physnet2
[ml2_type_vxlan]
vni_ranges = 1000:1999,1:10
vxlan_group = 239.0.0.1
[ml2_type_gre]
tunnel_id_ranges = 1:4294967295
[ml2_type_geneve]
vni_ranges = 5:5
"""


def test_a_file_of_neutron_is_read_as_it_is() -> None:
    defaults = default_ranges.parse(FILE)
    assert defaults.types == ("vxlan", "vlan")
    assert defaults.physical_networks == ("physnet1", "physnet2")
    assert [*defaults.ranges] == [
        ("vlan", "physnet1", 100, 199),
        ("vlan", "physnet1", 300, 300),
        ("vxlan", "", 1000, 1999),
        ("vxlan", "", 1, 10),
        ("gre", "", 1, 2**32 - 1),
        ("geneve", "", 5, 5),
    ]
    assert default_ranges.parse("") == default_ranges.Configured()
    assert [*default_ranges.parse("[ml2_type_vxlan]\nvni_ranges = 1:2,1:2").ranges] == [("vxlan", "", 1, 2)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("vni_ranges = 1:2", "no section headers"),
        ("[ml2]\nwhat", "parsing errors"),
        ("[ml2]\ntenant_network_types = vlan,vxlna", "[ml2] tenant_network_types: vxlna is not a network type"),
        ("[ml2_type_vxlan]\nvni_ranges = 1", "[ml2_type_vxlan] vni_ranges: '1' is not of the form FIRST:LAST"),
        ("[ml2_type_vxlan]\nvni_ranges = 1:x", "'1:x' is not of the form FIRST:LAST"),
        ("[ml2_type_vxlan]\nvni_ranges = 9:8", "[ml2_type_vxlan] vni_ranges: the minimum 9 is above the maximum 8"),
        ("[ml2_type_geneve]\nvni_ranges = 0:16777216", "ids of geneve are 1 to 16777215"),
        ("[ml2_type_gre]\ntunnel_id_ranges = 1:99999999999999999999", "is not of the form FIRST:LAST"),
        ("[ml2_type_vlan]\nnetwork_vlan_ranges = p:1", "'p:1' is not of the form PHYSICAL-NETWORK:FIRST:LAST"),
        ("[ml2_type_vlan]\nnetwork_vlan_ranges = p:1:4095", "ids of vlan are 1 to 4094"),
        ("[ml2_type_vlan]\nnetwork_vlan_ranges = :1:2", "a VLAN needs a physical network"),
    ],
)
def test_damage_is_reported_with_its_position(text: str, fault: str) -> None:
    with pytest.raises(errors.InvalidError) as caught:
        default_ranges.parse(text)
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


Set = opcodes.SegmentDefaultsSet
Extent = tuple[str, str, int, int]


def _extents(lab: build.MemoryCluster) -> set[Extent]:
    return {
        (each.network_type, each.physical_network, each.minimum, each.maximum)
        for each in lab.state.segmentranges.values()
        if each.default
    }


async def test_a_command_sets_what_it_names_and_keeps_the_rest() -> None:
    lab = build.MemoryCluster()
    await lab.run(Set(vlan_ranges=("physnet1:100:199", "physnet2"), vxlan_ranges=("1000:1999",)))
    owner = lab.state.the_cluster
    assert _extents(lab) == {("vlan", "physnet1", 100, 199), ("vxlan", "", 1000, 1999)}
    assert (owner.physical_networks, owner.segment_source) == (("physnet1", "physnet2"), "command")
    before = {each.minimum: each.uuid for each in lab.state.segmentranges.values()}
    await lab.run(Set(tenant_network_types=("vxlan", "vlan"), vxlan_ranges=("1000:1999", "5:5")))
    assert _extents(lab) == {("vlan", "physnet1", 100, 199), ("vxlan", "", 1000, 1999), ("vxlan", "", 5, 5)}
    assert {each.minimum: each.uuid for each in lab.state.segmentranges.values() if each.minimum != 5} == before
    assert lab.state.the_cluster.tenant_network_types == ("vxlan", "vlan")
    assert lab.state.the_cluster.physical_networks == ("physnet1", "physnet2")
    await lab.run(Set(vlan_ranges=(), vxlan_ranges=(), tenant_network_types=()))
    assert not _extents(lab)
    assert not lab.state.the_cluster.physical_networks


async def test_a_network_has_its_segment_at_once() -> None:
    lab = build.MemoryCluster()
    await lab.run(Set(vlan_ranges=("physnet1:100:199",)))
    await lab.run(opcodes.NetworkAdd(network_name="lan", segmented=True))
    assert lab.state.network("lan").segment == network.Segment("vlan", 100, "physnet1")
    await lab.run(Set(vlan_ranges=()))
    assert lab.state.network("lan").segment == network.Segment("vlan", 100, "physnet1")


async def test_settings_of_the_file_are_changed_by_the_file_or_with_force() -> None:
    lab = build.MemoryCluster()
    await lab.run(Set(file="[ml2_type_gre]\ntunnel_id_ranges = 1:5"))
    assert (_extents(lab), lab.state.the_cluster.segment_source) == ({("gre", "", 1, 5)}, "file")
    error = await lab.refused(Set(gre_ranges=("1:9",)))
    assert isinstance(error, errors.WrongStateError)
    assert "set by segments.ini" in str(error)
    assert "gantry segment apply" in str(error)
    await lab.run(Set(file="[ml2_type_gre]\ntunnel_id_ranges = 1:7"))
    assert _extents(lab) == {("gre", "", 1, 7)}
    await lab.run(Set(gre_ranges=("1:9",), force=True))
    assert (_extents(lab), lab.state.the_cluster.segment_source) == ({("gre", "", 1, 9)}, "command")
    await lab.run(Set(gre_ranges=("2:9",)))


@pytest.mark.parametrize("empty", [Set(gre_ranges=(), force=True), Set(file="")], ids=["command", "file"])
async def test_where_nothing_is_set_neither_has_set_it(empty: Set) -> None:
    lab = build.MemoryCluster()
    await lab.run(Set(file="[ml2_type_gre]\ntunnel_id_ranges = 1:5"))
    await lab.run(empty)
    assert (_extents(lab), lab.state.the_cluster.segment_source) == (set(), "")
    await lab.run(Set(gre_ranges=("2:9",)))
    assert lab.state.the_cluster.segment_source == "command"


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (Set(), "no setting of segments was requested"),
        (Set(file="", vlan_ranges=()), "a file has all settings of segments"),
        (Set(vlan_ranges=("p:1",)), "network_vlan_ranges: 'p:1' is not of the form PHYSICAL-NETWORK:FIRST:LAST"),
        (Set(vxlan_ranges=("9:8",)), "the minimum 9 is above the maximum 8"),
        (Set(bridge_mappings=("physnet1",)), "bridge_mappings: 'physnet1' is not of the form PHYSICAL-NETWORK:LINK"),
        (Set(bridge_mappings=("p:br 0",)), "'p:br 0' is not of the form"),
        (Set(bridge_mappings=("p:br0", "p:br1")), "bridge_mappings: p is there twice"),
        (Set(bridge_mappings=("p:br0", "q:br0")), "bridge_mappings: br0 is there twice"),
        (Set(tunnel_link="a/b"), "tunnel_link: 'a/b' is not a network device name"),
        (Set(tenant_network_types=("vlna",)), "vlna is not a network type with segments"),
    ],
)
async def test_invalid_settings_are_refused(op: Set, message: str) -> None:
    lab = build.MemoryCluster()
    error = await lab.refused(op)
    assert isinstance(error, errors.InvalidError)
    assert message in str(error)


LINKS = """
[ovs]
bridge_mappings = physnet1:br0 , physnet2:eth1
[gantry]
tunnel_link = eth2
"""


async def test_links_of_physical_networks_are_set_by_the_file_and_by_the_command() -> None:
    lab = build.MemoryCluster()
    await lab.run(Set(file=LINKS))
    assert lab.state.the_cluster.bridge_mappings == {"physnet1": "br0", "physnet2": "eth1"}
    assert lab.state.the_cluster.tunnel_link == "eth2"
    await lab.run(Set(bridge_mappings=("physnet1:br5",), force=True))
    assert (lab.state.the_cluster.bridge_mappings, lab.state.the_cluster.tunnel_link) == (
        {"physnet1": "br5"}, "eth2",
    )  # fmt: skip
    await lab.run(Set(tunnel_link=""))
    assert lab.state.the_cluster.tunnel_link == ""


def _connections(lab: build.MemoryCluster, name: str) -> dict[str, cluster.Connection]:
    uuid = lab.state.network(name).uuid
    groups = lab.state.nodegroups.values()
    return {group.name: group.networks[uuid] for group in groups if uuid in group.networks}


@pytest.mark.parametrize(
    ("wire", "link"),
    [
        ({"network_type": "vlan", "physical_network": "physnet1", "segment": 7}, "br0"),
        ({"network_type": "flat", "physical_network": "physnet1"}, "br0"),
        ({"network_type": "flat", "physical_network": "physnet3"}, ""),
        ({"network_type": "vxlan", "segment": 7}, "eth2"),
        ({"network_type": "geneve", "segment": 7}, ""),
        ({"network_type": "local"}, ""),
        ({}, ""),
    ],
    ids=str,
)
async def test_a_network_is_connected_to_each_node_group_by_the_link_of_its_wire(
    wire: dict[str, object], link: str
) -> None:
    lab = build.MemoryCluster()
    lab.put(cluster.NodeGroup(uuid="g2", name="second"))
    await lab.run(Set(file=LINKS + "[ml2_type_vlan]\nnetwork_vlan_ranges = physnet3"))
    add = {"network_name": "lan", **wire}
    await lab.run(msgspec.convert({**add, "connect": True}, opcodes.NetworkAdd))
    plug = cluster.Connection(mode="bridged", link=link)
    assert _connections(lab, "lan") == ({"default": plug, "second": plug} if link else {})
    await lab.run(opcodes.NetworkRemove(network_name="lan", disconnect=True))
    await lab.run(msgspec.convert(add, opcodes.NetworkAdd))
    assert _connections(lab, "lan") == {}


async def test_a_connection_that_an_administrator_has_made_is_not_removed() -> None:
    lab = build.MemoryCluster()
    await lab.run(Set(file=LINKS))
    op = {"network_name": "lan", "network_type": "flat", "physical_network": "physnet1", "connect": True}
    await lab.run(msgspec.convert(op, opcodes.NetworkAdd))
    assert isinstance(await lab.refused(opcodes.NetworkRemove(network_name="lan")), errors.WrongStateError)
    await lab.run(Set(bridge_mappings=("physnet1:br9",), force=True))
    error = await lab.refused(opcodes.NetworkRemove(network_name="lan", disconnect=True))
    assert "network lan is connected to node group default; gnt-network disconnect lan default" in str(error)


async def test_a_vlan_that_another_network_of_the_link_has_is_not_connected_twice() -> None:
    lab = build.MemoryCluster()
    await lab.run(Set(file=LINKS))
    plug = {"network_name": "spare", "group_name": "default", "network_mode": "bridged", "network_link": "br0"}
    await lab.run(msgspec.convert({**plug, "network_vlan": "7"}, opcodes.NetworkConnect))
    op = {"network_name": "lan", "network_type": "vlan", "physical_network": "physnet1", "segment": 7, "connect": True}
    error = await lab.refused(msgspec.convert(op, opcodes.NetworkAdd))
    assert "VLAN 7 of br0 is already network spare in node group default" in str(error)
