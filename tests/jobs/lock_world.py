"""Every state that three jobs can bring a small lock table into, by every order of asking, giving back and removing.

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
    """A state that must not be."""


@dataclass(eq=False)
class Asked:
    """What a job asked for, and how often a later request that conflicts was granted before it."""

    wanted: LockSet
    request: lock_table.Request
    passed: int = 0


@dataclass
class World:
    """A table, and beside it what each job asked for, in order; passes count where there is a ``bound`` of them."""

    table: lock_table.LockTable
    bound: int | None
    asked: dict[int, list[Asked]] = field(default_factory=lambda: {job: [] for job in JOBS})

    def copy(self) -> "World":
        twin: World = pickle.loads(pickle.dumps(self, pickle.HIGHEST_PROTOCOL))
        return twin

    def requests(self, state: State) -> Iterator[tuple[int, Asked]]:
        for job, asked in self.asked.items():
            yield from ((job, one) for one in asked if one.request.state is state)

    def ask(self, job: int, wanted: LockSet) -> bool:
        if any(wanted == before.wanted for before in self.asked[job]):
            return False
        before = self.granted()
        try:
            self.asked[job].append(Asked(wanted, self.table.request(job, wanted)))
        except errors.LockError:
            return False
        self.count_passes(before)
        return True

    def give_back(self, job: int) -> None:
        before = self.granted()
        for one in self.asked[job]:
            self.table.release(one.request)
        self.asked[job] = []
        self.count_passes(before)

    def remove(self, job: int, index: int, key: Key) -> None:
        """Remove a lock; its owner goes on with the others, and those who queued on it must have failed."""
        before = self.granted()
        queued = [one for _, one in self.requests(State.WAITING) if key in one.wanted]
        self.table.remove(self.asked[job][index].request, key)
        if any(one.request.state is not State.FAILED for one in queued):
            raise ViolationError(f"somebody still queues on {key}, which is gone")
        for one in self.asked[job]:
            one.wanted = renamed(one.wanted, key, job)
        self.count_passes(before)
        self.drop_failed()

    def drop_failed(self) -> None:
        for job, _ in list(self.requests(State.FAILED)):
            self.give_back(job)

    def granted(self) -> set[lock_table.Request]:
        return {one.request for _, one in self.requests(State.GRANTED)}

    def count_passes(self, before: set[lock_table.Request]) -> None:
        if self.bound is None:
            return
        new = [one for _, one in self.requests(State.GRANTED) if one.request not in before]
        for _, waiter in self.requests(State.WAITING):
            late = [one for one in new if one.request.arrival > waiter.request.arrival]
            waiter.passed += sum(conflict(whole(waiter.wanted), whole(one.wanted)) for one in late)

    def signature(self) -> object:
        """What the future depends on: jobs are alike, arrivals and turns count by their order alone."""
        waiting = sorted((one.request for _, one in self.requests(State.WAITING)), key=lambda one: one.rank)
        arrivals = sorted(request.arrival for request in waiting)

        def of(one: Asked) -> object:
            request = one.request
            needs = tuple(request.needs.items())
            if request.state is not State.WAITING:
                return needs
            place = waiting.index(request), arrivals.index(request.arrival), bool(request.turn)
            return needs, place, request.parked, one.passed, tuple(sorted(self._limits(request)))

        return repr(sorted(([of(one) for one in asked] for asked in self.asked.values()), key=repr))

    def _limits(self, request: lock_table.Request) -> Iterator[tuple[Key, int]]:
        for key, lock in vars(self.table)["_locks"].items():
            for mask, queue in lock.waiting.items():
                if request in queue:
                    yield key, max(-1, queue[request] - lock.passes.get(mask, 0))


def whole(wanted: LockSet) -> LockSet:
    """Return a set with the cluster lock, which everybody shares."""
    return {BGL: S, **wanted}


def conflict(one: LockSet, other: LockSet) -> bool:
    """Say in the plainest way whether two sets cannot be held together."""
    for (level, name), mode in one.items():
        for (other_level, other_name), other_mode in other.items():
            same = name == other_name or (ALL_NAMES in (name, other_name) and level is not Level.CLUSTER)
            if level is other_level and same and X in (mode, other_mode):
                return True
    return False


def renamed(wanted: LockSet, key: Key, job: int) -> LockSet:
    """Return a set after a lock was removed: for the level's metalock its owner still holds some name."""
    return {(at[0], f"gone {job}") if at == key else at: how for at, how in wanted.items()}


def check(world: World) -> None:
    """Raise ViolationError unless holders may hold together, and those who wait have somebody to wait for."""
    held = [(job, whole(one.wanted)) for job, one in world.requests(State.GRANTED)]
    for index, (job, wanted) in enumerate(held):
        for other, others in held[index + 1 :]:
            if job != other and conflict(wanted, others):
                raise ViolationError(f"jobs {job} and {other} hold {wanted} and {others}")
    for job, one in world.requests(State.WAITING):
        against = [others for other, others in held if other != job]
        reserved = [two for _, two in world.requests(State.WAITING) if two.request.turn and two is not one]
        against += [two.wanted for two in reserved]
        if not any(conflict(whole(one.wanted), others) for others in against):
            raise ViolationError(f"job {job} waits for {one.wanted}, and nothing bars it")
        if world.bound is not None and one.passed > len(lock_modes.expand(one.wanted)) * world.bound + 1:
            raise ViolationError(f"job {job} was passed over {one.passed} times")


def check_that_all_can_end(world: World) -> None:
    """When everybody who holds gives back, and does so again, nobody waits for ever and nothing is left."""
    end = world.copy()
    while list(end.requests(State.WAITING)):
        waiting = {job for job, _ in end.requests(State.WAITING)}
        able = [job for job, _ in end.requests(State.GRANTED) if job not in waiting]
        if not able:
            raise ViolationError("those who wait wait for each other")
        end.give_back(able[0])
        end.drop_failed()
    for job in JOBS:
        end.give_back(job)
    if vars(end.table)["_locks"]:
        raise ViolationError("locks are left that nobody uses")


def successors(world: World, menu: Iterable[LockSet], steps: int) -> Iterator[World]:
    for job in JOBS:
        asked = world.asked[job]
        waits = any(one.request.state is State.WAITING for one in asked)
        if len(asked) < steps and not waits:
            for wanted in menu:
                after = world.copy()
                if after.ask(job, wanted):
                    yield after
        if asked:
            after = world.copy()
            after.give_back(job)
            yield after
        for index, one in enumerate(asked):
            for key in (A, B, N):
                if one.request.owns(key) and key in one.request.needs:
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
