"""The names of the journal's sections: ``journal/<serial of the first record, 16 digits>.log``. Pure."""

import re
from collections.abc import Iterable

NAME = re.compile(r"([0-9]{16})\.log", re.ASCII)


def path(folder: str, first: int) -> str:
    """Return the path of the section whose first record has a serial.

    >>> path("journal", 41)
    'journal/0000000000000041.log'
    """
    return f"{folder}/{first:016d}.log"


def firsts(names: Iterable[str]) -> list[int]:
    """Return the serials of the first records of the sections among the names in a folder, in order.

    >>> firsts(["0000000000000041.log", "0000000000000002.log", "41.log", "0000000000000041.log~"])
    [2, 41]
    """
    return sorted(int(match[1]) for match in map(NAME.fullmatch, names) if match)
