import asyncio

import msgspec
import pytest
from tests.jobs.house import House, Script, op

from gantry import errors
from gantry.jobs import queue
from gantry.model import job as jobs
from gantry.model.lock import Level, Mode
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

LOCK = {(Level.NODE, "n"): Mode.EXCLUSIVE}


@pytest.mark.promise("cluster-53", "cluster-57")
def test_a_job_runs_its_opcodes_in_order_and_keeps_their_results(house: House) -> None:
    async def scenario() -> None:
        number = await house.queue.submit([op(seconds=2), op(seconds=3)])
        assert await house.wait(number) == ["success"]

    begin = house.runtime.clock.now()
    house.run(scenario())
    job = house.job(1)
    assert [step.result for step in job.ops] == [None, None]
    first, second = job.ops
    assert first.end_timestamp == second.start_timestamp == jobs.timestamp(begin + 2)
    assert job.start_timestamp == first.start_timestamp == jobs.timestamp(begin)
    assert job.end_timestamp == jobs.timestamp(begin + 5)
    assert house.memory.durable.jobs["1"] == job


@pytest.mark.promise("cluster-65")
def test_statuses_are_stored_in_the_order_of_a_jobs_life(house: House) -> None:
    house.scripts["locked"] = Script(locks=LOCK)

    async def scenario() -> None:
        first, second = await house.queue.submit([op("locked", seconds=1)]), await house.queue.submit([op("locked")])
        await house.wait(first, second)

    house.scripts["locked"].inspect = lambda environment: environment.sleep(1)
    house.run(scenario())
    lives = {number: [str(job.status) for job in house.memory.stored if job.id == number] for number in (1, 2)}
    assert lives == {1: ["running", "success"], 2: ["queued", "waiting", "running", "success"]}


@pytest.mark.promise("cluster-1")
def test_jobs_on_different_locks_run_at_the_same_time(house: House) -> None:
    for index in range(50):
        house.scripts[str(index)] = Script(
            locks={(Level.NODE, str(index)): Mode.EXCLUSIVE}, inspect=lambda environment: environment.sleep(10)
        )

    async def scenario() -> None:
        numbers = await house.queue.submit_many([[op(str(index))] for index in range(50)])
        await house.wait(*(number for number in numbers if isinstance(number, int)))

    begin = house.runtime.clock.now()
    house.run(scenario())
    assert house.runtime.clock.now() - begin < 11


@pytest.mark.promise("cluster-55")
def test_no_more_jobs_run_than_the_cluster_allows_and_the_others_wait_by_priority(world: simulated.World) -> None:
    house = House(world, running=2)

    async def scenario() -> None:
        for priority in (0, 0, 10, -10, 0):
            await house.queue.submit([op(seconds=10, priority=priority)])
        await house.queue.change_priority(5, -20)
        await asyncio.sleep(1)
        assert list(house.statuses().values()) == ["running", "running", "queued", "queued", "queued"]
        await asyncio.sleep(10)
        assert list(house.statuses().values()) == ["success", "success", "queued", "running", "running"]

    house.run(scenario())


def test_a_job_without_opcodes_is_refused(house: House) -> None:
    with pytest.raises(errors.InvalidError, match="A job needs at least one opcode"):
        house.run(house.queue.submit([]))
    assert house.statuses() == {}


def test_a_job_with_too_many_opcodes_is_refused_with_the_limit(house: House) -> None:
    for count in (queue.OPCODE_LIMIT + 1, 10_000):
        with pytest.raises(errors.InvalidError, match=f"a job of {count} opcodes is too long, the maximum is 500"):
            house.run(house.queue.submit([op()] * count))
    number = house.run(house.queue.submit([op()] * queue.OPCODE_LIMIT))
    assert house.run(house.wait(number)) == ["success"]


def test_jobs_submitted_together_are_accepted_or_refused_one_by_one(house: House) -> None:
    first, second, third = house.run(house.queue.submit_many([[op()], [], [op()]]))
    assert (first, third) == (1, 2)
    assert isinstance(second, errors.InvalidError)


def test_submissions_at_the_same_moment_get_different_numbers(house: House) -> None:
    async def scenario() -> list[int]:
        return await asyncio.gather(*(house.queue.submit([op()]) for _ in range(20)))

    assert sorted(house.run(scenario())) == list(range(1, 21))


def test_a_number_is_not_given_again_when_its_job_is_archived(house: House) -> None:
    async def scenario() -> None:
        await house.wait(await house.queue.submit([op()]))
        await house.queue.archive(1)
        assert await house.queue.submit([op()]) == 2

    house.run(scenario())


def test_a_full_queue_takes_no_more_until_jobs_are_archived(world: simulated.World) -> None:
    house = House(world, limit=2)

    async def scenario() -> None:
        answers = await house.queue.submit_many([[op()], [op()], [op()]])
        assert isinstance(answers[2], errors.QueueFullError)
        with pytest.raises(errors.QueueFullError):
            await house.queue.submit([op()])
        await house.wait(1, 2)
        await house.queue.archive(1)
        assert await house.queue.submit([op()]) == 3

    house.run(scenario())


@pytest.mark.promise("cluster-68")
def test_a_drained_queue_takes_no_jobs_but_ends_those_it_has_and_stays_drained_over_a_restart(house: House) -> None:
    async def scenario() -> None:
        await house.queue.submit([op(seconds=5)])
        await house.queue.set_drained(True, transaction.Cause(reason="drained"))
        with pytest.raises(errors.QueueDrainedError):
            await house.queue.submit([op()])
        assert await house.wait(1) == ["success"]
        assert await house.queue.submit([op()], ignore_drain=True) == 2
        await house.wait(2)
        house.boot()
        await house.queue.start()
        assert house.queue.drained
        await house.queue.set_drained(False, transaction.Cause(reason="opened"))
        assert await house.queue.submit([op()]) == 3

    house.run(scenario())


@pytest.mark.promise("cluster-152")
def test_a_job_runs_to_its_end_without_a_waiting_client(house: House) -> None:
    async def scenario() -> None:
        await house.queue.submit([op(seconds=5)])
        await asyncio.sleep(6)

    house.run(scenario())
    assert house.statuses() == {1: "success"}


def test_a_submission_whose_client_hangs_up_is_not_lost(house: House) -> None:
    async def scenario() -> None:
        submission = asyncio.create_task(house.queue.submit([op()]))
        await asyncio.sleep(0)
        submission.cancel()
        await asyncio.sleep(1)

    house.run(scenario())
    assert house.statuses() == {1: "success"}


@pytest.mark.promise("cluster-56")
def test_a_job_can_be_canceled_until_it_runs(world: simulated.World) -> None:
    house = House(world, running=2)
    house.scripts["locked"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(10))

    async def scenario() -> None:
        for _ in range(3):
            await house.queue.submit([op("locked"), op()])
        await asyncio.sleep(1)
        assert list(house.statuses().values()) == ["running", "waiting", "queued"]
        assert (await house.queue.cancel(1))[0] is False
        assert await house.queue.cancel(3) == (True, "Dequeued job 3")
        assert await house.queue.cancel(2) == (True, "Job 2 will be canceled")
        assert await house.wait(1, 2, 3) == ["success", "canceled", "canceled"]
        for number in (1, 2, 3):
            assert (await house.queue.cancel(number))[0] is False

    begin = house.runtime.clock.now()
    house.run(scenario())
    assert house.runtime.clock.now() - begin < 11
    assert [str(step.status) for step in house.job(2).ops] == ["canceled", "canceled"]
    assert house.job(3).ops[0].result == "Job canceled by request"
    assert [str(job.status) for job in house.memory.stored if job.id == 2][-2:] == ["canceling", "canceled"]
    assert house.locks.owners_and_waiters() == []


def test_a_canceled_waiter_lets_those_behind_it_go_on(house: House) -> None:
    house.scripts["locked"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(10))

    async def scenario() -> None:
        for _ in range(3):
            await house.queue.submit([op("locked")])
        await asyncio.sleep(1)
        await house.queue.cancel(2)
        assert await house.wait(3) == ["success"]

    begin = house.runtime.clock.now()
    house.run(scenario())
    assert house.runtime.clock.now() - begin < 21


def test_a_new_priority_moves_a_job_that_waits_for_locks(house: House) -> None:
    house.scripts["locked"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(10))

    async def scenario() -> None:
        for _ in range(3):
            await house.queue.submit([op("locked")])
        await asyncio.sleep(1)
        assert (await house.queue.change_priority(3, -5))[0]
        await asyncio.sleep(10)
        assert house.statuses() == {1: "success", 2: "waiting", 3: "running"}
        assert (await house.queue.change_priority(1, 5))[0] is False
        with pytest.raises(errors.InvalidError):
            await house.queue.change_priority(2, 20)
        with pytest.raises(errors.InvalidError):
            await house.queue.change_priority(2, -21)

    house.run(scenario())
    assert house.memory.durable.jobs["3"].priority == -5


def test_a_job_waits_for_those_it_depends_on_by_number_or_by_place_in_the_submission(house: House) -> None:
    async def scenario() -> None:
        await house.queue.submit([op(seconds=10)])
        answers = await house.queue.submit_many(
            [[op(seconds=5)], [op(depends=[(-1, ["success"])])], [op(depends=[(-2, []), (1, [])])]]
        )
        assert answers == [2, 3, 4]
        await asyncio.sleep(4)
        assert house.statuses() == {1: "running", 2: "running", 3: "queued", 4: "queued"}
        await asyncio.sleep(3)
        assert house.statuses() == {1: "running", 2: "success", 3: "success", 4: "queued"}
        assert await house.wait(4) == ["success"]

    house.run(scenario())
    wish = (house.job(4).ops[0].input.depends or ())[0]
    assert wish.job == 2


def test_the_end_of_a_dependency_decides_over_the_jobs_that_wait_for_it(house: House) -> None:
    def fail(_: states.Snapshot) -> None:
        raise errors.NotFoundError("no such thing")

    house.scripts["bad"] = Script(plan=fail)  # type: ignore[arg-type]

    async def scenario() -> None:
        await house.queue.submit([op(seconds=100)])
        await house.queue.submit([op("bad", depends=[(1, ["canceled", "success"])])])
        await house.queue.submit([op(depends=[(2, ["success"])])])
        await house.queue.submit([op(depends=[(2, [])])])
        dependency = await house.queue.submit([op(depends=[(1, [])])])
        wants = await house.queue.submit([op(depends=[(dependency, ["success"])])])
        tolerates = await house.queue.submit([op(depends=[(dependency, ["canceled"])])])
        await house.queue.cancel(dependency)
        assert await house.wait(wants, tolerates) == ["canceled", "success"]
        assert await house.wait(1, 2, 3, 4) == ["success", "error", "error", "success"]

    house.run(scenario())
    result = house.job(3).ops[0].result
    assert isinstance(result, list)
    assert "job 2" in str(result)


@pytest.mark.parametrize("wrong", [(-1, []), (1, []), (7, [])])
def test_a_dependency_on_the_job_itself_or_on_none_is_refused(house: House, wrong: tuple[int, list[str]]) -> None:
    with pytest.raises(errors.InvalidError, match="dependency"):
        house.run(house.queue.submit([op(depends=[wrong])]))
    assert house.memory.durable.last_job == 0


def test_a_dependency_on_an_archived_job_counts(house: House) -> None:
    async def scenario() -> None:
        await house.wait(await house.queue.submit([op()]))
        house.archived[1] = house.job(1)
        await house.queue.archive(1)
        assert await house.wait(await house.queue.submit([op(depends=[(1, ["success"])])])) == ["success"]

    house.run(scenario())


def test_jobs_that_ended_are_archived_alone_or_all_above_an_age(house: House) -> None:
    async def scenario() -> None:
        await house.queue.submit([op(seconds=10)])
        assert await house.queue.archive(1) is False
        await house.wait(1)
        await asyncio.sleep(100)
        await house.wait(await house.queue.submit([op()]))
        await house.wait(await house.queue.submit([op()]))
        await house.queue.submit([op(seconds=10)])
        assert await house.queue.autoarchive(50, 10) == (1, 0)
        assert await house.queue.archive(2) is True
        assert await house.queue.autoarchive(-1, 0) == (0, 1)
        assert await house.queue.autoarchive(-1, 10) == (1, 0)
        with pytest.raises(errors.JobLostError):
            await house.queue.archive(1)

    house.run(scenario())
    assert list(house.statuses()) == list(map(int, house.memory.durable.jobs)) == [4]


def test_two_who_archive_at_once_do_not_disturb_each_other(house: House) -> None:
    async def scenario() -> None:
        await house.wait(await house.queue.submit([op()]))
        both = await asyncio.gather(house.queue.archive(1), house.queue.autoarchive(-1, 10))
        assert tuple(both) == (True, (0, 0))

    house.run(scenario())


def test_after_a_restart_started_jobs_have_failed_and_queued_ones_run(world: simulated.World) -> None:
    house = House(world, running=2)
    house.scripts["locked"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(10))

    async def before() -> None:
        await house.wait(await house.queue.submit([op()]))
        for _ in range(3):
            await house.queue.submit([op("locked"), op()])
        await house.queue.submit([op(depends=[(4, [])])])
        await asyncio.sleep(1)
        assert list(house.statuses().values()) == ["success", "running", "waiting", "queued", "queued"]

    async def after() -> None:
        await house.queue.start()
        assert list(house.statuses().values()) == ["success", "error", "error", "queued", "queued"]
        assert await house.wait(4, 5) == ["success", "success"]

    house.run(before())
    house.run(house.queue.close())
    house.boot()
    house.run(after())
    for number in (2, 3):
        job = house.memory.durable.jobs[str(number)]
        assert [str(step.status) for step in job.ops] == ["error", "error"]
        assert all("restarted" in str(step.result) for step in job.ops)
        assert job.end_timestamp


def test_stored_jobs_have_the_keys_and_values_that_readers_of_job_files_expect(house: House) -> None:
    async def scenario() -> None:
        await house.wait(await house.queue.submit([op(seconds=1)]))

    house.run(scenario())
    data = msgspec.to_builtins(house.job(1))
    times = ["received_timestamp", "start_timestamp", "end_timestamp"]
    assert list(data) == ["id", "ops", *times, "submitter", "request"]
    assert data["ops"][0]["input"]["OP_ID"] == "OP_TEST_DELAY"
    assert data["ops"][0]["status"] == "success"
