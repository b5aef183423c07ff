import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry.cli import errors
from gantry.cli.grammar import syntax

KEYS = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(",", "\\,")


def written(values: dict[str, str | bool | None]) -> str:
    marks = {True: "{}", False: "no_{}", None: "-{}"}
    return ",".join(
        f"{key}={escaped(value)}" if isinstance(value, str) else marks[value].format(key)
        for key, value in values.items()
    )


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_pieces_come_back_as_they_were_escaped(parts: list[str]) -> None:
    assert syntax.pieces(",".join(map(escaped, parts))) == parts


@given(st.dictionaries(KEYS, TEXTS | st.booleans() | st.none(), max_size=5))
def test_key_values_come_back_as_they_were_written(values: dict[str, str | bool | None]) -> None:
    assert syntax.key_values(written(values)) == values


@given(TEXTS)
def test_any_text_is_either_understood_or_refused(text: str) -> None:
    for parse in (syntax.key_values, syntax.hypervisor, syntax.size):
        with contextlib.suppress(errors.InvalidError):
            parse(text)


def test_null_becomes_the_word_that_takes_a_setting_back() -> None:
    assert syntax.parameters("a=1,no_b,-c,d") == {"a": "1", "b": False, "c": "default", "d": True}


@pytest.mark.parametrize("text", ["a=1,a=2", "=1", "a=1,,b=2", ","])
def test_broken_key_values_are_refused(text: str) -> None:
    with pytest.raises(errors.InvalidError):
        syntax.key_values(text)


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [("1", 1), ("512", 512), ("512m", 512), ("10g", 10240), ("10G", 10240), ("1.5g", 1536), ("2t", 2097152)]
    + [("512k", 1), ("2048k", 2), ("1GiB", 1024), ("20gb", 20480)],
)
def test_sizes_have_units(text: str, mebibytes: int) -> None:
    assert syntax.size(text) == mebibytes


@pytest.mark.parametrize("text", ["", "0", "-1", "-5g", "g", "10x", "1e3", "0.0g", "ten"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidError, match="is not a size"):
        syntax.size(text)


@pytest.mark.parametrize(("text", "seconds"), [("5", 5), ("5s", 5), ("2m", 120), ("1h", 3600), ("1w", 604800)])
def test_ages_have_units(text: str, seconds: int) -> None:
    assert syntax.seconds(text) == seconds


def test_memory_has_a_unit_where_it_is_a_size() -> None:
    given_parameters = syntax.backend("memory=1g,vcpus=2,maxmem=default,minmem=130")
    assert given_parameters == {"memory": 1024, "vcpus": "2", "maxmem": "default", "minmem": "130"}


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("kvm", ("kvm", {})),
        ("kvm:accel=tcg,no_acpi", ("kvm", {"accel": "tcg", "acpi": False})),
        ("accel=tcg", ("", {"accel": "tcg"})),
        (
            "cdrom=/srv/boot.iso,boot_order=cdrom:network",
            ("", {"cdrom": "/srv/boot.iso", "boot_order": "cdrom:network"}),
        ),
        ("kvm:kernel_args=console=ttyS0", ("kvm", {"kernel_args": "console=ttyS0"})),
    ],
)
def test_a_hypervisor_may_stand_in_front_of_its_parameters(text: str, parsed: object) -> None:
    assert syntax.hypervisor(text) == parsed
