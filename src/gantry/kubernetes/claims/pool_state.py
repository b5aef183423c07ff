"""Standing: all that is known of one pool, and where each of its claims stands. Who calls it: ``index``.

A claim stands in ``due`` (to be decided about), in ``waiting`` (for any address), in ``wanting`` (for a certain one),
or in none, when nothing is to be done for it. ``pool`` is None while it has not been seen, ``pool_space`` while its
spec is bad.
"""

from collections import OrderedDict
from collections.abc import Container, Iterator

from gantry.address import ranges
from gantry.kubernetes.api import ipam, meta
from gantry.kubernetes.claims import actions, pool_space, work_order


class Standing:
    """All that is known of one pool."""

    __slots__ = (
        "addresses",
        "blocked",
        "booked",
        "claims",
        "due",
        "pool",
        "prefix",
        "problem",
        "room",
        "waiting",
        "wanted",
        "wanting",
    )

    def __init__(self) -> None:
        self.pool: ipam.IPPool | None = None
        self.room: pool_space.Room | None = None
        self.problem = self.prefix = ""
        self.claims: dict[meta.Ref, actions.Claim] = {}
        self.addresses: dict[meta.Ref, actions.Address] = {}
        self.booked: dict[meta.Ref, ranges.Address] = {}
        self.blocked: dict[meta.Ref, ranges.Address] = {}
        self.due = work_order.Lanes()
        self.waiting: OrderedDict[meta.Ref, None] = OrderedDict()
        self.wanting: dict[ranges.Address, dict[meta.Ref, None]] = {}
        self.wanted: dict[meta.Ref, ranges.Address] = {}

    @property
    def is_empty(self) -> bool:
        """Tell whether there is no such pool, and nothing that names it."""
        named = self.claims or self.addresses or self.booked or self.blocked or any(True for _ in self.due)
        return self.pool is None and not named

    def uses(self) -> Iterator[tuple[ranges.Address, meta.Ref]]:
        """Yield each number that an address object says, or that is booked, with its holder."""
        for ref, seen in self.addresses.items():
            number = pool_space.parse(seen.spec.address)
            if number:
                yield number, ref
        yield from ((number, claim) for claim, number in self.booked.items())

    def wait(self, claim: meta.Ref, address: ranges.Address | None) -> None:
        """Note that a claim waits for a number, or for any."""
        if address is None:
            self.waiting[claim] = None
        else:
            self.wanted[claim] = address
            self.wanting.setdefault(address, {})[claim] = None

    def longest(self, busy: Container[meta.Ref]) -> meta.Ref | None:
        """Return who waits longest for any number, and is not ``busy``, if one is free."""
        if not (self.room and self.waiting and self.room.has_free):
            return None
        return next((one for one in self.waiting if one not in busy), None)

    def wake(self, address: ranges.Address) -> None:
        """Make the claims due that wait for a number."""
        for claim in self.wanting.pop(address, {}):
            del self.wanted[claim]
            self.due.add(claim)

    def forget(self, claim: meta.Ref) -> None:
        """Note that a claim does not wait."""
        self.waiting.pop(claim, None)
        address = self.wanted.pop(claim, None)
        if address is not None:
            self.wanting[address].pop(claim)
            if not self.wanting[address]:
                del self.wanting[address]

    def give(self, address: ranges.Address, holder: meta.Ref) -> bool:
        """Take a holder off a number; tell whether claims may go on for that."""
        if self.room is None or not self.room.give(address, holder):
            return False
        self.wake(address)
        return True


def gist(pool: ipam.IPPool) -> tuple[object, ...]:
    """Return what of a pool concerns its claims."""
    return pool.spec, pool.network, pool.is_deleting, pool.is_paused, pool.metadata.uid


def is_stale(seen: meta.Resource, known: meta.Resource) -> bool:
    """Tell whether a version is known already, or older than what is known, as far as its number tells."""
    new, old = seen.metadata, known.metadata
    numbers = new.resource_version.isdecimal() and old.resource_version.isdecimal()
    return new.uid == old.uid and numbers and int(new.resource_version) <= int(old.resource_version)
