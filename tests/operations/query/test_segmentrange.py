"""What the query of segment ranges tells of them, and what it does not pay for."""

import pytest
from msgspec import structs
from tests.operations import build
from tests.operations.query.test_engine import Queries

from gantry.model import network
from gantry.operations.query import segmentrange


@pytest.fixture
def queries() -> Queries:
    engine = Queries()
    engine.lab.put(structs.replace(build.OWNER, segment_ranges=True))
    return engine


def segment_range(
    uuid: str, minimum: int, maximum: int, *, kind: str = "vxlan", project: str = ""
) -> network.SegmentRange:
    return network.SegmentRange(
        uuid=uuid, name="", network_type=kind, minimum=minimum, maximum=maximum, shared=not project, project=project
    )


def cable(number: int, *, project: str = "") -> network.Network:
    segment = network.Segment(network_type="vxlan", segmentation_id=number)
    return network.Network(uuid=f"net{number}", name=f"cable{number}", segment=segment, project=project)


async def test_used_ids_are_listed_by_project_beside_the_free_ids(queries: Queries) -> None:
    queries.lab.put(
        segment_range("r", 100, 105, project="p1"), cable(100, project="p1"), cable(103, project="p2"), cable(99)
    )
    fields = ("used", "used_count", "available", "available_count", "available_ranges", "project", "shared")
    (row,) = await queries.rows("segmentrange", *fields)
    assert [value for _, value in row] == [
        {"100": "p1", "103": "p2"}, 2, [101, 102, 104, 105], 4, ["101-102", "104-105"], "p1", False,
    ]  # fmt: skip


async def test_a_range_without_a_free_id_has_an_empty_list(queries: Queries) -> None:
    queries.lab.put(segment_range("r", 7, 7), cable(7))
    (row,) = await queries.rows("segmentrange", "available", "available_count", "available_ranges")
    assert [value for _, value in row] == [[], 0, []]


async def test_of_a_huge_range_the_first_free_ids_are_listed_and_all_of_them_counted(queries: Queries) -> None:
    queries.lab.put(segment_range("r", 1, 2**24 - 1), *(cable(number) for number in range(1, 2001, 2)))
    (row,) = await queries.rows("segmentrange", "available", "available_count", "available_ranges", "used_count")
    (_, free), (_, count), (_, runs), (_, used) = row
    assert free == [number for number in range(1, 2 * segmentrange.AVAILABLE_LIMIT + 1) if number % 2 == 0]
    assert (count, used) == (2**24 - 1 - 1000, 1000)
    assert isinstance(runs, list)
    assert (runs[0], len(runs)) == ("2", segmentrange.RUNS_LIMIT)


async def test_nothing_is_computed_for_a_field_that_is_not_asked_for(
    queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> object:
        raise AssertionError("it was computed")

    queries.lab.put(segment_range("r", 1, 2**24 - 1))
    monkeypatch.setattr(queries.lab.ledger.segments, "ids_of", fail)
    assert await queries.values("segmentrange", "uuid") == ["r"]
    with pytest.raises(AssertionError, match="it was computed"):
        await queries.values("segmentrange", "available")


async def test_ranges_stand_by_what_they_have_ids_of(queries: Queries) -> None:
    queries.lab.put(segment_range("b", 9, 9), segment_range("g", 1, 1, kind="gre"), segment_range("a", 10, 10))
    assert await queries.values("segmentrange", "uuid") == ["b", "a", "g"]
    assert await queries.values("segmentrange", "uuid", filter_=["=", "uuid", "a"]) == ["a"]


async def test_a_network_shows_its_segment(queries: Queries) -> None:
    queries.lab.put(cable(5, project="p"))
    fields = ("network_type", "physical_network", "segment", "project")
    (row,) = await queries.rows("network", *fields, filter_=["=", "name", "cable5"])
    assert row == [(0, "vxlan"), (0, None), (0, 5), (0, "p")]
    (row,) = await queries.rows("network", *fields, filter_=["=", "name", "spare"])
    assert row == [*[(0, None)] * 3, (0, "")]
    assert await queries.values("network", "name", filter_=["=", "segment", 5]) == ["cable5"]
