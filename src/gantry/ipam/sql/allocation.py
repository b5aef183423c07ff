"""Allocates one address: any or the lowest of the pools, or a specific address.

See contracts/neutron-ipam-driver.md#routines. A request for any address takes three statements, however full the subnet
is: pick a range, compare and set the range, enter the allocation. A worker that loses a range to another worker
continues elsewhere with the address in the middle of a range. That splits the range, so that the two workers do not
conflict again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from gantry import errors
from gantry.address import automatic, ranges
from gantry.ipam.sql import availability, records, requests, statements

MAX_POSITIONS = 4096
"""In how many subnets a worker remembers its position."""

_OWNED = "0"
"""The value of ``turn`` that the statement ``pick`` returns for an address that the owner already has."""


@dataclass
class Worker:
    """The positions of one worker; ``below(n)`` returns a random number from 0 to n - 1, for its start."""

    below: Callable[[int], int]
    positions: dict[str, str] = field(default_factory=dict)
    lost: int = 0

    def position(self, subnet: str) -> availability.Position:
        """Return where to look for a range: after the last address, or at a random position."""
        start = self.positions.get(subnet)
        return availability.Position(start) if start else availability.Position(skip=self.below(availability.PARTS))

    def continue_from(self, subnet: str, address: str) -> None:
        """Continue from this address with the next request."""
        if len(self.positions) >= MAX_POSITIONS:
            self.positions.clear()
        self.positions[subnet] = address

    def jump(self, subnet: str, bounds: availability.Range | None) -> None:
        """Continue at a random address between the bounds, because another worker took the range."""
        self.lost += 1
        if bounds is None:
            self.positions.pop(subnet, None)
        else:
            self.continue_from(subnet, bounds.at(self.below(bounds.run.size)))


@dataclass(frozen=True)
class Target:
    """The subnet, owner and key of a new allocation."""

    subnet: str
    owner: str
    key: str

    def enter(self, db: statements.Statements, address: str) -> bool:
        """Allocate an address; return False if it is in use, or the owner has another address under the key."""
        return bool(db.run("enter", subnet=self.subnet, address=address, owner=self.owner, key=self.key))

    def release(self, db: statements.Statements, address: str) -> None:
        """Return an address, taken from a range, to the ranges, unless it is allocated."""
        db.first_row("share", subnet=self.subnet)
        db.run("give", subnet=self.subnet, address=address)


def from_pools(db: statements.Statements, target: Target, worker: Worker, *, lowest: bool) -> str:
    """Return an address of the pools; NotFoundError, NoRoomError, BusyError."""
    subnet, refreshed = target.subnet, False
    for attempt in range(availability.ATTEMPTS):
        position = availability.LOWEST if lowest else worker.position(subnet)
        picked = db.first_row(
            "pick", subnet=subnet, owner=target.owner, key=target.key, start=position.start, skip=position.skip
        )
        if picked is None:
            if refreshed:
                raise errors.NoRoomError(
                    f"the pools of subnet {subnet} have no free address", hint="add a pool, or release addresses"
                )
            availability.refresh(db, subnet)
            refreshed = True
            continue
        turn, first, last = picked
        if turn == _OWNED:
            return str(records.read(first))
        address = _take(db, subnet, availability.Range(first, last), cut=attempt > 0 and not lowest)
        if not address:
            worker.jump(subnet, availability.bounds(db, subnet))
        elif target.enter(db, address):
            if not lowest:
                worker.continue_from(subnet, address)
            return str(records.read(address))
        else:
            target.release(db, address)
    raise _too_busy(subnet)


def _take(db: statements.Statements, subnet: str, free_range: availability.Range, *, cut: bool) -> str:
    """Take the first address of a range, the middle one with ``cut``; empty if another worker changed the range."""
    address = free_range.first
    if cut and free_range.run.size > 2:
        address = free_range.middle()
        db.first_row("share", subnet=subnet)
    return address if availability.take(db, subnet, free_range, address=address) else ""


def specific(
    db: statements.Statements, target: Target, request: requests.SpecificAddress | requests.AutomaticAddress
) -> str:
    """Allocate and return the requested address; NotFoundError, InvalidError, NotUniqueError, BusyError."""
    row = db.first_row("share", subnet=target.subnet)
    if row is None:
        raise records.not_found(target.subnet)
    address = _address(ranges.parse_cidr(row[0]), request)
    text = records.digits(address)
    if isinstance(request, requests.SpecificAddress) and request.pools_only:
        _check_pools(db, target.subnet, address)
    withdrawn = _withdraw(db, target.subnet, text)
    if target.enter(db, text):
        if not withdrawn:
            # A concurrent release may have added a range with this address.
            _withdraw(db, target.subnet, text)
        return str(address)
    target.release(db, text)
    existing = db.first_row("holder", subnet=target.subnet, address=text)
    if existing is None:
        raise errors.NotUniqueError(
            f"owner {target.owner} already has another address of subnet {target.subnet} under key '{target.key}'"
        )
    if target.owner and tuple(existing) == (target.owner, target.key):
        return str(address)
    raise errors.NotUniqueError(
        f"address {address} of subnet {target.subnet} is already allocated{records.to_owner(existing[0])}"
    )


def _address(cidr: ranges.Cidr, request: requests.SpecificAddress | requests.AutomaticAddress) -> ranges.Address:
    if isinstance(request, requests.AutomaticAddress):
        return automatic.address(cidr, request.mac)
    address = ranges.parse_address(request.address)
    if address.family is not cidr.family or address.value not in cidr.range:
        raise errors.InvalidError(f"address {address} is outside the subnet {cidr}")
    return address


def _check_pools(db: statements.Statements, subnet: str, address: ranges.Address) -> None:
    if not db.first_row("pool_of", subnet=subnet, address=records.digits(address)):
        raise errors.InvalidError(f"no pool of subnet {subnet} contains {address}", hint="choose an address of a pool")


def _withdraw(db: statements.Statements, subnet: str, address: str) -> bool:
    """Take an address out of the range that contains it; return False if no range does."""
    for _ in range(availability.ATTEMPTS):
        row = db.first_row("range_of", subnet=subnet, address=address)
        if row is None:
            return False
        if availability.take(db, subnet, availability.Range(*row), address=address):
            return True
    raise _too_busy(subnet)


def _too_busy(subnet: str) -> errors.GantryError:
    return errors.BusyError(
        f"other requests took the addresses of subnet {subnet} first, {availability.ATTEMPTS} times", hint="try again"
    )
