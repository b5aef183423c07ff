"""Inclusive ranges of integers, addresses and CIDRs, and how they are written.

Who calls it: everything that handles addresses; pools and reservations compute on integers, and only the text forms
know the family. IPv4 and IPv6 take one path. Source: contracts/networks.md#terms, contracts/networks.md#pools.

Invariant: a ``Range`` is never empty (``first <= last``), and text that was parsed and written again is canonical:
dotted quads, and RFC 5952 for IPv6.
"""

import bisect
import enum
import functools
import ipaddress
import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gantry import errors

ADDRESS_FORM = "write it like 192.0.2.10 or 2001:db8::10"
FORMS = "write FIRST-LAST (192.0.2.10-192.0.2.100), a CIDR (10.0.0.0/27) or one address (10.0.0.100)"


_FIRST = operator.attrgetter("first")


class Family(enum.IntEnum):
    """An address family, by the version of its protocol."""

    IPV4 = 4
    IPV6 = 6

    @property
    def bits(self) -> int:
        """The length of an address."""
        return 32 if self is Family.IPV4 else 128


class Range(msgspec.Struct, frozen=True, order=True, gc=False):
    """The integers from ``first`` to ``last``, both included; sorted by where they begin."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise errors.InternalError(f"a range from {self.first} to {self.last} is empty")

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    @property
    def size(self) -> int:
        """How many integers it has."""
        return self.last - self.first + 1

    def covers(self, other: "Range") -> bool:
        """Tell whether all of the other range lies inside."""
        return self.first <= other.first and other.last <= self.last

    def overlaps(self, other: "Range") -> bool:
        """Tell whether the ranges share a number."""
        return self.first <= other.last and other.first <= self.last

    def intersection(self, other: "Range") -> "Range | None":
        """Return what both share: this range trimmed to the other; None if nothing is left."""
        return span(max(self.first, other.first), min(self.last, other.last))

    def minus(self, other: "Range") -> list["Range"]:
        """Return what is left without the other range: none, one or two ranges."""
        parts = (
            span(self.first, min(self.last, other.first - 1)),
            span(max(self.first, other.last + 1), self.last),
        )
        return [part for part in parts if part]

    def split(self, at: int) -> tuple["Range", "Range"]:
        """Return the parts below ``at`` and from ``at`` on; InvalidError if one would be empty."""
        if not self.first < at <= self.last:
            raise errors.InvalidError(f"a range from {self.first} to {self.last} cannot be split at {at}")
        return Range(self.first, at - 1), Range(at, self.last)


class Address(msgspec.Struct, frozen=True, order=True, gc=False):
    """One address; its text is ``str(address)``."""

    family: Family
    value: int

    def __str__(self) -> str:
        return format_address(self.family, self.value)


class Cidr(msgspec.Struct, frozen=True, order=True, gc=False):
    """A network: all addresses that share its first ``prefix`` bits; its text is ``str(cidr)``."""

    family: Family
    first: int
    prefix: int

    def __str__(self) -> str:
        return f"{format_address(self.family, self.first)}/{self.prefix}"

    @property
    def range(self) -> Range:
        """All its addresses, the first and the last included."""
        return sized(self.first, 1 << self.family.bits - self.prefix)


def span(first: int, last: int) -> Range | None:
    """Return the range, or None if it would be empty."""
    return Range(first, last) if first <= last else None


def sized(first: int, size: int) -> Range:
    """Return the range that begins at ``first`` and has ``size`` integers; InvalidError if that is none."""
    if size < 1:
        raise errors.InvalidError(f"a range of {size} addresses is empty", hint="the size is 1 or more")
    return Range(first, first + size - 1)


def joined(ends: Iterable[tuple[int, int]]) -> Iterator[Range]:
    """Yield the fewest ranges of the numbers between the ends, which are sorted and 0 or greater, as they come."""
    first, last = 0, -2
    for low, high in ends:
        if low > last + 1:
            if last >= first:
                yield Range(first, last)
            first, last = low, high
        elif high > last:
            last = high
    if last >= first:
        yield Range(first, last)


def union(parts: Iterable[Range]) -> list[Range]:
    """Return the same numbers in the fewest ranges, sorted; neighbours grow together. Cost: a sort."""
    return list(joined((part.first, part.last) for part in sorted(parts)))


def difference(parts: Iterable[Range], removed: Iterable[Range]) -> list[Range]:
    """Return the numbers of ``parts`` that are not in ``removed``, in the fewest ranges, sorted. Cost: two sorts."""
    left: list[Range] = []
    holes = union(removed)
    hole = 0
    for part in union(parts):
        start = part.first
        while hole < len(holes) and holes[hole].last < start:
            hole += 1
        for taken in itertools.islice(holes, hole, None):
            if taken.first > part.last:
                break
            if start < taken.first:
                left.append(Range(start, taken.first - 1))
            start = taken.last + 1
        if start <= part.last:
            left.append(Range(start, part.last))
    return left


def locate(parts: Sequence[Range], number: int) -> Range | None:
    """Return the range that has the number, of sorted ranges that do not overlap. Cost: a binary search."""
    place = bisect.bisect_right(parts, number, key=_FIRST)
    return parts[place - 1] if place and number in parts[place - 1] else None


def first_overlap(parts: Sequence[Range]) -> tuple[Range, Range] | None:
    """Return two ranges of the sequence that share a number, or None. Cost: a sort."""
    return next((pair for pair in itertools.pairwise(sorted(parts)) if pair[0].overlaps(pair[1])), None)


def size(parts: Iterable[Range]) -> int:
    """Return how many numbers the ranges have, which do not overlap."""
    return sum(part.size for part in parts)


def parse_address(text: str) -> Address:
    """Read one address; InvalidError for anything else, for IPv4-mapped IPv6 and for scope ids."""
    return _parse_end(text, mapped=False)


def _parse_end(text: str, *, mapped: bool) -> Address:
    address = text.strip()
    if "%" in address:
        raise errors.InvalidError(
            f"'{address}' has a scope id",
            hint=f"write '{address.partition('%')[0]}': a network's addresses are not bound to an interface",
        )
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise errors.InvalidError(f"'{address}' is not an IP address", hint=ADDRESS_FORM) from None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped and not mapped:
        raise errors.InvalidError(
            f"'{address}' is an IPv4 address in IPv6 spelling", hint=f"write '{parsed.ipv4_mapped}'"
        )
    return Address(Family(parsed.version), int(parsed))


def format_address(family: Family, value: int) -> str:
    """Write an address canonically: a dotted quad, or IPv6 as RFC 5952 has it."""
    return str(ipaddress.IPv4Address(value) if family is Family.IPV4 else ipaddress.IPv6Address(value))


def parse_cidr(text: str) -> Cidr:
    """Read a network; InvalidError if it is none, or if bits behind the prefix are set (naming what was meant)."""
    written = text.strip()
    address, slash, length = written.partition("/")
    if not slash:
        raise errors.InvalidError(f"'{written}' is not a CIDR", hint="write NETWORK/PREFIX, like 10.0.0.0/24")
    family, value = msgspec.structs.astuple(parse_address(address))
    if not (length.isascii() and length.isdigit() and len(length) <= 3 and int(length) <= family.bits):
        raise errors.InvalidError(
            f"'{length}' in '{written}' is not a prefix length", hint=f"write a number from 0 to {family.bits}"
        )
    prefix = int(length)
    host_bits = family.bits - prefix
    meant = Cidr(family, value >> host_bits << host_bits, prefix)
    if meant.first != value:
        raise errors.InvalidError(f"'{written}' is an address inside a network", hint=f"its network is '{meant}'")
    return meant


def parse_range(text: str) -> tuple[Family, Range]:
    """Read ``FIRST-LAST``, a CIDR or one address; InvalidError for anything else and for a range backwards.

    A range may end among the IPv4-mapped addresses, as ::/80 does, but not begin there.
    """
    if "/" in text:
        cidr = parse_cidr(text)
        return cidr.family, cidr.range
    try:
        ends = [_parse_end(end, mapped=place > 0) for place, end in enumerate(text.split("-"))]
    except errors.InvalidError as error:
        raise errors.InvalidError(
            f"'{text}' is not an address range: {error.message}",
            hint=FORMS if error.hint == ADDRESS_FORM else error.hint,
        ) from None
    if len(ends) > 2:
        raise errors.InvalidError(f"'{text}' is not an address range: it has {len(ends)} ends", hint=FORMS)
    first, last = ends[0], ends[-1]
    if first.family is not last.family:
        raise errors.InvalidError(f"'{text}' begins and ends in different address families", hint=FORMS)
    if first.value > last.value:
        raise errors.InvalidError(f"'{text}' is backwards", hint=f"write '{last}-{first}'")
    return first.family, Range(first.value, last.value)


_KNOWN_CIDR = functools.lru_cache(maxsize=4096)(parse_cidr)
_KNOWN_RANGE = functools.lru_cache(maxsize=4096)(parse_range)
_KNOWN_ADDRESS = functools.lru_cache(maxsize=4096)(parse_address)


def known_cidr(text: str) -> Cidr:
    """Read a network as ``parse_cidr`` does, one that is asked about again and again: it is remembered."""
    return _KNOWN_CIDR(text)


def known_address(text: str) -> Address:
    """Read an address as ``parse_address`` does, one that is asked about several times in a row: it is remembered."""
    return _KNOWN_ADDRESS(text)


def known_range(text: str) -> tuple[Family, Range]:
    """Read a range as ``parse_range`` does, one that is asked about again and again: it is remembered."""
    return _KNOWN_RANGE(text)


def format_range(family: Family, run: Range) -> str:
    """Write a range canonically: ``FIRST-LAST``, or the address alone if it is one."""
    first = format_address(family, run.first)
    return first if run.size == 1 else f"{first}-{format_address(family, run.last)}"


def cidrs(family: Family, run: Range) -> list[Cidr]:
    """Return the fewest networks that have exactly the range's addresses, in order."""
    ends = Address(family, run.first), Address(family, run.last)
    first, last = (ipaddress.ip_address(str(end)) for end in ends)
    networks = ipaddress.summarize_address_range(first, last)
    return [Cidr(family, int(network.network_address), network.prefixlen) for network in networks]
