"""Errors of the master about an opcode's fields, rewritten to name the options and arguments that the user typed.

The master names an invalid field by its path in the opcode (``nics[0].name``). ``main`` calls this module to replace
the path by the option or argument that sets the field, the innermost if none sets the whole. Errors about fields that
the command does not declare are not changed.
"""

import re
from collections.abc import Callable

from gantry.cli import errors

_INVALID_FIELD = re.compile(
    r"opcode not valid: (?P<field>\w+)(?P<inner>[\w.\[\]-]*): (?P<problem>.*?)(?P<hint>; .*)?$", re.S
)
_REFERENCE = "; see the reference of opcodes for its fields"
_ACTUAL = re.compile(r", not (?:an? )?[a-z ]+$")
"""The type of the value in the opcode: on a command line all values are text."""
_WORDS = {"true or false": "yes or no", "`": ""}


def rewritten(error: errors.ServerError, label: Callable[[str], str]) -> errors.ServerError:
    """Return the error with options and arguments instead of fields; ``label`` maps a field to its option or ""."""
    message = text(error.message, label)
    if message == error.message:
        return error
    return errors.ServerError(error.name, [message, *error.arguments[1:]], prefix=error.prefix)


def text(message: str, label: Callable[[str], str]) -> str:
    """Return a message of the master with options and arguments instead of fields."""
    match = _INVALID_FIELD.match(message)
    if match is None:
        return message
    parts = re.findall(r"\w+", match["inner"])
    option = label(match["field"])
    if not option and parts and (option := label(parts[-1])):
        parts = []
    if not option:
        return message
    inner = "".join(f" {part}" for part in parts)
    return f"{option}{inner}: {_plain(match['problem'])}{(match['hint'] or '').replace(_REFERENCE, '')}"


def _plain(problem: str) -> str:
    problem = _ACTUAL.sub("", problem)
    for word, plain in _WORDS.items():
        problem = problem.replace(word, plain)
    return problem
