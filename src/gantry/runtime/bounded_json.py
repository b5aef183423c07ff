"""Limits of what a client's bytes may make of a parser: how deep JSON is nested, how many digits a number has.

Every server checks a message here before it decodes it. Without the limits, a number of 5,000 digits or 50,000 nested
lists raises an exception in the middle of a handler: Python converts no longer number and descends no deeper. A number
that fits no float fails even later. Pure; each server answers the error in its own form.
"""

import itertools
import re
from typing import TypeVar, overload

import msgspec

T = TypeVar("T")

MAX_DEPTH = 100
"""Maximum nesting of lists and objects; a filter of a query, the deepest of what clients send, may have 32 levels."""

MAX_DIGITS = 300
"""Maximum digits in sequence in a JSON number; a float has up to 309 before its point."""

NUMBER_DIGITS = 18
"""Maximum digits of a number in text, such as in a path: each such number fits 64 bits."""

_ONLY_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_TOO_LONG = b"0" * (MAX_DIGITS + 1)
_NUMBER = re.compile(f"[0-9]{{1,{NUMBER_DIGITS}}}")
_OPENING, _BRACKETS = b"[{", b"[]{}"
_NOT_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
_STEPS = [(byte in _OPENING) - (byte in _BRACKETS and byte not in _OPENING) for byte in range(256)]


class UnreadableError(ValueError):
    """A message is not JSON, not of the expected type, or beyond a limit."""


def check(data: bytes) -> None:
    """Raise UnreadableError if JSON is nested too deep or has a number that is too long.

    Only brackets and digits outside of strings count. Messages without many of them, which most are, are only scanned
    for those.
    """
    many = data.count(b"[") + data.count(b"{") > MAX_DEPTH
    if not many and not _has_long_number(data):
        return
    outside_strings = _outside_strings(data)
    if _has_long_number(outside_strings):
        raise UnreadableError(f"a number has more than {MAX_DIGITS} digits")
    depths = itertools.accumulate(map(_STEPS.__getitem__, outside_strings.translate(None, _NOT_BRACKETS)))
    if many and max(depths, default=0) > MAX_DEPTH:
        raise UnreadableError(f"more than {MAX_DEPTH} levels of nesting")


def _outside_strings(data: bytes) -> bytes:
    """Return JSON with a space for each string, up to the first byte at which it is no JSON: no parser gets further."""
    without_escapes = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b" ".join(without_escapes.split(b'"')[::2])


def _has_long_number(data: bytes) -> bool:
    # A search for a text takes linear time for any data; a regular expression would count again from each digit.
    return _TOO_LONG in data.translate(_ONLY_ZEROS)


@overload
def decode(data: bytes) -> object: ...


@overload
def decode(data: bytes, kind: type[T]) -> T: ...


def decode(data: bytes, kind: object = object) -> object:
    """Decode JSON that a client sent as a ``kind``; UnreadableError."""
    check(data)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(str(error)) from None


def number(text: str) -> int:
    """Return the number in a text of digits; UnreadableError if it is not one, or has more than ``NUMBER_DIGITS``.

    >>> number("0042")
    42
    """
    if not _NUMBER.fullmatch(text):
        raise UnreadableError(f"not a number with at most {NUMBER_DIGITS} digits: {text[:40]}")
    return int(text)
