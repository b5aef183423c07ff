"""The parsers of what people and programs write: a value, or the one error that says what is wrong."""

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz import budget, damage

from gantry import errors, security
from gantry.address import ranges
from gantry.cli import errors as cli_errors
from gantry.cli.grammar import filters as typed
from gantry.operations.query import cells, filters

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
NAMES = st.sampled_from(["name", "tags", "ctime", "admin_up"])
OPERATORS = st.sampled_from(["=", "==", "!=", "<", ">", "<=", ">=", "=~", "=[]", "?", "nothing"])
CELLS: st.SearchStrategy[cells.Cell] = st.sampled_from(
    [None, True, 7, 1.5, "vm1.example", ["a", "b"], (5, 6), {}, cells.Missing.NO_DATA]
)
FILTERS = st.recursive(
    st.tuples(OPERATORS, NAMES, JSON).map(list) | st.tuples(st.just("?"), NAMES).map(list) | JSON,
    lambda inner: (
        st.tuples(st.sampled_from(["&", "|", "!"]), inner, inner).map(list) | st.tuples(st.just("!"), inner).map(list)
    ),
    max_leaves=8,
)


@budget.quick
@given(raw=FILTERS, cell=CELLS)
def test_a_filter_of_a_query_is_a_predicate_or_refused(raw: object, cell: cells.Cell) -> None:
    try:
        passes = filters.compile_filter(raw)
    except errors.FilterError:
        return
    assert passes(lambda name: cell) in (True, False)
    filters.fields_of(raw)
    filters.names_of(raw, "name")


WORDS = st.lists(
    st.sampled_from(["name", "==", "=~", "!=", "and", "or", "not", "in", "(", ")", '"x"', "'y", "5", "m/a/i", "m|("])
    | st.text(max_size=5)
)


@budget.quick
@given(words=WORDS)
def test_a_typed_filter_is_accepted_by_queries_or_refused(words: list[str]) -> None:
    try:
        parsed = typed.parse(" ".join(words))
    except cli_errors.CommandError:
        return
    try:
        filters.compile_filter(json.loads(json.dumps(parsed)))
    except errors.FilterError as error:
        message = str(error)
        assert "regular expression" in message or "nested" in message


ADDRESSES = st.sampled_from(
    ["192.0.2.1", "192.0.2.9", "10.0.0.0", "2001:db8::", "2001:db8::ffff", "::", "255.255.255.255"]
)
RANGES = st.tuples(
    ADDRESSES, st.sampled_from(["-", "/", " - ", "+", ",", ""]), ADDRESSES | st.integers(-1, 130).map(str)
)


@budget.quick
@given(text=RANGES.map("".join) | st.text(max_size=40), edit=damage.edited(1), whole=st.booleans())
def test_a_range_is_formatted_to_the_same_range_or_refused(text: str, edit: damage.Edit, whole: bool) -> None:
    edited = text if whole else edit(text.encode(errors="replace")).decode(errors="replace")
    try:
        family, run = ranges.parse_range(edited)
    except errors.InvalidError:
        pass
    else:
        assert 0 <= run.first <= run.last
        assert ranges.parse_range(ranges.format_range(family, run)) == (family, run)
    for parse in (ranges.parse_address, ranges.parse_cidr):
        try:
            again = str(parse(edited))
        except errors.InvalidError:
            continue
        assert str(parse(again)) == again


TOKEN = security.JoinToken(secret="s" * 40, certificate="-----BEGIN CERTIFICATE-----\nAAAA\n")


@budget.quick
@given(
    line=st.text() | damage.edited().map(lambda edit: edit(TOKEN.encode().encode()).decode(errors="surrogateescape"))
)
def test_a_join_token_is_two_texts_or_refused(line: str) -> None:
    try:
        token = security.JoinToken.decode(line)
    except ValueError as error:
        message = str(error)
        assert "this is not a join token" in message
    else:
        with contextlib.suppress(ValueError):
            security.bootstrap_client_context(token.certificate)
