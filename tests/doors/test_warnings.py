"""Warnings in headers: quoted texts, and their length."""

import pytest

from gantry.doors.http import warnings


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("spec.ä", '"spec.ä"'), ('a"b', r'"a\"b"'), ("a\\b", r'"a\\b"'), ("ä\a\b\f\n\r\t\v", r'"ä\a\b\f\n\r\t\v"'),
        ("\0\x1b\x7f", r'"\x00\x1b\x7f"'), ("\x80\u200b\uffff", r'"\u0080\u200b\uffff"'),
        ("\U000e0001\U0010ffff", r'"\U000e0001\U0010ffff"'),
    ],
)  # fmt: skip
def test_a_name_is_quoted_as_go_does_it(text: str, quoted: str) -> None:
    assert warnings.quoted(text) == quoted


def test_few_warnings_are_whole_whatever_their_length() -> None:
    assert warnings.header("-", ["x" * 4096]) == f'299 - "{"x" * 4096}"'


def test_long_warnings_are_cut_and_many_of_them_left_out() -> None:
    texts = warnings.header("-", ["x" * 5000] * 100).split(", ")
    assert set(texts) == {f'299 - "{"x" * warnings.TEXT_CHARACTERS}"'}
    assert len(texts) == warnings.ALL_CHARACTERS // warnings.TEXT_CHARACTERS + 1


def test_a_text_with_control_characters_is_escaped() -> None:
    assert warnings.header("gantry", ["a\r\nb\0"]) == r'299 gantry "a\\x0d\\x0ab\\x00"'
