"""The table of locks: owners, waiting requests, and which request is next. Pure: no event loop, no clock.

``jobs.locks`` adds coroutines; without them the transitions can be explored completely in small worlds.

A request is for locks by level and name (``lock_modes``); it gets all of them together or waits for all. The first
request of an owner always shares the cluster lock ``BGL``.

A waiting request is *parked* at one lock that bars it, and is checked again only when that lock changes. The requests
parked at a lock for the same mode form a queue by priority and arrival; only the heads are checked, so the cost of a
transition does not grow with the number of waiting requests.

Invariants: no two owners hold conflicting locks; a parked request is barred where it is parked.

No starvation: once more than ``pass_limit`` requests, plus those queued there before it, were granted at one of its
locks against a request, the request *reserves* all its locks: no conflicting request is granted before it, whatever its
priority, except for earlier reservations and requests of owners that hold locks already (each would wait for the
other).

No deadlock: no owner holds locks while waiting, except for an owner with a second request, and that may only be for
locks after all that the owner holds: by level, a level's metalock before its names, names in alphabetical order
(contracts/cluster-design.md#locks).
"""

import bisect
import enum
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from gantry import errors
from gantry.jobs import lock_modes as modes
from gantry.model import lock

PASS_LIMIT = 20
"""How often a request may be passed over; 20 costs little throughput (8.6 s to 9.4 s on 5,000 jobs over 400 locks)."""

IN_PART = "in part"
RESERVED = "goes first"
"""Reasons to wait besides a held lock: the owner has some names of the level, or a reservation goes first."""


class State(enum.Enum):
    """The state of a request."""

    WAITING = "waiting"
    GRANTED = "granted"
    FAILED = "failed"
    RELEASED = "released"


@dataclass(eq=False, slots=True)
class Request:
    """A set of locks that an owner (a job's number) requests; ``turn`` orders the requests with reservations."""

    owner: int
    needs: dict[modes.Key, modes.Mask]
    priority: int
    arrival: int
    holding: bool
    state: State = State.WAITING
    turn: int = 0
    parked: modes.Key | None = None

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Return the sort key: requests of lock owners, then reservations by turn, then by priority and arrival."""
        return 0 if self.holding else 1 if self.turn else 2, self.turn, self.priority, self.arrival

    def owns(self, key: modes.Key) -> bool:
        """Return whether the request holds a lock exclusively, by its name or by the metalock of its level."""
        if self.state is not State.GRANTED:
            return False
        return any(self.needs.get(at, 0) & modes.EXCLUSIVE for at in (key, (key[0], lock.ALL_NAMES)))


@dataclass(eq=False, slots=True)
class _Lock:
    """A lock: ``waiting`` maps, by mask and in order of arrival, a request to the count at which it reserves.

    ``passes`` counts the grants that conflicted with a mask. ``held`` counts holders by mask.
    """

    key: modes.Key
    holders: dict[Request, modes.Mask] = field(default_factory=dict)
    held: dict[modes.Mask, int] = field(default_factory=dict)
    waiting: dict[modes.Mask, OrderedDict[Request, int]] = field(default_factory=dict)
    passes: dict[modes.Mask, int] = field(default_factory=dict)
    parked: dict[modes.Mask, list[Request]] = field(default_factory=dict)
    reserved: list[Request] = field(default_factory=list)

    def bars(self, request: Request, mask: modes.Mask) -> bool:
        """Return whether a holder, or a reservation that goes first, conflicts with a request."""
        conflicting = modes.BARS[mask]
        if any(conflicting & held_mask for held_mask in self.held):
            return True
        if request.holding:
            return False
        for other in self.reserved:
            if request.turn and request.turn <= other.turn:
                return False
            if conflicting & other.needs[self.key]:
                return True
        return False

    def hold(self, request: Request, mask: modes.Mask) -> None:
        self.holders[request] = mask
        self.held[mask] = self.held.get(mask, 0) + 1

    def unhold(self, request: Request) -> None:
        mask = self.holders.pop(request)
        self.held[mask] -= 1
        if not self.held[mask]:
            del self.held[mask]

    def against(self, mask: modes.Mask) -> Iterable[modes.Mask]:
        """Return the masks of waiting requests that conflict with ``mask``."""
        return [other for other in self.waiting if modes.BARS[mask] & other]

    def barring(self, request: Request, mask: modes.Mask) -> list[tuple[int, str]]:
        """Return the owners that bar a request, each with the mode in which it holds the lock, or ``RESERVED``."""
        conflicting = modes.BARS[mask]
        holders = [
            (holder.owner, modes.mode_of(held_mask) or IN_PART)
            for holder, held_mask in self.holders.items()
            if conflicting & held_mask
        ]
        ahead = [other for other in self.reserved if not request.turn or other.turn < request.turn]
        return holders + [(other.owner, RESERVED) for other in ahead if conflicting & other.needs[self.key]]

    def heads(self) -> Iterable[Request]:
        """Return the first requests of the queues that this lock does not bar."""
        return (queue[0] for mask, queue in self.parked.items() if not self.bars(queue[0], mask))


@dataclass(frozen=True)
class Usage:
    """A lock for display: its mode (None: free), its owners, and the waiting jobs in order.

    ``waits`` contains, for each job that this lock bars, the jobs it waits for and why: the mode in which the other has
    the lock, or ``IN_PART`` or ``RESERVED``. A job that waits for several locks is listed at one of them at a time.
    """

    name: str
    mode: str | None
    owners: list[int]
    pending: list[tuple[str, list[int]]]
    waits: list[tuple[int, list[tuple[int, str]]]]


class LockTable:
    """The transitions. Those that can end a wait return the requests that were granted or failed."""

    def __init__(self, pass_limit: int = PASS_LIMIT) -> None:
        self._pass_limit = pass_limit
        self._locks: dict[modes.Key, _Lock] = {}
        self._owned: dict[int, list[Request]] = {}
        self._arrivals = 0
        self._turns = 0

    def request(self, owner: int, lockset: lock.LockSet, *, priority: int = 0) -> Request:
        """Request locks; the request is granted or waits. Raises LockError for a request in the wrong order."""
        needs = modes.expand(lockset)
        mine = self._owned.get(owner, [])
        if mine:
            needs = self._behind(mine, needs)
        else:
            needs.setdefault((lock.Level.CLUSTER, modes.CLUSTER_LOCK), modes.SHARED)
        self._arrivals += 1
        request = Request(owner, needs, priority, self._arrivals, holding=bool(mine))
        self._owned.setdefault(owner, []).append(request)
        obstacle = self._obstacle(request)
        if obstacle is None:
            self._grant(request)
        else:
            self._enqueue(request, obstacle)
        return request

    def release(self, request: Request) -> list[Request]:
        """Release the locks of a request, or cancel it while it waits; a second call does nothing."""
        if request.state is State.GRANTED:
            for key in request.needs:
                self._locks[key].unhold(request)
        elif request.state is State.WAITING:
            self._dequeue(request)
        else:
            return []
        self._leave(request, State.RELEASED)
        return self._wake(request.needs)

    def remove(self, request: Request, key: modes.Key) -> list[Request]:
        """Drop a lock whose object was removed; requests waiting for it fail. LockError without exclusive ownership."""
        if not request.owns(key):
            raise errors.LockError(
                f"job {request.owner} does not hold {modes.title(key)} exclusively and cannot remove it"
            )
        lock = self._locks.get(key)
        if lock is None:
            return []
        failed = [waiter for queue in lock.waiting.values() for waiter in queue]
        touched: dict[modes.Key, modes.Mask] = {}
        for waiter in failed:
            self._dequeue(waiter)
            self._leave(waiter, State.FAILED)
            touched.update(waiter.needs)
        if request.needs.pop(key, None):
            lock.unhold(request)
        return failed + self._wake({**touched, key: 0})

    def add(self, request: Request, key: modes.Key) -> None:
        """Give a request the exclusive lock of an object that its job creates, which nobody else can know yet.

        The request must have declared at the level's metalock that it takes names exclusively: so it conflicts with no
        holder. LockError if it has not, or if the lock is in use.
        """
        if request.owns(key):
            return
        if not request.needs.get((key[0], lock.ALL_NAMES), 0) & modes.SOME_EXCLUSIVE or key in self._locks:
            raise errors.LockError(f"job {request.owner} cannot have {modes.title(key)} with the locks that it holds")
        request.needs[key] = modes.EXCLUSIVE
        self._lock(key).hold(request, modes.EXCLUSIVE)

    def change_priority(self, owner: int, priority: int) -> None:
        """Change the priority of an owner's waiting requests."""
        for request in self._owned.get(owner, ()):
            self._reorder(request, priority=priority)

    def usage(self) -> list[Usage]:
        """Describe every lock that is held or waited for, in the order of locks."""
        rows = [self._describe(self._locks[key]) for key in sorted(self._locks, key=modes.order)]
        return [row for row in rows if row.owners or row.pending or row.waits]

    def is_holder(self, owner: int) -> bool:
        """Return whether an owner holds a lock; much cheaper than ``usage``."""
        return any(request.state is State.GRANTED and request.needs for request in self._owned.get(owner, ()))

    def _behind(self, mine: list[Request], needs: dict[modes.Key, modes.Mask]) -> dict[modes.Key, modes.Mask]:
        """Return the locks in ``needs`` that an owner lacks; LockError unless all are after the locks that it holds."""
        if any(request.state is State.WAITING for request in mine):
            raise errors.LockError(f"job {mine[0].owner} already waits for locks and cannot request more")
        held_masks = {key: mask for request in mine for key, mask in request.needs.items()}
        lacking = {key: mask for key, mask in needs.items() if mask & ~modes.COVERS[held_masks.get(key, 0)]}
        last = max(held_masks, key=modes.order)
        for key in lacking:
            if modes.order(key) <= modes.order(last):
                raise errors.LockError(
                    f"job {mine[0].owner} requests {modes.title(key)} while it holds {modes.title(last)}",
                    hint="locks are taken level by level, and within a level in alphabetical order",
                )
        return lacking

    def _obstacle(self, request: Request) -> modes.Key | None:
        for key, mask in request.needs.items():
            lock = self._locks.get(key)
            if lock is not None and lock.bars(request, mask):
                return key
        return None

    def _lock(self, key: modes.Key) -> _Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = _Lock(key)
        return lock

    def _grant(self, request: Request) -> None:
        request.state = State.GRANTED
        for key, mask in request.needs.items():
            lock = self._lock(key)
            lock.hold(request, mask)
            for other in lock.against(mask):
                lock.passes[other] = lock.passes.get(other, 0) + 1
                self._check_oldest(lock, other)

    def _check_oldest(self, lock: _Lock, mask: modes.Mask) -> None:
        """Let the oldest request of a mask reserve if it was passed over too often; the others have later limits."""
        queue = lock.waiting.get(mask)
        if not queue:
            return
        oldest, limit = next(iter(queue.items()))
        if not oldest.turn and lock.passes.get(mask, 0) > limit:
            self._turns += 1
            self._reorder(oldest, turn=self._turns)
            for key in oldest.needs:
                self._locks[key].reserved.append(oldest)

    def _reorder(self, request: Request, *, priority: int | None = None, turn: int | None = None) -> None:
        parked_at = request.parked
        if parked_at is not None:
            self._unpark(request)
        request.priority = request.priority if priority is None else priority
        request.turn = request.turn if turn is None else turn
        if parked_at is not None:
            self._park(request, parked_at)

    def _enqueue(self, request: Request, obstacle: modes.Key) -> None:
        for key, mask in request.needs.items():
            lock = self._lock(key)
            before = sum(len(lock.waiting[other]) for other in lock.against(mask))
            limit = lock.passes.get(mask, 0) + before + self._pass_limit
            lock.waiting.setdefault(mask, OrderedDict())[request] = limit
        self._park(request, obstacle)

    def _dequeue(self, request: Request) -> None:
        self._unpark(request)
        for key, mask in request.needs.items():
            lock = self._locks[key]
            del lock.waiting[mask][request]
            if not lock.waiting[mask]:
                del lock.waiting[mask]
            if request.turn:
                lock.reserved.remove(request)
            self._check_oldest(lock, mask)

    def _leave(self, request: Request, state: State) -> None:
        request.state = state
        mine = self._owned[request.owner]
        mine.remove(request)
        if not mine:
            del self._owned[request.owner]

    def _park(self, request: Request, key: modes.Key) -> None:
        request.parked = key
        queue = self._locks[key].parked.setdefault(request.needs[key], [])
        bisect.insort(queue, request, key=lambda other: other.rank)

    def _unpark(self, request: Request) -> None:
        assert request.parked is not None  # only waiting requests are unparked, and these are parked
        queue = self._locks[request.parked].parked[request.needs[request.parked]]
        del queue[bisect.bisect_left(queue, request.rank, key=lambda other: other.rank)]
        if not queue:
            del self._locks[request.parked].parked[request.needs[request.parked]]
        request.parked = None

    def _wake(self, keys: Iterable[modes.Key]) -> list[Request]:
        """Grant requests after locks changed; park requests that another lock bars there."""
        granted: list[Request] = []
        locks = [lock for key in keys if (lock := self._locks.get(key))]
        while heads := [head for lock in locks if lock.parked for head in lock.heads()]:
            request = min(heads, key=lambda head: head.rank)
            obstacle = self._obstacle(request)
            if obstacle is None:
                self._dequeue(request)
                self._grant(request)
                granted.append(request)
            else:
                self._unpark(request)
                self._park(request, obstacle)
        for lock in locks:
            if not lock.holders and not lock.waiting:
                self._locks.pop(lock.key, None)
        return granted

    def _describe(self, lock: _Lock) -> Usage:
        holders = {request.owner: mask for request, mask in lock.holders.items() if modes.mode_of(mask)}
        queue = sorted(
            (request for requests in lock.waiting.values() for request in requests), key=lambda waiter: waiter.rank
        )
        pending = [(mode, [waiter.owner]) for waiter in queue if (mode := modes.mode_of(waiter.needs[lock.key]))]
        mode = next((mode for mask in holders.values() if (mode := modes.mode_of(mask))), None)
        barred = sorted(
            (waiter for requests in lock.parked.values() for waiter in requests), key=lambda waiter: waiter.rank
        )
        waits = [(waiter.owner, lock.barring(waiter, waiter.needs[lock.key])) for waiter in barred]
        return Usage(modes.title(lock.key), mode, sorted(holders), pending, waits)
