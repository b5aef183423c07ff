"""Points in time as people type them: ``--at 2026-05-04T13:00``, ``--at 1777892400``, ``--at -2h``.

Local time where no offset is written; everything raises InvalidError that shows the text and the forms.
"""

import re

from gantry.cli import errors
from gantry.cli.grammar import syntax

FORMS = "write local time as 2026-05-04T13:00 or 2026-05-04, seconds since the epoch, or how long ago, as in -2h"


def parse(text: str, *, now: float) -> float:
    """Return seconds since the epoch; ``-2h`` counts back from ``now``, with the units s, m, h, d and w."""
    written = text.strip()
    if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", written):
        return float(written)
    if re.fullmatch(r"-\d{1,9}[smhdw]?", written):
        return now - syntax.seconds(written.removeprefix("-"))
    import datetime

    try:
        return datetime.datetime.fromisoformat(written).timestamp()
    except (ValueError, OverflowError, OSError):
        raise errors.InvalidError(f"{text!r} is not a time", hint=FORMS) from None
