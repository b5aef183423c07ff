"""What values an attribute may have."""

import pytest

from gantry.doors.neutron import values


@pytest.mark.parametrize(
    ("number", "refused"), [(0, None), (1, None), (3, None), (4, "the list has 4 items, 3 is the most.")]
)
def test_a_list_has_as_many_items_as_its_schema_says(number: int, refused: str | None) -> None:
    check = values.list_of(values.address, maximum=3)
    assert check([f"192.0.2.{index}" for index in range(number)]) == refused
    assert check.schema["maxItems"] == 3
