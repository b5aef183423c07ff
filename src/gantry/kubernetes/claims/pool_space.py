"""Pool space: the addresses of one pool, which of them are in use, and by which objects.

It is built from a pool's spec; ``cache`` adds each address object, ``allocate`` picks free addresses.

Bounds: a missing ``start`` or ``end`` is the first or last address of the ``subnet``; if the subnet is written with
host bits, the first address follows them. Without a subnet, a range with only a ``start`` is unbounded, one with only
an ``end`` is empty, and the prefix length says in which networks a range lies. No claim gets a gateway, a DNS server,
the first or last address of a subnet, or an excluded address, unless it is pre-allocated. A pre-allocated address may
also lie outside of the ranges, in the subnet of one.

Invariant: ``_spaces`` has exactly the addresses that are excluded, pre-allocated or owned. The cost of an allocation
depends neither on the size nor on the use of a pool: one search per range, and IPv6 is never enumerated.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from gantry import errors
from gantry.address import pools, ranges, space
from gantry.kubernetes.api import ipam, meta

MAX_NETWORKS = 1024
"""A range that spans more networks of its prefix length does not exclude their first and last addresses."""


class Allocation(msgspec.Struct, frozen=True):
    """An address of a pool with its settings; ``prefix`` is 0 if unknown."""

    address: ranges.Address
    prefix: int = 0
    gateway: str = ""
    dns_servers: tuple[str, ...] = ()


class PoolRange(msgspec.Struct, frozen=True):
    """One range of a pool as integers, and its spec; ``cidr`` is its subnet, if any."""

    family: ranges.Family
    bounds: ranges.Range
    spec: ipam.Range
    cidr: ranges.Cidr | None = None


@functools.lru_cache(1 << 15)
def parse(text: str) -> ranges.Address | None:
    """Parse an address in any notation; None if the text is not an address."""
    try:
        return ranges.parse_address(text)
    except errors.InvalidError:
        return None


def parse_range(spec: ipam.Range) -> PoolRange | None:
    """Parse a range; None if it is empty. InvalidError for an invalid bound, or an end before the start."""
    start = ranges.parse_address(spec.start) if spec.start else None
    end = ranges.parse_address(spec.end) if spec.end else None
    parsed_subnet = parse_subnet(spec.subnet)
    families = {bound.family for bound in (start, end, parsed_subnet[0] if parsed_subnet else None) if bound}
    if len(families) > 1:
        raise errors.InvalidError(f"a range mixes address families: {_format_range(spec)}", hint="make it two ranges")
    if start and end and end < start:
        raise errors.InvalidError(f"end IP {end} is before start IP {start}")
    if not (start or parsed_subnet):
        return None
    family = families.pop()
    whole = ranges.Range(0, (1 << family.bits) - 1)
    if parsed_subnet:
        cidr, address = parsed_subnet
        whole = cidr.range
        if not start:
            whole = ranges.Range(min(address.value + (address.value > cidr.first), whole.last), whole.last)
    low = max(whole.first, start.value if start else 0)
    bounds = ranges.span(low, min(whole.last, end.value if end else whole.last))
    return PoolRange(family, bounds, spec, parsed_subnet[0] if parsed_subnet else None) if bounds else None


def parse_subnet(text: str) -> tuple[ranges.Cidr, ranges.Address] | None:
    """Parse a subnet: the network, and the address that it was written with; None if empty, InvalidError."""
    if not text:
        return None
    address, _, length = text.partition("/")
    parsed = ranges.parse_address(address)
    if not (length.isascii() and length.isdecimal() and len(length) <= 3 and int(length) <= parsed.family.bits):
        raise errors.InvalidError(f"'{text}' is not a subnet", hint="write NETWORK/PREFIX, like 10.0.0.0/24")
    host = parsed.family.bits - int(length)
    return ranges.Cidr(parsed.family, parsed.value >> host << host, int(length)), parsed


def _format_range(spec: ipam.Range) -> str:
    return f"{spec.start}-{spec.end} in {spec.subnet}" if spec.subnet else f"{spec.start}-{spec.end}"


class PoolSpace:
    """The addresses of one pool; ``owners`` has the owners of each used address."""

    __slots__ = ("_excluded", "_preallocated", "_ranges", "_spaces", "owners", "parts", "spec")

    def __init__(self, spec: ipam.PoolSpec) -> None:
        """Raise InvalidError if the spec is invalid."""
        self.spec = spec
        self.parts = [part for part in map(parse_range, spec.pools) if part]
        self.owners: dict[ranges.Address, set[meta.Ref]] = {}
        self._preallocated = {
            ranges.parse_address(text): name for name, text in sorted(spec.pre_allocations.items(), reverse=True)
        }
        self._excluded = _by_family(_excluded(spec, self.parts))
        self._ranges = {
            family: ranges.union(part.bounds for part in self.parts if part.family is family)
            for family in ranges.Family
        }
        reserved = _by_family(
            (address.family, ranges.Range(address.value, address.value)) for address in self._preallocated
        )
        self._spaces = {
            family: _space(runs, [*self._excluded[family], *reserved[family]]) for family, runs in self._ranges.items()
        }

    def add_owner(self, address: ranges.Address, owner: meta.Ref) -> None:
        """Add an owner of an address, which may lie outside the ranges."""
        self.owners.setdefault(address, set()).add(owner)
        if self._is_counted(address):
            self._spaces[address.family].allocate(address.value)

    def remove_owner(self, address: ranges.Address, owner: meta.Ref) -> bool:
        """Remove an owner of an address; return whether it has no owner left."""
        owners = self.owners.get(address, set())
        owners.discard(owner)
        if owners:
            return False
        self.owners.pop(address, None)
        if self._is_counted(address) and address not in self._preallocated and not self.is_excluded(address):
            self._spaces[address.family].release(address.value)
        return True

    def _is_counted(self, address: ranges.Address) -> bool:
        return ranges.locate(self._ranges[address.family], address.value) is not None

    def is_excluded(self, address: ranges.Address) -> bool:
        """Return whether the address needs pre-allocation: gateway, DNS server, end of a subnet, excluded."""
        return ranges.locate(self._excluded[address.family], address.value) is not None

    def preallocated_to(self, address: ranges.Address) -> str | None:
        """Return the name of the claim that the address is pre-allocated to, None for none."""
        return self._preallocated.get(address)

    def allocation(self, address: ranges.Address) -> Allocation | None:
        """Return an address with the settings of the first range that contains it; None if no range does."""
        return self._with_settings(address, lambda part: part.bounds)

    def preallocation(self, address: ranges.Address) -> Allocation | None:
        """Return a pre-allocated address with its settings: those of its range, else of the first subnet with it.

        None if no range and no subnet of the pool contains the address (contracts/ippool-claims.md#allocation).
        """
        return self.allocation(address) or self._with_settings(
            address, lambda part: part.cidr.range if part.cidr else None
        )

    def _with_settings(
        self, address: ranges.Address, numbers: Callable[[PoolRange], ranges.Range | None]
    ) -> Allocation | None:
        """Return an address with the settings of the first range whose ``numbers`` contain it, None if none does."""
        runs = ((part, numbers(part)) for part in self.parts if part.family is address.family)
        part = next((part for part, run in runs if run and address.value in run), None)
        if part is None:
            return None
        spec, range_spec = self.spec, part.spec
        return Allocation(
            address,
            range_spec.prefix or spec.prefix or (part.cidr.prefix if part.cidr else 0),
            range_spec.gateway or spec.gateway,
            range_spec.dns_servers or spec.dns_servers,
        )

    def find_free(self, *, below: Callable[[int], int] | None) -> Allocation | None:
        """Return a free address: the first one in the order of ranges, or with ``below`` a random one of all ranges.

        ``below(n)`` returns a random number from 0 to n - 1. None if no address is free.
        """
        for part, run in self._search(below):
            number = self._spaces[part.family].next_free(run.first, run.last)
            if number is not None:
                return self.allocation(ranges.Address(part.family, number))
        return None

    def _search(self, below: Callable[[int], int] | None) -> Iterator[tuple[PoolRange, ranges.Range]]:
        """Yield the ranges to search: in order, or from a random position, wrapping around."""
        if below is None or not self.parts:
            yield from ((part, part.bounds) for part in self.parts)
            return
        offset, index = below(sum(part.bounds.size for part in self.parts)), 0
        while offset >= self.parts[index].bounds.size:
            offset -= self.parts[index].bounds.size
            index += 1
        first = self.parts[index]
        yield first, ranges.Range(first.bounds.first + offset, first.bounds.last)
        yield from ((part, part.bounds) for part in (*self.parts[index + 1 :], *self.parts[: index + 1]))

    @property
    def is_bounded(self) -> bool:
        """Return whether each range has an end, by itself or by its subnet."""
        return all(part.spec.end or part.cidr for part in self.parts)

    @property
    def has_free(self) -> bool:
        """Return whether a claim that asks for no particular address can be served."""
        return self.find_free(below=None) is not None

    def counts(self) -> tuple[int, int, int]:
        """Return the number of allocatable addresses, of used ones and of free ones.

        Pre-allocated addresses that are not in use count neither as used nor as free.
        """
        total = used = free = 0
        for family, runs in self._ranges.items():
            total += ranges.size(ranges.difference(runs, self._excluded[family]))
            free += ranges.size(runs) - sum(self._spaces[family].count(run) for run in runs)
        used = sum(self._is_counted(owner) and not self.is_excluded(owner) for owner in self.owners)
        return total, used, free


def _space(runs: list[ranges.Range], taken: list[ranges.Range]) -> space.Space:
    """Return the space of some ranges, in which the addresses in ``taken`` are used."""
    used = ranges.difference(runs, ranges.difference(runs, taken))
    return space.Space.of(used, base=runs[0].first if runs else 0)


def _excluded(spec: ipam.PoolSpec, parts: Iterable[PoolRange]) -> Iterator[tuple[ranges.Family, ranges.Range]]:
    """Yield the ranges that claims get by pre-allocation only."""
    for text in spec.excluded_addresses:
        yield ranges.parse_range(text)
    gateways = (spec.gateway, *(range_spec.gateway for range_spec in spec.pools))
    servers = (*spec.dns_servers, *(server for range_spec in spec.pools for server in range_spec.dns_servers))
    for text in filter(None, (*gateways, *servers)):
        address = ranges.parse_address(text)
        yield address.family, ranges.Range(address.value, address.value)
    for part in parts:
        prefix = part.spec.prefix or spec.prefix
        for cidr in [part.cidr] if part.cidr else _networks(part, prefix):
            yield from ((part.family, run) for run in pools.never_handed_out(cidr, gateway=None))


def _networks(part: PoolRange, prefix: int) -> Iterator[ranges.Cidr]:
    """Yield the networks of this prefix length that a range without a subnet spans; nothing above ``MAX_NETWORKS``."""
    if not 0 < prefix <= part.family.bits:
        return
    host = part.family.bits - prefix
    first, last = part.bounds.first >> host, part.bounds.last >> host
    if last - first < MAX_NETWORKS:
        yield from (ranges.Cidr(part.family, number << host, prefix) for number in range(first, last + 1))


def _by_family(
    runs: Iterable[tuple[ranges.Family, ranges.Range]],
) -> Mapping[ranges.Family, list[ranges.Range]]:
    pairs = list(runs)
    return {family: ranges.union(run for run_family, run in pairs if run_family is family) for family in ranges.Family}
