"""Work order: the priority queue of the claims of one pool.

``pool_state`` has one for each pool, ``cache`` chooses the priority of a queued claim::

    BEGUN     its address is created but not yet in its status, or deleted but not gone yet
    (then the claim that has waited longest, while an address is free)
    DUE       all others
    LAST      deleted, and its address is released: only the finalizer is left

So a freed address serves a waiting claim before the next address is released, however many deletions are queued. Every
``LAST_EVERY`` turns a claim of the last priority comes first, or it would starve under constant load. Each operation
takes constant time.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator

from gantry.kubernetes.api import meta
from gantry.kubernetes.claims import actions

BEGUN, DUE, LAST = range(3)
PATIENCE = 64


def of(claim: actions.Claim | None, held: Collection[actions.Address]) -> int:
    """Return the priority of a claim (None: deleted) with these address objects."""
    if claim is None:
        return DUE
    if not claim.is_deleting:
        return BEGUN if held else DUE
    if any(one.is_deleting for one in held):
        return BEGUN
    return DUE if held else LAST


class Lanes:
    """The queued claims, each once."""

    __slots__ = ("_lanes", "_of", "_turn")

    def __init__(self) -> None:
        self._lanes: tuple[OrderedDict[meta.Ref, None], ...] = (OrderedDict(), OrderedDict(), OrderedDict())
        self._of: dict[meta.Ref, int] = {}
        self._turn = 0

    def __iter__(self) -> Iterator[meta.Ref]:
        return iter(self._of)

    def add(self, claim: meta.Ref, lane: int = DUE) -> None:
        """Queue a claim at the end of a priority; one that is queued there already keeps its position."""
        old = self._of.get(claim)
        if old != lane:
            if old is not None:
                del self._lanes[old][claim]
            self._of[claim] = lane
            self._lanes[lane][claim] = None

    def update(self, claims: Iterable[meta.Ref]) -> None:
        """Queue the claims that are not queued yet."""
        for claim in claims:
            if claim not in self._of:
                self.add(claim)

    def drop(self, claim: meta.Ref) -> None:
        """Remove a claim from the queue."""
        lane = self._of.pop(claim, None)
        if lane is not None:
            del self._lanes[lane][claim]

    def take_first(self) -> meta.Ref | None:
        """Dequeue the next claim that precedes the waiting ones; None if there is none."""
        self._turn += 1
        return self._take(LAST if self._turn % PATIENCE == 0 and self._lanes[LAST] else BEGUN)

    def take(self) -> meta.Ref | None:
        """Dequeue the next claim that follows the waiting ones; None if there is none."""
        return self._take(DUE if self._lanes[DUE] else LAST)

    def _take(self, lane: int) -> meta.Ref | None:
        if not self._lanes[lane]:
            return None
        found = self._lanes[lane].popitem(last=False)[0]
        del self._of[found]
        return found
