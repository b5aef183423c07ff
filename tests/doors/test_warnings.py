"""Warnings in headers: quoted texts, and their length."""

from gantry.doors.http import warnings


def test_few_warnings_are_whole_whatever_their_length() -> None:
    assert warnings.header("-", ["x" * 4096]) == f'299 - "{"x" * 4096}"'


def test_long_warnings_are_cut_and_many_of_them_left_out() -> None:
    texts = warnings.header("-", ["x" * 5000] * 100).split(", ")
    assert set(texts) == {f'299 - "{"x" * warnings.TEXT_CHARACTERS}"'}
    assert len(texts) == warnings.ALL_CHARACTERS // warnings.TEXT_CHARACTERS + 1


def test_a_text_with_control_characters_is_escaped() -> None:
    assert warnings.header("gantry", ["a\r\nb\0"]) == r'299 gantry "a\\x0d\\x0ab\\x00"'
