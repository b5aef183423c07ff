"""The grammar of ``--net`` and ``--disk`` for new instances: each use of the option is a device, with its number.

``syntax`` parses the values; ``changes`` has the grammar for existing instances. Invalid text raises
``cli.errors.MalformedError`` (contracts/commands.md#device-options, contracts/networks.md#several-addresses-of-a-nic).
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gantry.cli import errors
from gantry.cli.grammar import syntax


class Grammar(NamedTuple):
    """The grammar of one of the options: its name, the forms for error texts, and the parser of a device's values."""

    option: str
    noun: str
    forms: tuple[str, ...]
    parse_new: Callable[..., syntax.Structure]

    def devices(self, texts: Sequence[str]) -> list[syntax.Structure]:
        """Parse all uses of the option; return the devices in the order of their numbers."""
        numbered: dict[int, syntax.Structure] = {}
        for text in texts:
            index = self._number(text)
            if index in numbered:
                raise self._error(text, 0, f"{self.noun} {index} is defined twice")
            numbered[index] = self._device(text, index)
        for text in texts:
            if self._number(text) >= len(numbered):
                numbers = ", ".join(map(str, sorted(numbered)))
                raise self._error(text, 0, f"{self.noun} numbers must start at 0 without gaps, but are {numbers}")
        return [numbered[index] for index in range(len(numbered))]

    def _number(self, text: str) -> int:
        head = text.partition(":")[0]
        if not re.fullmatch("[0-9]{1,9}", head):
            raise self._error(text, 0, f"{head!r} is not a {self.noun} number, as in 0:")
        return int(head)

    def _device(self, text: str, index: int) -> syntax.Structure:
        head, colon, values = text.partition(":")
        try:
            return self.parse_new(syntax.key_values(values), subject=f"{self.noun} {index}")
        except errors.InvalidError as error:
            raise self._error(text, syntax.key_position(error, text, len(head + colon)), error.line()) from None

    def _error(self, text: str, position: int, problem: str) -> errors.MalformedError:
        return errors.MalformedError(self.option, text, position=position, problem=problem, forms=self.forms)


NICS = Grammar(
    "--net",
    "NIC",
    (
        "N:KEY=VALUE,...               N is 0 for the first NIC, 1 for the second",
        "KEY is ip (the first address), ip0, ip1 ..., network, mac, mode, link, vlan, bridge or name",
        "an address is ADDRESS, pool, pool4, pool6 or the name of a pool",
    ),
    syntax.nic,
)
DISKS = Grammar(
    "--disk",
    "disk",
    (
        "N:KEY=VALUE,...               N is 0 for the first disk, 1 for the second",
        "KEY is size, mode, access, name, vg, metavg, adopt, path, format, spindles or provider",
        "a size is in MiB, or has a unit, as in 10g; auto is the default size",
    ),
    syntax.disk,
)
