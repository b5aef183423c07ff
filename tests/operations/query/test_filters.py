"""Filters of queries: prefix lists as clients send them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantry import errors
from gantry.operations.query import cells, filters

ROW: dict[str, object] = {
    "name": "node1.example.com",
    "offline": False,
    "mfree": 2048,
    "tags": ["blue", "green"],
    "received_ts": (1000, 500_000),
    "os": "debian+small",
    "empty": "",
    "nothing": None,
    "silent": cells.Missing.NO_DATA,
    "absent": cells.Missing.UNAVAILABLE,
}


def passes(raw: object) -> bool:
    return filters.compile_filter(raw)(lambda name: ROW[name])


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, True),
        (["=", "mfree", 2048], True),
        (["==", "mfree", 2048.0], True),
        (["=", "mfree", "2048"], False),
        (["!=", "mfree", 2048], False),
        (["!=", "os", "plain"], True),
        (["<", "mfree", 4096], True),
        ([">", "mfree", 2048], False),
        ([">=", "mfree", 2048], True),
        (["<=", "mfree", 2047.5], False),
        (["<", "os", "zebra"], True),
        (["<", "os", 5], False),
        (["<", "mfree", "zebra"], False),
        (["=", "offline", False], True),
        (["=", "offline", True], False),
        (["?", "offline"], False),
        (["?", "mfree"], True),
        (["?", "empty"], False),
        (["?", "nothing"], False),
        (["=~", "os", "^debian"], True),
        (["=~", "os", "small$"], True),
        (["=~", "os", "^small"], False),
        (["=~", "mfree", "^20"], True),
        (["=[]", "tags", "blue"], True),
        (["=[]", "tags", "red"], False),
        (["=[]", "os", "d"], False),
        (["=", "received_ts", 1000.5], True),
        ([">", "received_ts", 1000], True),
        (["!", ["=", "mfree", 2048]], False),
        (["&", ["?", "mfree"], ["=", "os", "debian+small"]], True),
        (["&", ["?", "mfree"], ["?", "offline"]], False),
        (["&"], True),
        (["|", ["?", "offline"], ["?", "mfree"]], True),
        (["|"], False),
        (["|", ["=", "os", "plain"], ["==", "os", "debian+small"]], True),
        (["|", ["=", "os", "plain"], ["=", "os", "other"]], False),
        (["|", ["=", "os", "plain"], ["=", "mfree", 2048]], True),
        (["|", ["=", "os", "plain"], ["=", "tags", "plain"]], False),
        (["|", ["=", "tags", "blue"], ["=", "tags", "red"]], False),
        (["&", None, ["|", None]], True),
    ],
)
def test_the_operators(raw: object, expected: bool) -> None:
    assert passes(raw) is expected


def test_a_choice_of_a_thousand_names_looks_once_at_each_row() -> None:
    looked: list[str] = []

    def row(name: str) -> cells.Cell:
        looked.append(name)
        return "n999.example"

    test = filters.compile_filter(["|", *(["=", "name", f"n{number}"] for number in range(1000))])
    assert test(row)
    assert looked == ["name"]


@pytest.mark.parametrize("operator", ["=", "=="])
def test_host_names_are_compared_in_short_too(operator: str) -> None:
    assert passes([operator, "name", "node1"])
    assert passes([operator, "name", "node1.example.com"])
    assert not passes([operator, "name", "node"])
    assert not passes([operator, "os", "debian"])
    assert not passes(["!=", "name", "node1"])
    assert passes(["!=", "name", "node2"])


@pytest.mark.parametrize("name", ["silent", "absent"])
@pytest.mark.parametrize("operator", ["=", "==", "!=", "<", ">", "<=", ">=", "=~", "=[]"])
def test_a_value_that_is_missing_passes_every_comparison(operator: str, name: str) -> None:
    assert passes([operator, name, "x"])
    assert passes(["?", name])


def test_a_host_name_that_is_missing_passes_too() -> None:
    for operator in ("=", "!="):
        assert filters.compile_filter([operator, "pnode", "x"])(lambda _: cells.Missing.NO_DATA)


@pytest.mark.parametrize(
    "raw",
    [
        [],
        "name",
        7,
        {"=": 1},
        ["="],
        ["=", "name"],
        ["=", 5, "name"],
        ["=", "name", None],
        ["=", "name", ["a"]],
        ["=", "name", "a", "b"],
        ["%", "name", 1],
        ["!"],
        ["!", ["?", "a"], ["?", "b"]],
        ["?", 5],
        ["?"],
        ["&", "name"],
        ["|", ["=", "name"]],
        [["=", "name", "x"]],
        ["=~", "name", "("],
        ["=~", "name", "(" * 5000 + ")" * 5000],
    ],
)
def test_what_is_no_filter_is_refused(raw: object) -> None:
    with pytest.raises(errors.FilterError):
        filters.compile_filter(raw)


def nested(depth: int) -> object:
    raw: object = ["?", "mfree"]
    for _ in range(depth):
        raw = ["!", raw]
    return raw


def test_the_depth_is_limited() -> None:
    assert passes(nested(filters.DEPTH_LIMIT)) is True
    for depth in (filters.DEPTH_LIMIT + 1, 900):
        with pytest.raises(errors.FilterError, match="nested deeper than 32"):
            filters.compile_filter(nested(depth))


VALUES = st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none())
OPERATORS = st.sampled_from(["=", "==", "!=", "<", ">", "<=", ">=", "=~", "=[]", "?", "!", "&", "|", ""]) | st.text()
NAMES = st.sampled_from(sorted(ROW))
RAW = st.recursive(
    st.lists(VALUES, max_size=3) | st.tuples(OPERATORS, NAMES, VALUES).map(list) | VALUES,
    lambda inner: st.tuples(OPERATORS, inner, inner).map(list) | st.tuples(OPERATORS, inner).map(list),
    max_leaves=8,
)


@settings(deadline=None, max_examples=500)
@given(RAW)
def test_whatever_comes_is_answered_or_refused(raw: object) -> None:
    try:
        test = filters.compile_filter(raw)
    except errors.FilterError:
        return
    looked_at = set()

    def look(name: str) -> object:
        looked_at.add(name)
        return ROW.get(name)

    assert test(look) in (True, False)
    assert looked_at <= filters.fields_of(raw)
    filters.names_of(raw, "name")


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        (["=", "name", "a"], ["a"]),
        (["|", ["=", "name", "b"], ["==", "name", "a"]], ["b", "a"]),
        (["|", ["=", "name", "b"], ["|", ["=", "name", "a"], ["=", "name", "b"]]], ["b", "a", "b"]),
        (["|", ["=", "name", "b"], ["=", "os", "a"]], None),
        (["&", ["=", "name", "b"]], None),
        (["!=", "name", "b"], None),
        (["|"], None),
        (None, None),
        ("name", None),
    ],
)
def test_a_choice_of_names_is_a_list_of_names(raw: object, names: list[str] | None) -> None:
    assert filters.names_of(raw, "name") == names


def test_the_fields_that_a_filter_looks_at() -> None:
    raw = ["&", ["=", "a", 1], ["!", ["|", ["?", "b"], ["=~", "c", "x"]]]]
    assert filters.fields_of(raw) == {"a", "b", "c"}
    assert filters.fields_of(None) == set()
