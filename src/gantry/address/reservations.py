"""Reservations: which owner has which number of a space, since when, and when a released number may be reused.

A number is free, reserved (it has an owner), quarantined (released a short time ago) or excluded (not for automatic
use); a reserved or quarantined number can be excluded too. ::

                 reserve_any, reserve_one                       release
        free --------------------------------> reserved ------------------> quarantined --> free
                                                                 (free at once without a quarantine)

It is for callers that allocate addresses, segment ids, minors or ports (explanation/addresses.md#spaces). Times are
seconds, passed by the caller. Owner and key identify a request: if repeated, it gets the same number.

Invariants: ``space`` has exactly the numbers that are reserved, quarantined or excluded; ``_covered`` has those that
are both excluded and reserved or quarantined; an owner has at most one number under a key; a refused call changes
nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from gantry import errors
from gantry.address import holdings, policies, ranges, space


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """The reservation of a number: its owner, the key of the owner's request, and the time of the request."""

    owner: str
    key: str
    time: float


class Quarantine(msgspec.Struct, frozen=True, gc=False):
    """When a number was released, and its previous owner."""

    freed: float
    owner: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request among several that are reserved together: for ``number``, or any if None (see ``reserve_any``)."""

    owner: str
    key: str = ""
    number: int | None = None
    force: bool = False
    policy: policies.Policy = policies.FIRST
    within: tuple[ranges.Range, ...] = ()


class Reservations:
    """Numbers of ``parts``, each reserved for at most one owner at a time.

    A released number is quarantined for ``quarantine_seconds``. With ``oldest_first`` numbers that were never used are
    reserved first, then those released the longest time ago. ``text`` formats a number for messages.
    """

    __slots__ = (
        "_base",
        "_covered",
        "_holdings",
        "_quarantined",
        "excluded",
        "oldest_first",
        "parts",
        "quarantine_seconds",
        "space",
        "text",
    )

    def __init__(
        self,
        parts: Iterable[ranges.Range],
        *,
        excluded: Iterable[ranges.Range] = (),
        quarantine_seconds: float = 0.0,
        oldest_first: bool = False,
        text: Callable[[int], str] = str,
    ) -> None:
        self.parts = ranges.union(parts)
        self.excluded = ranges.union(excluded)
        self.quarantine_seconds = quarantine_seconds
        self.oldest_first = oldest_first
        self.text = text
        self._base = self.parts[0].first if self.parts else 0
        self.space = space.Space.of(self.excluded, base=self._base)
        self._holdings = holdings.Holdings(base=self._base)
        # Ordered by time; an OrderedDict, because a dictionary's front is slow to pop.
        self._quarantined: OrderedDict[int, Quarantine] = OrderedDict()
        self._covered: set[int] = set()

    def __len__(self) -> int:
        return len(self._holdings)

    def owner_of(self, number: int) -> Reservation | None:
        """Return the reservation of the number, or None."""
        entry = self._holdings.get(number)
        return Reservation(*entry) if entry else None

    def find(self, owner: str, key: str = "") -> int | None:
        """Return the number that the owner has under the key, or None."""
        return self._holdings.find(owner, key)

    def numbers_of(self, owner: str) -> list[int]:
        """Return all numbers of an owner, sorted."""
        return self._holdings.numbers_of(owner)

    def items(self) -> list[tuple[int, Reservation]]:
        """Return all reservations, sorted by number."""
        return [(number, Reservation(*entry)) for number, entry in self._holdings]

    def quarantined(self) -> list[tuple[int, Quarantine]]:
        """Return the quarantined numbers, in the order of their release."""
        return list(self._quarantined.items())

    def reserved(self, run: ranges.Range) -> list[int]:
        """Return the reserved numbers of a range, sorted. Cost: their count, not the size of the range."""
        return self._holdings.within(run)

    def reserve_any(
        self,
        owner: str,
        key: str = "",
        *,
        now: float,
        policy: policies.Policy = policies.FIRST,
        within: Sequence[ranges.Range] = (),
    ) -> int:
        """Reserve a free number of the first range in ``within`` that has one; by default of any part.

        ``within`` must be inside the parts. Repeated for the same owner and key, it returns the same number.
        NoRoomError if no number is free.
        """
        number = self.find(owner, key)
        if number is not None:
            return number
        if self._quarantined:
            self._end_quarantines(now)
        number = self._reserve_any(Reservation(owner, key, now), policy, within or self.parts)
        if self._quarantined:
            self._quarantined.pop(number, None)
        return number

    def reserve_one(self, number: int, owner: str, key: str = "", *, now: float, force: bool = False) -> None:
        """Reserve this number; nothing changes if it is reserved for this owner and key.

        InvalidError outside of the parts; NotUniqueError if the number is reserved or excluded, or the owner has
        another number under the key; BusyError while it is quarantined after another owner. ``force`` overrides
        exclusion and quarantine.
        """
        self._end_quarantines(now)
        self._reserve_one(number, Reservation(owner, key, now), force)
        self._quarantined.pop(number, None)

    def reserve_many(self, requests: Iterable[Request], *, now: float) -> list[int]:
        """Reserve numbers for all requests, in their order, or for none; errors as for single calls."""
        self._end_quarantines(now)
        placed: list[int] = []
        numbers: list[int] = []
        try:
            for request in requests:
                before = len(self._holdings)
                numbers.append(self._reserve(request, now))
                if len(self._holdings) > before:
                    placed.append(numbers[-1])
        except errors.GantryError:
            for number in reversed(placed):
                self._remove(number)
                if number not in self._quarantined:
                    self._free(number)
            raise
        for number in placed:
            self._quarantined.pop(number, None)
        return numbers

    def release(self, number: int, *, now: float, quarantine: bool = True) -> Reservation:
        """Release a number and return its reservation; NotFoundError if it has none.

        Without ``quarantine`` the number is free at once.
        """
        reservation = self._remove(number)
        if quarantine and (self.quarantine_seconds or self.oldest_first):
            self._quarantined[number] = Quarantine(now, reservation.owner)
        else:
            self._free(number)
        return reservation

    def exclude(self, run: ranges.Range) -> None:
        """Exclude a range from automatic use; its reservations stay. Cost: its used numbers."""
        for part in ranges.difference([run], self.excluded):
            for used in self.space.used_runs(part):
                self._covered.update(range(used.first, used.last + 1))
        self.space.allocate_range(run)
        self.excluded = ranges.union([*self.excluded, run])

    def include(self, run: ranges.Range) -> None:
        """End the exclusion of all excluded numbers of a range."""
        kept = ranges.difference(self.excluded, [run])
        for part in ranges.difference(self.excluded, kept):
            self.space.release_range(part)
        for number in [number for number in self._covered if number in run]:
            self._covered.remove(number)
            self.space.allocate(number)
        self.excluded = kept

    def grow(self, run: ranges.Range) -> None:
        """Add a range to the parts."""
        self.parts = ranges.union([*self.parts, run])

    def shrink(self, run: ranges.Range) -> None:
        """Remove a range from the parts; WrongStateError if a number in it is reserved or excluded."""
        reserved = self.reserved(run)
        if reserved:
            first = f"{self.text(reserved[0])} by {self._holdings.owner_of(reserved[0])}"
            raise errors.WrongStateError(
                f"{self._text(run)} has {len(reserved)} reserved numbers, the first is {first}",
                hint="release them first",
            )
        external = next(filter(run.overlaps, self.excluded), None)
        if external:
            raise errors.WrongStateError(
                f"{self._text(external)} in {self._text(run)} is externally reserved",
                hint="remove the external reservation first",
            )
        for number in [number for number in self._quarantined if number in run]:
            del self._quarantined[number]
            self._free(number)
        self.parts = ranges.difference(self.parts, [run])

    def split(self, at: int) -> "Reservations":
        """Move everything from the number ``at`` on to new reservations and return them. Cost: the moved numbers."""
        if at < 1:
            raise errors.InvalidError(f"there is nothing below {self.text(at)} to split off")
        low = ranges.Range(0, at - 1)
        high = ranges.Range(at, max([at, *(part.last for part in self.parts + self.excluded)]))
        upper = Reservations(
            ranges.difference(self.parts, [low]),
            excluded=ranges.difference(self.excluded, [low]),
            quarantine_seconds=self.quarantine_seconds,
            oldest_first=self.oldest_first,
            text=self.text,
        )
        for number in self.reserved(high):
            upper.adopt(number, self._remove(number))
        for number in [number for number in self._quarantined if number >= at]:
            upper.adopt_quarantine(number, self._quarantined.pop(number))
        self._covered = {number for number in self._covered if number < at}
        self.space.release_range(high)
        self.parts = ranges.difference(self.parts, [high])
        self.excluded = ranges.difference(self.excluded, [high])
        return upper

    def merge(self, other: "Reservations") -> None:
        """Take over all of the other reservations, which must not be used any more. Cost: their count.

        InvalidError if parts overlap, NotUniqueError if an owner has a number under the same key in both.
        """
        overlap = ranges.first_overlap([*self.parts, *other.parts])
        if overlap:
            raise errors.InvalidError(f"{self._text(overlap[0])} and {self._text(overlap[1])} overlap")
        items = other.items()
        for number, reservation in items:
            self._check_key(number, reservation)
        for part in other.excluded:
            self.exclude(part)
        self.parts = ranges.union([*self.parts, *other.parts])
        for number, reservation in items:
            self.adopt(number, reservation)
        for number, quarantine in other._quarantined.items():
            self.adopt_quarantine(number, quarantine)
        self._quarantined = OrderedDict(sorted(self._quarantined.items(), key=lambda item: item[1].freed))

    def adopt(self, number: int, reservation: Reservation) -> None:
        """Add an existing reservation; the number must not be reserved, nor the owner's key in use."""
        if not self.space.allocate(number):
            self._covered.add(number)
        self._holdings.add(number, reservation.owner, reservation.key, time=reservation.time)

    def adopt_all(
        self, numbers: Sequence[int], owners: Sequence[str], *, keys: Sequence[str], times: Sequence[float]
    ) -> None:
        """Add existing reservations, sorted by number, where there are none yet; much faster than ``adopt`` for each.

        NotUniqueError if an owner has two numbers under one key.
        """
        self._holdings = holdings.Holdings.of(numbers, owners, keys=keys, times=times, base=self._base)
        if self.excluded:
            self._covered.update(number for number in numbers if not self.space.allocate(number))
        else:
            self.space.allocate_all(numbers)

    def adopt_quarantine(self, number: int, quarantine: Quarantine) -> None:
        """Add an existing quarantine; calls must be in the order of release."""
        if not self.space.allocate(number):
            self._covered.add(number)
        self._quarantined[number] = quarantine

    def _reserve(self, request: Request, now: float) -> int:
        """Reserve a number for a request of several; its quarantine stays recorded until all are reserved."""
        reservation = Reservation(request.owner, request.key, now)
        if request.number is not None:
            self._reserve_one(request.number, reservation, request.force)
            return request.number
        number = self.find(request.owner, request.key)
        return (
            self._reserve_any(reservation, request.policy, request.within or self.parts) if number is None else number
        )

    def _reserve_any(self, reservation: Reservation, policy: policies.Policy, windows: Sequence[ranges.Range]) -> int:
        numbers = self.space
        for window in windows:
            number = policy(numbers, window.first, window.last)
            if number is not None:
                numbers.allocate(number)
                self._holdings.add(number, reservation.owner, reservation.key, time=reservation.time)
                return number
        number = self._oldest_released(reservation.time, windows) if self.oldest_first else None
        if number is None:
            searched = ", ".join(self._text(window) for window in windows) or "an empty space"
            suffix = f"; {len(self._quarantined)} are quarantined" if self._quarantined else ""
            raise errors.NoRoomError(f"no number is free in {searched}{suffix}")
        self._holdings.add(number, reservation.owner, reservation.key, time=reservation.time)
        return number

    def _reserve_one(self, number: int, reservation: Reservation, force: bool) -> None:
        entry = self._holdings.get(number)
        if entry and entry[:2] == (reservation.owner, reservation.key):
            return
        if entry:
            raise errors.NotUniqueError(f"{self.text(number)} is reserved by {entry[0]}")
        if not ranges.locate(self.parts, number):
            inside = ", ".join(map(self._text, self.parts))
            raise errors.InvalidError(f"{self.text(number)} is outside of {inside}")
        self._check_key(number, reservation)
        quarantine = self._quarantined.get(number)
        blocks = quarantine and not force and quarantine.owner != reservation.owner
        if quarantine and blocks and reservation.time < quarantine.freed + self.quarantine_seconds:
            raise errors.BusyError(
                f"{self.text(number)} was released by {quarantine.owner} and is quarantined for "
                f"{self.quarantine_seconds:g} s",
                hint="try again later, or use force",
            )
        if ranges.locate(self.excluded, number):
            if not force:
                raise errors.NotUniqueError(
                    f"{self.text(number)} is externally reserved", hint="use force to reserve it nevertheless"
                )
            self._covered.add(number)
        elif not quarantine:
            self.space.allocate(number)
        self._holdings.add(number, reservation.owner, reservation.key, time=reservation.time)

    def _check_key(self, number: int, reservation: Reservation) -> None:
        existing = self.find(reservation.owner, reservation.key)
        if existing is not None:
            raise errors.NotUniqueError(
                f"{reservation.owner} cannot have {self.text(number)}: it has {self.text(existing)} under the same key"
            )

    def _oldest_released(self, now: float, windows: Sequence[ranges.Range]) -> int | None:
        """Return the number in ``windows`` released the longest time ago. Cost: the older ones outside of it."""
        for number, quarantine in self._quarantined.items():
            if quarantine.freed + self.quarantine_seconds > now:
                return None
            usable = number not in self._holdings and number not in self._covered
            if usable and any(number in window for window in windows):
                return number
        return None

    def _end_quarantines(self, now: float) -> None:
        """Free the numbers whose quarantine time is over. Cost: each quarantined number once."""
        if self.oldest_first:
            return
        while self._quarantined:
            number, quarantine = next(iter(self._quarantined.items()))
            if quarantine.freed + self.quarantine_seconds > now:
                return
            del self._quarantined[number]
            self._free(number)

    def _free(self, number: int) -> None:
        """Mark a number as free that is no longer reserved or quarantined, unless it is excluded."""
        if number in self._covered:
            self._covered.remove(number)
        else:
            self.space.release(number)

    def _remove(self, number: int) -> Reservation:
        entry = self._holdings.pop(number)
        if entry is None:
            raise errors.NotFoundError(f"{self.text(number)} is not reserved")
        return Reservation(*entry)

    def _text(self, run: ranges.Range) -> str:
        return self.text(run.first) if run.size == 1 else f"{self.text(run.first)}-{self.text(run.last)}"
