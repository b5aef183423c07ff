"""A master's part in a database that others use too: secure what its plans take, give back, compare with its state.

``ipam.shared`` calls it in threads. Each function is work for one transaction of an engine. The owner of an allocation
of a cluster begins with that cluster's ``mark``; an address that somebody else holds is never touched.

Invariant: a master that secures an address holds it in its ledger, so an allocation with the master's own mark that it
meets there is one that was left behind, and is taken over.
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
"""What the marks of all clusters begin with."""

ATTEMPTS = 3
"""How often an address is asked for that was free again when its holder was looked for."""


class HeldError(Exception):
    """Others hold addresses that were to be secured, so nothing was; ``near`` are these, and some behind them."""

    def __init__(self, near: Sequence[records.Allocation]) -> None:
        self.near = near
        super().__init__(f"{len(near)} addresses are held by others")


@dataclass(frozen=True)
class _Within:
    """An engine inside of a transaction that runs: what a driver does on it is a part of that."""

    db: statements.Statements

    def change(self, work: engines.Work[T]) -> T:
        return work(self.db)

    def read(self, work: engines.Work[T]) -> T:
        return work(self.db)


def _inside(db: statements.Statements) -> driver.Driver:
    return driver.Driver(_Within(db), below=lambda _: 0)


def secure(db: statements.Statements, wanted: Iterable[records.Allocation], *, mark: str, ahead: int) -> None:
    """Allocate addresses, all of them; HeldError tells who holds one, and ``ahead`` allocations from there on."""
    taken = [held for one in sorted(wanted) if (held := _held(db, one, mark))]
    if taken:
        near = dict.fromkeys(one for held in taken for one in (held, *_others_from(db, held, mark, ahead=ahead)))
        raise HeldError([*near])


def _held(db: statements.Statements, one: records.Allocation, mark: str) -> records.Allocation | None:
    """Allocate an address, or return who else holds it."""
    inside = _inside(db)
    for _ in range(ATTEMPTS):
        try:
            inside.allocate(one.subnet, requests.SpecificAddress(one.address), owner=one.owner, key=one.key)
        except errors.NotUniqueError:
            held = inside.allocation(one.subnet, one.address)
            if held and not held.owner.startswith(mark):
                return held
            if held:
                inside.deallocate(one.subnet, one.address, owner=held.owner)
        else:
            return None
    raise errors.BusyError(f"address {one.address} came and went while it was asked for", hint="try again")


def _others_from(
    db: statements.Statements, held: records.Allocation, mark: str, *, ahead: int
) -> Iterator[records.Allocation]:
    start = records.digits(ranges.parse_address(held.address))
    for address, owner, key in db.all("allocations_from", subnet=held.subnet, start=start, count=ahead):
        if not owner.startswith(mark):
            yield records.Allocation(held.subnet, str(records.read(address)), owner, key)


def release(db: statements.Statements, places: Iterable[tuple[str, str]], *, mark: str) -> None:
    """Give addresses back, by subnet and text, where the cluster has them."""
    inside = _inside(db)
    for subnet, address in sorted(places):
        held = inside.allocation(subnet, address)
        if held and held.owner.startswith(mark):
            inside.deallocate(subnet, address, owner=held.owner)


def describe(db: statements.Statements, wanted: records.Subnet, *, mark: str, join: bool = False) -> None:
    """Make a subnet known as it is wanted; to ``join`` one that has its CIDR already, leave its pools as they are.

    WrongStateError if somebody else holds an address that the subnet would not have.
    """
    inside = _inside(db)
    row = db.one("lock", subnet=wanted.id)
    if row is None:
        inside.add_subnet(wanted.id, cidr=wanted.cidr, pools=wanted.pools, gateway=wanted.gateway)
        return
    known = records.SubnetRow(*row)
    if known.cidr == wanted.cidr and join:
        return
    whole = ranges.parse_cidr(wanted.cidr)
    for one in inside.allocations(wanted.id) if known.cidr != wanted.cidr else ():
        address = ranges.parse_address(one.address)
        if not one.owner.startswith(mark) and (address.family is not whole.family or address.value not in whole.range):
            raise errors.WrongStateError(
                f"subnet {wanted.id} cannot be {whole} in the database, where it is {known.cidr}: {one.address} is held"
                f"{records.by(one.owner)}",
                hint="give that address back first, or use another database",
            )
    inside.update_subnet(wanted.id, cidr=wanted.cidr, pools=wanted.pools, gateway=wanted.gateway)


def drop(db: statements.Statements, subnet: str) -> None:
    """Remove a subnet, unless others hold addresses of it, or it is gone."""
    with contextlib.suppress(errors.NotFoundError, errors.WrongStateError):
        _inside(db).remove_subnet(subnet)


@dataclass(frozen=True)
class Truth:
    """What the state of a cluster says: its subnets by id, and its allocations by subnet and stored address."""

    mark: str
    subnets: Mapping[str, records.Subnet]
    allocations: Mapping[tuple[str, str], records.Allocation]


@dataclass
class Part:
    """What differs in one subnet; ``unknown`` if it is not there, or with another CIDR."""

    missing: list[records.Allocation] = field(default_factory=list)
    surplus: list[records.Allocation] = field(default_factory=list)
    unknown: records.Subnet | None = None


@dataclass(frozen=True)
class Survey:
    """How a database differs from the truth: by subnet; ``others`` hold addresses of our subnets, ``doubles`` ours."""

    parts: dict[str, Part]
    others: list[records.Allocation]
    doubles: list[records.Allocation]


def survey(db: statements.Statements, truth: Truth) -> Survey:
    """Compare a database with the truth. Cost: all that both hold."""
    found = Survey({}, [], [])
    known = {row.id: row.cidr for row in (records.SubnetRow(*row) for row in db.all("subnets"))}
    for subnet in truth.subnets.values():
        if known.get(subnet.id) != subnet.cidr:
            found.parts.setdefault(subnet.id, Part()).unknown = subnet
    missing = dict(truth.allocations)
    for subnet_id, address, owner, key in db.all("everything"):
        one = records.Allocation(subnet_id, str(records.read(address)), owner, key)
        wanted = missing.pop((subnet_id, address), None)
        if not owner.startswith(truth.mark):
            if wanted:
                found.doubles.append(one)
            elif subnet_id in truth.subnets:
                found.others.append(one)
        elif wanted is None:
            found.parts.setdefault(subnet_id, Part()).surplus.append(one)
    for wanted in missing.values():
        found.parts.setdefault(wanted.subnet, Part()).missing.append(wanted)
    return found


def settle(db: statements.Statements, subnet: str, part: Part, *, mark: str) -> list[records.Allocation]:
    """Make one subnet what the truth says; return what others have taken of it since the survey."""
    if part.unknown:
        describe(db, part.unknown, mark=mark, join=True)
    if not (part.missing or part.surplus):
        return []
    checks.repair(db, checks.Difference(missing=tuple(part.missing), surplus=tuple(part.surplus)))
    ours = {one.address for one in part.missing}
    found = _inside(db).allocations(subnet) if ours else []
    return [one for one in found if one.address in ours and not one.owner.startswith(mark)]


def clear(db: statements.Statements, *, subnets: Iterable[str], mark: str) -> None:
    """Take all of the cluster's allocations out of subnets, and those subnets of which nobody else has any address."""
    for subnet in subnets:
        if db.one("lock", subnet=subnet) is None:
            continue
        gone = [one for one in _inside(db).allocations(subnet) if one.owner.startswith(mark)]
        availability.close(db, subnet)
        db.many("leave_surplus", map(records.entry, gone))
        drop(db, subnet)
