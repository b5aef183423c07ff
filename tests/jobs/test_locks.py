import asyncio
import gc

import pytest

from gantry import errors
from gantry.jobs import lock_table, locks
from gantry.model.lock import Level, Mode

A = (Level.INSTANCE, "a")
EXCLUSIVE = {A: Mode.EXCLUSIVE}


@pytest.mark.promise("cluster-50")
async def test_acquisition_waits_gives_up_after_a_time_or_only_tries() -> None:
    manager = locks.LockManager()
    holder = await manager.acquire(1, EXCLUSIVE)
    assert manager.try_acquire(2, EXCLUSIVE) is None
    with pytest.raises(TimeoutError):
        await manager.acquire(2, EXCLUSIVE, timeout=0.01)
    waiting = asyncio.create_task(manager.acquire(2, EXCLUSIVE, timeout=60))
    await asyncio.sleep(0)
    manager.release(holder)
    assert (await waiting).owns(A)
    assert manager.try_acquire(3, {}) is not None


async def test_a_waiter_whose_task_is_canceled_leaves_nothing_behind() -> None:
    manager = locks.LockManager()
    holder = await manager.acquire(1, EXCLUSIVE)
    waiting = asyncio.create_task(manager.acquire(2, EXCLUSIVE))
    await asyncio.sleep(0)
    waiting.cancel()
    manager.release(holder)
    await asyncio.wait([waiting])
    assert manager.owners_and_waiters() == []


async def test_requests_that_have_waited_and_ended_leave_the_memory() -> None:
    manager, owner, waiter = locks.LockManager(), 770_001, 770_002  # no other test's requests are counted
    for _ in range(5):
        holder = await manager.acquire(owner, EXCLUSIVE)
        waiting = asyncio.create_task(manager.acquire(waiter, EXCLUSIVE))
        await asyncio.sleep(0)
        manager.release(holder)
        manager.release(await waiting)
    del holder, waiting
    await asyncio.sleep(0)
    gc.collect()
    requests = [each for each in gc.get_objects() if type(each) is lock_table.Request]
    assert not [each for each in requests if each.owner in (owner, waiter)]


async def test_a_waiter_that_is_granted_and_canceled_in_one_turn_gives_back() -> None:
    manager = locks.LockManager()
    holder = await manager.acquire(1, EXCLUSIVE)
    waiting = asyncio.create_task(manager.acquire(2, EXCLUSIVE))
    await asyncio.sleep(0)
    manager.release(holder)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert manager.owners_and_waiters() == []


async def test_whoever_waits_for_a_lock_that_is_removed_or_is_taken_back_gets_a_lock_error() -> None:
    manager = locks.LockManager()
    holder = await manager.acquire(1, EXCLUSIVE)
    requests = [manager.ask(owner, EXCLUSIVE) for owner in (2, 3)]
    waiting = [asyncio.create_task(manager.granted(request)) for request in requests]
    await asyncio.sleep(0)
    manager.release(requests[1])
    manager.remove(holder, A)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [errors.LockError] * 2
    late = manager.ask(4, EXCLUSIVE)
    assert late.state is lock_table.State.GRANTED
