"""What the driver stores: subnets, allocations, and addresses as text that databases order rightly.

An address is stored in hexadecimal digits, eight for IPv4 and 32 for IPv6: ``0a000005`` is 10.0.0.5. In texts of one
length the order of bytes is that of numbers, so one statement serves both families on both engines.
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
    """A subnet; ``pools`` are what may be handed out: never the gateway nor the ends that no host can have."""

    id: str
    cidr: str
    gateway: str = ""
    pools: tuple[str, ...] = ()


class SubnetRow(NamedTuple):
    """A subnet as it is stored; ``stale`` is empty for no."""

    id: str
    cidr: str
    gateway: str
    stale: str


@dataclass(frozen=True, order=True)
class Allocation:
    """An address of a subnet that is taken; an owner has one for each of its keys."""

    subnet: str
    address: str
    owner: str = ""
    key: str = ""


def digits(address: ranges.Address) -> str:
    """Return how an address is stored."""
    return f"{address.value:0{address.family.bits // 4}x}"


def read(text: str) -> ranges.Address:
    """Return the address that ``digits`` wrote."""
    return ranges.Address(_FAMILY[len(text)], int(text, 16))


def read_range(first: str, last: str) -> ranges.Range:
    """Return the numbers between two stored addresses."""
    return ranges.Range(int(first, 16), int(last, 16))


def rows(subnet: str, family: ranges.Family, runs: Iterable[ranges.Range]) -> Iterator[dict[str, str]]:
    """Yield ranges of a subnet's addresses as the statements take them."""
    for run in runs:
        first, last = (digits(ranges.Address(family, end)) for end in (run.first, run.last))
        yield {"subnet": subnet, "first": first, "last": last}


def described(subnet: str, cidr: str, *, pools: Iterable[str], gateway: str) -> Subnet:
    """Return a subnet as it is to be stored, canonically written.

    InvalidError for a pool outside the subnet, for two that overlap, and for a gateway of another family.
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


def pool_rows(described: Subnet) -> Iterator[dict[str, str]]:
    """Yield the pools of a subnet as the statements take them."""
    for text in described.pools:
        family, run = ranges.parse_range(text)
        yield from rows(described.id, family, [run])


def entry(allocation: Allocation) -> dict[str, str]:
    """Return an allocation as the statements take it."""
    return dataclasses.asdict(allocation) | {"address": digits(ranges.parse_address(allocation.address))}


def subnet_row(db: statements.Statements, statement: str, subnet: str) -> SubnetRow:
    """Return a subnet as a statement reads it; NotFoundError."""
    row = db.one(statement, subnet=subnet)
    if row is None:
        raise not_found(subnet)
    return SubnetRow(*row)


def subnet(db: statements.Statements, subnet: str) -> Subnet:
    """Read a subnet; NotFoundError."""
    row = subnet_row(db, "subnet", subnet)
    family = ranges.parse_cidr(row.cidr).family
    runs = (read_range(first, last) for first, last in db.all("pools", subnet=subnet))
    return Subnet(row.id, row.cidr, row.gateway, tuple(ranges.format_range(family, run) for run in runs))


def allocations(db: statements.Statements, subnet: str) -> list[Allocation]:
    """Read what is allocated in a subnet, by address."""
    rows = db.all("allocations", subnet=subnet)
    return [Allocation(subnet, str(read(address)), owner, key) for address, owner, key in rows]


def not_found(subnet: str) -> errors.NotFoundError:
    """Return the error for a subnet that the database does not have."""
    return errors.NotFoundError(f"the database has no subnet {subnet}")


def by(owner: str) -> str:
    """Return who holds an address, for messages."""
    return f" by {owner}" if owner else ""
