"""Availability ranges: the free addresses of a subnet, allocated without locks.

See contracts/neutron-ipam-driver.md#data-model. A worker reads a range and takes an address out of it by a statement
that has an effect only if no other worker has changed the range since; otherwise it reads again. The ranges of a stale
subnet (with new pools, or after a repair) are calculated from its pools and allocations, at the next request for an
address. ::

    pool          |------------------------------------------|
    allocations    ##  #          ###
    ranges        |  ..| |........|   |.....|.......|........|

Invariant: the ranges of a subnet are its pools without its allocations, or the subnet is stale and has no ranges. A
transaction that adds ranges takes a shared lock of the subnet's row, a transaction that changes pools an exclusive
lock. A transaction that only takes from a range needs no lock: the range is gone if the pools have changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gantry import errors
from gantry.address import ranges
from gantry.ipam.sql import records, statements

PARTS = 64
"""How many ranges the free addresses of a subnet are split into, so that workers begin at different positions."""

ATTEMPTS = 64
"""How many times a worker tries to take from a range; each failure means that another worker succeeded."""


class Position(NamedTuple):
    """Where a worker looks for a range: at or after the address ``start``, after ``skip`` other ranges."""

    start: str = ""
    skip: int = 0


LOWEST = Position()


class Range(NamedTuple):
    """A stored availability range."""

    first: str
    last: str

    @property
    def run(self) -> ranges.Range:
        """The numbers of the range."""
        return records.read_range(self.first, self.last)

    def at(self, index: int) -> str:
        """Return the address at ``index``, counted from the first address as 0."""
        first = records.read(self.first)
        return records.digits(ranges.Address(first.family, first.value + index))

    def middle(self) -> str:
        """Return the address in the middle of the range."""
        return self.at(self.run.size // 2)


def bounds(db: statements.Statements, subnet: str) -> Range | None:
    """Return the first and the last address of a subnet's pools; None if it has no pools."""
    first, last = db.first_row("bounds", subnet=subnet) or (None, None)
    return Range(first, last) if first and last else None


def take(db: statements.Statements, subnet: str, free_range: Range, *, address: str) -> bool:
    """Take an address out of a range; return False if another worker has changed the range since it was read.

    The caller has a shared lock of the subnet's row, unless the address is the first of the range.
    """
    value = records.read(address)
    before = ranges.span(free_range.run.first, value.value - 1)
    after = ranges.span(value.value + 1, free_range.run.last)
    if after:
        following = records.digits(ranges.Address(value.family, after.first))
        taken = db.run("shorten", subnet=subnet, first=free_range.first, last=free_range.last, next=following)
    else:
        taken = db.run("use_up", subnet=subnet, first=free_range.first, last=free_range.last)
    if taken and before:
        db.many("add_range", records.rows(subnet, value.family, [before]))
    return bool(taken)


def take_many(db: statements.Statements, subnet: str, count: int, *, position: Position) -> list[str]:
    """Take ``count`` addresses, from the worker's position on, or raise NoRoomError and take none.

    The caller has a shared lock of the subnet's row.
    """
    taken: list[Range] = []
    for _ in range(ATTEMPTS):
        missing = count - _size(taken)
        if missing <= 0:
            break
        candidates = db.all_rows("upcoming", subnet=subnet, start=position.start, skip=position.skip, count=missing)
        if candidates:
            taken += _take_between(db, subnet, _enough(candidates, missing))
        elif position == LOWEST:
            break
        else:
            position = LOWEST
    return _divided(db, subnet, taken, count=count)


def _size(parts: Iterable[Range]) -> int:
    return sum(part.run.size for part in parts)


def _enough(candidates: Sequence[statements.Row], missing: int) -> list[Range]:
    """Return the first ranges that together have ``missing`` addresses, or all."""
    chosen: list[Range] = []
    for first, last in candidates:
        chosen.append(Range(first, last))
        missing -= chosen[-1].run.size
        if missing <= 0:
            break
    return chosen


def _take_between(db: statements.Statements, subnet: str, chosen: list[Range]) -> list[Range]:
    rows = db.all_rows("take_all", subnet=subnet, start=chosen[0].last, end=chosen[-1].last)
    return sorted(Range(first, last) for first, last in rows)


def _divided(db: statements.Statements, subnet: str, parts: list[Range], *, count: int) -> list[str]:
    """Return ``count`` addresses of taken ranges and put the others back, or all if there are too few: NoRoomError."""
    family = records.read(parts[0].first).family if parts else ranges.Family.IPV4
    missing = count if _size(parts) >= count else 0
    taken: list[str] = []
    unused: list[ranges.Range] = []
    for run in (part.run for part in parts):
        used = min(missing, run.size)
        taken += (records.digits(ranges.Address(family, number)) for number in range(run.first, run.first + used))
        missing -= used
        unused += filter(None, [ranges.span(run.first + used, run.last)])
    db.many("add_range", records.rows(subnet, family, unused))
    if len(taken) < count:
        raise errors.NoRoomError(
            f"the pools of subnet {subnet} have {_size(parts)} free addresses, but the request is for {count}",
            hint="add a pool, or release addresses",
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
    """Return the free addresses of a subnet: its pools without its allocations."""
    pools = [records.read_range(first, last) for first, last in db.all_rows("pools", subnet=subnet)]
    taken = [records.read(address) for address, _, _ in db.all_rows("allocations", subnet=subnet)]
    numbers = [address.value for address in taken if address.family is family]
    return ranges.difference(pools, ranges.joined((number, number) for number in numbers))


def _cut(parts: Sequence[ranges.Range]) -> Iterator[ranges.Range]:
    """Yield the same numbers, split into about ``PARTS`` ranges of equal size."""
    size = -(-ranges.size(parts) // PARTS)
    for part in parts:
        for first in range(part.first, part.last + 1, size):
            yield ranges.Range(first, min(first + size - 1, part.last))


def close(db: statements.Statements, subnet: str) -> None:
    """Remove the ranges of a subnet, whose row is locked; wait for workers that are taking from them."""
    db.run("mark_stale", subnet=subnet)
    db.run("remove_ranges", subnet=subnet)
