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
LAST_EVERY = 64


def priority_of(claim: actions.Claim | None, addresses: Collection[actions.Address]) -> int:
    """Return the priority of a claim (None: deleted) with these address objects."""
    if claim is None:
        return DUE
    if not claim.is_deleting:
        return BEGUN if addresses else DUE
    if any(address.is_deleting for address in addresses):
        return BEGUN
    return DUE if addresses else LAST


class WorkOrder:
    """The queued claims, each once."""

    __slots__ = ("_priority", "_queues", "_turn")

    def __init__(self) -> None:
        self._queues: tuple[OrderedDict[meta.Ref, None], ...] = (OrderedDict(), OrderedDict(), OrderedDict())
        self._priority: dict[meta.Ref, int] = {}
        self._turn = 0

    def __iter__(self) -> Iterator[meta.Ref]:
        return iter(self._priority)

    def add(self, claim: meta.Ref, priority: int = DUE) -> None:
        """Queue a claim at the end of a priority; one that is queued there already keeps its position."""
        old = self._priority.get(claim)
        if old != priority:
            if old is not None:
                del self._queues[old][claim]
            self._priority[claim] = priority
            self._queues[priority][claim] = None

    def update(self, claims: Iterable[meta.Ref]) -> None:
        """Queue the claims that are not queued yet."""
        for claim in claims:
            if claim not in self._priority:
                self.add(claim)

    def discard(self, claim: meta.Ref) -> None:
        """Remove a claim from the queue."""
        priority = self._priority.pop(claim, None)
        if priority is not None:
            del self._queues[priority][claim]

    def pop_first(self) -> meta.Ref | None:
        """Dequeue the next claim that precedes the waiting ones; None if there is none."""
        self._turn += 1
        return self._take(LAST if self._turn % LAST_EVERY == 0 and self._queues[LAST] else BEGUN)

    def pop(self) -> meta.Ref | None:
        """Dequeue the next claim that follows the waiting ones; None if there is none."""
        return self._take(DUE if self._queues[DUE] else LAST)

    def _take(self, priority: int) -> meta.Ref | None:
        if not self._queues[priority]:
            return None
        claim = self._queues[priority].popitem(last=False)[0]
        del self._priority[claim]
        return claim
