"""Pools: the ranges of a subnet from which addresses are handed out.

What may be handed out is the pool's range without the external reservations, without the numbers of
``never_handed_out`` and without what the space has as used. Who calls it: operations on networks, IPAM drivers and
claims. Source: contracts/networks.md#pools, explanation/addresses.md#spaces.

All functions are pure. ``excluded`` is always sorted and free of overlaps, as ``ranges.union`` returns it. No cost
depends on the size of a range, but that of the map.
"""

import itertools
from collections.abc import Container, Sequence

from gantry import errors
from gantry.address import ranges, space

MAP_LIMIT = 65536
"""The longest map that is drawn, a character per address."""


def never_handed_out(cidr: ranges.Cidr, *, gateway: int | None) -> list[ranges.Range]:
    """Return what no pool hands out: the gateway, and the ends that no host of the subnet can have.

    Those are first and last address of an IPv4 subnet larger than a /31, and the first of an IPv6 subnet larger than
    a /127, which all of its routers answer to (RFC 4291 2.6.1, subnet-router anycast).
    """
    numbers = [] if gateway is None else [gateway]
    if cidr.prefix < cidr.family.bits - 1:
        numbers += [cidr.range.first, *([cidr.range.last] if cidr.family is ranges.Family.IPV4 else [])]
    return ranges.union(ranges.Range(number, number) for number in numbers)


def first_free(
    numbers: space.Space, pool: ranges.Range, *, excluded: Sequence[ranges.Range], taken: Container[int] = ()
) -> int | None:
    """Return the lowest address that can be handed out, None if the pool is full.

    ``taken`` are addresses held for jobs that run. Cost: a search per excluded range and taken address passed.
    """
    number = numbers.next_free(pool.first, pool.last)
    while number is not None:
        hole = ranges.locate(excluded, number)
        if hole is None and number not in taken:
            return number
        number = numbers.next_free(hole.last + 1 if hole else number + 1, pool.last)
    return None


def free_count(numbers: space.Space, pool: ranges.Range, *, excluded: Sequence[ranges.Range]) -> int:
    """Return how many addresses of the pool can be handed out; the others of ``pool.size`` are reserved."""
    parts = ranges.difference([pool], excluded)
    return sum(part.size - numbers.count(part) for part in parts)


def map_text(numbers: space.Space, pool: ranges.Range, *, excluded: Sequence[ranges.Range]) -> str:
    """Return a character per address: ``X`` for a reserved one, external or not, and ``.`` for a free one.

    InvalidError above ``MAP_LIMIT`` addresses.
    """
    if pool.size > MAP_LIMIT:
        raise errors.InvalidError(
            f"a map of {pool.size} addresses is too long, at most {MAP_LIMIT} are drawn",
            hint="ask for the counts of free and reserved addresses, or for the map of a smaller range",
        )
    drawn = bytearray(b"." * pool.size)
    external = filter(None, map(pool.intersection, excluded))
    for run in itertools.chain(numbers.used_runs(pool), external):
        start = run.first - pool.first
        drawn[start : start + run.size] = b"X" * run.size
    return drawn.decode()


def check_usable(cidr: ranges.Cidr, number: int, *, gateway: int | None) -> None:
    """Raise InvalidError if no instance can have the address: outside the subnet, its first or last, or its gateway."""
    address = ranges.format_address(cidr.family, number)
    if number not in cidr.range:
        raise errors.InvalidError(f"{address} is not inside the subnet {cidr}")
    if number == gateway:
        raise errors.InvalidError(f"{address} is the gateway of the subnet {cidr}", hint="use another address")
    if ranges.locate(never_handed_out(cidr, gateway=None), number):
        end = "first" if number == cidr.range.first else "last"
        raise errors.InvalidError(f"{address} is the {end} address of the subnet {cidr}", hint="use one between")
