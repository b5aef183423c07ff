"""Protocol numbers: which versions of the software understand each other's calls.

    x-gantry-protocol: OLDEST-NEWEST        in each call and in each answer

``NEWEST`` is the protocol of this version, ``OLDEST`` the oldest that this version still understands. Two daemons
understand each other if the numbers of one overlap with those of the other; otherwise both refuse. A new field with a
default, or a new call that the master can do without, needs no new number, because receivers ignore unknown fields. A
field that an older node must not ignore needs one (explanation/compatibility.md).
"""

import re
from typing import NamedTuple

HEADER = "x-gantry-protocol"
OLDEST = 1
NEWEST = 1

_FORM = re.compile(r"([0-9]{1,6})-([0-9]{1,6})", re.ASCII)


class Numbers(NamedTuple):
    """The protocol numbers that a daemon understands, both included."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        return f"{self.oldest}-{self.newest}"

    def overlap(self, peer: "Numbers") -> bool:
        """Return whether both understand a number.

        >>> Numbers(1, 2).overlap(Numbers(2, 5)), Numbers(1, 2).overlap(Numbers(3, 5))
        (True, False)
        """
        return self.oldest <= peer.newest and peer.oldest <= self.newest


OWN = Numbers(OLDEST, NEWEST)
FIRST = Numbers(1, 1)
"""Of a daemon without the header: the versions before 1.0 did not send it."""


def decode(header: str | None) -> Numbers | None:
    """Return the numbers in a header; None if it is malformed.

    >>> decode("2-4"), decode(None), decode("4-2")
    (Numbers(oldest=2, newest=4), Numbers(oldest=1, newest=1), None)
    """
    if header is None:
        return FIRST
    form = _FORM.fullmatch(header)
    numbers = Numbers(int(form[1]), int(form[2])) if form else None
    return numbers if numbers and numbers.oldest <= numbers.newest else None


def are_too_far_apart(header: str | None) -> bool:
    """Return whether the sender of a header and this software do not understand each other."""
    numbers = decode(header)
    return numbers is None or not numbers.overlap(OWN)


def described(software: str, header: str | None) -> str:
    """Return a version and its protocol numbers as errors name them.

    >>> described("1.2.0", "1-2")
    'Gantry 1.2.0 with protocol 1-2'
    """
    return f"Gantry {software or 'of an unknown version':.40} with protocol {header or str(FIRST):.20}"
