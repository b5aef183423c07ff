"""Pools: the ranges of a subnet from which addresses are allocated.

A pool's allocatable addresses are its range without the external reservations, the numbers of ``never_handed_out`` and
the used numbers of the space. Operations on networks, IPAM drivers and claims call it. Source:
contracts/networks.md#pools, explanation/addresses.md#spaces.

All functions are pure. ``excluded`` is always sorted and without overlaps, as ``ranges.union`` returns it. Only the
cost of the map depends on the size of a range.
"""

import itertools
from collections.abc import Container, Iterable, Sequence

from gantry import errors
from gantry.address import ranges, space

MAP_LIMIT = 65536
"""The maximum length of a map, which has a character per address."""


def never_handed_out(cidr: ranges.Cidr, *, gateway: int | None) -> list[ranges.Range]:
    """Return the addresses that no pool allocates: the gateway, and the ends that no host of the subnet can have.

    The ends are the first and last address of an IPv4 subnet larger than a /31, and the first address of an IPv6 subnet
    larger than a /127, to which all of its routers answer (RFC 4291 2.6.1, subnet-router anycast).
    """
    numbers = [] if gateway is None else [gateway]
    if cidr.prefix < cidr.family.bits - 1:
        numbers += [cidr.range.first, *([cidr.range.last] if cidr.family is ranges.Family.IPV4 else [])]
    return ranges.union(ranges.Range(number, number) for number in numbers)


def first_free(
    numbers: space.Space,
    parts: Iterable[ranges.Range],
    *,
    taken: Container[int] = (),
    picked: Container[int] = (),
    start: int = 0,
) -> int | None:
    """Return the lowest number from ``start`` in the parts that can be allocated, None if there is none.

    ``parts`` are sorted: the range of a pool without what is excluded. ``taken`` are numbers held for running jobs,
    ``picked`` those of the same plan. Cost: a search for each part, taken and picked number from ``start`` to the free
    number.
    """
    for part in parts:
        number = numbers.next_free(max(part.first, start), part.last)
        while number is not None:
            if number not in taken and number not in picked:
                return number
            number = numbers.next_free(number + 1, part.last)
    return None


def free_count(numbers: space.Space, pool: ranges.Range, *, excluded: Sequence[ranges.Range]) -> int:
    """Return how many addresses of the pool can be allocated; all others of ``pool.size`` are reserved."""
    parts = ranges.difference([pool], excluded)
    return sum(part.size - numbers.count(part) for part in parts)


def map_text(numbers: space.Space, pool: ranges.Range, *, excluded: Sequence[ranges.Range]) -> str:
    """Return a character per address: ``X`` if it is reserved, externally or not, and ``.`` if it is free.

    InvalidError above ``MAP_LIMIT`` addresses.
    """
    if pool.size > MAP_LIMIT:
        raise errors.InvalidError(
            f"a map of {pool.size} addresses is too long, the maximum is {MAP_LIMIT}",
            hint="request the counts of free and reserved addresses, or the map of a smaller range",
        )
    characters = bytearray(b"." * pool.size)
    external = filter(None, map(pool.intersection, excluded))
    for run in itertools.chain(numbers.used_runs(pool), external):
        start = run.first - pool.first
        characters[start : start + run.size] = b"X" * run.size
    return characters.decode()


def check_usable(cidr: ranges.Cidr, number: int, *, gateway: int | None) -> None:
    """Raise InvalidError if no instance can have the address: outside of the subnet, one of its ends, its gateway."""
    address = ranges.format_address(cidr.family, number)
    if number not in cidr.range:
        raise errors.InvalidError(f"{address} is not inside the subnet {cidr}")
    if number == gateway:
        raise errors.InvalidError(f"{address} is the gateway of the subnet {cidr}", hint="use another address")
    if ranges.locate(never_handed_out(cidr, gateway=None), number):
        end = "first" if number == cidr.range.first else "last"
        raise errors.InvalidError(
            f"{address} is the {end} address of the subnet {cidr}", hint="use an address between its ends"
        )
