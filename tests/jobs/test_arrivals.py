"""Jobs that begin in the commit that accepts them, and those that have to wait."""

import asyncio

import pytest
from tests.jobs.house import House, Script, op

from gantry import errors
from gantry.model import lock
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states

LOCK: lock.LockSet = {(lock.Level.NETWORK, "u1"): lock.Mode.EXCLUSIVE}


def stored(house: House) -> dict[int, list[str]]:
    """Return the statuses with which each job was stored, in order."""
    lives = dict[int, list[str]]()
    for job in house.memory.stored:
        lives.setdefault(job.id, []).append(str(job.status))
    return lives


def test_nothing_is_visible_or_executed_before_the_commit_that_begins_a_job(house: House) -> None:
    seen = list[object]()

    async def look(_: object) -> None:
        seen.append(house.memory.durable.jobs["1"].status)

    house.scripts["look"] = Script(locks=LOCK, inspect=look)

    async def scenario() -> None:
        submission = asyncio.create_task(house.queue.submit([op("look")]))
        await asyncio.sleep(0)
        assert stored(house) == {1: ["running"]}
        assert house.queue.jobs() == {}
        assert seen == []
        await house.wait(await submission)

    house.run(scenario())
    assert seen == ["running"]
    assert stored(house) == {1: ["running", "success"]}


def test_a_job_that_could_not_be_stored_leaves_its_locks_and_its_place(world: simulated.World) -> None:
    house = House(world, running=1)
    house.scripts["locked"] = Script(locks=LOCK)
    house.memory.full = True

    async def scenario() -> None:
        with pytest.raises(errors.StorageError):
            await house.queue.submit([op("locked")])
        assert house.locks.owners_and_waiters() == []
        house.memory.full = False
        await house.wait(await house.queue.submit([op("locked")]))

    house.run(scenario())
    assert stored(house) == {1: ["running", "running", "success"]}


def test_a_job_that_the_state_refuses_leaves_its_locks_and_its_place(
    world: simulated.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(world, running=1)
    house.scripts["locked"] = Script(locks=LOCK)

    def refuse(*_: object) -> None:
        raise errors.WrongStateError("another node is the master")

    async def scenario() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(house.memory, "submit", refuse)
            with pytest.raises(errors.WrongStateError):
                await house.queue.submit([op("locked")])
        assert house.locks.owners_and_waiters() == []
        await house.wait(await house.queue.submit([op("locked")]))

    house.run(scenario())
    assert stored(house) == {1: ["running", "success"]}


def test_a_job_is_not_executed_if_the_daemon_ends_while_it_is_stored(house: House) -> None:
    seen = list[str]()

    async def look(_: object) -> None:
        seen.append("executed")

    house.scripts["look"] = Script(inspect=look)

    async def scenario() -> None:
        submission = asyncio.create_task(house.queue.submit([op("look")]))
        await asyncio.sleep(0)
        await house.queue.close()
        assert await submission == 1
        await asyncio.sleep(1)

    house.run(scenario())
    assert stored(house) == {1: ["running"]}
    assert seen == []


def test_a_job_does_not_overtake_one_that_arrives_with_it_and_has_to_wait(world: simulated.World) -> None:
    house = House(world, running=2)
    house.scripts["locked"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(5))

    async def scenario() -> None:
        await asyncio.gather(*(house.queue.submit([op(script)]) for script in ("locked", "locked", "")))
        await asyncio.sleep(1)
        assert house.statuses() == {1: "running", 2: "waiting", 3: "queued"}
        await house.wait(1, 2, 3)

    house.run(scenario())


def test_the_best_priority_of_a_submission_begins_first(world: simulated.World) -> None:
    house = House(world, running=1)

    async def scenario() -> None:
        await house.queue.submit_many([[op(seconds=1)], [op(seconds=1, priority=-5)]])
        await house.wait(1, 2)

    house.run(scenario())
    assert stored(house) == {1: ["queued", "running", "success"], 2: ["running", "success"]}


def test_a_job_that_depends_on_another_is_queued_first(house: House) -> None:
    async def scenario() -> None:
        first = await house.queue.submit([op(seconds=1)])
        await house.wait(await house.queue.submit([op(depends=[[first, []]])]))

    house.run(scenario())
    assert stored(house)[2] == ["queued", "running", "success"]


def test_a_unit_that_cannot_say_its_locks_ends_its_job_and_not_the_submission(house: House) -> None:
    def locks(_: states.Snapshot) -> lock.LockSet:
        raise ZeroDivisionError

    house.scripts["broken"] = Script(locks=locks)

    async def scenario() -> list[str]:
        return await house.wait(await house.queue.submit([op("broken")]))

    assert house.run(scenario()) == ["error"]
    assert house.locks.owners_and_waiters() == []
