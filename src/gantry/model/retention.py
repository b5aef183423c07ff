"""Retention: up to which age and size the journal and the archive of jobs are kept (explanation/state.md#retention).

    forever     keep everything
    30d         keep what is at most 30 days old
    4G          keep the newest 4 GiB
    30d,4G      keep what is within both limits

The units are s, h, d and w for ages, M, G and T for sizes. Minutes have none, because of M.
"""

import functools
import re
from dataclasses import dataclass

from gantry import errors

FOREVER = "forever"
MINIMUM_SECONDS = 60
MINIMUM_SIZE = 1 << 20

_UNITS = {"s": 1, "h": 3600, "d": 86400, "w": 7 * 86400}
_SIZE_UNITS = {"M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_WORD = re.compile(r"([0-9]{1,9})([shdwSHDWmgtMGT])")


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits: an age in seconds, a size in bytes; None for no limit."""

    seconds: int | None = None
    size: int | None = None


@functools.lru_cache
def parse(text: str) -> Retention:
    """Return the limits that a text sets; raises InvalidError."""
    if text == FOREVER:
        return Retention()
    seconds, size = None, None
    for word in text.split(","):
        match = _WORD.fullmatch(word)
        if match is None:
            raise _invalid(text, f"{word!r} is not an age or a size")
        count, unit = int(match[1]), match[2]
        if unit.lower() in _UNITS and seconds is None:
            seconds = count * _UNITS[unit.lower()]
        elif unit.upper() in _SIZE_UNITS and size is None:
            size = count * _SIZE_UNITS[unit.upper()]
        else:
            raise _invalid(text, "it has two ages or two sizes")
    if seconds is not None and seconds < MINIMUM_SECONDS:
        raise _invalid(text, f"the minimum age is {MINIMUM_SECONDS}s")
    if size is not None and size < MINIMUM_SIZE:
        raise _invalid(text, f"the minimum size is {MINIMUM_SIZE >> 20}M")
    return Retention(seconds, size)


def checked(text: str) -> str:
    """Return the text as it is stored; raises InvalidError."""
    parse(text)
    return text if text == FOREVER else ",".join(sorted(map(_spelled, text.split(",")), key=_is_size))


def _is_size(word: str) -> bool:
    return word[-1] in _SIZE_UNITS


def _spelled(word: str) -> str:
    unit = word[-1]
    return word[:-1] + (unit.lower() if unit.lower() in _UNITS else unit.upper())


def _invalid(text: str, why: str) -> errors.InvalidError:
    return errors.InvalidError(
        f"{text!r} is not a valid retention: {why}",
        hint=f"use an age (30d, in s, h, d or w), a size (4G, in M, G or T), both (30d,4G), or {FOREVER}",
    )
