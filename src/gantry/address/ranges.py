"""Inclusive ranges of integers, addresses and CIDRs, and their text forms.

All code that handles addresses uses it. Spaces and pools compute on integers; only the text forms depend on the
address family. IPv4 and IPv6 share all code. Source: contracts/networks.md#terms, contracts/networks.md#pools.

Invariant: a ``Range`` is never empty (``first <= last``), and formatted text is canonical: dotted quads, and RFC 5952
for IPv6.
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
        """The length of an address in bits."""
        return 32 if self is Family.IPV4 else 128


class Range(msgspec.Struct, frozen=True, order=True, gc=False):
    """The integers from ``first`` to ``last``, both included; ordered by ``first``."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise errors.InternalError(f"a range from {self.first} to {self.last} is empty")

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    @property
    def size(self) -> int:
        """The count of its integers."""
        return self.last - self.first + 1

    def covers(self, other: "Range") -> bool:
        """Return whether the whole other range is inside this range."""
        return self.first <= other.first and other.last <= self.last

    def overlaps(self, other: "Range") -> bool:
        """Return whether the ranges have a common number."""
        return self.first <= other.last and other.first <= self.last

    def intersection(self, other: "Range") -> "Range | None":
        """Return the common numbers of both ranges; None if there are none."""
        return span(max(self.first, other.first), min(self.last, other.last))

    def minus(self, other: "Range") -> list["Range"]:
        """Return this range without the other: none, one or two ranges."""
        parts = (
            span(self.first, min(self.last, other.first - 1)),
            span(max(self.first, other.last + 1), self.last),
        )
        return [part for part in parts if part]


class Address(msgspec.Struct, frozen=True, order=True, gc=False):
    """An address; its text is ``str(address)``."""

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

    def __contains__(self, address: Address) -> bool:
        host_bits = self.family.bits - self.prefix
        return address.family is self.family and address.value >> host_bits == self.first >> host_bits

    @property
    def range(self) -> Range:
        """All of its addresses, including the first and the last."""
        return sized(self.first, 1 << self.family.bits - self.prefix)


def span(first: int, last: int) -> Range | None:
    """Return the range, or None if it would be empty."""
    return Range(first, last) if first <= last else None


def sized(first: int, size: int) -> Range:
    """Return the range that begins at ``first`` and has ``size`` integers; InvalidError if it would be empty."""
    if size < 1:
        raise errors.InvalidError(f"a range of {size} addresses is empty", hint="the minimum size is 1")
    return Range(first, first + size - 1)


def joined(ends: Iterable[tuple[int, int]]) -> Iterator[Range]:
    """Yield the fewest ranges with the numbers between the ends, which must be sorted and 0 or greater."""
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
    """Return the same numbers in the fewest ranges, sorted; adjacent ranges are joined. Cost: a sort."""
    return list(joined((part.first, part.last) for part in sorted(parts)))


def difference(parts: Iterable[Range], removed: Iterable[Range]) -> list[Range]:
    """Return the numbers of ``parts`` that are not in ``removed``, in the fewest ranges, sorted. Cost: two sorts."""
    remaining: list[Range] = []
    holes = union(removed)
    hole = 0
    for part in union(parts):
        start = part.first
        while hole < len(holes) and holes[hole].last < start:
            hole += 1
        for removed_range in itertools.islice(holes, hole, None):
            if removed_range.first > part.last:
                break
            if start < removed_range.first:
                remaining.append(Range(start, removed_range.first - 1))
            start = removed_range.last + 1
        if start <= part.last:
            remaining.append(Range(start, part.last))
    return remaining


def locate(parts: Sequence[Range], number: int) -> Range | None:
    """Return the range with the number, from sorted ranges that do not overlap; or None. Cost: a binary search."""
    index = bisect.bisect_right(parts, number, key=_FIRST)
    return parts[index - 1] if index and number in parts[index - 1] else None


def first_overlap(parts: Sequence[Range]) -> tuple[Range, Range] | None:
    """Return two ranges of the sequence with a common number, or None. Cost: a sort."""
    return next((pair for pair in itertools.pairwise(sorted(parts)) if pair[0].overlaps(pair[1])), None)


def common_text(cidr: Cidr) -> str:
    """Return a text with which all addresses of a network begin; it may be empty.

    It is what the texts of the first and the last address have in common, but ends where both shorten zeros: an address
    between them may shorten others.

    >>> common_text(parse_cidr("10.1.4.0/22")), common_text(parse_cidr("2001:db8::/96"))
    ('10.1.', '2001:db8:')
    """
    first, last = (format_address(cidr.family, number) for number in (cidr.range.first, cidr.range.last))
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    before, shortened, _ = "".join(character for character, _ in pairs).partition("::")
    return f"{before}:" if before and shortened else before


def size(parts: Iterable[Range]) -> int:
    """Return the count of numbers in the ranges, which must not overlap."""
    return sum(part.size for part in parts)


def parse_address(text: str) -> Address:
    """Parse an address; InvalidError for any other text, IPv4-mapped IPv6 and scope ids."""
    return _parse_end(text, mapped=False)


def _parse_end(text: str, *, mapped: bool) -> Address:
    address = text.strip()
    if "%" in address:
        raise errors.InvalidError(
            f"'{address}' has a scope id",
            hint=f"write '{address.partition('%')[0]}': a network's addresses are not bound to an interface",
        )
    try:
        parsed = ipaddress.IPv6Address(address) if ":" in address else ipaddress.IPv4Address(address)
    except ValueError:
        raise errors.InvalidError(f"'{address}' is not an IP address", hint=ADDRESS_FORM) from None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped and not mapped:
        raise errors.InvalidError(
            f"'{address}' is an IPv4 address in IPv6 spelling", hint=f"write '{parsed.ipv4_mapped}'"
        )
    return Address(Family(parsed.version), int(parsed))


def format_address(family: Family, value: int) -> str:
    """Return the canonical text of an address: a dotted quad, or IPv6 according to RFC 5952."""
    if family is Family.IPV4:
        return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"
    return _ipv6_text(value)


# An address that is released is often the next that is allocated; shortening its zeros costs more than the choice.
@functools.lru_cache(maxsize=4096)
def _ipv6_text(value: int) -> str:
    return str(ipaddress.IPv6Address(value))


def parse_cidr(text: str) -> Cidr:
    """Parse a network; InvalidError if it is not a network, or if host bits are set (the hint names the network)."""
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
    cidr = Cidr(family, value >> host_bits << host_bits, prefix)
    if cidr.first != value:
        raise errors.InvalidError(f"'{written}' is an address inside a network", hint=f"its network is '{cidr}'")
    return cidr


def parse_range(text: str) -> tuple[Family, Range]:
    """Parse ``FIRST-LAST``, a CIDR or an address; InvalidError for any other text and for a reversed range.

    A range may end, but not begin, among the IPv4-mapped addresses, as ::/80 does.
    """
    if "/" in text:
        cidr = parse_cidr(text)
        return cidr.family, cidr.range
    try:
        ends = [_parse_end(end, mapped=index > 0) for index, end in enumerate(text.split("-"))]
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


@functools.lru_cache(maxsize=4096)
def known_cidr(text: str) -> Cidr:
    """Parse a network as ``parse_cidr`` does, and cache the result, for texts that are parsed repeatedly."""
    return parse_cidr(text)


# As many as a /16 has: each address of the state is parsed when it is checked, allocated and released.
@functools.lru_cache(maxsize=65536)
def canonical_address(text: str) -> Address:
    """Parse the text of an address in the state, and cache the result; InternalError if it is not canonical."""
    address = parse_address(text)
    if str(address) != text:
        raise errors.InternalError(f"address {text} is not stored in its canonical spelling {address}")
    return address


@functools.lru_cache(maxsize=4096)
def known_range(text: str) -> tuple[Family, Range]:
    """Parse a range as ``parse_range`` does, and cache the result, for texts that are parsed repeatedly."""
    return parse_range(text)


def overlapping(texts: Sequence[str], run: Range) -> Iterator[Range]:
    """Yield the ranges of texts that share a number with a range, from sorted texts of one family that do not overlap.

    Cost: a binary search and a step for each range that is yielded, whatever the number of texts.

    >>> list(overlapping(("10.0.0.1-10.0.0.4", "10.0.0.6", "10.0.0.9"), parse_range("10.0.0.4-10.0.0.6")[1]))
    [Range(first=167772161, last=167772164), Range(first=167772166, last=167772166)]
    """
    begin = bisect.bisect_left(texts, run.first, key=lambda text: known_range(text)[1].last)
    for index in range(begin, len(texts)):
        known = known_range(texts[index])[1]
        if known.first > run.last:
            return
        yield known


def format_range(family: Family, run: Range) -> str:
    """Return the canonical text of a range: ``FIRST-LAST``, or only the address if there is a single one."""
    first = format_address(family, run.first)
    return first if run.size == 1 else f"{first}-{format_address(family, run.last)}"


def cidrs(family: Family, run: Range) -> list[Cidr]:
    """Return the fewest networks with exactly the range's addresses, in order."""
    ends = Address(family, run.first), Address(family, run.last)
    first, last = (ipaddress.ip_address(str(end)) for end in ends)
    networks = ipaddress.summarize_address_range(first, last)
    return [Cidr(family, int(network.network_address), network.prefixlen) for network in networks]
