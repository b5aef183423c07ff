import contextlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry.cli import errors
from gantry.cli.grammar import filters

FIELDS = st.sampled_from(["name", "be/memory", "disk.size/0", "pnode.group.uuid", "serial_no"])
VALUES: st.SearchStrategy[object] = st.integers(-10000, 10000) | st.text(max_size=8)
LEAVES: st.SearchStrategy[list[object]] = (
    st.tuples(st.sampled_from(filters.COMPARISONS), FIELDS, VALUES).map(list)
    | st.tuples(st.just("=[]"), FIELDS, VALUES).map(list)
    | st.tuples(st.just("?"), FIELDS).map(list)
)


def chains(inner: st.SearchStrategy[list[object]]) -> st.SearchStrategy[list[object]]:
    parts = st.lists(inner, min_size=2, max_size=3)
    joined: st.SearchStrategy[list[object]] = st.builds(lambda word, some: [word, *some], st.sampled_from("&|"), parts)
    return joined | inner.map(lambda part: ["!", part])


def written(filter_: list[object]) -> str:
    match filter_:
        case ["&" | "|" as operator, *parts]:
            word = " and " if operator == "&" else " or "
            return word.join(f"({written(part)})" for part in parts if isinstance(part, list))
        case ["!", list(part)]:
            return f"not ({written(part)})"
        case ["=[]", str(field), value]:
            return f"{literal(value)} in {field}"
        case ["?", str(field)]:
            return field
        case [str(operator), str(field), value]:
            return f"{field} {operator} {literal(value)}"
    raise AssertionError(filter_)


def literal(value: object) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"' if isinstance(value, str) else str(value)


@given(st.recursive(LEAVES, chains, max_leaves=8))
def test_a_filter_comes_back_as_it_was_written(filter_: list[object]) -> None:
    assert filters.parse(written(filter_)) == filter_


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("offline", ["?", "offline"]),
        ("not offline", ["!", ["?", "offline"]]),
        ("mfree>=1024 and not drained", ["&", [">=", "mfree", 1024], ["!", ["?", "drained"]]]),
        ('a == 1 or b == 2 and c == "x"', ["|", ["==", "a", 1], ["&", ["==", "b", 2], ["==", "c", "x"]]]),
        ("(a or b) and c", ["&", ["|", ["?", "a"], ["?", "b"]], ["?", "c"]]),
        ("a or b or c", ["|", ["?", "a"], ["?", "b"], ["?", "c"]]),
        ("name =~ m/^web.*/", ["=~", "name", "^web.*"]),
        ("name =~ m#a/b#i", ["=~", "name", "(?i:a/b)"]),
        (r"name =~ m/a\/b/", ["=~", "name", "a/b"]),
        ("name !~ m|x|", ["!", ["=~", "name", "x"]]),
        ('name =* "web*"', ["=~", "name", r"^web.*(\..*)?$"]),
        ("name !* 'w?b'", ["!", ["=~", "name", r"^w.b(\..*)?$"]]),
        ('"blue" not in tags', ["!", ["=[]", "tags", "blue"]]),
        ("load < 1.5", ["<", "load", 1.5]),
        (r"name == 'it\'s'", ["==", "name", "it's"]),
    ],
)
def test_the_grammar_of_filters(text: str, parsed: object) -> None:
    assert filters.parse(text) == parsed


@pytest.mark.parametrize(
    ("text", "character"),
    [("name ==", 8), ("(name", 6), ("name == 'x' extra", 13), ("and", 1), ("name == x", 9), ("$", 1), ("'x' tags", 5)],
)
def test_a_filter_that_is_not_understood_shows_the_place(text: str, character: int) -> None:
    with pytest.raises(errors.CommandError, match=f"at character {character}:"):
        filters.parse(text)


def test_a_broken_regular_expression_is_refused_here() -> None:
    with pytest.raises(errors.CommandError, match="not a regular expression"):
        filters.parse("name =~ m/(/")


@given(st.text(max_size=30))
def test_any_text_is_either_a_filter_or_refused(text: str) -> None:
    with contextlib.suppress(errors.CommandError):
        json.dumps(filters.parse(text))


@pytest.mark.parametrize(
    ("arguments", "is_filter"),
    [(["inst1"], False), (["a", "b c"], False), (["status == 'x'"], True), (["web*"], False), (["mfree<5"], True)],
)
def test_a_single_argument_with_signs_in_it_is_a_filter(arguments: list[str], is_filter: bool) -> None:
    assert filters.looks_like(arguments) is is_filter
