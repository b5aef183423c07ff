"""The texts of a retention: what they mean, how they are stored, and what is refused."""

import pytest

from gantry import errors
from gantry.model import retention
from gantry.model.cluster_settings import Settings

DAY, GIB = 86400, 1 << 30


@pytest.mark.parametrize(
    ("text", "expected", "stored"),
    [
        ("forever", retention.Retention(), "forever"),
        ("30d", retention.Retention(seconds=30 * DAY), "30d"),
        ("4G", retention.Retention(size=4 * GIB), "4G"),
        ("2w,1t", retention.Retention(14 * DAY, 1 << 40), "2w,1T"),
        ("64m,12H", retention.Retention(12 * 3600, 64 << 20), "12h,64M"),
        ("60s,1M", retention.Retention(60, 1 << 20), "60s,1M"),
    ],
)
def test_a_retention_is_an_age_a_size_or_both(text: str, expected: retention.Retention, stored: str) -> None:
    assert retention.parse(text) == expected
    assert retention.checked(text) == stored
    assert retention.parse(stored) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not an age or a size"),
        ("30", "'30' is not an age or a size"),
        ("d", "'d' is not an age or a size"),
        ("-1d", "'-1d' is not an age or a size"),
        ("1.5G", "'1.5G' is not an age or a size"),
        ("30d, 4G", "' 4G' is not an age or a size"),
        ("30d,", "'' is not an age or a size"),
        ("forever,4G", "'forever' is not an age or a size"),
        ("30d,1w", "it has two ages or two sizes"),
        ("1G,2G", "it has two ages or two sizes"),
        ("59s", "the minimum age is 60s"),
        ("0M", "the minimum size is 1M"),
        ("9999999999d", "'9999999999d' is not an age or a size"),
        ("\N{ARABIC-INDIC DIGIT ONE}d", "is not an age or a size"),
    ],
)
def test_anything_else_is_refused_with_what_is_possible(text: str, message: str) -> None:
    with pytest.raises(errors.InvalidError) as caught:
        retention.checked(text)
    assert message in caught.value.message
    assert "use an age (30d, in s, h, d or w), a size (4G, in M, G or T), both (30d,4G), or forever" in str(
        caught.value
    )


def test_the_defaults_are_stored_as_they_are() -> None:
    for text in (Settings.journal_retention.default, Settings.archive_retention.default):
        assert retention.checked(text) == text
