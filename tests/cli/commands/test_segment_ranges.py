"""Commands for segment ranges and segments, and the opcodes or queries that they become."""

from typing import Any

import pytest
from tests.cli.conftest import Gnt, Master, table

VLAN = {"network_type": "vlan", "physical_network": "physnet1", "minimum": 100, "maximum": 199}
SEED = "--network_type vlan --physical_network physnet1 --minimum 100 --maximum 199"
TODAY = "--network-type vlan --physical-network physnet1 --minimum 100 --maximum 199"


def spec(gnt: Gnt, master: Master, words: str) -> dict[str, Any]:
    ran = gnt(f"gantry segment range create --submit {words}")
    assert ran.code == 0, ran.err
    (segment_range,) = master.ops[-1]["ranges"]
    assert isinstance(segment_range, dict)
    return segment_range


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (f"--name lab --shared True {SEED}", {"name": "lab", "shared": True}),
        (f"--shared False {SEED} --project_id p1", {"name": "", "shared": False, "project": "p1"}),
        (f"--name lab --shared no --project p1 {SEED}", {"name": "lab", "shared": False, "project": "p1"}),
        (f"--private --project p1 {TODAY} lab", {"name": "lab", "shared": False, "project": "p1"}),
        (f"--shared {TODAY} lab", {"name": "lab", "shared": True}),
        (f"--shared lab {TODAY}", {"name": "lab", "shared": True}),
        (
            f"lab {TODAY} --description d --tags a,b",
            {"name": "lab", "shared": True, "description": "d", "tags": ["a", "b"]},
        ),
    ],
)
def test_a_range_is_made_in_the_words_of_the_seed_and_in_those_of_todays_client(
    gnt: Gnt, master: Master, words: str, expected: dict[str, object]
) -> None:
    assert spec(gnt, master, words) == VLAN | expected


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("--network-type vlan --minimum 1", "--maximum is missing"),
        (f"{TODAY} --project p1", "a shared range has no project"),
        (f"--shared yes --private {TODAY}", "--shared and --private exclude each other"),
        (f"a --name b {TODAY}", "give only one name, not several: a, b"),
        (f"{SEED} --minimum x", "x"),
    ],
)
def test_a_range_that_is_not_described_is_refused_in_one_line(gnt: Gnt, words: str, fault: str) -> None:
    ran = gnt(f"gantry segment range create {words}")
    assert ran.code == 1
    assert fault in ran.err


def test_a_range_is_changed_and_removed_by_name_or_uuid(gnt: Gnt, master: Master) -> None:
    assert gnt("gantry segment range set --submit --name b --minimum 5 --maximum 9 some-uuid").code == 0
    assert master.ops[-1] | {"range": "some-uuid", "name": "b", "minimum": 5, "maximum": 9} == master.ops[-1]
    assert "nothing to change" in gnt("gantry segment range set some-uuid").err
    assert gnt("gantry segment range delete --submit a b").code == 0
    assert [op["range"] for op in master.ops[-2:]] == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "expected_filter"),
    [
        ("--used", [">", "used_count", 0]),
        ("--not-used", ["=", "used_count", 0]),
        ("--unused", ["=", "used_count", 0]),
        ("--available", [">", "available_count", 0]),
        ("--unavailable --used", ["&", [">", "used_count", 0], ["=", "available_count", 0]]),
        ("", None),
    ],
)
def test_ranges_are_listed_by_what_is_used_of_them(
    gnt: Gnt, master: Master, words: str, expected_filter: object
) -> None:
    master.answers["Query"] = table("uuid::text", "name::text", rows=[["u", "lab"]])
    ran = gnt(f"gantry segment range list {words} --long")
    assert ran.code == 0, ran.err
    (_, [what, fields, query_filter]) = master.requests[-1]
    assert (what, query_filter) == ("segmentrange", expected_filter)
    assert fields[-2:] == ["used", "available_ranges"]
    assert "--used and --not-used" in gnt("gantry segment range list --used --not-used").err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--type vlan --physical-network physnet1", {"network_type": "vlan", "physical_network": "physnet1"}),
        ("--type vxlan --segment 101 --project p", {"network_type": "vxlan", "segment": 101, "project": "p"}),
        ("--segment next", {"segmented": True}),
    ],
)
def test_a_network_asks_for_a_segment(gnt: Gnt, master: Master, words: str, expected: dict[str, object]) -> None:
    assert gnt(f"gnt-network add --submit {words} net1").code == 0
    assert master.ops[-1] | expected == master.ops[-1]


def test_a_network_releases_its_segment(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-network modify --submit --segment none net1").code == 0
    assert master.ops[-1]["segmented"] is False
