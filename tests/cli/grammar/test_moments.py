import datetime

import pytest

from gantry.cli import errors
from gantry.cli.grammar import moments

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1700000000", 1_700_000_000.0),
        ("1700000000.5", 1_700_000_000.5),
        ("20240102", 20_240_102.0),
        ("-2h", NOW - 7200),
        ("-90", NOW - 90),
        ("-1w", NOW - 604_800),
        ("2026-05-04T13:00Z", 1_777_899_600.0),
        ("2026-05-04T13:00+02:00", 1_777_892_400.0),
    ],
)
def test_times_are_written_in_several_forms(text: str, seconds: float) -> None:
    assert moments.parse(text, now=NOW) == seconds


@pytest.mark.parametrize("text", ["2026-05-04", "2026-05-04T13:00", "2026-05-04 13:00:30"])
def test_a_time_without_offset_is_local(text: str) -> None:
    assert moments.parse(text, now=NOW) == datetime.datetime.fromisoformat(text).astimezone().timestamp()


@pytest.mark.parametrize("text", ["", "yesterday", "-2y", "2026-13-01", "-", "9" * 20, "2026-05-04T25:00"])
def test_anything_else_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(errors.InvalidError, match="not a time") as refused:
        moments.parse(text, now=NOW)
    assert "-2h" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30d", NOW + 30 * 86_400),
        ("0s", NOW),
        ("2w", NOW + 1_209_600),
        ("1900000000", 1_900_000_000.0),
        ("2099-05-04T13:00Z", 4_081_582_800.0),
    ],
)
def test_a_time_in_the_future_may_be_a_duration(text: str, seconds: float) -> None:
    assert moments.future(text, now=NOW) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-2h", "2y", "30 d", "d"])
def test_another_text_is_no_time_in_the_future(text: str) -> None:
    with pytest.raises(errors.InvalidError) as refused:
        moments.future(text, now=NOW)
    assert "30d" in refused.value.hint
