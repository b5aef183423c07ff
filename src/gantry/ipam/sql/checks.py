"""Compares all allocations with another list, such as the ports of a server, and repairs the differences.

The list and the database are read at different times, so a difference may be an address that is just being allocated or
released. The differences that two checks, with an interval between them, have in ``common`` are real. This module does
not use a clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gantry.address import ranges
from gantry.ipam.sql import availability, records, statements
from gantry.ipam.sql.records import Allocation


@dataclass(frozen=True)
class Difference:
    """Allocations missing in the database, surplus allocations there, and subnets with wrong availability ranges.

    A difference is false if it is empty.
    """

    missing: tuple[Allocation, ...] = ()
    surplus: tuple[Allocation, ...] = ()
    ranges: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus or self.ranges)

    def common(self, other: "Difference") -> "Difference":
        """Return what is in both differences."""
        missing, surplus, subnets = set(other.missing), set(other.surplus), set(other.ranges)
        return Difference(
            tuple(each for each in self.missing if each in missing),
            tuple(each for each in self.surplus if each in surplus),
            tuple(subnet for subnet in self.ranges if subnet in subnets),
        )


def compare(db: statements.Statements, allocations: Iterable[Allocation]) -> Difference:
    """Return how the database differs from a list of allocations; owners and keys are not compared."""
    expected = {(each.subnet, records.digits(ranges.parse_address(each.address))): each for each in allocations}
    stored = {
        (subnet, address): Allocation(subnet, str(records.read(address)), owner, key)
        for subnet, address, owner, key in db.all_rows("everything")
    }
    return Difference(
        missing=tuple(expected[key] for key in sorted(expected.keys() - stored.keys())),
        surplus=tuple(stored[key] for key in sorted(stored.keys() - expected.keys())),
        ranges=tuple(row.id for row in map(_row, db.all_rows("subnets")) if not _fits(db, row)),
    )


def _row(row: statements.Row) -> records.SubnetRow:
    return records.SubnetRow(*row)


def _fits(db: statements.Statements, row: records.SubnetRow) -> bool:
    """Return whether a subnet's ranges are correct: its pools without its allocations, without overlaps."""
    stored = [records.read_range(first, last) for first, last in db.all_rows("ranges", subnet=row.id)]
    if row.stale:
        return not stored
    family = ranges.parse_cidr(row.cidr).family
    return not ranges.first_overlap(stored) and ranges.union(stored) == availability.free(db, row.id, family)


def repair(db: statements.Statements, difference: Difference) -> None:
    """Repair a difference; ranges are recalculated at the next request for an address.

    NotFoundError if an allocation is missing in a subnet that the database does not have. Allocations that others have
    made or released meanwhile are kept.
    """
    touched = {each.subnet for each in (*difference.missing, *difference.surplus)} | set(difference.ranges)
    for subnet in sorted(touched):
        records.subnet_row(db, "lock", subnet)
        availability.close(db, subnet)
    db.many("leave_surplus", map(records.entry, difference.surplus))
    db.many("enter", map(records.entry, difference.missing))
