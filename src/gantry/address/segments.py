"""Segmentation ids: the limits of each network type, and which project may allocate which id of a scope.

A scope is a network type, and for VLAN also a physical network. Segment ranges assign the ids of a scope to projects; a
range belongs to a project, or is shared. Ranges from administrators do not overlap and take precedence over the default
ranges of the configuration file: an id belongs to an administrator's range if there is one, and is shared otherwise
(contracts/segment-ranges.md#allocation).

Layout: besides the used ids, a space for each project, which marks as used all ids that the project may not allocate:
those that are used or held, and those outside of its ranges. So finding the next free id is a single search, whatever
the count and fill of the ranges. A change of a range updates the marks of its own numbers; the cost is the used numbers
among them.

``ipam.segments``, which follows the state, calls it. Invariant: a number is free in exactly the spaces of the projects
that may allocate it.
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
"""The owner of shared ranges, for every project without ranges of its own."""

_FIRST = operator.attrgetter("run.first")


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A segment range: its numbers, its owner, whether it is from the configuration file, its key."""

    run: ranges.Range
    owner: str = SHARED
    default: bool = False
    key: str = ""


def check_scope(network_type: str, physical_network: str) -> None:
    """Raise InvalidError for an unknown type, a VLAN without a physical network, or a tunnel with one."""
    if network_type not in LIMITS:
        raise errors.InvalidError(f"'{network_type}' is not a network type", hint=f"use one of {', '.join(LIMITS)}")
    if network_type == "vlan" and not physical_network:
        raise errors.InvalidError(
            "a VLAN needs a physical network", hint="gantry segment show lists the known physical networks"
        )
    if network_type != "vlan" and physical_network:
        raise errors.InvalidError(
            f"a network of type {network_type} has no physical network",
            hint="omit the physical network, only a VLAN has one",
        )


def checked_run(network_type: str, minimum: int, *, maximum: int) -> ranges.Range:
    """Return the ids of a range; InvalidError if it is empty or outside of the network type's limits."""
    limit = LIMITS[network_type]
    if minimum > maximum:
        raise errors.InvalidError(f"the minimum {minimum} is above the maximum {maximum}")
    if minimum not in limit or maximum not in limit:
        ids = str(minimum) if minimum == maximum else f"{minimum} to {maximum}"
        raise errors.InvalidError(
            f"{network_type} has no id {ids}", hint=f"ids of {network_type} are {limit.first} to {limit.last}"
        )
    return ranges.Range(minimum, maximum)


class ScopeIds:
    """The ids of a network type, for VLAN on a physical network."""

    def __init__(self, network_type: str) -> None:
        self.used = space.Space()
        self.held: dict[int, int] = {}
        self._limit = LIMITS[network_type]
        self._claims: list[Claim] = []
        self._default: list[ranges.Range] = []
        self._default_union: list[ranges.Range] = []
        self._spaces = {SHARED: self._full_space()}
        self._configured = self._full_space()
        self._counts = {SHARED: 0}

    def _full_space(self) -> space.Space:
        return space.Space.of([self._limit])

    def add(self, claim: Claim) -> None:
        """Add a range; ranges from administrators must not overlap (see ``overlapping``)."""
        if claim.default:
            self._default.append(claim.run)
            self._default_union = ranges.union(self._default)
        else:
            bisect.insort(self._claims, claim, key=_FIRST)
        self._counts[claim.owner] = self._counts.get(claim.owner, 0) + 1
        self._mark_range(claim)

    def remove(self, claim: Claim) -> None:
        """Remove a range."""
        if claim.default:
            self._default.remove(claim.run)
            self._default_union = ranges.union(self._default)
        else:
            del self._claims[bisect.bisect_left(self._claims, claim.run.first, key=_FIRST)]
        self._counts[claim.owner] -= 1
        self._mark_range(claim)
        if claim.owner and not self._counts[claim.owner]:
            del self._counts[claim.owner], self._spaces[claim.owner]

    def has(self, owner: str) -> bool:
        """Return whether the project, or ``SHARED``, has any range."""
        return bool(self._counts.get(owner))

    def is_unclaimed(self) -> bool:
        """Return whether the scope has no ranges."""
        return not any(self._counts.values())

    def overlapping(self, run: ranges.Range) -> Iterator[Claim]:
        """Yield the ranges from administrators that overlap the run. Cost: a search, and the count of these ranges."""
        start = bisect.bisect_right(self._claims, run.first, key=_FIRST) - 1
        for index in range(max(start, 0), len(self._claims)):
            claim = self._claims[index]
            if claim.run.first > run.last:
                return
            if claim.run.overlaps(run):
                yield claim

    def next_free(self, owner: str) -> int | None:
        """Return the lowest id that the project, or ``SHARED``, may allocate; None if there is none."""
        numbers = self._spaces.get(owner)
        return numbers.next_free(self._limit.first, self._limit.last) if numbers else None

    def next_configured(self) -> int | None:
        """Return the lowest free id of the configuration file's ranges, as if there were no other ranges."""
        return self._configured.next_free(self._limit.first, self._limit.last)

    def allocate(self, number: int) -> None:
        """Record that a network has the id, whichever range it belongs to."""
        self.used.allocate(number)
        self._update(number)

    def release(self, number: int) -> None:
        """Record that no network has the id any more."""
        self.used.release(number)
        self._update(number)

    def hold(self, number: int, job: int) -> None:
        """Hold the id for a running job."""
        self.held[number] = job
        self._update(number)

    def end_hold(self, number: int) -> None:
        """End the hold of an id."""
        self.held.pop(number, None)
        self._update(number)

    def _update(self, number: int) -> None:
        """Mark an id as used or free, in the spaces of the projects that may allocate it."""
        unavailable = number in self.held or self.used.is_used(number)
        for numbers in self._spaces_with(number):
            if unavailable:
                numbers.allocate(number)
            else:
                numbers.release(number)

    def _spaces_with(self, number: int) -> Iterator[space.Space]:
        default = ranges.locate(self._default_union, number) is not None
        claim = next(self.overlapping(ranges.Range(number, number)), None)
        if claim:
            yield self._spaces[claim.owner]
        elif default:
            yield self._spaces[SHARED]
        if default:
            yield self._configured

    def _mark_range(self, changed: Claim) -> None:
        """Update the marks of a changed range's numbers, in its owner's and the shared space."""
        run = changed.run
        for owner in {changed.owner, SHARED}:
            self._spaces.setdefault(owner, self._full_space())
            self._mark(self._spaces[owner], run, pieces=self._pieces(owner, run))
        if changed.default:
            self._mark(self._configured, run, pieces=[*_clipped(self._default_union, run)])

    def _pieces(self, owner: str, run: ranges.Range) -> list[ranges.Range]:
        """Return the parts of a run that belong to an owner."""
        claims = [*self.overlapping(run)]
        own = [claim.run for claim in claims if claim.owner == owner]
        if owner == SHARED:
            own += ranges.difference(_clipped(self._default_union, run), (claim.run for claim in claims))
        return [*_clipped(own, run)]

    def _mark(self, numbers: space.Space, run: ranges.Range, *, pieces: list[ranges.Range]) -> None:
        numbers.allocate_range(run)
        for piece in pieces:
            numbers.release_range(piece)
            for used in self.used.used_runs(piece):
                numbers.allocate_range(used)
            for number in filter(piece.__contains__, self.held):
                numbers.allocate(number)


def _clipped(parts: list[ranges.Range], run: ranges.Range) -> Iterator[ranges.Range]:
    return filter(None, map(run.intersection, parts))
