"""The grammar of points in time: ``--at 2026-05-04T13:00``, ``--at 1777892400``, ``--at -2h``, ``--until 30d``.

A time without an offset is local time. Invalid text raises InvalidError with the text and the valid forms.
"""

import re

from gantry.cli import errors
from gantry.cli.grammar import syntax

FORMS = (
    "write local time as 2026-05-04T13:00 or 2026-05-04, seconds since the epoch, or a duration before now, as in -2h"
)


FUTURE = (
    "write a duration from now, as in 30d, local time as 2026-05-04T13:00 or 2026-05-04, or seconds since the epoch"
)


def future(text: str, *, now: float) -> float:
    """Return seconds since the epoch; ``30d`` is 30 days after ``now``, with the units s, m, h, d and w."""
    trimmed = text.strip()
    if re.fullmatch(r"\d{1,9}[smhdw]", trimmed):
        return now + syntax.seconds(trimmed)
    if trimmed.startswith("-"):
        raise errors.InvalidError(f"{text!r} is in the past", hint=FUTURE)
    try:
        return parse(trimmed, now=now)
    except errors.InvalidError:
        raise errors.InvalidError(f"{text!r} is not a time", hint=FUTURE) from None


def parse(text: str, *, now: float) -> float:
    """Return seconds since the epoch; ``-2h`` is 2 hours before ``now``, with the units s, m, h, d and w."""
    trimmed = text.strip()
    if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", trimmed):
        return float(trimmed)
    if re.fullmatch(r"-\d{1,9}[smhdw]?", trimmed):
        return now - syntax.seconds(trimmed.removeprefix("-"))
    import datetime

    try:
        return datetime.datetime.fromisoformat(trimmed).timestamp()
    except (ValueError, OverflowError, OSError):
        raise errors.InvalidError(f"{text!r} is not a time", hint=FORMS) from None
