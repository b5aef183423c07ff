"""The ledger of segments: whose id a network gets, and that no plan gets one twice."""

import time

import msgspec
import pytest
from benchmarks import run
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state import build

from gantry import errors
from gantry.ipam import embedded, segments
from gantry.model import cluster, network
from gantry.state import snapshot as states

START = states.Snapshot().apply(build.FIRST, serial=1)
ON = msgspec.structs.replace(build.OWNER, segment_ranges=True)
OFF = build.OWNER
BACK = msgspec.structs.replace(ON, segment_fallback=True)
ANY = segments.Wish()


def made(
    uuid: str,
    minimum: int,
    maximum: int,
    *,
    kind: str = "vlan",
    physical: str = "physnet1",
    project: str = "",
    default: bool = False,
) -> network.SegmentRange:
    return network.SegmentRange(
        uuid=uuid,
        name="",
        network_type=kind,
        physical_network=physical if kind == "vlan" else "",
        minimum=minimum,
        maximum=maximum,
        shared=not project,
        project=project,
        default=default,
    )


def cable(uuid: str, segment: network.Segment | None) -> network.Network:
    return network.Network(uuid=uuid, name=uuid, segment=segment)


def vlan(number: int, physical: str = "physnet1") -> network.Segment:
    return network.Segment(network_type="vlan", physical_network=physical, segmentation_id=number)


@pytest.mark.promise("segments-90")
def test_networks_without_a_segment_cost_the_ledger_nothing_and_what_those_with_one_cost_is_measured() -> None:
    world = World(*(cable(f"n{number}", None) for number in range(3)))
    assert not world.ledger.segments._places
    assert "segments" in run.BENCHMARKS


class World:
    """A state with a ledger beside it."""

    def __init__(self, *values: states.Stored) -> None:
        self.ledger = embedded.Ledger()
        self.state = START
        self.change(*map(states.Put, values))

    def change(self, *changes: states.Change) -> None:
        before, self.state = self.state, self.state.apply(changes, serial=self.state.serial + 1)
        self.ledger.follow(before, self.state, changes)

    def put(self, *values: states.Stored) -> None:
        self.change(*map(states.Put, values))

    def pick(
        self, project: str = "", *, wish: segments.Wish = ANY, owner: cluster.Cluster = ON
    ) -> tuple[str, str, int]:
        return self.ledger.segments.pick(owner, wish, project=project).place

    def take(self, project: str = "", *, owner: cluster.Cluster = ON) -> tuple[str, str, int]:
        """Give the next free segment to a network of its own."""
        found = self.ledger.segments.pick(owner, ANY, project=project)
        self.put(cable(f"net-{self.state.serial}", found))
        return found.place


def test_a_project_takes_from_its_own_ranges_of_every_type_and_physical_network_before_any_shared_one() -> None:
    world = World(
        made("d1", 100, 119, default=True),
        made("d2", 300, 309, physical="physnet2", default=True),
        made("r1", 400, 401, project="p1"),
        made("r2", 500, 500, physical="physnet2", project="p2"),
        made("r3", 7000, 7000, kind="vxlan", project="p1"),
    )
    assert [world.take("p1") for _ in range(3)] == [
        ("vlan", "physnet1", 400),
        ("vlan", "physnet1", 401),
        ("vxlan", "", 7000),
    ]
    assert world.take("p2") == ("vlan", "physnet2", 500)
    for project in ("p1", "p2"):
        with pytest.raises(errors.NoRoomError, match=f"no free segment in project {project}'s own ranges"):
            world.pick(project)
    assert world.pick("p3") == ("vlan", "physnet1", 100)
    assert world.pick("p1", owner=BACK) == ("vlan", "physnet1", 100)


def test_another_projects_private_ids_are_never_taken_though_a_shared_range_has_them() -> None:
    world = World(made("d", 1, 20, kind="gre", default=True), made("r", 1, 20, kind="gre", project="p1"))
    for owner in (ON, BACK):
        with pytest.raises(errors.NoRoomError, match="no free segment in the ranges that it may take from"):
            world.pick("p2", owner=owner)
    assert world.pick("p1") == ("gre", "", 1)
    world.put(made("r", 1, 19, kind="gre", project="p1"))
    assert world.pick("p2") == ("gre", "", 20)


def test_what_is_asked_for_decides_which_own_ranges_count() -> None:
    world = World(
        made("s", 100, 100, physical="physnet2"),
        made("v", 5, 6, kind="vxlan"),
        made("r", 400, 400, project="p1"),
    )
    assert world.pick("p1", wish=segments.Wish("vlan")) == ("vlan", "physnet1", 400)
    assert world.pick("p1", wish=segments.Wish("vxlan")) == ("vxlan", "", 5)
    assert world.pick("p1", wish=segments.Wish("vlan", "physnet2")) == ("vlan", "physnet2", 100)
    with pytest.raises(errors.NoRoomError, match="no free vlan segment of physical network physnet3 in the ranges"):
        world.pick("p1", wish=segments.Wish("vlan", "physnet3"))


def test_shared_ranges_are_tried_in_the_order_of_the_tenants_network_types() -> None:
    world = World(made("v", 100, 100), made("x", 5, 6, kind="vxlan"), made("g", 1, 1, kind="gre"))
    assert world.pick() == ("vlan", "physnet1", 100)
    owner = msgspec.structs.replace(ON, tenant_network_types=("gre", "vxlan"))
    assert [world.take(owner=owner) for _ in range(3)] == [("gre", "", 1), ("vxlan", "", 5), ("vxlan", "", 6)]
    with pytest.raises(errors.NoRoomError):
        world.pick(owner=owner)
    assert world.pick(owner=owner, wish=segments.Wish("vlan")) == ("vlan", "physnet1", 100)


def test_with_the_feature_off_only_the_files_ranges_apply() -> None:
    world = World(made("d", 100, 101, default=True), made("s", 1, 50), made("r", 100, 100, project="p1"))
    assert [world.take(project, owner=OFF)[2] for project in ("p2", "p1")] == [100, 101]
    with pytest.raises(errors.NoRoomError, match=r"only those of segments.ini apply"):
        world.pick("p1", owner=OFF)
    assert world.pick("p2") == ("vlan", "physnet1", 1)


def test_an_id_is_free_again_when_its_network_is_gone_or_has_another() -> None:
    world = World(made("s", 100, 102))
    world.put(cable("a", vlan(100)), cable("b", vlan(101)))
    assert world.pick()[2] == 102
    world.change(states.Delete("networks", "a"))
    assert world.pick()[2] == 100
    world.put(cable("b", vlan(100)))
    assert world.pick()[2] == 101


def test_what_is_held_for_a_job_is_picked_by_no_other_plan_nor_named_by_it() -> None:
    world = World(made("s", 100, 102), cable("gone", vlan(100)))
    ledger = world.ledger
    ledger.hold(7, world.state, changes=[states.Put(cable("new", vlan(101))), states.Delete("networks", "gone")])
    assert world.pick()[2] == 102
    with pytest.raises(errors.BusyError, match="vlan segment 101 is held by job 7"):
        ledger.segments.check_free(world.state, vlan(101))
    with pytest.raises(errors.NotUniqueError, match="is in use by network gone"):
        ledger.segments.check_free(world.state, vlan(100))
    world.change(states.Delete("networks", "gone"))
    assert world.pick()[2] == 102
    ledger.follow(world.state, world.state, ())
    assert world.pick()[2] == 102
    ledger.release(7)
    assert world.pick()[2] == 100
    ledger.segments.check_free(world.state, vlan(101))


EXTENTS = st.tuples(
    st.sampled_from(("vlan", "vxlan")), st.sampled_from(("a", "b")), st.integers(1, 30), st.integers(0, 9)
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(EXTENTS, st.sampled_from(("", "p1", "p2")), st.booleans()), max_size=8),
    st.lists(st.sampled_from(("", "p1", "p2")), max_size=30),
    st.booleans(),
)
def test_a_ledger_that_followed_gives_what_one_made_anew_gives(
    wanted: list[tuple[tuple[str, str, int, int], str, bool]], projects: list[str], fallback: bool
) -> None:
    world = World()
    for index, ((kind, physical, first, size), project, default) in enumerate(wanted):
        one = made(
            f"r{index}",
            first,
            first + size,
            kind=kind,
            physical=physical,
            project="" if default else project,
            default=default,
        )
        place = world.ledger.segments.place(one)
        if default or not list(place.overlapping(segments.run_of(one))):
            world.put(one)
    owner = BACK if fallback else ON
    seen = set()
    for project in projects:
        fresh = embedded.Ledger()
        fresh.follow(world.state, world.state, ())
        try:
            found = world.take(project, owner=owner)
        except errors.NoRoomError:
            with pytest.raises(errors.NoRoomError):
                fresh.segments.pick(owner, ANY, project=project)
            continue
        assert fresh.segments.pick(owner, ANY, project=project).place == found
        assert found not in seen
        seen.add(found)
    for uuid in list(world.state.segmentranges):
        world.change(states.Delete("segmentranges", uuid))
    for project in ("", "p1", "p2"):
        with pytest.raises(errors.NoRoomError):
            world.pick(project, owner=BACK)


def test_tens_of_thousands_of_ranges_and_networks_do_not_slow_the_next_pick_down() -> None:
    world = World(
        *(
            made(f"r{index}", 10 * index + 1, 10 * index + 10, kind="gre", project=f"p{index % 100}")
            for index in range(20000)
        ),
        made("all", 1, 2**24 - 1, kind="vxlan"),
        *(
            cable(f"n{number}", network.Segment(network_type="vxlan", segmentation_id=number))
            for number in range(1, 20001)
        ),
    )
    start = time.process_time()
    for _ in range(1000):
        assert world.pick("p7") == ("gre", "", 71)
        assert world.pick("nobody") == ("vxlan", "", 20001)
    assert time.process_time() - start < 10
