"""Owners as they are kept come back as they were."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry.address import packing

UUID = "0a1b2c3d-0000-4000-8000-00000000000f"
UUIDS = st.uuids().map(str)


@given(st.lists(UUIDS | st.text(max_size=80) | UUIDS.map(str.upper), max_size=5))
def test_owners_come_back_as_they_were(owners: list[str]) -> None:
    packed = packing.pack_all(owners)
    assert packed == [packing.pack(owner) for owner in owners]
    assert [packing.unpack(owner) for owner in packed] == owners


@given(st.lists(UUIDS, min_size=1, max_size=5))
def test_uuids_are_kept_as_numbers(owners: list[str]) -> None:
    assert packing.pack_all(owners) == [uuid.UUID(owner).int for owner in owners]


@pytest.mark.parametrize(
    "owner",
    [
        UUID.upper(),
        UUID.replace("-", "_"),
        UUID.replace("-", ""),
        UUID[:-1] + "\n",
        " " + UUID[1:],
        f"+{UUID[1:]}",
        UUID[:-1] + "\N{ARABIC-INDIC DIGIT ONE}",
        f"{UUID}\n{UUID}",
        "",
    ],
)
def test_what_is_not_written_as_uuids_are_stays_text(owner: str) -> None:
    assert packing.pack(owner) == owner
    assert packing.pack_all([UUID, owner]) == [uuid.UUID(UUID).int, owner]


def test_a_text_with_line_ends_is_not_taken_for_several_owners() -> None:
    assert packing.pack_all([f"{UUID}\n{UUID}", ""]) == [f"{UUID}\n{UUID}", ""]
    assert packing.pack_all([UUID + "\n", UUID[1:]]) == [UUID + "\n", UUID[1:]]
