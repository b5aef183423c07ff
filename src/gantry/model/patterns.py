"""Regular expressions that come from outside: filters of queries, the search for tags.

They are matched by RE2 (the library ``re2``), in a time that grows with the text alone whatever the expression is: they
run in the master's only thread.
"""

from collections.abc import Callable
from typing import Final

import re2

from gantry import errors

LIMIT: Final = 1000
"""The longest expression, in characters."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
# In bytes for one expression; the library keeps the last 128.
_OPTIONS.max_mem = 1 << 18


def searcher(pattern: str) -> Callable[[str], bool]:
    """Return a test of whether an expression is found in a text; InvalidError when it is none.

    >>> searcher("^web[0-9]")("web1.example")
    True
    """
    if len(pattern) > LIMIT:
        raise errors.InvalidError(f"a regular expression of {len(pattern)} characters is too long, {LIMIT} is the most")
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise errors.InvalidError(
            f"{pattern!r} is no regular expression: {error.args[0].decode(errors='replace')}",
            hint="the syntax is that of RE2, without look-around and back-references",
        ) from None
    return lambda text: compiled.search(text) is not None
