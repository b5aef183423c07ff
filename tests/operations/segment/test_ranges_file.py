"""The file of default segment ranges: the resulting state, and the effect of damage and of commands."""

import pytest
from msgspec import structs
from tests.state import build

from gantry.model import network
from gantry.operations.segment import ranges_file
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states


class RangesMachine:
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
        build.on(self.world, self.machine, ranges_file.refresh(self.machine, build.WHERE, self.store))
        return dict(self.store.snapshot.segmentranges.items())

    def put(self, *values: states.Stored) -> None:
        async def commit() -> None:
            await self.store.commit([states.Put(value) for value in values], build.CAUSE)

        build.on(self.world, self.machine, commit())


def test_each_start_brings_the_files_ranges_and_keeps_the_uuids_of_those_that_stay() -> None:
    with simulated.World(seed=1) as world:
        ranges_machine = RangesMachine(world)
        assert ranges_machine.start() == {}
        own = network.SegmentRange(uuid="own", name="x", network_type="gre", minimum=1, maximum=9)
        used = network.Segment(network_type="vlan", physical_network="p", segmentation_id=150)
        ranges_machine.put(own, network.Network(uuid="n", name="n", segment=used))
        ranges_machine.write(
            "[ml2]\ntenant_network_types=vlan\n[ml2_type_vlan]\nnetwork_vlan_ranges = p:100:199,p:300:399"
        )
        first = ranges_machine.start()
        assert {(each.minimum, each.default, each.shared, each.project) for each in first.values() if each != own} == {
            (100, True, True, ""),
            (300, True, True, ""),
        }
        assert ranges_machine.store.snapshot.the_cluster.tenant_network_types == ("vlan",)
        serial = ranges_machine.store.snapshot.serial
        assert ranges_machine.start() == first
        assert ranges_machine.store.snapshot.serial == serial
        ranges_machine.write("[ml2_type_vlan]\nnetwork_vlan_ranges = p:300:399,q")
        second = ranges_machine.start()
        assert {uuid: each for uuid, each in first.items() if each.minimum in (1, 300)} == second
        assert ranges_machine.store.snapshot.serial == serial + 1
        assert ranges_machine.store.snapshot.the_cluster.physical_networks == ("p", "q")
        assert ranges_machine.store.snapshot.networks["n"].segment == used
        ranges_machine.write("")
        assert ranges_machine.start() == {"own": own}


@pytest.mark.parametrize("damage", ["[ml2_type_gre]\ntunnel_id_ranges = 9:8", b"\xff\xfe"])
def test_a_damaged_file_is_one_message_and_changes_nothing(
    damage: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with simulated.World(seed=1) as world:
        ranges_machine = RangesMachine(world)
        ranges_machine.write("[ml2_type_gre]\ntunnel_id_ranges = 1:5")
        before = ranges_machine.start()
        ranges_machine.write(damage)
        caplog.clear()
        assert ranges_machine.start() == before
        (entry,) = caplog.records
        assert entry.levelname == "ERROR"
        assert "segments.ini, so the default segment ranges stay unchanged" in entry.message


def test_a_master_without_the_file_keeps_the_ranges_of_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        ranges_machine = RangesMachine(world)
        ranges_machine.write("[ml2_type_gre]\ntunnel_id_ranges = 1:5")
        before = ranges_machine.start()
        build.on(world, ranges_machine.machine, ranges_machine.machine.disk.remove(build.WHERE.segments))
        caplog.clear()
        assert ranges_machine.start() == before
        assert [entry.levelname for entry in caplog.records] == ["WARNING"]


def test_a_file_is_ignored_after_a_command_has_set_the_ranges(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        ranges_machine = RangesMachine(world)
        ranges_machine.write("[ml2_type_gre]\ntunnel_id_ranges = 1:5")
        before = ranges_machine.start()
        assert ranges_machine.store.snapshot.the_cluster.segment_source == "file"
        ranges_machine.put(structs.replace(ranges_machine.store.snapshot.the_cluster, segment_source="command"))
        ranges_machine.write("[ml2_type_gre]\ntunnel_id_ranges = 7:9")
        caplog.clear()
        assert ranges_machine.start() == before
        (entry,) = caplog.records
        assert (entry.levelname, "is ignored" in entry.message) == ("WARNING", True)
        assert "gantry segment apply applies it" in entry.message
        build.on(world, ranges_machine.machine, ranges_machine.machine.disk.remove(build.WHERE.segments))
        caplog.clear()
        assert (ranges_machine.start(), caplog.records) == (before, [])
