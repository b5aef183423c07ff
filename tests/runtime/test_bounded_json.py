"""Messages beyond a limit are refused before they are decoded, and all others are decoded as JSON."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry.runtime import bounded_json

DEPTH, DIGITS = bounded_json.MAX_DEPTH, bounded_json.MAX_DIGITS


class Named(msgspec.Struct):
    name: str


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[[],{"a":'])
def test_nesting_has_a_limit(opening: bytes) -> None:
    closing = b"".join(
        {"[": b"]", "{": b"}"}[char] for char in reversed(opening.replace(b"[]", b"").decode()) if char in "[{"
    )
    levels = DEPTH // len(closing)
    fits = opening * levels + b"1" + closing * levels
    assert bounded_json.decode(fits) == json.loads(fits)
    with pytest.raises(bounded_json.UnreadableError, match=f"more than {DEPTH} levels of nesting"):
        bounded_json.decode(opening * (levels + 1) + b"1" + closing * (levels + 1))


@pytest.mark.parametrize("start", [b"[" * 50_000, b'["\\"",' * 50_000, b'{"a":' * 50_000])
def test_a_message_that_is_cut_off_deep_inside_is_refused(start: bytes) -> None:
    with pytest.raises(bounded_json.UnreadableError, match="levels of nesting"):
        bounded_json.check(start)


@pytest.mark.parametrize("form", [b"%s", b"-%s", b'{"a":[%s]}', b"0.%s", b"1e%s", b"1e-%s", b'["%s",%s]'])
def test_a_number_has_a_limit(form: bytes) -> None:
    with pytest.raises(bounded_json.UnreadableError, match=f"a number has more than {DIGITS} digits"):
        bounded_json.decode(form.replace(b"%s", b"1" * 5000))


def test_the_longest_number_is_decoded() -> None:
    assert bounded_json.decode(b"9" * DIGITS) == 10**DIGITS - 1


@pytest.mark.parametrize("text", ["1" * 5000, "[" * 5000, '\\"' + "[" * 5000, "\\\\", '{"a":' * 200])
def test_strings_may_have_anything(text: str) -> None:
    for value in ([text], [text, [text]], {text: nested(5).decode()}):
        assert bounded_json.decode(json.dumps(value).encode()) == value


@given(
    st.recursive(
        st.text() | st.integers(-(2**80), 2**80) | st.booleans(),
        lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
    )
)
def test_other_messages_are_decoded_as_json_is(value: object) -> None:
    for data in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert bounded_json.decode(data.encode()) == value


@pytest.mark.parametrize("data", [b"", b"[", b'"\xff"', b'{"name": 1}', b"{}", b'"\\ud800"'])
def test_other_than_json_of_the_type_is_refused(data: bytes) -> None:
    with pytest.raises(bounded_json.UnreadableError):
        bounded_json.decode(data, Named)


def test_a_message_of_many_short_lists_is_decoded() -> None:
    assert bounded_json.decode(b"[" + b"[],{}," * 10_000 + b"1]") == [[], {}] * 10_000 + [1]


@pytest.mark.parametrize("text", ["", "-1", "1.0", "٣", "1" * 19, "9" * 4400, "1\n", " 1", "0x1"])
def test_a_number_in_text_has_few_digits_and_nothing_else(text: str) -> None:
    with pytest.raises(bounded_json.UnreadableError, match="not a number with at most 18 digits"):
        bounded_json.number(text)


def test_a_number_in_text_is_read() -> None:
    assert bounded_json.number("000123") == 123
    assert bounded_json.number("9" * 18) == 10**18 - 1
