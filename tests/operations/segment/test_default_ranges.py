"""Default segment ranges: the meaning of a file, the errors of a damaged one, and changes by a command."""

import pytest
from tests.operations import build

from gantry import errors
from gantry.model import network, opcodes
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


def _extents(house: build.House) -> set[Extent]:
    return {
        (each.network_type, each.physical_network, each.minimum, each.maximum)
        for each in house.state.segmentranges.values()
        if each.default
    }


async def test_a_command_sets_what_it_names_and_keeps_the_rest() -> None:
    house = build.House()
    await house.run(Set(vlan_ranges=("physnet1:100:199", "physnet2"), vxlan_ranges=("1000:1999",)))
    owner = house.state.the_cluster
    assert _extents(house) == {("vlan", "physnet1", 100, 199), ("vxlan", "", 1000, 1999)}
    assert (owner.physical_networks, owner.segment_source) == (("physnet1", "physnet2"), "command")
    before = {each.minimum: each.uuid for each in house.state.segmentranges.values()}
    await house.run(Set(tenant_network_types=("vxlan", "vlan"), vxlan_ranges=("1000:1999", "5:5")))
    assert _extents(house) == {("vlan", "physnet1", 100, 199), ("vxlan", "", 1000, 1999), ("vxlan", "", 5, 5)}
    assert {each.minimum: each.uuid for each in house.state.segmentranges.values() if each.minimum != 5} == before
    assert house.state.the_cluster.tenant_network_types == ("vxlan", "vlan")
    assert house.state.the_cluster.physical_networks == ("physnet1", "physnet2")
    await house.run(Set(vlan_ranges=(), vxlan_ranges=(), tenant_network_types=()))
    assert not _extents(house)
    assert not house.state.the_cluster.physical_networks


async def test_a_network_has_its_segment_at_once() -> None:
    house = build.House()
    await house.run(Set(vlan_ranges=("physnet1:100:199",)))
    await house.run(opcodes.NetworkAdd(network_name="lan", segmented=True))
    assert house.state.network("lan").segment == network.Segment("vlan", 100, "physnet1")
    await house.run(Set(vlan_ranges=()))
    assert house.state.network("lan").segment == network.Segment("vlan", 100, "physnet1")


async def test_settings_of_the_file_are_changed_by_the_file_or_with_force() -> None:
    house = build.House()
    await house.run(Set(file="[ml2_type_gre]\ntunnel_id_ranges = 1:5"))
    assert (_extents(house), house.state.the_cluster.segment_source) == ({("gre", "", 1, 5)}, "file")
    error = await house.refused(Set(gre_ranges=("1:9",)))
    assert isinstance(error, errors.WrongStateError)
    assert "set by segments.ini" in str(error)
    assert "gantry segment apply" in str(error)
    await house.run(Set(file="[ml2_type_gre]\ntunnel_id_ranges = 1:7"))
    assert _extents(house) == {("gre", "", 1, 7)}
    await house.run(Set(gre_ranges=("1:9",), force=True))
    assert (_extents(house), house.state.the_cluster.segment_source) == ({("gre", "", 1, 9)}, "command")
    await house.run(Set(gre_ranges=("2:9",)))


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (Set(), "no setting of segments was requested"),
        (Set(file="", vlan_ranges=()), "a file has all settings of segments"),
        (Set(vlan_ranges=("p:1",)), "network_vlan_ranges: 'p:1' is not of the form PHYSICAL-NETWORK:FIRST:LAST"),
        (Set(vxlan_ranges=("9:8",)), "the minimum 9 is above the maximum 8"),
        (Set(tenant_network_types=("vlna",)), "vlna is not a network type with segments"),
    ],
)
async def test_invalid_settings_are_refused(op: Set, message: str) -> None:
    house = build.House()
    error = await house.refused(op)
    assert isinstance(error, errors.InvalidError)
    assert message in str(error)
