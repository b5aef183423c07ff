"""Regular expressions of clients, in query filters and in the search for tags.

RE2 (the library ``re2``) matches them in time linear in the text, whatever the expression is, because they run in the
master's only thread.
"""

import re
from collections.abc import Callable
from typing import Final

import re2

from gantry import errors

LIMIT: Final = 1000
"""Maximum length of an expression, in characters."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
# Bytes for an expression; the library caches the last 128 expressions.
_OPTIONS.max_mem = 1 << 18


def searcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that returns whether an expression matches somewhere in a text; raises InvalidError.

    An expression that stands for itself, such as a text after ``re.escape``, is looked for as a text: five times as
    fast.

    >>> searcher("^web[0-9]")("web1.example")
    True
    """
    if len(pattern) > LIMIT:
        raise errors.InvalidError(
            f"the regular expression is too long: it has {len(pattern)} characters, the maximum is {LIMIT}"
        )
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise errors.InvalidError(
            f"{pattern!r} is not a regular expression: {error.args[0].decode(errors='replace')}",
            hint="use the syntax of RE2, which has no look-around and no back-references",
        ) from None
    literal = re.sub(r"\\(\W)", r"\1", pattern)
    if re.escape(literal) == pattern:
        return lambda text: literal in text
    return lambda text: compiled.search(text) is not None
