import random
from collections.abc import Iterable

import pytest

from gantry import errors
from gantry.jobs import lock_modes, lock_table
from gantry.jobs.lock_table import State
from gantry.model.lock import ALL_NAMES, Level, LockSet, Mode

S, X = Mode.SHARED, Mode.EXCLUSIVE
A, B, N = (Level.INSTANCE, "a"), (Level.INSTANCE, "b"), (Level.NODE, "n")
ALL = (Level.INSTANCE, ALL_NAMES)
BGL = (Level.CLUSTER, lock_modes.CLUSTER_LOCK)


class CountingTable(lock_table.LockTable):
    checks = 0

    def _obstacle(self, request: lock_table.Request) -> lock_modes.Key | None:
        self.checks += 1
        return super()._obstacle(request)


def granted(requests: Iterable[lock_table.Request]) -> list[int]:
    return [request.owner for request in requests if request.state is State.GRANTED]


@pytest.mark.promise("cluster-45")
@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ({A: S}, {A: S}, True),
        ({A: S}, {A: X}, False),
        ({A: X}, {A: S}, False),
        ({A: X}, {A: X}, False),
        ({A: X}, {B: X}, True),
        ({A: X}, {(Level.NODE, "a"): X}, True),
    ],
)
def test_a_lock_is_free_shared_or_exclusive(first: LockSet, second: LockSet, together: bool) -> None:
    table = lock_table.LockTable()
    assert table.request(1, first).state is State.GRANTED
    assert (table.request(2, second).state is State.GRANTED) == together


@pytest.mark.promise("cluster-47")
@pytest.mark.parametrize(("names", "metalock", "together"), [(S, S, True), (S, X, False), (X, S, False), (X, X, False)])
@pytest.mark.parametrize("metalock_first", [True, False])
def test_a_metalock_stands_against_all_names_of_its_level(
    names: Mode, metalock: Mode, together: bool, metalock_first: bool
) -> None:
    sets: list[LockSet] = [{ALL: metalock}, {A: names}]
    table = lock_table.LockTable()
    table.request(1, sets[0 if metalock_first else 1])
    assert (table.request(2, sets[1 if metalock_first else 0]).state is State.GRANTED) == together
    assert table.request(3, {N: X}).state is State.GRANTED


@pytest.mark.promise("cluster-48")
def test_a_metalock_stands_against_names_that_did_not_exist_when_it_was_taken() -> None:
    table = lock_table.LockTable()
    everything = table.request(1, {ALL: X})
    new = table.request(2, {(Level.INSTANCE, "made later"): X})
    assert not new.owns((Level.INSTANCE, "made later"))
    assert table.release(everything) == [new]


@pytest.mark.promise("cluster-46")
def test_every_owner_shares_the_cluster_lock_and_an_exclusive_one_is_alone() -> None:
    table = lock_table.LockTable()
    first, second = table.request(1, {A: X}), table.request(2, {})
    alone = table.request(3, {BGL: X})
    assert granted([first, second, alone]) == [1, 2]
    assert table.release(first) == []
    assert table.release(second) == [alone]
    assert table.request(4, {}).state is State.WAITING


def test_a_set_is_granted_whole_or_not_at_all() -> None:
    table = lock_table.LockTable()
    first = table.request(1, {B: X})
    both = table.request(2, {A: X, B: X})
    assert both.state is State.WAITING
    assert table.request(3, {A: X}).state is State.GRANTED
    assert table.release(first) == []
    assert not both.owns(A)


def test_those_who_wait_go_by_priority_then_by_arrival() -> None:
    table = lock_table.LockTable()
    first = table.request(1, {A: X})
    late, low, high, urgent = (
        table.request(owner, {A: X}, priority=priority) for owner, priority in [(2, 0), (3, 10), (4, 0), (5, -10)]
    )
    table.change_priority(4, -20)
    order = []
    grants = [first]
    while grants:
        grants = table.release(grants[0])
        order += grants
    assert order == [high, urgent, late, low]


@pytest.mark.promise("cluster-42", "cluster-44")
@pytest.mark.parametrize(
    ("holds", "asks"),
    [
        ({(Level.CONFIG, "config"): S}, {N: S}),
        ({N: S}, {A: S}),
        ({B: S}, {A: S}),
        ({A: S}, {ALL: S}),
        ({A: S}, {A: X}),
        ({A: S}, {B: X}),
        ({ALL: S}, {A: X}),
        ({A: S}, {BGL: X}),
    ],
)
def test_an_owner_that_asks_in_the_wrong_order_is_refused(holds: LockSet, asks: LockSet) -> None:
    table = lock_table.LockTable()
    table.request(1, holds)
    with pytest.raises(errors.LockError, match="while it holds"):
        table.request(1, asks)


def test_an_owner_that_waits_may_not_ask_for_more() -> None:
    table = lock_table.LockTable()
    table.request(1, {B: X})
    assert table.request(2, {A: X}).state is State.GRANTED
    assert table.request(2, {B: X}).state is State.WAITING
    with pytest.raises(errors.LockError, match="job 2 already waits for locks"):
        table.request(2, {N: X})


@pytest.mark.promise("cluster-39", "cluster-44")
def test_an_owner_may_ask_for_more_in_the_order_of_levels_and_of_names() -> None:
    table = lock_table.LockTable()
    for lockset in ({BGL: S}, {A: X}, {B: X}, {(Level.GROUP, "g"): S}, {N: X}, {(Level.CONFIG, "config"): X}):
        assert table.request(1, lockset).state is State.GRANTED
    # In one request the order of writing does not matter: the table takes all at once.
    assert table.request(2, {(Level.NODE, "z"): X, (Level.NODE, "y"): X}).state is State.GRANTED


@pytest.mark.promise("cluster-49")
def test_a_lock_is_removed_by_its_exclusive_owner_alone_and_fails_those_who_queue() -> None:
    table = lock_table.LockTable()
    sharing = table.request(1, {A: S})
    with pytest.raises(errors.LockError, match="exclusively"):
        table.remove(sharing, A)
    table.release(sharing)
    owner = table.request(2, {A: X, B: X})
    on_a, on_b, on_all = table.request(3, {A: S, N: X}), table.request(4, {B: S}), table.request(5, {ALL: S})
    behind = table.request(6, {N: X})
    assert behind.state is State.GRANTED
    assert table.remove(owner, A) == [on_a]
    assert [on_a.state, on_b.state, on_all.state] == [State.FAILED, State.WAITING, State.WAITING]
    assert granted(table.release(owner)) == [4, 5]


def test_a_created_object_is_locked_by_its_creator_alone_until_the_end() -> None:
    table = lock_table.LockTable()
    creator = table.request(1, {A: X})
    table.add(creator, B)
    table.add(creator, B)
    assert creator.owns(B)
    waiting = table.request(2, {B: S})
    assert waiting.state is State.WAITING
    assert granted(table.release(creator)) == [2]


def test_a_created_object_is_locked_only_with_a_name_of_its_level_and_while_it_is_free() -> None:
    table = lock_table.LockTable()
    other, shared, creator = table.request(1, {B: S}), table.request(2, {A: S}), table.request(3, {N: X})
    for request, key in ((shared, (Level.INSTANCE, "new")), (creator, (Level.INSTANCE, "new"))):
        with pytest.raises(errors.LockError, match="cannot have instance/new"):
            table.add(request, key)
    with pytest.raises(errors.LockError, match="cannot have instance/b"):
        table.add(table.request(4, {(Level.INSTANCE, "c"): X}), B)
    assert not other.owns(B)


def test_a_metalock_owner_removes_any_name() -> None:
    table = lock_table.LockTable()
    owner = table.request(1, {ALL: X})
    waiter = table.request(2, {A: X})
    assert table.remove(owner, A) == [waiter]
    assert waiter.state is State.FAILED


def test_an_unused_lock_of_a_removed_object_needs_no_removal() -> None:
    table = lock_table.LockTable()
    owner, waiter = table.request(1, {ALL: X}), table.request(2, {B: X})
    assert table.remove(owner, A) == []
    assert waiter.state is State.WAITING
    assert granted(table.release(owner)) == [2]


def test_a_request_that_is_taken_back_lets_those_behind_its_reservation_go() -> None:
    table = lock_table.LockTable(pass_limit=0)
    table.request(1, {B: X})
    passed = table.request(2, {A: X, B: X})
    table.release(table.request(3, {A: X}))
    assert passed.turn
    behind = table.request(4, {A: X})
    assert behind.state is State.WAITING
    assert table.release(passed) == [behind]


def test_when_the_oldest_leaves_the_next_that_was_passed_over_too_often_reserves() -> None:
    table = lock_table.LockTable(pass_limit=0)
    table.request(1, {B: X})
    oldest, following = table.request(2, {A: X, B: X}), table.request(3, {A: X, B: X})
    table.release(table.request(4, {A: X}))
    assert (bool(oldest.turn), bool(following.turn)) == (True, False)
    table.request(5, {})
    second = table.request(5, {A: X})
    assert second.state is State.GRANTED, "an owner of locks passes reservations"
    table.release(second)
    table.release(oldest)
    assert following.turn
    assert table.request(6, {A: X}).state is State.WAITING


@pytest.mark.promise("cluster-38")
@pytest.mark.parametrize("ahead", [0, 3])
@pytest.mark.parametrize("priority", [0, 19])
def test_no_waiter_is_passed_over_more_often_than_the_limit_and_those_ahead(ahead: int, priority: int) -> None:
    """Readers that overlap for ever, and more urgent writers, would starve a writer."""
    table = lock_table.LockTable()
    reader = table.request(1, {A: S})
    before = [table.request(10 + index, {A: X}) for index in range(ahead)]
    victim = table.request(2, {A: X}, priority=priority)
    passes = 0
    owners = iter(range(100, 10_000))
    while victim.state is State.WAITING:
        following = table.request(next(owners), {A: S}, priority=-20)
        freed = table.release(reader)
        grants = [request for request in [following, *before] if request.state is State.GRANTED]
        passes += len([request for request in grants if request in freed or request is following])
        assert passes < 1000, "the victim starves"
        while grants and following.state is State.WAITING and victim.state is State.WAITING:
            grants = table.release(grants[0])
            passes += len([request for request in grants if request is not victim])
        reader = following
    assert passes <= lock_table.PASS_LIMIT + ahead + 1


def test_a_thousand_waiters_on_one_lock_cost_a_release_one_look() -> None:
    table = CountingTable()
    holder = table.request(0, {A: X})
    waiters = [table.request(owner, {A: X, (Level.NODE, f"n{owner}"): X}) for owner in range(1, 1001)]
    table.checks = 0
    for _ in waiters:
        (holder,) = table.release(holder)
    assert table.checks == len(waiters)


def test_waiters_that_a_busy_lock_bars_are_not_looked_at_when_another_is_released() -> None:
    table = CountingTable()
    table.request(0, {B: X})
    holder = table.request(1, {A: X})
    for owner in range(2, 1002):
        table.request(owner, {A: X, B: X})
    table.checks = 0
    table.release(holder)
    assert table.checks <= 1000  # once each: they are parked at B now
    table.checks = 0
    for owner in range(2000, 2010):
        table.release(table.request(owner, {A: X}))
    assert table.checks == 10


def test_nothing_remains_of_unused_locks() -> None:
    table = lock_table.LockTable(pass_limit=1)
    source = random.Random(4)
    names = [(level, name) for level in (Level.INSTANCE, Level.NODE) for name in "abcdef*"]
    live: list[lock_table.Request] = []
    for owner in range(3000):
        lockset = {key: source.choice((S, X)) for key in source.sample(names, 3)}
        live.append(table.request(owner, lockset, priority=source.randrange(-2, 3)))
        while len(live) > source.randrange(12):
            table.release(live.pop(source.randrange(len(live))))
    for request in live:
        table.release(request)
    assert table.usage() == []
    assert vars(table)["_locks"] == {}
    assert vars(table)["_owned"] == {}


@pytest.mark.promise("cluster-43")
def test_usage_names_locks_with_their_level_and_says_who_holds_and_who_waits() -> None:
    table = lock_table.LockTable()
    table.request(7, {A: X, N: S, (Level.CONFIG, "config"): S})
    table.request(8, {ALL: S})
    table.request(9, {A: S, (Level.NODE, ALL_NAMES): X}, priority=-1)
    rows = {usage.name: (usage.mode, usage.owners, usage.pending) for usage in table.usage()}
    assert rows == {
        "cluster/BGL": ("shared", [7], [("shared", [9]), ("shared", [8])]),
        "instance/[lockset]": (None, [], [("shared", [8])]),
        "instance/a": ("exclusive", [7], [("shared", [9])]),
        "node/[lockset]": (None, [], [("exclusive", [9])]),
        "node/n": ("shared", [7], []),
        "config/config": ("shared", [7], []),
    }


def test_an_owner_holds_locks_from_the_grant_to_the_release() -> None:
    table = lock_table.LockTable()
    first = table.request(1, {A: X})
    table.request(2, {A: X})
    assert [table.is_holder(owner) for owner in (1, 2, 3)] == [True, False, False]
    table.release(first)
    assert [table.is_holder(owner) for owner in (1, 2)] == [False, True]


def test_usage_names_the_reservations_that_bar_a_request_and_not_those_for_another_mode() -> None:
    table = lock_table.LockTable(pass_limit=0)
    table.request(1, {B: X})
    reserved = table.request(2, {A: S, B: X})
    table.request(3, {A: X})
    assert reserved.turn
    for owner, mode in ((4, S), (5, X)):
        assert table.request(owner, {A: mode}).state is State.WAITING
    waits = dict(row for usage in table.usage() if usage.name == "instance/a" for row in usage.waits)
    assert waits == {4: [(3, "exclusive")], 5: [(3, "exclusive"), (2, lock_table.RESERVED)]}
