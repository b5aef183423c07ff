"""Every state that three jobs can bring a small lock table into, by every order of request, release and removal.

``explore`` walks all of them and raises ViolationError at the first that breaks a promise of the locks. It knows the
promises from the sets that were asked for alone, in the plainest way: what the table thinks of itself is not believed.
"""

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gantry import errors
from gantry.jobs import lock_modes, lock_table
from gantry.jobs.lock_table import State
from gantry.model.lock import ALL_NAMES, Level, Mode

S, X = Mode.SHARED, Mode.EXCLUSIVE
Key = tuple[Level, str]
LockSet = Mapping[Key, Mode]
A, B, N = (Level.INSTANCE, "a"), (Level.INSTANCE, "b"), (Level.NODE, "n")
ALL, BGL = (Level.INSTANCE, ALL_NAMES), (Level.CLUSTER, lock_modes.CLUSTER_LOCK)

JOBS = (1, 2, 3)


class ViolationError(Exception):
    """A state that breaks a promise of the locks."""


@dataclass(eq=False)
class JobRequest:
    """The locks that a job requested, and how often a later conflicting request was granted first."""

    lockset: LockSet
    request: lock_table.Request
    passed: int = 0


@dataclass
class World:
    """A lock table and the requests of each job, in order; passes are counted only if there is a ``bound``."""

    table: lock_table.LockTable
    bound: int | None
    asked: dict[int, list[JobRequest]] = field(default_factory=lambda: {job: [] for job in JOBS})

    def copy(self) -> "World":
        twin: World = pickle.loads(pickle.dumps(self, pickle.HIGHEST_PROTOCOL))
        return twin

    def requests(self, state: State) -> Iterator[tuple[int, JobRequest]]:
        for job, requests in self.asked.items():
            yield from ((job, entry) for entry in requests if entry.request.state is state)

    def ask(self, job: int, lockset: LockSet) -> bool:
        if any(lockset == before.lockset for before in self.asked[job]):
            return False
        before = self.granted()
        try:
            self.asked[job].append(JobRequest(lockset, self.table.request(job, lockset)))
        except errors.LockError:
            return False
        self.count_passes(before)
        return True

    def release(self, job: int) -> None:
        before = self.granted()
        for request in self.asked[job]:
            self.table.release(request.request)
        self.asked[job] = []
        self.count_passes(before)

    def remove(self, job: int, index: int, key: Key) -> None:
        """Remove a lock; its owner keeps its other locks, and every request queued on the lock must have failed."""
        before = self.granted()
        queued = [entry for _, entry in self.requests(State.WAITING) if key in entry.lockset]
        self.table.remove(self.asked[job][index].request, key)
        if any(entry.request.state is not State.FAILED for entry in queued):
            raise ViolationError(f"somebody still queues on {key}, which is gone")
        for entry in self.asked[job]:
            entry.lockset = renamed(entry.lockset, key, job)
        self.count_passes(before)
        self.drop_failed()

    def drop_failed(self) -> None:
        for job, _ in list(self.requests(State.FAILED)):
            self.release(job)

    def granted(self) -> set[lock_table.Request]:
        return {entry.request for _, entry in self.requests(State.GRANTED)}

    def count_passes(self, before: set[lock_table.Request]) -> None:
        if self.bound is None:
            return
        new = [entry for _, entry in self.requests(State.GRANTED) if entry.request not in before]
        for _, waiter in self.requests(State.WAITING):
            late = [entry for entry in new if entry.request.arrival > waiter.request.arrival]
            waiter.passed += sum(conflict(whole(waiter.lockset), whole(entry.lockset)) for entry in late)

    def signature(self) -> object:
        """Return all that later states depend on: jobs are alike, arrivals and turns count by their order alone."""
        waiting = sorted((entry.request for _, entry in self.requests(State.WAITING)), key=lambda entry: entry.rank)
        arrivals = sorted(request.arrival for request in waiting)

        def of(entry: JobRequest) -> object:
            request = entry.request
            needs = tuple(request.needs.items())
            if request.state is not State.WAITING:
                return needs
            position = waiting.index(request), arrivals.index(request.arrival), bool(request.turn)
            return needs, position, request.parked, entry.passed, tuple(sorted(self._limits(request)))

        return repr(sorted(([of(entry) for entry in entries] for entries in self.asked.values()), key=repr))

    def _limits(self, request: lock_table.Request) -> Iterator[tuple[Key, int]]:
        for key, lock in vars(self.table)["_locks"].items():
            for mask, queue in lock.waiting.items():
                if request in queue:
                    yield key, max(-1, queue[request] - lock.passes.get(mask, 0))


def whole(lockset: LockSet) -> LockSet:
    """Return a set with the cluster lock, which every job shares."""
    return {BGL: S, **lockset}


def conflict(first: LockSet, other: LockSet) -> bool:
    """Return whether two sets conflict, by the plainest possible rule."""
    for (level, name), mode in first.items():
        for (other_level, other_name), other_mode in other.items():
            same = name == other_name or (ALL_NAMES in (name, other_name) and level is not Level.CLUSTER)
            if level is other_level and same and X in (mode, other_mode):
                return True
    return False


def renamed(lockset: LockSet, key: Key, job: int) -> LockSet:
    """Return a set after a lock was removed: for the level's metalock its owner still holds some name."""
    return {(at[0], f"gone {job}") if at == key else at: how for at, how in lockset.items()}


def check(world: World) -> None:
    """Raise ViolationError unless holders may hold together, and those who wait have somebody to wait for."""
    granted = [(job, whole(waiter.lockset)) for job, waiter in world.requests(State.GRANTED)]
    for index, (job, lockset) in enumerate(granted):
        for other, other_lockset in granted[index + 1 :]:
            if job != other and conflict(lockset, other_lockset):
                raise ViolationError(f"jobs {job} and {other} hold {lockset} and {other_lockset}")
    for job, waiter in world.requests(State.WAITING):
        against = [other_lockset for other, other_lockset in granted if other != job]
        reserved = [two for _, two in world.requests(State.WAITING) if two.request.turn and two is not waiter]
        against += [two.lockset for two in reserved]
        if not any(conflict(whole(waiter.lockset), other_lockset) for other_lockset in against):
            raise ViolationError(f"job {job} waits for {waiter.lockset}, and nothing bars it")
        if world.bound is not None and waiter.passed > len(lock_modes.expand(waiter.lockset)) * world.bound + 1:
            raise ViolationError(f"job {job} was passed over {waiter.passed} times")


def check_that_all_can_end(world: World) -> None:
    """Raise ViolationError unless repeated releases by all holders end every wait and leave no lock in the table."""
    end = world.copy()
    while list(end.requests(State.WAITING)):
        waiting = {job for job, _ in end.requests(State.WAITING)}
        able = [job for job, _ in end.requests(State.GRANTED) if job not in waiting]
        if not able:
            raise ViolationError("those who wait wait for each other")
        end.release(able[0])
        end.drop_failed()
    for job in JOBS:
        end.release(job)
    if vars(end.table)["_locks"]:
        raise ViolationError("locks are left that nobody uses")


def successors(world: World, menu: Iterable[LockSet], steps: int) -> Iterator[World]:
    for job in JOBS:
        requests = world.asked[job]
        waits = any(request.request.state is State.WAITING for request in requests)
        if len(requests) < steps and not waits:
            for lockset in menu:
                after = world.copy()
                if after.ask(job, lockset):
                    yield after
        if requests:
            after = world.copy()
            after.release(job)
            yield after
        for index, request in enumerate(requests):
            for key in (A, B, N):
                if request.request.owns(key) and key in request.request.needs:
                    after = world.copy()
                    after.remove(job, index, key)
                    yield after


def explore(
    menu: list[LockSet],
    *,
    steps: int,
    pass_limit: int,
    make: Callable[[int], lock_table.LockTable] = lock_table.LockTable,
) -> int:
    """Return how many states there are; raises ViolationError. ``steps`` is how often a job may ask.

    A request may be passed over as often as documented: at each of its locks the limit and those who queued before it,
    and once more. For jobs that ask in several steps there is no bound.
    """
    start = World(make(pass_limit), bound=pass_limit + len(JOBS) - 2 if steps == 1 else None)
    seen = {start.signature()}
    queue = deque([start])
    while queue:
        for after in successors(queue.popleft(), menu, steps):
            signature = after.signature()
            if signature not in seen:
                seen.add(signature)
                check(after)
                check_that_all_can_end(after)
                queue.append(after)
    return len(seen)
