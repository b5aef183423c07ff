"""A master's functions on a database that others use too: secure addresses, release them, compare with the state.

``ipam.shared`` calls this module in threads. Each function is work for one transaction of an engine. The owner of a
cluster's allocation begins with that cluster's ``mark``; an allocation of another owner is never touched.

Invariant: a master that secures an address holds it in its ledger. So an allocation of that address with the master's
own mark is a leftover, and the master takes it over.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gantry import errors
from gantry.address import ranges
from gantry.ipam.sql import availability, checks, driver, engines, records, requests, statements

T = TypeVar("T")

CLUSTERS = "gantry/"
"""The beginning of the marks of all clusters."""

ATTEMPTS = 3
"""How many times to request an address that was in use, but had no owner when that was read."""


class HeldError(Exception):
    """Other owners have addresses to be secured, so none was; ``near`` has these allocations and some after them."""

    def __init__(self, near: Sequence[records.Allocation]) -> None:
        self.near = near
        super().__init__(f"{len(near)} addresses are allocated to other owners")


@dataclass(frozen=True)
class _Within:
    """An engine inside of a running transaction: a driver's work on it is a part of that transaction."""

    db: statements.Statements

    def change(self, work: engines.Work[T]) -> T:
        return work(self.db)

    def read(self, work: engines.Work[T]) -> T:
        return work(self.db)


def _inside(db: statements.Statements) -> driver.Driver:
    return driver.Driver(_Within(db), below=lambda _: 0)


def secure(db: statements.Statements, allocations: Iterable[records.Allocation], *, mark: str, ahead: int) -> None:
    """Allocate all addresses; HeldError has the conflicting allocations, and ``ahead`` allocations after each."""
    conflicts = [conflict for each in sorted(allocations) if (conflict := _conflict(db, each, mark))]
    if conflicts:
        near = dict.fromkeys(
            each for conflict in conflicts for each in (conflict, *_foreign_from(db, conflict, mark, ahead=ahead))
        )
        raise HeldError([*near])


def _conflict(db: statements.Statements, allocation: records.Allocation, mark: str) -> records.Allocation | None:
    """Allocate an address, or return the allocation of another owner that prevents it."""
    inside = _inside(db)
    for _ in range(ATTEMPTS):
        try:
            inside.allocate(
                allocation.subnet,
                requests.SpecificAddress(allocation.address),
                owner=allocation.owner,
                key=allocation.key,
            )
        except errors.NotUniqueError:
            existing = inside.allocation(allocation.subnet, allocation.address)
            if existing and not existing.owner.startswith(mark):
                return existing
            if existing:
                inside.deallocate(allocation.subnet, allocation.address, owner=existing.owner)
        else:
            return None
    raise errors.BusyError(
        f"address {allocation.address} of subnet {allocation.subnet} was allocated and released repeatedly "
        "during the request",
        hint="try again",
    )


def _foreign_from(
    db: statements.Statements, conflict: records.Allocation, mark: str, *, ahead: int
) -> Iterator[records.Allocation]:
    start = records.digits(ranges.parse_address(conflict.address))
    for address, owner, key in db.all_rows("allocations_from", subnet=conflict.subnet, start=start, count=ahead):
        if not owner.startswith(mark):
            yield records.Allocation(conflict.subnet, str(records.read(address)), owner, key)


def release(db: statements.Statements, addresses: Iterable[tuple[str, str]], *, mark: str) -> None:
    """Release the addresses, by subnet and text, that belong to the cluster."""
    inside = _inside(db)
    for subnet, address in sorted(addresses):
        allocation = inside.allocation(subnet, address)
        if allocation and allocation.owner.startswith(mark):
            inside.deallocate(subnet, address, owner=allocation.owner)


def describe(db: statements.Statements, subnet: records.Subnet, *, mark: str, join: bool = False) -> None:
    """Add or update a subnet; with ``join``, keep the pools of a stored subnet that has the same CIDR.

    WrongStateError if another owner has an address that the new CIDR does not contain.
    """
    inside = _inside(db)
    row = db.first_row("lock", subnet=subnet.id)
    if row is None:
        inside.add_subnet(subnet.id, cidr=subnet.cidr, pools=subnet.pools, gateway=subnet.gateway)
        return
    stored = records.SubnetRow(*row)
    if stored.cidr == subnet.cidr and join:
        return
    whole = ranges.parse_cidr(subnet.cidr)
    for allocation in inside.allocations(subnet.id) if stored.cidr != subnet.cidr else ():
        address = ranges.parse_address(allocation.address)
        if not allocation.owner.startswith(mark) and (
            address.family is not whole.family or address.value not in whole.range
        ):
            raise errors.WrongStateError(
                f"subnet {subnet.id} cannot change from {stored.cidr} to {whole} in the database: "
                f"{allocation.address} is allocated{records.to_owner(allocation.owner)}",
                hint="release that address first, or use another database",
            )
    inside.update_subnet(subnet.id, cidr=subnet.cidr, pools=subnet.pools, gateway=subnet.gateway)


def drop(db: statements.Statements, subnet: str) -> None:
    """Remove a subnet, unless it has allocated addresses, or does not exist."""
    with contextlib.suppress(errors.NotFoundError, errors.WrongStateError):
        _inside(db).remove_subnet(subnet)


@dataclass(frozen=True)
class Expected:
    """The expected content: a cluster's subnets by id, and its allocations by subnet and stored address."""

    mark: str
    subnets: Mapping[str, records.Subnet]
    allocations: Mapping[tuple[str, str], records.Allocation]


@dataclass
class Part:
    """The differences of a subnet; ``unknown`` if it is not in the database, or has another CIDR there."""

    missing: list[records.Allocation] = field(default_factory=list)
    surplus: list[records.Allocation] = field(default_factory=list)
    unknown: records.Subnet | None = None


@dataclass(frozen=True)
class Survey:
    """How a database differs from the expected content: ``parts`` by subnet id.

    ``foreign`` has other owners' allocations in the cluster's subnets, ``conflicts`` those of the cluster's addresses.
    """

    parts: dict[str, Part]
    foreign: list[records.Allocation]
    conflicts: list[records.Allocation]


def survey(db: statements.Statements, expected: Expected) -> Survey:
    """Compare a database with the expected content. Cost: all allocations of both."""
    result = Survey({}, [], [])
    stored_cidrs = {row.id: row.cidr for row in (records.SubnetRow(*row) for row in db.all_rows("subnets"))}
    for subnet in expected.subnets.values():
        if stored_cidrs.get(subnet.id) != subnet.cidr:
            result.parts.setdefault(subnet.id, Part()).unknown = subnet
    missing = dict(expected.allocations)
    for subnet_id, address, owner, key in db.all_rows("everything"):
        stored = records.Allocation(subnet_id, str(records.read(address)), owner, key)
        allocation = missing.pop((subnet_id, address), None)
        if not owner.startswith(expected.mark):
            if allocation:
                result.conflicts.append(stored)
            elif subnet_id in expected.subnets:
                result.foreign.append(stored)
        elif allocation is None:
            result.parts.setdefault(subnet_id, Part()).surplus.append(stored)
    for allocation in missing.values():
        result.parts.setdefault(allocation.subnet, Part()).missing.append(allocation)
    return result


def settle(db: statements.Statements, subnet: str, part: Part, *, mark: str) -> list[records.Allocation]:
    """Correct a subnet; return the missing allocations that other owners have got since the survey."""
    if part.unknown:
        describe(db, part.unknown, mark=mark, join=True)
    if not (part.missing or part.surplus):
        return []
    checks.repair(db, checks.Difference(missing=tuple(part.missing), surplus=tuple(part.surplus)))
    missing = {each.address for each in part.missing}
    stored = _inside(db).allocations(subnet) if missing else []
    return [each for each in stored if each.address in missing and not each.owner.startswith(mark)]


def clear(db: statements.Statements, *, subnets: Iterable[str], mark: str) -> None:
    """Remove the cluster's allocations from subnets, and those subnets that then have no allocation."""
    for subnet in subnets:
        if db.first_row("lock", subnet=subnet) is None:
            continue
        allocations = [each for each in _inside(db).allocations(subnet) if each.owner.startswith(mark)]
        availability.close(db, subnet)
        db.many("leave_surplus", map(records.entry, allocations))
        drop(db, subnet)
