import asyncio
import itertools
from collections.abc import Iterator

import pytest

from gantry import errors
from gantry.kubernetes.controllers import rate_limit, workqueue
from gantry.runtime import simulated


@pytest.fixture
def world() -> Iterator[simulated.World]:
    with simulated.World(seed=1) as new_world:
        yield new_world


def test_a_key_is_worked_on_by_one_worker_and_again_if_it_is_added_meanwhile(world: simulated.World) -> None:
    async def check() -> None:
        keys: workqueue.WorkQueue[str] = workqueue.WorkQueue(world.machine("m"))
        running, ended = set[str](), list[str]()

        async def work(key: str) -> None:
            assert key not in running
            running.add(key)
            await world.clock.sleep(1)
            running.remove(key)
            ended.append(key)

        task = asyncio.ensure_future(keys.run(work, workers=4))
        for key in ("a", "b", "a"):
            keys.add(key)
        await world.clock.sleep(0.5)
        assert running == {"a", "b"}
        keys.add("a")
        keys.add("a")
        await world.clock.sleep(5)
        assert ended == ["a", "b", "a"]
        task.cancel()

    world.run(check())


def test_a_key_that_is_added_for_later_waits_unless_it_is_added_for_sooner(world: simulated.World) -> None:
    async def check() -> None:
        keys: workqueue.WorkQueue[str] = workqueue.WorkQueue(world.machine("m"))
        at: dict[str, float] = {}

        async def work(key: str) -> None:
            at[key] = world.clock.monotonic()

        task = asyncio.ensure_future(keys.run(work, workers=1))
        keys.add("a", after=10)
        keys.add("b", after=10)
        await world.clock.sleep(1)
        keys.add("b", after=2)
        keys.add("a", after=20)
        await world.clock.sleep(30)
        assert (round(at["a"]), round(at["b"])) == (10, 3)
        task.cancel()

    world.run(check())


def test_a_key_that_fails_is_tried_again_after_longer_and_longer_pauses(world: simulated.World) -> None:
    async def check() -> None:
        keys: workqueue.WorkQueue[str] = workqueue.WorkQueue(world.machine("m"))
        times: list[float] = []

        async def work(key: str) -> None:
            times.append(world.clock.monotonic())
            raise errors.BusyError

        task = asyncio.ensure_future(keys.run(work, workers=1))
        keys.add("a")
        await world.clock.sleep(600)
        pauses = [later - sooner for sooner, later in itertools.pairwise(times)]
        assert pauses[0] < 0.2
        assert rate_limit.MAX_DELAY_SECONDS / 2 <= pauses[-1] <= rate_limit.MAX_DELAY_SECONDS + 0.1
        assert len(pauses) < 60
        task.cancel()

    world.run(check())


def test_what_was_under_way_when_the_work_was_cancelled_is_due_when_it_goes_on(world: simulated.World) -> None:
    async def check() -> None:
        keys: workqueue.WorkQueue[str] = workqueue.WorkQueue(world.machine("m"))
        begun: list[str] = []

        async def work(key: str) -> None:
            begun.append(key)
            await world.clock.sleep(10)

        for _ in range(2):
            task = asyncio.ensure_future(keys.run(work, workers=1))
            keys.add("a")
            await world.clock.sleep(1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert begun == ["a", "a"]
        assert len(keys) == 1

    world.run(check())


def test_requests_keep_the_rate_limit_after_a_burst_and_pause_on_retry_after(world: simulated.World) -> None:
    async def check() -> None:
        limit = rate_limit.RateLimit(world.clock, per_second=10, burst=5)
        for _ in range(5):
            await limit.take()
        assert world.clock.monotonic() == 0
        for _ in range(20):
            await limit.take()
        assert 1.9 <= world.clock.monotonic() <= 2.1
        limit.pause(30)
        await limit.take()
        assert world.clock.monotonic() >= 32

    world.run(check())
