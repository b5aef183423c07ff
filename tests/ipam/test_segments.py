"""The ledger of segments: which range an id comes from, and that no id is allocated twice."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import msgspec
import pytest
from benchmarks import run
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.state import build

from gantry import errors
from gantry.ipam import embedded, segments
from gantry.model import cluster, network
from gantry.state.objects import snapshot as states

START = states.Snapshot().apply(build.FIRST, serial=1)
ON = msgspec.structs.replace(build.OWNER, segment_ranges=True)
OFF = build.OWNER
ISOLATED = msgspec.structs.replace(ON, segment_fallback=False)
ANY = segments.Request()


def make_range(
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


def net(uuid: str, segment: network.Segment | None) -> network.Network:
    return network.Network(uuid=uuid, name=uuid, segment=segment)


def vlan(number: int, physical: str = "physnet1") -> network.Segment:
    return network.Segment(network_type="vlan", physical_network=physical, segmentation_id=number)


@pytest.mark.promise("segments-90")
def test_with_the_feature_off_ranges_cost_a_network_nothing() -> None:
    defaults = [make_range("d", 100, 119, default=True)]
    more = [
        make_range(f"r{number}", 10 * number + 200, 10 * number + 209, project=f"p{number}") for number in range(300)
    ]
    without, beside = World(*defaults), World(*defaults, *more)
    assert _calls(lambda: beside.pick("p7", owner=OFF)) == _calls(lambda: without.pick("p7", owner=OFF))
    assert _calls(lambda: beside.put(net("plain", None))) == _calls(lambda: without.put(net("plain", None)))
    assert beside.pick("p7", owner=OFF) == ("vlan", "physnet1", 100)


def _calls(work: Callable[[], object]) -> int:
    """Return how many functions of Gantry some work calls."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and "/gantry/" in frame.f_code.co_filename

    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
    assert count
    return count


@pytest.mark.promise("segments-90")
def test_the_cost_of_ranges_is_measured_and_published() -> None:
    page = Path("docs/reference/benchmarks.md").read_text()
    assert "segments" in run.BENCHMARKS
    for used in ("0.0%", "50.0%", "90.0%", "99.9%"):
        assert f"| segments: next free id of 16,777,215, {used} used, scattered |" in page
    assert "It has no measurable cost" in Path("docs/how-to/segments.md").read_text()


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
        self, project: str = "", *, request: segments.Request = ANY, owner: cluster.Cluster = ISOLATED
    ) -> tuple[str, str, int]:
        return self.ledger.segments.pick(owner, request, project=project).key

    def take(self, project: str = "", *, owner: cluster.Cluster = ISOLATED) -> tuple[str, str, int]:
        """Create a network with the next free segment."""
        segment = self.ledger.segments.pick(owner, ANY, project=project)
        self.put(net(f"net-{self.state.serial}", segment))
        return segment.key


def test_a_project_takes_from_its_own_ranges_of_every_type_and_physical_network_before_any_shared_one() -> None:
    world = World(
        make_range("d1", 100, 119, default=True),
        make_range("d2", 300, 309, physical="physnet2", default=True),
        make_range("r1", 400, 401, project="p1"),
        make_range("r2", 500, 500, physical="physnet2", project="p2"),
        make_range("r3", 7000, 7000, kind="vxlan", project="p1"),
    )
    assert [world.take("p1") for _ in range(3)] == [
        ("vlan", "physnet1", 400),
        ("vlan", "physnet1", 401),
        ("vxlan", "", 7000),
    ]
    assert world.take("p2") == ("vlan", "physnet2", 500)
    for project in ("p1", "p2"):
        with pytest.raises(errors.NoRoomError, match=f"no free segment in the ranges of project {project}"):
            world.pick(project)
    assert world.pick("p3") == ("vlan", "physnet1", 100)
    assert world.pick("p1", owner=ON) == ("vlan", "physnet1", 100)


def test_another_projects_private_ids_are_never_taken_though_a_shared_range_has_them() -> None:
    world = World(make_range("d", 1, 20, kind="gre", default=True), make_range("r", 1, 20, kind="gre", project="p1"))
    for owner in (ISOLATED, ON):
        with pytest.raises(errors.NoRoomError, match="no free segment in the ranges that the network may use"):
            world.pick("p2", owner=owner)
    assert world.pick("p1") == ("gre", "", 1)
    world.put(make_range("r", 1, 19, kind="gre", project="p1"))
    assert world.pick("p2") == ("gre", "", 20)


def test_a_cluster_without_ranges_says_how_to_set_them() -> None:
    with pytest.raises(errors.NoRoomError, match=r"no segment ranges yet; .*: gantry segment set"):
        World().pick("p1")


def test_the_request_decides_which_own_ranges_count() -> None:
    world = World(
        make_range("s", 100, 100, physical="physnet2"),
        make_range("v", 5, 6, kind="vxlan"),
        make_range("r", 400, 400, project="p1"),
    )
    assert world.pick("p1", request=segments.Request("vlan")) == ("vlan", "physnet1", 400)
    assert world.pick("p1", request=segments.Request("vxlan")) == ("vxlan", "", 5)
    assert world.pick("p1", request=segments.Request("vlan", "physnet2")) == ("vlan", "physnet2", 100)
    with pytest.raises(errors.NoRoomError, match="no free vlan segment of physical network physnet3 in the ranges"):
        world.pick("p1", request=segments.Request("vlan", "physnet3"))


def test_shared_ranges_are_tried_in_the_order_of_the_tenants_network_types() -> None:
    world = World(make_range("v", 100, 100), make_range("x", 5, 6, kind="vxlan"), make_range("g", 1, 1, kind="gre"))
    assert world.pick() == ("vlan", "physnet1", 100)
    owner = msgspec.structs.replace(ISOLATED, tenant_network_types=("gre", "vxlan"))
    assert [world.take(owner=owner) for _ in range(3)] == [("gre", "", 1), ("vxlan", "", 5), ("vxlan", "", 6)]
    with pytest.raises(errors.NoRoomError):
        world.pick(owner=owner)
    assert world.pick(owner=owner, request=segments.Request("vlan")) == ("vlan", "physnet1", 100)


def test_with_the_feature_off_only_the_files_ranges_apply() -> None:
    world = World(
        make_range("d", 100, 101, default=True), make_range("s", 1, 50), make_range("r", 100, 100, project="p1")
    )
    assert [world.take(project, owner=OFF)[2] for project in ("p2", "p1")] == [100, 101]
    with pytest.raises(errors.NoRoomError, match=r"only the ranges of segments.ini apply"):
        world.pick("p1", owner=OFF)
    assert world.pick("p2") == ("vlan", "physnet1", 1)


def test_an_id_is_free_again_when_its_network_is_deleted_or_has_another_id() -> None:
    world = World(make_range("s", 100, 102))
    world.put(net("a", vlan(100)), net("b", vlan(101)))
    assert world.pick()[2] == 102
    world.change(states.Delete("networks", "a"))
    assert world.pick()[2] == 100
    world.put(net("b", vlan(100)))
    assert world.pick()[2] == 101


def test_a_held_id_cannot_be_picked_or_requested_by_another_plan() -> None:
    world = World(make_range("s", 100, 102), net("gone", vlan(100)))
    ledger = world.ledger
    ledger.hold(7, world.state, changes=[states.Put(net("new", vlan(101))), states.Delete("networks", "gone")])
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
def test_a_ledger_that_followed_changes_picks_the_same_as_a_rebuilt_ledger(
    extents: list[tuple[tuple[str, str, int, int], str, bool]], projects: list[str], fallback: bool
) -> None:
    world = World()
    for index, ((kind, physical, first, size), project, default) in enumerate(extents):
        segment_range = make_range(
            f"r{index}",
            first,
            first + size,
            kind=kind,
            physical=physical,
            project="" if default else project,
            default=default,
        )
        ids = world.ledger.segments.ids_of(segment_range)
        if default or not list(ids.overlapping(segments.run_of(segment_range))):
            world.put(segment_range)
    owner = ON if fallback else ISOLATED
    seen = set()
    for project in projects:
        fresh = embedded.Ledger()
        fresh.follow(world.state, world.state, ())
        try:
            segment = world.take(project, owner=owner)
        except errors.NoRoomError:
            with pytest.raises(errors.NoRoomError):
                fresh.segments.pick(owner, ANY, project=project)
            continue
        assert fresh.segments.pick(owner, ANY, project=project).key == segment
        assert segment not in seen
        seen.add(segment)
    for uuid in list(world.state.segmentranges):
        world.change(states.Delete("segmentranges", uuid))
    for project in ("", "p1", "p2"):
        with pytest.raises(errors.NoRoomError):
            world.pick(project, owner=ON)


def _crowded(count: int) -> World:
    """Return a world with as many ranges, and as many networks."""
    return World(
        *(
            make_range(f"r{index}", 10 * index + 1, 10 * index + 10, kind="gre", project=f"p{index % 100}")
            for index in range(count)
        ),
        make_range("all", 1, 2**24 - 1, kind="vxlan"),
        *(
            net(f"n{number}", network.Segment(network_type="vxlan", segmentation_id=number))
            for number in range(1, count + 1)
        ),
    )


@pytest.mark.slow
def test_tens_of_thousands_of_ranges_and_networks_do_not_slow_the_next_pick_down() -> None:
    worlds = {count: _crowded(count) for count in (200, 20000)}
    efforts = {}
    for count, world in worlds.items():
        assert world.pick("p7") == ("gre", "", 71)
        assert world.pick("nobody") == ("vxlan", "", count + 1)
        efforts[count] = effort.lines(lambda world=world: (world.pick("p7"), world.pick("nobody")))  # type: ignore[misc]
    assert efforts[20000] < 2 * efforts[200]
