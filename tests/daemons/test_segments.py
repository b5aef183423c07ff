"""Default segment ranges: the meaning of a file, the resulting state, and the effect of damage."""

import pytest
from tests.state import build

from gantry import errors
from gantry.daemons import segments
from gantry.model import network
from gantry.runtime import simulated
from gantry.state import snapshot as states

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
    defaults = segments.parse(FILE)
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
    assert segments.parse("") == segments.Configured()
    assert [*segments.parse("[ml2_type_vxlan]\nvni_ranges = 1:2,1:2").ranges] == [("vxlan", "", 1, 2)]


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
        segments.parse(text)
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


class Site:
    """A machine with a store, and a daemon's start on it."""

    def __init__(self, world: simulated.World) -> None:
        self.world = world
        self.machine = world.machine("node1")
        self.store = build.new_store(world, self.machine)

    def write(self, text: str | bytes) -> None:
        raw = text if isinstance(text, bytes) else text.encode()
        build.on(self.world, self.machine, self._write(raw))

    async def _write(self, raw: bytes) -> None:
        await self.machine.disk.make_directory(build.WHERE.etc)
        await self.machine.disk.write(build.WHERE.segments, raw)

    def start(self) -> dict[str, network.SegmentRange]:
        build.on(self.world, self.machine, segments.refresh(self.machine, build.WHERE, self.store))
        return dict(self.store.snapshot.segmentranges.items())

    def put(self, *values: states.Stored) -> None:
        async def commit() -> None:
            await self.store.commit([states.Put(value) for value in values], build.CAUSE)

        build.on(self.world, self.machine, commit())


def test_each_start_brings_the_files_ranges_and_keeps_the_uuids_of_those_that_stay() -> None:
    with simulated.World(seed=1) as world:
        site = Site(world)
        assert site.start() == {}
        own = network.SegmentRange(uuid="own", name="x", network_type="gre", minimum=1, maximum=9)
        used = network.Segment(network_type="vlan", physical_network="p", segmentation_id=150)
        site.put(own, network.Network(uuid="n", name="n", segment=used))
        site.write("[ml2]\ntenant_network_types=vlan\n[ml2_type_vlan]\nnetwork_vlan_ranges = p:100:199,p:300:399")
        first = site.start()
        assert {(each.minimum, each.default, each.shared, each.project) for each in first.values() if each != own} == {
            (100, True, True, ""),
            (300, True, True, ""),
        }
        assert site.store.snapshot.the_cluster.tenant_network_types == ("vlan",)
        serial = site.store.snapshot.serial
        assert site.start() == first
        assert site.store.snapshot.serial == serial
        site.write("[ml2_type_vlan]\nnetwork_vlan_ranges = p:300:399,q")
        second = site.start()
        assert {uuid: each for uuid, each in first.items() if each.minimum in (1, 300)} == second
        assert site.store.snapshot.serial == serial + 1
        assert site.store.snapshot.the_cluster.physical_networks == ("p", "q")
        assert site.store.snapshot.networks["n"].segment == used
        site.write("")
        assert site.start() == {"own": own}


@pytest.mark.parametrize("damage", ["[ml2_type_gre]\ntunnel_id_ranges = 9:8", b"\xff\xfe"])
def test_a_damaged_file_is_one_message_and_changes_nothing(
    damage: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with simulated.World(seed=1) as world:
        site = Site(world)
        site.write("[ml2_type_gre]\ntunnel_id_ranges = 1:5")
        before = site.start()
        site.write(damage)
        caplog.clear()
        assert site.start() == before
        (entry,) = caplog.records
        assert entry.levelname == "ERROR"
        assert "segments.ini, so the default segment ranges stay unchanged" in entry.message


def test_a_master_without_the_file_keeps_the_ranges_of_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        site = Site(world)
        site.write("[ml2_type_gre]\ntunnel_id_ranges = 1:5")
        before = site.start()
        build.on(world, site.machine, site.machine.disk.remove(build.WHERE.segments))
        caplog.clear()
        assert site.start() == before
        assert [entry.levelname for entry in caplog.records] == ["WARNING"]
