"""What two differences between a database and a list of allocations have in common."""

from gantry.ipam.sql import checks, records

FIRST, SECOND, THIRD = (records.Allocation("s", f"192.0.2.{number}") for number in (1, 2, 3))


def test_of_two_differences_what_both_have_counts() -> None:
    before = checks.Difference(missing=(FIRST, SECOND), surplus=(SECOND, THIRD), ranges=("s", "t"))
    after = checks.Difference(missing=(SECOND, THIRD), surplus=(THIRD, FIRST), ranges=("t", "u"))
    assert before.common(after) == checks.Difference(missing=(SECOND,), surplus=(THIRD,), ranges=("t",))
    assert not before.common(checks.Difference())
