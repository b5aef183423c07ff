"""Lanes: in which order the claims of a pool that are due are decided about, and those that wait for an address.

Who calls it: ``pool_state`` keeps one for each pool, ``index`` says in which lane a claim is due::

    BEGUN     its address is on the way: made and not told yet, or deleted and not gone yet
    (then whoever waits longest, while an address is free)
    DUE       all others
    LAST      deleted, and has given its address back: nobody waits for it but who deleted it

So an address that comes free serves a claim before the next is released, however many are. One of ``PATIENCE`` turns is
for the last lane, or it would starve where there is always other work. Each operation costs the same at any length.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator

from gantry.kubernetes.api import meta
from gantry.kubernetes.claims import actions

BEGUN, DUE, LAST = range(3)
PATIENCE = 64


def of(claim: actions.Claim | None, held: Collection[actions.Address]) -> int:
    """Return the lane of a claim, None if it has gone, that has these address objects."""
    if claim is None:
        return DUE
    if not claim.is_deleting:
        return BEGUN if held else DUE
    if any(one.is_deleting for one in held):
        return BEGUN
    return DUE if held else LAST


class Lanes:
    """The claims that are due, each once."""

    __slots__ = ("_lanes", "_of", "_turn")

    def __init__(self) -> None:
        self._lanes: tuple[OrderedDict[meta.Ref, None], ...] = (OrderedDict(), OrderedDict(), OrderedDict())
        self._of: dict[meta.Ref, int] = {}
        self._turn = 0

    def __iter__(self) -> Iterator[meta.Ref]:
        return iter(self._of)

    def add(self, claim: meta.Ref, lane: int = DUE) -> None:
        """Make a claim due, at the end of a lane; one that is due there keeps its place."""
        old = self._of.get(claim)
        if old != lane:
            if old is not None:
                del self._lanes[old][claim]
            self._of[claim] = lane
            self._lanes[lane][claim] = None

    def update(self, claims: Iterable[meta.Ref]) -> None:
        """Make claims due that are not."""
        for claim in claims:
            if claim not in self._of:
                self.add(claim)

    def drop(self, claim: meta.Ref) -> None:
        """Note that a claim is not due."""
        lane = self._of.pop(claim, None)
        if lane is not None:
            del self._lanes[lane][claim]

    def take_first(self) -> meta.Ref | None:
        """Return the next claim that comes before those that wait, which is due no more; None if there is none."""
        self._turn += 1
        return self._take(LAST if self._turn % PATIENCE == 0 and self._lanes[LAST] else BEGUN)

    def take(self) -> meta.Ref | None:
        """Return the next claim of those behind, which is due no more; None if there is none."""
        return self._take(DUE if self._lanes[DUE] else LAST)

    def _take(self, lane: int) -> meta.Ref | None:
        if not self._lanes[lane]:
            return None
        found = self._lanes[lane].popitem(last=False)[0]
        del self._of[found]
        return found
