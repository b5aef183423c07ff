"""Reservations: who holds which number of a space, since when, and when a freed number may be used again.

A number is free, reserved (it has an owner), resting (freed a short while ago) or excluded (kept from automatic
use); an exclusion may lie over a number that is reserved or resting. ::

                 reserve_any, reserve_one                       release
        free --------------------------------> reserved ------------------> resting --> free
                                                                 (at once free if nothing rests)

Who calls it: the IPAM drivers for subnets, and whoever hands out segment ids, minors or ports
(explanation/addresses.md#spaces). Times are seconds, given by the caller. A request is known by its owner and key:
asked twice, it gets the same number.

Invariants: ``space`` has exactly the numbers that are reserved, resting or excluded; ``_covered`` has those that are
excluded and reserved or resting besides; an owner and key hold one number at most; a refused call changes nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from gantry import errors
from gantry.address import holdings, policies, ranges, space


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """Who holds a number: the owner, which of the owner's requests it answered, and when that was."""

    owner: str
    key: str
    time: float


class Rest(msgspec.Struct, frozen=True, gc=False):
    """When a number was freed, and who had it."""

    freed: float
    owner: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One number of several that are reserved in one step: ``number``, or else any (see ``reserve_any``)."""

    owner: str
    key: str = ""
    number: int | None = None
    force: bool = False
    policy: policies.Policy = policies.FIRST
    within: tuple[ranges.Range, ...] = ()


class Reservations:
    """Numbers of ``parts``, each given to one owner at a time.

    ``hold`` is for how many seconds a freed number rests; ``oldest_first`` hands out what was never used before
    what was freed the longest time ago. ``text`` writes a number for messages.
    """

    __slots__ = (
        "_base",
        "_covered",
        "_held",
        "_resting",
        "excluded",
        "hold",
        "oldest_first",
        "parts",
        "space",
        "text",
    )

    def __init__(
        self,
        parts: Iterable[ranges.Range],
        *,
        excluded: Iterable[ranges.Range] = (),
        hold: float = 0.0,
        oldest_first: bool = False,
        text: Callable[[int], str] = str,
    ) -> None:
        self.parts = ranges.union(parts)
        self.excluded = ranges.union(excluded)
        self.hold = hold
        self.oldest_first = oldest_first
        self.text = text
        self._base = self.parts[0].first if self.parts else 0
        self.space = space.Space.of(self.excluded, base=self._base)
        self._held = holdings.Holdings(base=self._base)
        # Ordered by time; an OrderedDict, because a dictionary's front is slow to pop.
        self._resting: OrderedDict[int, Rest] = OrderedDict()
        self._covered: set[int] = set()

    def __len__(self) -> int:
        return len(self._held)

    def owner_of(self, number: int) -> Reservation | None:
        """Return who holds the number, or None."""
        held = self._held.get(number)
        return Reservation(*held) if held else None

    def find(self, owner: str, key: str = "") -> int | None:
        """Return the number that the owner holds under the key, or None."""
        return self._held.find(owner, key)

    def numbers_of(self, owner: str) -> list[int]:
        """Return all numbers of an owner, sorted."""
        return self._held.numbers_of(owner)

    def items(self) -> list[tuple[int, Reservation]]:
        """Return all reservations, sorted by number."""
        return [(number, Reservation(*held)) for number, held in self._held]

    def resting(self) -> list[tuple[int, Rest]]:
        """Return the numbers that rest, in the order of their release."""
        return list(self._resting.items())

    def reserved(self, run: ranges.Range) -> list[int]:
        """Return the reserved numbers of a range, sorted. Cost: what is reserved in the range, not its size."""
        return self._held.within(run)

    def reserve_any(
        self,
        owner: str,
        key: str = "",
        *,
        now: float,
        policy: policies.Policy = policies.FIRST,
        within: Sequence[ranges.Range] = (),
    ) -> int:
        """Reserve a free number of the first range of ``within`` that has one, by default of all parts.

        ``within`` lies inside the parts. Asked again by the same owner and key, it returns the number they
        hold. NoRoomError if nothing is free.
        """
        number = self.find(owner, key)
        if number is not None:
            return number
        if self._resting:
            self._wake(now)
        number = self._place_any(Reservation(owner, key, now), policy, within or self.parts)
        if self._resting:
            self._resting.pop(number, None)
        return number

    def reserve_one(self, number: int, owner: str, key: str = "", *, now: float, force: bool = False) -> None:
        """Reserve this number; done already if owner and key hold it.

        InvalidError outside the parts; NotUniqueError if it is held or excluded, or owner and key hold another one;
        BusyError while it rests from another owner. ``force`` overrules exclusion and rest.
        """
        self._wake(now)
        self._place_one(number, Reservation(owner, key, now), force)
        self._resting.pop(number, None)

    def reserve_many(self, requests: Iterable[Request], *, now: float) -> list[int]:
        """Reserve for all requests, in their order, or for none of them; the errors are those of the single calls."""
        self._wake(now)
        placed: list[int] = []
        numbers: list[int] = []
        try:
            for request in requests:
                before = len(self._held)
                numbers.append(self._place(request, now))
                if len(self._held) > before:
                    placed.append(numbers[-1])
        except errors.GantryError:
            for number in reversed(placed):
                self._drop(number)
                if number not in self._resting:
                    self._free(number)
            raise
        for number in placed:
            self._resting.pop(number, None)
        return numbers

    def release(self, number: int, *, now: float, rest: bool = True) -> Reservation:
        """Free a number and return who held it; NotFoundError if nobody did. With ``rest`` off it is free at once."""
        reservation = self._drop(number)
        if rest and (self.hold or self.oldest_first):
            self._resting[number] = Rest(now, reservation.owner)
        else:
            self._free(number)
        return reservation

    def exclude(self, run: ranges.Range) -> None:
        """Keep a range from automatic use; what is reserved in it stays so. Cost: what is used in it."""
        for part in ranges.difference([run], self.excluded):
            for used in self.space.used_runs(part):
                self._covered.update(range(used.first, used.last + 1))
        self.space.take_range(run)
        self.excluded = ranges.union([*self.excluded, run])

    def include(self, run: ranges.Range) -> None:
        """Take back the exclusion of a range, as far as there is one."""
        kept = ranges.difference(self.excluded, [run])
        for part in ranges.difference(self.excluded, kept):
            self.space.give_range(part)
        for number in [number for number in self._covered if number in run]:
            self._covered.remove(number)
            self.space.take(number)
        self.excluded = kept

    def grow(self, run: ranges.Range) -> None:
        """Add a range to the parts."""
        self.parts = ranges.union([*self.parts, run])

    def shrink(self, run: ranges.Range) -> None:
        """Take a range from the parts; WrongStateError if a number in it is reserved or excluded."""
        reserved = self.reserved(run)
        if reserved:
            first = f"{self.text(reserved[0])} by {self._held.owner_of(reserved[0])}"
            raise errors.WrongStateError(
                f"{self._write(run)} has {len(reserved)} reserved, {first} the first", hint="release them first"
            )
        external = next(filter(run.overlaps, self.excluded), None)
        if external:
            raise errors.WrongStateError(
                f"{self._write(external)} in {self._write(run)} is externally reserved", hint="free it first"
            )
        for number in [number for number in self._resting if number in run]:
            del self._resting[number]
            self._free(number)
        self.parts = ranges.difference(self.parts, [run])

    def split(self, at: int) -> "Reservations":
        """Move everything from the number ``at`` on to new reservations and return them. Cost: what is moved."""
        if at < 1:
            raise errors.InvalidError(f"there is nothing below {self.text(at)} to split off")
        low = ranges.Range(0, at - 1)
        high = ranges.Range(at, max([at, *(part.last for part in self.parts + self.excluded)]))
        upper = Reservations(
            ranges.difference(self.parts, [low]),
            excluded=ranges.difference(self.excluded, [low]),
            hold=self.hold,
            oldest_first=self.oldest_first,
            text=self.text,
        )
        for number in self.reserved(high):
            upper.adopt(number, self._drop(number))
        for number in [number for number in self._resting if number >= at]:
            upper.adopt_rest(number, self._resting.pop(number))
        self._covered = {number for number in self._covered if number < at}
        self.space.give_range(high)
        self.parts = ranges.difference(self.parts, [high])
        self.excluded = ranges.difference(self.excluded, [high])
        return upper

    def merge(self, other: "Reservations") -> None:
        """Take over all of the other reservations, which are not to be used any more. Cost: what the others hold.

        InvalidError if parts overlap, NotUniqueError if an owner holds a number under the same key in both.
        """
        overlap = ranges.first_overlap([*self.parts, *other.parts])
        if overlap:
            raise errors.InvalidError(f"{self._write(overlap[0])} and {self._write(overlap[1])} overlap")
        taken = other.items()
        for number, reservation in taken:
            self._check_key(number, reservation)
        for part in other.excluded:
            self.exclude(part)
        self.parts = ranges.union([*self.parts, *other.parts])
        for number, reservation in taken:
            self.adopt(number, reservation)
        for number, rest in other._resting.items():
            self.adopt_rest(number, rest)
        self._resting = OrderedDict(sorted(self._resting.items(), key=lambda item: item[1].freed))

    def adopt(self, number: int, reservation: Reservation) -> None:
        """Put in a reservation as it stands; the number is not reserved, nor owner and key in use."""
        if not self.space.take(number):
            self._covered.add(number)
        self._held.add(number, reservation.owner, reservation.key, time=reservation.time)

    def adopt_all(
        self, numbers: Sequence[int], owners: Sequence[str], *, keys: Sequence[str], times: Sequence[float]
    ) -> None:
        """Put reservations as they stand, sorted by number, in where there are none; as ``adopt``, but much faster.

        NotUniqueError if an owner has two numbers under one key.
        """
        self._held = holdings.Holdings.of(numbers, owners, keys=keys, times=times, base=self._base)
        if self.excluded:
            self._covered.update(number for number in numbers if not self.space.take(number))
        else:
            self.space.take_all(numbers)

    def adopt_rest(self, number: int, rest: Rest) -> None:
        """Put in a resting number as it stands; it comes after those that were freed before it."""
        if not self.space.take(number):
            self._covered.add(number)
        self._resting[number] = rest

    def _place(self, request: Request, now: float) -> int:
        """Serve a request of many; a resting number that it takes stays listed as resting until all are served."""
        reservation = Reservation(request.owner, request.key, now)
        if request.number is not None:
            self._place_one(request.number, reservation, request.force)
            return request.number
        held = self.find(request.owner, request.key)
        return self._place_any(reservation, request.policy, request.within or self.parts) if held is None else held

    def _place_any(self, reservation: Reservation, policy: policies.Policy, windows: Sequence[ranges.Range]) -> int:
        numbers = self.space
        for window in windows:
            number = policy(numbers, window.first, window.last)
            if number is not None:
                numbers.take(number)
                self._held.add(number, reservation.owner, reservation.key, time=reservation.time)
                return number
        number = self._oldest(reservation.time, windows) if self.oldest_first else None
        if number is None:
            tried = ", ".join(self._write(window) for window in windows) or "an empty space"
            resting = f"; {len(self._resting)} rest after their release" if self._resting else ""
            raise errors.NoRoomError(f"no number is free in {tried}{resting}")
        self._held.add(number, reservation.owner, reservation.key, time=reservation.time)
        return number

    def _place_one(self, number: int, reservation: Reservation, force: bool) -> None:
        held = self._held.get(number)
        if held and held[:2] == (reservation.owner, reservation.key):
            return
        if held:
            raise errors.NotUniqueError(f"{self.text(number)} is reserved by {held[0]}")
        if not ranges.locate(self.parts, number):
            inside = ", ".join(map(self._write, self.parts))
            raise errors.InvalidError(f"{self.text(number)} is outside of {inside}")
        self._check_key(number, reservation)
        rest = self._resting.get(number)
        if rest and not force and rest.owner != reservation.owner and reservation.time < rest.freed + self.hold:
            raise errors.BusyError(
                f"{self.text(number)} was freed by {rest.owner} and rests for {self.hold:g} s",
                hint="try again later, or use force",
            )
        if ranges.locate(self.excluded, number):
            if not force:
                raise errors.NotUniqueError(
                    f"{self.text(number)} is externally reserved", hint="use force to take it nevertheless"
                )
            self._covered.add(number)
        elif not rest:
            self.space.take(number)
        self._held.add(number, reservation.owner, reservation.key, time=reservation.time)

    def _check_key(self, number: int, reservation: Reservation) -> None:
        held = self.find(reservation.owner, reservation.key)
        if held is not None:
            raise errors.NotUniqueError(
                f"{reservation.owner} cannot have {self.text(number)}: it holds {self.text(held)} under the same key"
            )

    def _oldest(self, now: float, windows: Sequence[ranges.Range]) -> int | None:
        """Return what was freed the longest time ago. Cost: the resting numbers before it that lie elsewhere."""
        for number, rest in self._resting.items():
            if rest.freed + self.hold > now:
                return None
            usable = number not in self._held and number not in self._covered
            if usable and any(number in window for window in windows):
                return number
        return None

    def _wake(self, now: float) -> None:
        """Free the numbers whose hold time is over. Cost: each resting number once."""
        if self.oldest_first:
            return
        while self._resting:
            number, rest = next(iter(self._resting.items()))
            if rest.freed + self.hold > now:
                return
            del self._resting[number]
            self._free(number)

    def _free(self, number: int) -> None:
        """Make a number free that is neither reserved nor resting any more."""
        if number in self._covered:
            self._covered.remove(number)
        else:
            self.space.give(number)

    def _drop(self, number: int) -> Reservation:
        held = self._held.pop(number)
        if held is None:
            raise errors.NotFoundError(f"{self.text(number)} is not reserved")
        return Reservation(*held)

    def _write(self, run: ranges.Range) -> str:
        return self.text(run.first) if run.size == 1 else f"{self.text(run.first)}-{self.text(run.last)}"
