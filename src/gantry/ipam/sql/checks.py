"""Checks: all allocations against another list, such as the ports of a server, and repair of what differs.

The list is read at another moment than the database, so a difference may be an address on its way: two checks with a
pause between them have in ``common`` what is really wrong. No clock is asked.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gantry.address import ranges
from gantry.ipam.sql import availability, records, statements
from gantry.ipam.sql.records import Allocation


@dataclass(frozen=True)
class Difference:
    """What the other list has more, what the database has more, and subnets whose ranges are not what they should be.

    A difference is true if there is any.
    """

    missing: tuple[Allocation, ...] = ()
    surplus: tuple[Allocation, ...] = ()
    ranges: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus or self.ranges)

    def common(self, other: "Difference") -> "Difference":
        """Return what both differences have."""
        missing, surplus, subnets = set(other.missing), set(other.surplus), set(other.ranges)
        return Difference(
            tuple(one for one in self.missing if one in missing),
            tuple(one for one in self.surplus if one in surplus),
            tuple(one for one in self.ranges if one in subnets),
        )


def compare(db: statements.Statements, truth: Iterable[Allocation]) -> Difference:
    """Return how the database differs from a list of allocations; owners and keys are not compared."""
    wanted = {(one.subnet, records.digits(ranges.parse_address(one.address))): one for one in truth}
    stored = {
        (subnet, address): Allocation(subnet, str(records.read(address)), owner, key)
        for subnet, address, owner, key in db.all("everything")
    }
    return Difference(
        missing=tuple(wanted[place] for place in sorted(wanted.keys() - stored.keys())),
        surplus=tuple(stored[place] for place in sorted(stored.keys() - wanted.keys())),
        ranges=tuple(row.id for row in map(_row, db.all("subnets")) if not _fits(db, row)),
    )


def _row(row: statements.Row) -> records.SubnetRow:
    return records.SubnetRow(*row)


def _fits(db: statements.Statements, row: records.SubnetRow) -> bool:
    """Tell whether a subnet's ranges are what they have to be: none that overlap, pools without allocations."""
    found = [records.read_range(first, last) for first, last in db.all("ranges", subnet=row.id)]
    if row.stale:
        return not found
    family = ranges.parse_cidr(row.cidr).family
    return not ranges.first_overlap(found) and ranges.union(found) == availability.free(db, row.id, family)


def repair(db: statements.Statements, difference: Difference) -> None:
    """Make the difference good; ranges are calculated anew when the next address is asked for.

    NotFoundError if an allocation is missing in a subnet that the database does not have. What somebody else has taken
    or left meanwhile stays theirs.
    """
    touched = {one.subnet for one in (*difference.missing, *difference.surplus)} | set(difference.ranges)
    for subnet in sorted(touched):
        records.subnet_row(db, "lock", subnet)
        availability.close(db, subnet)
    db.many("leave_surplus", map(records.entry, difference.surplus))
    db.many("enter", map(records.entry, difference.missing))
