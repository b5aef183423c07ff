"""Errors of the master about an opcode's fields, rewritten to name the options and arguments that the user typed.

The master names an invalid field by its path in the opcode (``$.instance_name``). ``main`` calls this module to replace
the path by the option or argument that sets the field, and the decoder's terms by plain words. Errors about fields that
the command does not declare are not changed.
"""

import re
from collections.abc import Callable

from gantry.cli import errors

_INVALID_FIELD = re.compile(
    r"opcode not valid: (?P<problem>.*?) - at `\$\.(?P<field>\w+)(?P<inner>[^`]*)`(?P<hint>.*)", re.S
)
_REFERENCE = "; see the reference of opcodes for its fields"
_PLAIN = (
    (re.compile(r"Expected `str` of length >= 1$"), "must not be empty"),
    (re.compile(r"Expected `str` of length <= (\d+)$"), r"must have at most \1 characters"),
    (re.compile(r"Expected `array` of length >= (\d+)$"), r"needs at least \1 values"),
    (re.compile(r"Expected `array` of length <= (\d+)$"), r"takes at most \1 values"),
    (re.compile(r"Expected `int` >= (\S+)$"), r"must be at least \1"),
    (re.compile(r"Expected `int` <= (\S+)$"), r"must be at most \1"),
    (re.compile(r"Expected `int`, got `\w+`$"), "must be a whole number"),
    (re.compile(r"Expected `bool`, got `\w+`$"), "must be yes or no"),
    (re.compile(r"Invalid enum value '(.*)'$"), r"'\1' is not a valid value"),
    (re.compile(r"Expected (a name \(.*\))$"), r"must be \1"),
)


def rewritten(error: errors.ServerError, label: Callable[[str], str]) -> errors.ServerError:
    """Return the error with options and arguments instead of fields; ``label`` maps a field to its option or ""."""
    message = text(error.message, label)
    if message == error.message:
        return error
    return errors.ServerError(error.name, [message, *error.arguments[1:]], prefix=error.prefix)


def text(message: str, label: Callable[[str], str]) -> str:
    """Return a message of the master with options and arguments instead of fields."""
    match = _INVALID_FIELD.match(message)
    if match is None or not (option := label(match["field"])):
        return message
    inner = "".join(f" {part}" for part in re.findall(r"\w+", match["inner"]))
    return f"{option}{inner}: {_plain(match['problem'])}{match['hint'].replace(_REFERENCE, '')}"


def _plain(problem: str) -> str:
    for pattern, words in _PLAIN:
        if pattern.match(problem):
            return pattern.sub(words, problem)
    return problem.replace("`", "")
