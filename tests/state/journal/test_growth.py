"""When a checkpoint is due: by records, by bytes, by age, and for the retention."""

import pytest

from gantry.model import retention
from gantry.state.journal import growth

LIMITS = growth.Limits(records=100, size=8000)
FOREVER = retention.Retention()


@pytest.mark.parametrize(
    ("records", "size", "age", "keep", "is_due"),
    [
        (99, 7999, 10**9, FOREVER, False),
        (100, 1, 0, FOREVER, True),
        (1, 8000, 0, FOREVER, True),
        (1, 999, 0, retention.Retention(size=8000), False),
        (1, 1000, 0, retention.Retention(size=8000), True),
        (1, 8000, 0, retention.Retention(size=1 << 40), True),
        (1, 1, 99, retention.Retention(seconds=800), False),
        (1, 1, 100, retention.Retention(seconds=800), True),
    ],
)
def test_a_checkpoint_is_due(records: int, size: int, age: float, keep: retention.Retention, is_due: bool) -> None:
    grown = growth.Growth()
    grown.add(records, size, now=1000.0)
    assert grown.is_due(LIMITS, keep, now=1000.0 + age) is is_due


@pytest.mark.parametrize(("objects", "records"), [(0, 20_000), (20_000, 20_000), (150_000, 150_000)])
def test_a_large_state_is_written_after_as_many_records_as_it_has_objects(objects: int, records: int) -> None:
    limits = growth.limits_for(objects)
    assert limits.records == records
    assert limits.size >= max(64 << 20, objects * 479)


def test_the_age_is_that_of_the_first_record() -> None:
    grown = growth.Growth()
    keep = retention.Retention(seconds=800)
    assert not grown.is_due(LIMITS, keep, now=10**9)
    grown.add(1, 1, now=1000.0)
    grown.add(1, 1, now=1090.0)
    assert grown.is_due(LIMITS, keep, now=1100.0)


def test_a_change_of_members_needs_no_record_count() -> None:
    assert growth.Growth(members_changed=True).is_due(LIMITS, FOREVER, now=0.0)
