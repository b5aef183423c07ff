"""The grammar of ``--net`` and ``--disk`` where an instance is made: each option is a device, named by its number.

The values are those of ``syntax``; ``changes`` has the grammar for an instance that exists. What is not understood
raises ``cli.errors.MalformedError`` (contracts/commands.md#device-options,
contracts/networks.md#several-addresses-of-a-nic).
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gantry.cli import errors
from gantry.cli.grammar import syntax


class Grammar(NamedTuple):
    """One of the options: its name, its forms as people are shown them, and what parses the values of a device."""

    option: str
    noun: str
    forms: tuple[str, ...]
    made: Callable[..., syntax.Structure]

    def devices(self, texts: Sequence[str]) -> list[syntax.Structure]:
        """Parse all uses of the option, in the order of the numbers."""
        numbered: dict[int, syntax.Structure] = {}
        for text in texts:
            index = self._number(text)
            if index in numbered:
                raise self._fault(text, 0, f"number {index} is given twice")
            numbered[index] = self._device(text, index)
        for text in texts:
            if self._number(text) >= len(numbered):
                given = ", ".join(map(str, sorted(numbered)))
                raise self._fault(text, 0, f"numbers start at 0 and have no gaps; given were {given}")
        return [numbered[index] for index in range(len(numbered))]

    def _number(self, text: str) -> int:
        head = text.partition(":")[0]
        if not re.fullmatch("[0-9]{1,9}", head):
            raise self._fault(text, 0, f"{head!r} is no number of a {self.noun}, as in 0:")
        return int(head)

    def _device(self, text: str, index: int) -> syntax.Structure:
        head, colon, rest = text.partition(":")
        try:
            return self.made(syntax.key_values(rest), place=f"{self.noun} {index}")
        except errors.InvalidError as error:
            raise self._fault(text, syntax.place_of(error, text, len(head + colon)), error.line()) from None

    def _fault(self, text: str, at: int, what: str) -> errors.MalformedError:
        return errors.MalformedError(self.option, text, at=at, what=what, forms=self.forms)


NICS = Grammar(
    "--net",
    "NIC",
    (
        "N:KEY=VALUE,...               N is 0 for the first NIC, 1 for the next one",
        "KEY is ip (the first address), ip0, ip1 ..., network, mac, mode, link, vlan, bridge or name",
        "an address is ADDRESS, pool, pool4, pool6 or the name of a pool",
    ),
    syntax.nic,
)
DISKS = Grammar(
    "--disk",
    "disk",
    (
        "N:KEY=VALUE,...               N is 0 for the first disk, 1 for the next one",
        "KEY is size, mode, access, name, vg, metavg, adopt, path, format, spindles or provider",
        "a size is in MiB, or has a unit, as in 10g; auto is the default one",
    ),
    syntax.disk,
)
