"""The grammar of ``--net`` and ``--disk`` for existing instances: text becomes the device changes of opcodes.

``nics`` and ``commands.disks`` declare the forms of each option. Invalid text raises ``cli.errors.MalformedError``
(contracts/commands.md#device-options, contracts/networks.md#several-addresses-of-a-nic).
"""

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from gantry.cli import errors
from gantry.cli.grammar import syntax

ACTIONS = ("add", "modify", "remove")
LAST = -1

Change = list[object]
"""``[action, id, values]`` (contracts/opcodes.md#device-modifications)."""


class Grammar(NamedTuple):
    """The grammar of one of the options: its name, the forms for error texts, and the parsers of a device's values."""

    option: str
    noun: str
    forms: tuple[str, ...]
    parse_new: Callable[..., syntax.Structure]
    parse_change: Callable[..., syntax.Structure]
    actions: tuple[str, ...] = ACTIONS

    def change(self, text: str) -> Change:
        """Parse one change of a device."""
        head, colon, values_text = text.partition(":")
        if not re.fullmatch(r"[^=,]+", head) or not (colon or head in self._without_ident()):
            self._fail(text, 0, f"the value names neither a {self.noun} nor an action")
        start = len(head) + len(colon)
        try:
            values = syntax.key_values(values_text)
            action = head if head in self._without_ident() else self._action(values)
            return [action, LAST if action == head else _ident(head), self._values(action, values)]
        except errors.MalformedError:
            raise
        except errors.InvalidError as error:
            self._fail(text, syntax.key_position(error, text, start), error.line())

    def _values(self, action: str, values: syntax.Values) -> syntax.Structure:
        if action == "add":
            return self.parse_new(values, subject=f"the new {self.noun}")
        if action in ("remove", "detach") and values:
            raise errors.InvalidError(f"{action} does not take values")
        if action == "modify" and not values:
            raise errors.InvalidError("no value to modify")
        return self.parse_change(values, subject=f"the {self.noun}")

    def _without_ident(self) -> tuple[str, ...]:
        """Return the actions that may replace the identifier of a device; they apply to the last device."""
        return tuple(word for word in self.actions if word != "modify")

    def _action(self, values: syntax.Values) -> str:
        """Remove the action from the values and return it; without an action it is ``modify``."""
        actions = [word for word in self.actions if values.get(word) is True]
        if len(actions) > 1:
            raise errors.InvalidError(f"{' and '.join(actions)} exclude each other")
        for action in actions:
            del values[action]
        return actions[0] if actions else "modify"

    def _fail(self, text: str, position: int, problem: str) -> NoReturn:
        raise errors.MalformedError(self.option, text, position=position, problem=problem, forms=self.forms) from None


def _ident(text: str) -> int | str:
    return int(text) if text.isdecimal() or text == str(LAST) else text
