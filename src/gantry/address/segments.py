"""Segmentation ids: what each network type allows, and who may take which id of a place.

A place is the ids of one network type, of VLAN those on one physical network. Its ids are shared out by ranges: a range
belongs to a project, or is shared. Those that administrators make do not overlap; those of the configuration file lie
below them, so that an id belongs to the range made for it, and else to everybody
(contracts/segment-ranges.md#allocation).

Layout: besides the used ids a space for each taker, in which all is marked that the taker may not have: what
is used or held, and what is not its own. So the next free id is one search, however many ranges there are and however
full they are. A change of a range redraws its own numbers, and costs what is used among them.

Who calls it: ``ipam.segments``, which follows the state. Invariant: a number is free in the spaces of those who may
take it and of nobody else.
"""

import bisect
import operator
from collections.abc import Iterator

import msgspec

from gantry import errors
from gantry.address import ranges, space

LIMITS = {
    "vlan": ranges.Range(1, 4094),
    "vxlan": ranges.Range(1, (1 << 24) - 1),
    "gre": ranges.Range(1, (1 << 32) - 1),
    "geneve": ranges.Range(1, (1 << 24) - 1),
}
"""The ids of each network type (contracts/segment-ranges.md#types), in the order in which types are tried."""

SHARED = ""
"""The taker that stands for every project without ranges of its own."""

_FIRST = operator.attrgetter("run.first")


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A range as its place knows it: its numbers, whose they are, whether the configuration file has it, its key."""

    run: ranges.Range
    owner: str = SHARED
    default: bool = False
    key: str = ""


def check_place(network_type: str, physical_network: str) -> None:
    """Refuse a network type that does not exist, a VLAN without its physical network, a tunnel with one."""
    if network_type not in LIMITS:
        raise errors.InvalidError(f"'{network_type}' is no network type", hint=f"there are {', '.join(LIMITS)}")
    if network_type == "vlan" and not physical_network:
        raise errors.InvalidError(
            "a VLAN needs its physical network", hint="name it as segments.ini and the segment ranges do"
        )
    if network_type != "vlan" and physical_network:
        raise errors.InvalidError(
            f"a network of type {network_type} has no physical network", hint="only a VLAN has one; leave it out"
        )


def checked_run(network_type: str, minimum: int, *, maximum: int) -> ranges.Range:
    """Return the ids of a range; InvalidError if it is empty, or has some that the network type does not allow."""
    limit = LIMITS[network_type]
    if minimum > maximum:
        raise errors.InvalidError(f"the minimum {minimum} is above the maximum {maximum}")
    if minimum not in limit or maximum not in limit:
        one = str(minimum) if minimum == maximum else f"{minimum} to {maximum}"
        raise errors.InvalidError(
            f"{network_type} has no id {one}", hint=f"ids of {network_type} are {limit.first} to {limit.last}"
        )
    return ranges.Range(minimum, maximum)


class Place:
    """The ids of one network type, of VLAN on one physical network."""

    def __init__(self, network_type: str) -> None:
        self.used = space.Space()
        self.held: dict[int, int] = {}
        self._limit = LIMITS[network_type]
        self._made: list[Claim] = []
        self._default: list[ranges.Range] = []
        self._default_union: list[ranges.Range] = []
        self._spaces = {SHARED: self._closed()}
        self._configured = self._closed()
        self._counts = {SHARED: 0}

    def _closed(self) -> space.Space:
        return space.Space.of([self._limit])

    def add(self, claim: Claim) -> None:
        """Share out the numbers of a new range; those that are made must not overlap (``overlapping``)."""
        if claim.default:
            self._default.append(claim.run)
            self._default_union = ranges.union(self._default)
        else:
            bisect.insort(self._made, claim, key=_FIRST)
        self._counts[claim.owner] = self._counts.get(claim.owner, 0) + 1
        self._redraw(claim)

    def remove(self, claim: Claim) -> None:
        """Take back what ``add`` shared out."""
        if claim.default:
            self._default.remove(claim.run)
            self._default_union = ranges.union(self._default)
        else:
            del self._made[bisect.bisect_left(self._made, claim.run.first, key=_FIRST)]
        self._counts[claim.owner] -= 1
        self._redraw(claim)
        if claim.owner and not self._counts[claim.owner]:
            del self._counts[claim.owner], self._spaces[claim.owner]

    def has(self, owner: str) -> bool:
        """Tell whether any range is the project's, or shared."""
        return bool(self._counts.get(owner))

    def is_unclaimed(self) -> bool:
        """Tell whether there is no range here at all."""
        return not any(self._counts.values())

    def overlapping(self, run: ranges.Range) -> Iterator[Claim]:
        """Yield the ranges made by administrators that share a number with the run. Cost: a search, and what it has."""
        start = bisect.bisect_right(self._made, run.first, key=_FIRST) - 1
        for index in range(max(start, 0), len(self._made)):
            claim = self._made[index]
            if claim.run.first > run.last:
                return
            if claim.run.overlaps(run):
                yield claim

    def next_free(self, owner: str) -> int | None:
        """Return the lowest id that the project, or ``SHARED``, may take; None if there is none."""
        numbers = self._spaces.get(owner)
        return numbers.next_free(self._limit.first, self._limit.last) if numbers else None

    def next_configured(self) -> int | None:
        """Return the lowest free id of the configuration file's ranges, as if there were no others."""
        return self._configured.next_free(self._limit.first, self._limit.last)

    def take(self, number: int) -> None:
        """Note that a network has the id, whoever's it is."""
        self.used.take(number)
        self._reflect(number)

    def give(self, number: int) -> None:
        """Note that no network has the id any more."""
        self.used.give(number)
        self._reflect(number)

    def hold(self, number: int, job: int) -> None:
        """Keep the id from everybody, for a job that runs."""
        self.held[number] = job
        self._reflect(number)

    def release(self, number: int) -> None:
        """End what ``hold`` began."""
        self.held.pop(number, None)
        self._reflect(number)

    def _reflect(self, number: int) -> None:
        """Mark an id as its state is, in the spaces of those who may take it."""
        taken = number in self.held or self.used.is_used(number)
        for numbers in self._takers(number):
            if taken:
                numbers.take(number)
            else:
                numbers.give(number)

    def _takers(self, number: int) -> Iterator[space.Space]:
        default = ranges.locate(self._default_union, number) is not None
        made = next(self.overlapping(ranges.Range(number, number)), None)
        if made:
            yield self._spaces[made.owner]
        elif default:
            yield self._spaces[SHARED]
        if default:
            yield self._configured

    def _redraw(self, changed: Claim) -> None:
        """Mark anew what the owner of a changed range, and everybody, may take of its numbers."""
        run = changed.run
        for owner in {changed.owner, SHARED}:
            self._spaces.setdefault(owner, self._closed())
            self._draw(self._spaces[owner], run, pieces=self._pieces(owner, run))
        if changed.default:
            self._draw(self._configured, run, pieces=[*_clipped(self._default_union, run)])

    def _pieces(self, owner: str, run: ranges.Range) -> list[ranges.Range]:
        """Return what is an owner's of the numbers of a run."""
        made = [*self.overlapping(run)]
        own = [claim.run for claim in made if claim.owner == owner]
        if owner == SHARED:
            own += ranges.difference(_clipped(self._default_union, run), (claim.run for claim in made))
        return [*_clipped(own, run)]

    def _draw(self, numbers: space.Space, run: ranges.Range, *, pieces: list[ranges.Range]) -> None:
        numbers.take_range(run)
        for piece in pieces:
            numbers.give_range(piece)
            for used in self.used.used_runs(piece):
                numbers.take_range(used)
            for held in filter(piece.__contains__, self.held):
                numbers.take(held)


def _clipped(parts: list[ranges.Range], run: ranges.Range) -> Iterator[ranges.Range]:
    return filter(None, map(run.intersection, parts))
