"""What the driver stores: subnets, allocations, and addresses as text that databases sort by number.

An address is stored in hexadecimal digits, eight for IPv4 and 32 for IPv6: ``0a000005`` is 10.0.0.5. For
texts of equal length, byte order is number order, so one statement serves both families on both engines.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gantry import errors
from gantry.address import pools as pools_of
from gantry.address import ranges
from gantry.ipam.sql import statements

_FAMILY = {family.bits // 4: family for family in ranges.Family}


@dataclass(frozen=True)
class Subnet:
    """A subnet; ``pools`` has the allocatable ranges, without the gateway and the reserved first and last addresses."""

    id: str
    cidr: str
    gateway: str = ""
    pools: tuple[str, ...] = ()


class SubnetRow(NamedTuple):
    """A stored subnet; an empty ``stale`` means no."""

    id: str
    cidr: str
    gateway: str
    stale: str


@dataclass(frozen=True, order=True)
class Allocation:
    """An allocated address of a subnet; an owner has one address for each of its keys."""

    subnet: str
    address: str
    owner: str = ""
    key: str = ""


def digits(address: ranges.Address) -> str:
    """Return the stored text of an address."""
    return f"{address.value:0{address.family.bits // 4}x}"


def read(text: str) -> ranges.Address:
    """Return the address of a stored text (``digits``)."""
    return ranges.Address(_FAMILY[len(text)], int(text, 16))


def read_range(first: str, last: str) -> ranges.Range:
    """Return the range from one stored address to another."""
    return ranges.Range(int(first, 16), int(last, 16))


def rows(subnet: str, family: ranges.Family, runs: Iterable[ranges.Range]) -> Iterator[dict[str, str]]:
    """Yield the statement parameters for ranges of a subnet's addresses."""
    for run in runs:
        first, last = (digits(ranges.Address(family, end)) for end in (run.first, run.last))
        yield {"subnet": subnet, "first": first, "last": last}


def canonical_subnet(subnet: str, cidr: str, *, pools: Iterable[str], gateway: str) -> Subnet:
    """Return a subnet in canonical form for storage.

    InvalidError for a pool outside the subnet, for pools that overlap, and for a gateway of another family.
    """
    whole = ranges.parse_cidr(cidr)
    parts = [_inside(whole, text) for text in pools]
    if pair := ranges.first_overlap(parts):
        first, second = (ranges.format_range(whole.family, run) for run in pair)
        raise errors.InvalidError(f"pools {first} and {second} of the subnet {whole} overlap")
    router = ranges.parse_address(gateway) if gateway else None
    if router and router.family is not whole.family:
        raise errors.InvalidError(f"gateway {gateway} of the subnet {whole} is of another address family")
    never = pools_of.never_handed_out(whole, gateway=router.value if router else None)
    texts = (ranges.format_range(whole.family, run) for run in ranges.difference(parts, never))
    return Subnet(subnet, str(whole), str(router or ""), tuple(texts))


def _inside(cidr: ranges.Cidr, pool: str) -> ranges.Range:
    family, run = ranges.parse_range(pool)
    if family is not cidr.family or not cidr.range.covers(run):
        raise errors.InvalidError(f"pool {pool} is not inside the subnet {cidr}")
    return run


def pool_rows(subnet: Subnet) -> Iterator[dict[str, str]]:
    """Yield the statement parameters for the pools of a subnet."""
    for text in subnet.pools:
        family, run = ranges.parse_range(text)
        yield from rows(subnet.id, family, [run])


def entry(allocation: Allocation) -> dict[str, str]:
    """Return the statement parameters for an allocation."""
    return dataclasses.asdict(allocation) | {"address": digits(ranges.parse_address(allocation.address))}


def subnet_row(db: statements.Statements, statement: str, subnet: str) -> SubnetRow:
    """Return the row of a subnet that a statement reads; NotFoundError."""
    row = db.first_row(statement, subnet=subnet)
    if row is None:
        raise not_found(subnet)
    return SubnetRow(*row)


def subnet(db: statements.Statements, subnet: str) -> Subnet:
    """Read a subnet; NotFoundError."""
    row = subnet_row(db, "subnet", subnet)
    family = ranges.parse_cidr(row.cidr).family
    runs = (read_range(first, last) for first, last in db.all_rows("pools", subnet=subnet))
    return Subnet(row.id, row.cidr, row.gateway, tuple(ranges.format_range(family, run) for run in runs))


def allocations(db: statements.Statements, subnet: str) -> list[Allocation]:
    """Read the allocations of a subnet, by address."""
    rows = db.all_rows("allocations", subnet=subnet)
    return [Allocation(subnet, str(read(address)), owner, key) for address, owner, key in rows]


def not_found(subnet: str) -> errors.NotFoundError:
    """Return the error for a subnet that does not exist in the database."""
    return errors.NotFoundError(f"subnet {subnet} does not exist in the database")


def to_owner(owner: str) -> str:
    """Return the text for an owner in messages, empty without an owner."""
    return f" to {owner}" if owner else ""
