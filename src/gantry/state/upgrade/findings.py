"""What an upgrade finds: what stands in its way, and what somebody should know.

Everything is looked at before anything is refused, so the administrator gets one whole list instead of one error after
the other. The modules that convert share one ``Findings``.
"""

import uuid
from collections.abc import Mapping

from gantry import errors
from gantry.address import ranges
from gantry.model import base, parameters

SHOWN = 5
"""How many objects with the same trouble are named."""

# Nothing but a fixed starting point, so that an upgrade that is repeated gives the same identifiers.
_NAMESPACE = uuid.UUID("6b1f7a0e-5f0c-4c0a-9d55-6d2f6a1c9e10")

# What the old lineage stored as a default, and what is not the default here though it means the same.
_SAME_AS_DEFAULT = {"kvm_path": "/usr/bin/kvm", "machine_version": ""}


class Findings:
    """Refusals by reason, each with the objects it holds for, and notes for the log."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._refused: dict[str, list[str]] = {}

    def refuse(self, reason: str, what: str) -> None:
        """Note that ``what`` cannot be carried over, and why."""
        self._refused.setdefault(reason, []).append(what)

    def note(self, text: str) -> None:
        """Note what is to be told in the log."""
        self.notes.append(text)

    def refusals(self) -> list[str]:
        """Return the refusals as text, one for each reason."""
        return [f"{reason}: {_some(what)}" for reason, what in self._refused.items()]

    def carried(
        self, given: Mapping[str, object] | None, known: Mapping[str, parameters.Parameter], *, what: str
    ) -> base.Parameters:
        """Return those parameters of the object ``what`` that exist here, and note the others."""
        found: base.Parameters = {}
        strange = []
        for name, value in (given or {}).items():
            if value in (None, _SAME_AS_DEFAULT.get(name)):
                continue
            if name not in known:
                strange.append(name)
                continue
            try:
                found[name] = parameters.convert(value, known[name], name=name)
            except errors.InvalidError as error:
                self.refuse(error.message, what)
        if strange:
            self.note(f"{what}: left out, nothing here is like it: {', '.join(sorted(strange))}")
        return found

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
    more = len(what) - SHOWN
    return ", ".join(what[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def identifier(*words: str) -> str:
    """Return the UUID of an object that had none: the same for the same words."""
    return str(uuid.uuid5(_NAMESPACE, "/".join(words)))
