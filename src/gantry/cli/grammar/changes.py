"""The grammar of ``--net`` and ``--disk`` where devices of an instance are changed: text becomes what opcodes take.

The forms of each are declared beside its values (``nics``, ``disks``). What is not understood raises
``cli.errors.MalformedError`` (contracts/commands.md#device-options, contracts/networks.md#several-addresses-of-a-nic).
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
    """One of the options: its name, its forms as people are shown them, and what parses the values of a device."""

    option: str
    noun: str
    forms: tuple[str, ...]
    made: Callable[..., syntax.Structure]
    changed: Callable[..., syntax.Structure]
    actions: tuple[str, ...] = ACTIONS

    def change(self, text: str) -> Change:
        """Parse one change of a device."""
        head, colon, rest = text.partition(":")
        if not re.fullmatch(r"[^=,]+", head) or not (colon or head in self._alone()):
            self._fault(text, 0, f"it does not say which {self.noun}, or what to do")
        start = len(head) + len(colon)
        try:
            values = syntax.key_values(rest)
            action = head if head in self._alone() else self._action(values)
            return [action, LAST if action == head else _ident(head), self._values(action, values)]
        except errors.MalformedError:
            raise
        except errors.InvalidError as error:
            self._fault(text, syntax.place_of(error, text, start), error.line())

    def _values(self, action: str, values: syntax.Values) -> syntax.Structure:
        if action == "add":
            return self.made(values, place=f"the new {self.noun}")
        if action in ("remove", "detach") and values:
            raise errors.InvalidError(f"nothing follows {action}")
        if action == "modify" and not values:
            raise errors.InvalidError("there is nothing to modify")
        return self.changed(values, place=f"the {self.noun}")

    def _alone(self) -> tuple[str, ...]:
        """Return the actions that may stand where a device is named otherwise: it is the last one."""
        return tuple(word for word in self.actions if word != "modify")

    def _action(self, values: syntax.Values) -> str:
        """Take the action out of the values; without one it is a change."""
        found = [word for word in self.actions if values.get(word) is True]
        if len(found) > 1:
            raise errors.InvalidError(f"{' and '.join(found)} exclude each other")
        for word in found:
            del values[word]
        return found[0] if found else "modify"

    def _fault(self, text: str, at: int, what: str) -> NoReturn:
        raise errors.MalformedError(self.option, text, at=at, what=what, forms=self.forms) from None


def _ident(text: str) -> int | str:
    return int(text) if text.isdecimal() or text == str(LAST) else text
