"""Availability ranges: what is free in a subnet, taken without locks (contracts/neutron-ipam-driver.md#data-model).

A worker reads one range, takes an address out of it by a statement that works only if nobody has touched the range
since, and reads anew if somebody has. Ranges are calculated from pools and allocations when the subnet is stale (its
pools are new, or it was repaired), and then only when an address is asked for. ::

    pool          |------------------------------------------|
    allocations    ##  #          ###
    ranges        |  ..| |........|   |.....|.......|........|

Invariant: the ranges of a subnet are its pools without its allocations; or it is stale, and has none. Whoever makes
ranges shares the subnet's row, whoever changes pools locks it. Whoever takes from a range without making another needs
neither: the range is gone if the pools have changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gantry import errors
from gantry.address import ranges
from gantry.ipam.sql import records, statements

PARTS = 64
"""How many ranges the free addresses of a subnet are cut into, so that workers begin apart."""

ATTEMPTS = 64
"""How often a worker looks for a range that others do not take before its eyes; each time one of them succeeded."""


class Place(NamedTuple):
    """Where a worker looks for a range: at or behind an address, past so many others."""

    start: str = ""
    skip: int = 0


LOWEST = Place()


class Range(NamedTuple):
    """A range as it was read."""

    first: str
    last: str

    @property
    def run(self) -> ranges.Range:
        """Its numbers."""
        return records.read_range(self.first, self.last)

    def has(self, address: str) -> bool:
        """Tell whether the address is in it."""
        return self.first <= address <= self.last

    def at(self, index: int) -> str:
        """Return the address so many places behind the first."""
        first = records.read(self.first)
        return records.digits(ranges.Address(first.family, first.value + index))

    def middle(self) -> str:
        """Return the address that leaves equally many on both sides."""
        return self.at(self.run.size // 2)


def bounds(db: statements.Statements, subnet: str) -> Range | None:
    """Return the first and the last address of a subnet's pools; None if it has none."""
    first, last = db.one("bounds", subnet=subnet) or (None, None)
    return Range(first, last) if first and last else None


def take(db: statements.Statements, subnet: str, found: Range, *, address: str) -> bool:
    """Take an address out of a range; False if somebody has touched the range since it was read.

    The subnet's row is shared, unless the address is the first of the range.
    """
    value = records.read(address)
    before = ranges.span(found.run.first, value.value - 1)
    after = ranges.span(value.value + 1, found.run.last)
    if after:
        following = records.digits(ranges.Address(value.family, after.first))
        taken = db.run("shorten", subnet=subnet, first=found.first, last=found.last, next=following)
    else:
        taken = db.run("use_up", subnet=subnet, first=found.first, last=found.last)
    if taken and before:
        db.many("add_range", records.rows(subnet, value.family, [before]))
    return bool(taken)


def take_many(db: statements.Statements, subnet: str, count: int, *, place: Place) -> list[str]:
    """Take so many addresses, from the worker's place on, or none of them: NoRoomError.

    The subnet's row is shared.
    """
    found: list[Range] = []
    for _ in range(ATTEMPTS):
        missing = count - _size(found)
        if missing <= 0:
            break
        coming = db.all("upcoming", subnet=subnet, start=place.start, skip=place.skip, count=missing)
        if coming:
            found += _take_between(db, subnet, _enough(coming, missing))
        elif place == LOWEST:
            break
        else:
            place = LOWEST
    return _divided(db, subnet, found, count=count)


def _size(found: Iterable[Range]) -> int:
    return sum(part.run.size for part in found)


def _enough(coming: Sequence[statements.Row], missing: int) -> list[Range]:
    """Return the first ranges that together have what is missing, or all."""
    chosen: list[Range] = []
    for first, last in coming:
        chosen.append(Range(first, last))
        missing -= chosen[-1].run.size
        if missing <= 0:
            break
    return chosen


def _take_between(db: statements.Statements, subnet: str, chosen: list[Range]) -> list[Range]:
    rows = db.all("take_all", subnet=subnet, start=chosen[0].last, end=chosen[-1].last)
    return sorted(Range(first, last) for first, last in rows)


def _divided(db: statements.Statements, subnet: str, found: list[Range], *, count: int) -> list[str]:
    """Return ``count`` addresses of what was found, and give back the others: all of them if they are too few."""
    family = records.read(found[0].first).family if found else ranges.Family.IPV4
    missing = count if _size(found) >= count else 0
    taken: list[str] = []
    rest: list[ranges.Range] = []
    for run in (part.run for part in found):
        used = min(missing, run.size)
        taken += (records.digits(ranges.Address(family, number)) for number in range(run.first, run.first + used))
        missing -= used
        rest += filter(None, [ranges.span(run.first + used, run.last)])
    db.many("add_range", records.rows(subnet, family, rest))
    if len(taken) < count:
        raise errors.NoRoomError(
            f"the pools of subnet {subnet} have {_size(found)} free addresses, not {count}", hint="add a pool"
        )
    return taken


def refresh(db: statements.Statements, subnet: str) -> None:
    """Calculate the ranges of a subnet if it is stale; NotFoundError. Cost: its allocations."""
    if not records.subnet_row(db, "subnet", subnet).stale:
        return
    row = records.subnet_row(db, "lock", subnet)
    if row.stale:
        family = ranges.parse_cidr(row.cidr).family
        db.many("add_range", records.rows(subnet, family, _cut(free(db, subnet, family))))
        db.run("mark_fresh", subnet=subnet)


def free(db: statements.Statements, subnet: str, family: ranges.Family) -> list[ranges.Range]:
    """Return what the ranges of a subnet have to be: its pools without its allocations."""
    pools = [records.read_range(first, last) for first, last in db.all("pools", subnet=subnet)]
    taken = [records.read(address) for address, _, _ in db.all("allocations", subnet=subnet)]
    numbers = [address.value for address in taken if address.family is family]
    return ranges.difference(pools, ranges.joined((number, number) for number in numbers))


def _cut(parts: Sequence[ranges.Range]) -> Iterator[ranges.Range]:
    """Yield the same numbers in pieces of the size that makes ``PARTS`` of them."""
    size = -(-ranges.size(parts) // PARTS)
    for part in parts:
        for first in range(part.first, part.last + 1, size):
            yield ranges.Range(first, min(first + size - 1, part.last))


def close(db: statements.Statements, subnet: str) -> None:
    """Leave a subnet without ranges, whose row is locked; waits for those who are taking from them."""
    db.run("mark_stale", subnet=subnet)
    db.run("remove_ranges", subnet=subnet)
