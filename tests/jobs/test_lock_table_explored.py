"""Every state that three jobs can bring a small lock table into, by every order of asking, giving back and removing."""

import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

import pytest

from gantry import errors
from gantry.jobs import lock_table
from gantry.jobs.lock_table import State
from gantry.operations.base import ALL_NAMES, Level, Mode

S, X = Mode.SHARED, Mode.EXCLUSIVE
Key = tuple[Level, str]
LockSet = Mapping[Key, Mode]
A, B, N = (Level.INSTANCE, "a"), (Level.INSTANCE, "b"), (Level.NODE, "n")
ALL, BGL = (Level.INSTANCE, ALL_NAMES), (Level.CLUSTER, lock_table.CLUSTER_LOCK)

JOBS = (1, 2, 3)
WHOLE_SETS: list[LockSet] = [{A: X}, {A: S}, {A: X, B: X}, {ALL: S}, {B: S, N: X}, {N: X, ALL: X}]
IN_TWO_STEPS: list[LockSet] = [{A: X}, {B: S}, {ALL: S}, {N: X}]
BIG_LOCK: list[LockSet] = [{BGL: X}, {A: X}, {A: S, N: X}, {}]


class World:
    """A table, and beside it what each job asked for, in order."""

    def __init__(self, pass_limit: int) -> None:
        self.table = lock_table.LockTable(pass_limit)
        self.asked: dict[int, list[tuple[LockSet, lock_table.Request]]] = {job: [] for job in JOBS}

    def copy(self) -> "World":
        twin: World = pickle.loads(pickle.dumps(self, pickle.HIGHEST_PROTOCOL))
        return twin

    def requests(self, state: State) -> Iterator[tuple[int, LockSet, lock_table.Request]]:
        for job, asked in self.asked.items():
            yield from ((job, wanted, request) for wanted, request in asked if request.state is state)

    def ask(self, job: int, wanted: LockSet) -> bool:
        if any(wanted == before for before, _ in self.asked[job]):
            return False
        try:
            self.asked[job].append((wanted, self.table.request(job, wanted)))
        except errors.LockError:
            return False
        return True

    def give_back(self, job: int) -> None:
        for _, request in self.asked[job]:
            self.table.release(request)
        self.asked[job] = []

    def drop_failed(self) -> None:
        for job, _, _ in list(self.requests(State.FAILED)):
            self.give_back(job)

    def signature(self) -> object:
        """What the future depends on: jobs are alike, arrivals and turns count by their order alone."""
        waiting = sorted((request for _, _, request in self.requests(State.WAITING)), key=lambda one: one.rank)
        arrivals = sorted(request.arrival for request in waiting)

        def of(request: lock_table.Request) -> object:
            needs = tuple(request.needs.items())
            if request.state is not State.WAITING:
                return needs
            place = waiting.index(request), arrivals.index(request.arrival), bool(request.turn)
            return needs, place, request.parked, tuple(sorted(self.table_limits(request)))

        jobs = [[of(request) for _, request in asked] for asked in self.asked.values()]
        return repr(sorted(jobs, key=repr))

    def table_limits(self, request: lock_table.Request) -> Iterator[tuple[Key, int]]:
        for key, lock in vars(self.table)["_locks"].items():
            for mask, queue in lock.waiting.items():
                if request in queue:
                    yield key, max(-1, queue[request] - lock.passes.get(mask, 0))


def conflict(one: LockSet, other: LockSet) -> bool:
    """Say in the plainest way whether two sets cannot be held together."""
    for (level, name), mode in one.items():
        for (other_level, other_name), other_mode in other.items():
            same = name == other_name or (ALL_NAMES in (name, other_name) and level is not Level.CLUSTER)
            if level is other_level and same and X in (mode, other_mode):
                return True
    return False


def check(world: World) -> None:
    held = [(job, wanted) for job, wanted, _ in world.requests(State.GRANTED)]
    shared: list[tuple[int, LockSet]] = [(job, {BGL: S, **wanted}) for job, wanted in held]
    for index, (job, wanted) in enumerate(shared):
        for other, others in shared[index + 1 :]:
            assert job == other or not conflict(wanted, others), (job, wanted, other, others)
    for job, wanted, request in world.requests(State.WAITING):
        against = [others for other, others in shared if other != job]
        against += [others for _, others, other in world.requests(State.WAITING) if other.turn and other is not request]
        assert any(conflict({BGL: S, **wanted}, others) for others in against), f"nothing bars job {job}"


def check_that_all_can_end(world: World) -> None:
    """When everybody who holds gives back, and does so again, nobody waits for ever."""
    end = world.copy()
    while list(end.requests(State.WAITING)):
        waiting = {job for job, _, _ in end.requests(State.WAITING)}
        able = [job for job, _, _ in end.requests(State.GRANTED) if job not in waiting]
        assert able, "those who wait wait for each other"
        end.give_back(able[0])
        end.drop_failed()
    for job in JOBS:
        end.give_back(job)
    assert not vars(end.table)["_locks"], "locks are left that nobody uses"


def renamed(wanted: LockSet, key: Key, job: int) -> LockSet:
    """Return a set after a lock was removed: for the level's metalock its owner still holds some name."""
    return {(at[0], f"gone {job}") if at == key else at: how for at, how in wanted.items()}


def successors(world: World, menu: Iterable[LockSet], steps: int) -> Iterator[World]:
    for job in JOBS:
        asked = world.asked[job]
        waits = any(request.state is State.WAITING for _, request in asked)
        if len(asked) < steps and not waits:
            for wanted in menu:
                after = world.copy()
                if after.ask(job, wanted):
                    yield after
        if asked:
            after = world.copy()
            after.give_back(job)
            yield after
        for index, (_, request) in enumerate(asked):
            for key in (A, B, N):
                if request.owns(key) and key in request.needs:
                    after = world.copy()
                    after.table.remove(after.asked[job][index][1], key)
                    after.asked[job] = [(renamed(wanted, key, job), mine) for wanted, mine in after.asked[job]]
                    after.drop_failed()
                    yield after


def explore(menu: list[LockSet], *, steps: int, pass_limit: int) -> int:
    start = World(pass_limit)
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


@pytest.mark.promise("cluster-38")
@pytest.mark.parametrize(
    ("menu", "steps", "pass_limit"),
    [
        pytest.param(WHOLE_SETS, 1, 0, id="whole sets"),
        pytest.param(WHOLE_SETS, 1, 1, id="whole sets, one pass"),
        pytest.param(BIG_LOCK, 1, 1, id="cluster lock"),
        pytest.param(IN_TWO_STEPS, 2, 0, id="in two steps"),
    ],
)
def test_no_state_of_three_jobs_breaks_a_lock_or_locks_up(menu: list[LockSet], steps: int, pass_limit: int) -> None:
    states = explore(menu, steps=steps, pass_limit=pass_limit)
    print(f"explored {states} states")
    assert states > 100
