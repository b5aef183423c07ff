"""What the master refuses of an opcode, said of the options and arguments that the user typed.

The master names a wrong field by its path in the opcode (``$.instance_name``); ``main`` lets this module replace the
path by the option or argument that has the field, and the library's words by plain ones. Errors about fields that the
command does not declare stay as they are.
"""

import re
from collections.abc import Callable

from gantry.cli import errors

_WRONG_FIELD = re.compile(
    r"opcode not valid: (?P<what>.*?) - at `\$\.(?P<field>\w+)(?P<inner>[^`]*)`(?P<hint>.*)", re.S
)
_REFERENCE = "; see the reference of opcodes for its fields"
_PLAIN = (
    (re.compile(r"Expected `str` of length >= 1$"), "must not be empty"),
    (re.compile(r"Expected `str` of length <= (\d+)$"), r"must have at most \1 characters"),
    (re.compile(r"Expected `array` of length >= (\d+)$"), r"needs at least \1"),
    (re.compile(r"Expected `array` of length <= (\d+)$"), r"takes at most \1"),
    (re.compile(r"Expected `int` >= (\S+)$"), r"must be at least \1"),
    (re.compile(r"Expected `int` <= (\S+)$"), r"must be at most \1"),
    (re.compile(r"Expected `int`, got `\w+`$"), "must be a whole number"),
    (re.compile(r"Expected `bool`, got `\w+`$"), "must be yes or no"),
    (re.compile(r"Invalid enum value '(.*)'$"), r"does not take '\1'"),
    (re.compile(r"Expected (a name \(.*\))$"), r"must be \1"),
)


def named(error: errors.ServerError, label: Callable[[str], str]) -> errors.ServerError:
    """Return the error with options and arguments instead of fields; ``label`` tells them by field, or empty."""
    told = text(error.message, label)
    if told == error.message:
        return error
    return errors.ServerError(error.name, [told, *error.arguments[1:]], prefix=error.prefix)


def text(message: str, label: Callable[[str], str]) -> str:
    """Return a message of the master with options and arguments instead of fields."""
    wrong = _WRONG_FIELD.match(message)
    if wrong is None or not (option := label(wrong["field"])):
        return message
    inner = "".join(f" {part}" for part in re.findall(r"\w+", wrong["inner"]))
    return f"{option}{inner}: {_plain(wrong['what'])}{wrong['hint'].replace(_REFERENCE, '')}"


def _plain(what: str) -> str:
    for pattern, words in _PLAIN:
        if pattern.match(what):
            return pattern.sub(words, what)
    return what.replace("`", "")
