"""Mistakes in the lock table that the exploration must find; each is easy to make."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

import pytest
from tests.jobs import lock_world, test_lock_table_explored
from tests.jobs.lock_world import ALL, A, B, LockSet, N, S, X

from gantry import errors
from gantry.jobs import lock_modes, lock_table
from gantry.jobs.lock_table import Request, State

Masks = dict[lock_modes.Key, lock_modes.Mask]


class SharedBesideExclusive(lock_table.LockTable):
    def _obstacle(self, request: Request) -> lock_modes.Key | None:
        for key, mask in request.needs.items():
            lock = self._locks.get(key)
            if mask != lock_modes.SHARED and lock is not None and lock.bars(request, mask):
                return key
        return None


class PartOfASet(lock_table.LockTable):
    def _grant(self, request: Request) -> None:
        last = next(reversed(request.needs))
        request.needs = {key: mask for key, mask in request.needs.items() if key != last} or request.needs
        super()._grant(request)


class NoAgeing(lock_table.LockTable):
    def _check_oldest(self, lock: lock_table._Lock, mask: lock_modes.Mask) -> None:
        pass


class ReservationForgotten(lock_table.LockTable):
    """A request that was passed over too often gets its turn, but no lock is reserved for it."""

    def _obstacle(self, request: Request) -> lock_modes.Key | None:
        kept = {key: lock.reserved for key, lock in self._locks.items()}
        for lock in self._locks.values():
            lock.reserved = []
        try:
            return super()._obstacle(request)
        finally:
            for key, reserved in kept.items():
                self._locks[key].reserved = reserved


class PassesCountedAtTheFirstLockAlone(lock_table.LockTable):
    def _grant(self, request: Request) -> None:
        before = {key: dict(lock.passes) for key, lock in self._locks.items()}
        super()._grant(request)
        for key, lock in self._locks.items():
            if key[0] is not lock_world.BGL[0]:
                lock.passes = before.get(key, {})


class WaitersSurviveRemoval(lock_table.LockTable):
    def remove(self, request: Request, key: lock_modes.Key) -> list[Request]:
        lock = self._locks[key]
        if request.needs.pop(key, None):
            lock.unhold(request)
        return self._wake({key: 0})


class NoOrder(lock_table.LockTable):
    def _behind(self, mine: list[Request], needs: Masks) -> Masks:
        if any(request.state is State.WAITING for request in mine):
            raise errors.LockError("waits")
        own = {key: mask for request in mine for key, mask in request.needs.items()}
        return {key: mask for key, mask in needs.items() if mask & ~lock_modes.COVERS[own.get(key, 0)]}


class NoWaiterIsWoken(lock_table.LockTable):
    def _wake(self, keys: Iterable[lock_modes.Key]) -> list[Request]:
        for key in list(keys):
            lock = self._locks.get(key)
            if lock and not lock.holders and not lock.waiting:
                del self._locks[key]
        return []


class OnlyTheFirstLockWakes(lock_table.LockTable):
    def _wake(self, keys: Iterable[lock_modes.Key]) -> list[Request]:
        return super()._wake(list(keys)[:1])


class MetalockForgotten(lock_table.LockTable):
    def request(self, owner: int, lockset: LockSet, *, priority: int = 0) -> Request:
        renamed = {(level, "all" if name == "*" else name): mode for (level, name), mode in lockset.items()}
        return super().request(owner, renamed, priority=priority)


class NewcomersGoFirst(lock_table.LockTable):
    """Waiters are examined from the youngest on, and passes are not counted."""

    def _enqueue(self, request: Request, obstacle: lock_modes.Key) -> None:
        request.priority = -request.arrival
        super()._enqueue(request, obstacle)

    def _check_oldest(self, lock: lock_table._Lock, mask: lock_modes.Mask) -> None:
        pass


class WaiterLeftInItsQueue(lock_table.LockTable):
    """A request that is taken back stays in the queue of its last lock."""

    def _dequeue(self, request: Request) -> None:
        super()._dequeue(request)
        key, mask = next(reversed(request.needs.items()))
        if request.holding or request.turn:
            self._locks[key].waiting.setdefault(mask, OrderedDict())[request] = 0


MISTAKES: Mapping[str, type[lock_table.LockTable]] = {
    kind.__name__: kind
    for kind in (
        SharedBesideExclusive,
        PartOfASet,
        NoAgeing,
        ReservationForgotten,
        PassesCountedAtTheFirstLockAlone,
        WaitersSurviveRemoval,
        NoOrder,
        NoWaiterIsWoken,
        OnlyTheFirstLockWakes,
        MetalockForgotten,
        NewcomersGoFirst,
        WaiterLeftInItsQueue,
    )
}
MENUS: list[tuple[list[LockSet], int, int]] = [
    ([{A: X}, {A: S}], 1, 0),
    ([{A: X, B: X}, {ALL: S}], 1, 0),
    ([{A: X}, {N: X}, {ALL: S}], 2, 0),
    (test_lock_table_explored.BIG_LOCK, 1, 1),
]
"""Parts of what is explored, the smallest first."""


@pytest.mark.promise("cluster-38")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_locks_is_found(name: str, figure: Callable[[str], None]) -> None:
    for menu, steps, pass_limit in MENUS:
        try:
            lock_world.explore(menu, steps=steps, pass_limit=pass_limit, make=MISTAKES[name])
        except (lock_world.ViolationError, LookupError, ValueError) as violation:
            figure(f"locks: the exploration finds {name}: {str(violation)[:60]}")
            return
    pytest.fail(f"{name} is not found")
