"""The findings of an upgrade: obstacles, and notes for the administrator.

The whole configuration is checked first, so the administrator gets one complete list instead of one error after
another. The modules that convert share one ``Findings``.
"""

import uuid
from collections.abc import Mapping

from gantry import errors
from gantry.address import ranges
from gantry.model import base, parameters

LISTED = 5
"""How many objects with the same problem are named."""

# A fixed namespace, so that a repeated upgrade generates the same identifiers.
_NAMESPACE = uuid.UUID("6b1f7a0e-5f0c-4c0a-9d55-6d2f6a1c9e10")

# What the old lineage stored as a default, and what is not the default here though it means the same.
_SAME_AS_DEFAULT = {"kvm_path": "/usr/bin/kvm", "machine_version": ""}


class Findings:
    """Refusals by reason, each with the objects it holds for, and notes for the log."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._refused: dict[str, list[str]] = {}

    def refuse(self, reason: str, what: str) -> None:
        """Note that the object ``what`` cannot be converted, and why."""
        self._refused.setdefault(reason, []).append(what)

    def note(self, text: str) -> None:
        """Add a note for the log."""
        self.notes.append(text)

    def refusals(self) -> list[str]:
        """Return the refusals as text, one for each reason."""
        return [f"{reason}: {_some(what)}" for reason, what in self._refused.items()]

    def carried(
        self, old_values: Mapping[str, object] | None, known: Mapping[str, parameters.Parameter], *, what: str
    ) -> base.Parameters:
        """Return those parameters of the object ``what`` that exist here, and note the others."""
        carried: base.Parameters = {}
        strange = []
        for name, value in (old_values or {}).items():
            if value in (None, _SAME_AS_DEFAULT.get(name)):
                continue
            if name not in known:
                strange.append(name)
                continue
            try:
                carried[name] = parameters.convert(value, known[name], name=name)
            except errors.InvalidError as error:
                self.refuse(error.message, what)
        if strange:
            self.note(f"{what}: left out, not supported: {', '.join(sorted(strange))}")
        return carried

    def address(self, text: str | None, *, what: str) -> str:
        """Return the address of the object ``what`` in its canonical spelling; empty for none."""
        if text in (None, "", "none"):
            return ""
        try:
            return str(ranges.parse_address(str(text)))
        except errors.InvalidError as error:
            self.refuse(error.message, what)
            return ""


def _some(what: list[str]) -> str:
    more = len(what) - LISTED
    return ", ".join(what[:LISTED]) + (f" and {more} more" if more > 0 else "")


def identifier(*words: str) -> str:
    """Return the UUID of an object that had none: the same for the same words."""
    return str(uuid.uuid5(_NAMESPACE, "/".join(words)))
