"""One address: any of the pools, the lowest of them, or a specific one (contracts/neutron-ipam-driver.md#routines).

Any address takes three statements at every fill: pick a range, compare and set it, enter the allocation. Who loses a
range to another worker looks elsewhere, and takes the address in the middle of what it finds there: that cuts the
range in two, so that workers that have met once do not meet again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from gantry import errors
from gantry.address import automatic, ranges
from gantry.ipam.sql import availability, records, requests, statements

PLACES = 4096
"""How many subnets a worker remembers its place in."""

_HELD = "0"
"""What the statement ``pick`` calls an address that the owner has already."""


@dataclass
class Worker:
    """Where one worker takes addresses; ``below`` draws a number from 0 up to a limit, for where it begins."""

    below: Callable[[int], int]
    places: dict[str, str] = field(default_factory=dict)
    lost: int = 0

    def place(self, subnet: str) -> availability.Place:
        """Return where to look for a range: behind the last address, or else anywhere."""
        start = self.places.get(subnet)
        return availability.Place(start) if start else availability.Place(skip=self.below(availability.PARTS))

    def stay(self, subnet: str, address: str) -> None:
        """Go on from this address the next time."""
        if len(self.places) >= PLACES:
            self.places.clear()
        self.places[subnet] = address

    def move(self, subnet: str, bounds: availability.Range | None) -> None:
        """Look anywhere between the bounds the next time: another worker was quicker."""
        self.lost += 1
        if bounds is None:
            self.places.pop(subnet, None)
        else:
            self.stay(subnet, bounds.at(self.below(bounds.run.size)))


@dataclass(frozen=True)
class Wish:
    """For whom an address of a subnet is wanted."""

    subnet: str
    owner: str
    key: str

    def enter(self, db: statements.Statements, address: str) -> bool:
        """Allocate an address; False if somebody has it, or the owner has another one under the key."""
        return bool(db.run("enter", subnet=self.subnet, address=address, owner=self.owner, key=self.key))

    def give_back(self, db: statements.Statements, address: str) -> None:
        """Let an address be free again that was taken from a range and could not be entered, unless it is not."""
        db.one("share", subnet=self.subnet)
        db.run("give", subnet=self.subnet, address=address)


def from_pools(db: statements.Statements, wish: Wish, worker: Worker, *, lowest: bool) -> str:
    """Return an address of the pools; NotFoundError, NoRoomError, BusyError."""
    subnet, fresh = wish.subnet, False
    for attempt in range(availability.ATTEMPTS):
        place = availability.LOWEST if lowest else worker.place(subnet)
        picked = db.one("pick", subnet=subnet, owner=wish.owner, key=wish.key, start=place.start, skip=place.skip)
        if picked is None:
            if fresh:
                raise errors.NoRoomError(f"the pools of subnet {subnet} are used up", hint="add a pool")
            availability.refresh(db, subnet)
            fresh = True
            continue
        turn, first, last = picked
        if turn == _HELD:
            return str(records.read(first))
        address = _take(db, subnet, availability.Range(first, last), cut=attempt > 0 and not lowest)
        if not address:
            worker.move(subnet, availability.bounds(db, subnet))
        elif wish.enter(db, address):
            if not lowest:
                worker.stay(subnet, address)
            return str(records.read(address))
        else:
            wish.give_back(db, address)
    raise _too_busy(subnet)


def _take(db: statements.Statements, subnet: str, found: availability.Range, *, cut: bool) -> str:
    """Take the first address of a range, or that in the middle; empty if somebody was quicker."""
    address = found.first
    if cut and found.run.size > 2:
        address = found.middle()
        db.one("share", subnet=subnet)
    return address if availability.take(db, subnet, found, address=address) else ""


def specific(
    db: statements.Statements, wish: Wish, request: requests.SpecificAddress | requests.AutomaticAddress
) -> str:
    """Return the address that was asked for; NotFoundError, InvalidError, NotUniqueError, BusyError."""
    row = db.one("share", subnet=wish.subnet)
    if row is None:
        raise records.not_found(wish.subnet)
    address = _asked(ranges.parse_cidr(row[0]), request)
    text = records.digits(address)
    if isinstance(request, requests.SpecificAddress) and request.pools_only:
        _check_pools(db, wish.subnet, address)
    found = _withdraw(db, wish.subnet, text)
    if wish.enter(db, text):
        if not found:
            # Whoever has just freed it may have made a range of it.
            _withdraw(db, wish.subnet, text)
        return str(address)
    wish.give_back(db, text)
    holder = db.one("holder", subnet=wish.subnet, address=text)
    if holder is None:
        raise errors.NotUniqueError(f"{wish.owner} has another address of subnet {wish.subnet} under key '{wish.key}'")
    if wish.owner and tuple(holder) == (wish.owner, wish.key):
        return str(address)
    raise errors.NotUniqueError(f"address {address} of subnet {wish.subnet} is held{records.by(holder[0])}")


def _asked(cidr: ranges.Cidr, request: requests.SpecificAddress | requests.AutomaticAddress) -> ranges.Address:
    if isinstance(request, requests.AutomaticAddress):
        return automatic.address(cidr, request.mac)
    address = ranges.parse_address(request.address)
    if address.family is not cidr.family or address.value not in cidr.range:
        raise errors.InvalidError(f"{address} is not inside the subnet {cidr}")
    return address


def _check_pools(db: statements.Statements, subnet: str, address: ranges.Address) -> None:
    if not db.one("pool_of", subnet=subnet, address=records.digits(address)):
        raise errors.InvalidError(f"no pool of subnet {subnet} has {address}", hint="allow addresses outside the pools")


def _withdraw(db: statements.Statements, subnet: str, address: str) -> bool:
    """Take an address out of the range that has it; False if none has."""
    for _ in range(availability.ATTEMPTS):
        row = db.one("range_of", subnet=subnet, address=address)
        if row is None:
            return False
        if availability.take(db, subnet, availability.Range(*row), address=address):
            return True
    raise _too_busy(subnet)


def _too_busy(subnet: str) -> errors.GantryError:
    return errors.BusyError(
        f"others were quicker {availability.ATTEMPTS} times at the addresses of subnet {subnet}", hint="try again"
    )
