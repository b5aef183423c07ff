"""Jobs that begin in the commit that accepts them, and those that have to wait."""

import asyncio

import pytest
from tests.jobs.simulated_jobs import Script, SimulatedJobs, op

from gantry import errors
from gantry.model import lock
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states

LOCK: lock.LockSet = {(lock.Level.NETWORK, "u1"): lock.Mode.EXCLUSIVE}


def stored(lab: SimulatedJobs) -> dict[int, list[str]]:
    """Return the statuses with which each job was stored, in order."""
    lives = dict[int, list[str]]()
    for job in lab.memory.stored:
        lives.setdefault(job.id, []).append(str(job.status))
    return lives


def test_nothing_is_visible_or_executed_before_the_commit_that_begins_a_job(lab: SimulatedJobs) -> None:
    seen = list[object]()

    async def look(_: object) -> None:
        seen.append(lab.memory.durable.jobs["1"].status)

    lab.scripts["look"] = Script(locks=LOCK, inspect=look)

    async def scenario() -> None:
        submission = asyncio.create_task(lab.queue.submit([op("look")]))
        await asyncio.sleep(0)
        assert stored(lab) == {1: ["running"]}
        assert lab.queue.jobs() == {}
        assert seen == []
        await lab.wait(await submission)

    lab.run(scenario())
    assert seen == ["running"]
    assert stored(lab) == {1: ["running", "success"]}


def test_a_job_that_could_not_be_stored_leaves_its_locks_and_its_place(world: simulated.World) -> None:
    lab = SimulatedJobs(world, running=1)
    lab.scripts["locked"] = Script(locks=LOCK)
    lab.memory.full = True

    async def scenario() -> None:
        with pytest.raises(errors.StorageError):
            await lab.queue.submit([op("locked")])
        assert lab.locks.owners_and_waiters() == []
        lab.memory.full = False
        await lab.wait(await lab.queue.submit([op("locked")]))

    lab.run(scenario())
    assert stored(lab) == {1: ["running", "running", "success"]}


def test_a_job_that_the_state_refuses_leaves_its_locks_and_its_place(
    world: simulated.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = SimulatedJobs(world, running=1)
    lab.scripts["locked"] = Script(locks=LOCK)

    def refuse(*_: object) -> None:
        raise errors.WrongStateError("another node is the master")

    async def scenario() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(lab.memory, "submit", refuse)
            with pytest.raises(errors.WrongStateError):
                await lab.queue.submit([op("locked")])
        assert lab.locks.owners_and_waiters() == []
        await lab.wait(await lab.queue.submit([op("locked")]))

    lab.run(scenario())
    assert stored(lab) == {1: ["running", "success"]}


def test_a_job_is_not_executed_if_the_daemon_ends_while_it_is_stored(lab: SimulatedJobs) -> None:
    seen = list[str]()

    async def look(_: object) -> None:
        seen.append("executed")

    lab.scripts["look"] = Script(inspect=look)

    async def scenario() -> None:
        submission = asyncio.create_task(lab.queue.submit([op("look")]))
        await asyncio.sleep(0)
        await lab.queue.close()
        assert await submission == 1
        await asyncio.sleep(1)

    lab.run(scenario())
    assert stored(lab) == {1: ["running"]}
    assert seen == []


def test_a_job_does_not_overtake_one_that_arrives_with_it_and_has_to_wait(world: simulated.World) -> None:
    lab = SimulatedJobs(world, running=2)
    lab.scripts["locked"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(5))

    async def scenario() -> None:
        await asyncio.gather(*(lab.queue.submit([op(script)]) for script in ("locked", "locked", "")))
        await asyncio.sleep(1)
        assert lab.statuses() == {1: "running", 2: "waiting", 3: "queued"}
        await lab.wait(1, 2, 3)

    lab.run(scenario())


def test_the_best_priority_of_a_submission_begins_first(world: simulated.World) -> None:
    lab = SimulatedJobs(world, running=1)

    async def scenario() -> None:
        await lab.queue.submit_many([[op(seconds=1)], [op(seconds=1, priority=-5)]])
        await lab.wait(1, 2)

    lab.run(scenario())
    assert stored(lab) == {1: ["queued", "running", "success"], 2: ["running", "success"]}


def test_a_job_that_depends_on_another_is_queued_first(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        first = await lab.queue.submit([op(seconds=1)])
        await lab.wait(await lab.queue.submit([op(depends=[[first, []]])]))

    lab.run(scenario())
    assert stored(lab)[2] == ["queued", "running", "success"]


def test_a_unit_that_cannot_say_its_locks_ends_its_job_and_not_the_submission(lab: SimulatedJobs) -> None:
    def locks(_: states.Snapshot) -> lock.LockSet:
        raise ZeroDivisionError

    lab.scripts["broken"] = Script(locks=locks)

    async def scenario() -> list[str]:
        return await lab.wait(await lab.queue.submit([op("broken")]))

    assert lab.run(scenario()) == ["error"]
    assert lab.locks.owners_and_waiters() == []
