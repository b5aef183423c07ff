import asyncio

import msgspec
import pytest
from tests.jobs.simulated_jobs import Script, SimulatedJobs, op

from gantry import errors
from gantry.jobs import archiving, queue
from gantry.model import job as jobs
from gantry.model.lock import Level, Mode
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

LOCK = {(Level.NODE, "n"): Mode.EXCLUSIVE}


@pytest.mark.promise("cluster-53", "cluster-57")
def test_a_job_runs_its_opcodes_in_order_and_keeps_their_results(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        number = await lab.queue.submit([op(seconds=2), op(seconds=3)])
        assert await lab.wait(number) == ["success"]

    begin = lab.runtime.clock.now()
    lab.run(scenario())
    job = lab.job(1)
    assert [step.result for step in job.ops] == [None, None]
    first, second = job.ops
    assert first.end_timestamp == second.start_timestamp == jobs.timestamp(begin + 2)
    assert job.start_timestamp == first.start_timestamp == jobs.timestamp(begin)
    assert job.end_timestamp == jobs.timestamp(begin + 5)
    assert lab.memory.durable.jobs["1"] == job


@pytest.mark.promise("cluster-65")
def test_statuses_are_stored_in_the_order_of_a_jobs_life(lab: SimulatedJobs) -> None:
    lab.scripts["locked"] = Script(locks=LOCK)

    async def scenario() -> None:
        first, second = await lab.queue.submit([op("locked", seconds=1)]), await lab.queue.submit([op("locked")])
        await lab.wait(first, second)

    lab.scripts["locked"].inspect = lambda environment: environment.sleep(1)
    lab.run(scenario())
    lives = {number: [str(job.status) for job in lab.memory.stored if job.id == number] for number in (1, 2)}
    assert lives == {1: ["running", "success"], 2: ["queued", "waiting", "running", "success"]}


@pytest.mark.promise("cluster-1")
def test_jobs_on_different_locks_run_at_the_same_time(lab: SimulatedJobs) -> None:
    for index in range(50):
        lab.scripts[str(index)] = Script(
            locks={(Level.NODE, str(index)): Mode.EXCLUSIVE}, inspect=lambda environment: environment.sleep(10)
        )

    async def scenario() -> None:
        numbers = await lab.queue.submit_many([[op(str(index))] for index in range(50)])
        await lab.wait(*(number for number in numbers if isinstance(number, int)))

    begin = lab.runtime.clock.now()
    lab.run(scenario())
    assert lab.runtime.clock.now() - begin < 11


@pytest.mark.promise("cluster-55")
def test_no_more_jobs_run_than_the_cluster_allows_and_the_others_wait_by_priority(world: simulated.World) -> None:
    lab = SimulatedJobs(world, running=2)

    async def scenario() -> None:
        for priority in (0, 0, 10, -10, 0):
            await lab.queue.submit([op(seconds=10, priority=priority)])
        await lab.queue.change_priority(5, -20)
        await asyncio.sleep(1)
        assert list(lab.statuses().values()) == ["running", "running", "queued", "queued", "queued"]
        await asyncio.sleep(10)
        assert list(lab.statuses().values()) == ["success", "success", "queued", "running", "running"]

    lab.run(scenario())


def test_a_job_without_opcodes_is_refused(lab: SimulatedJobs) -> None:
    with pytest.raises(errors.InvalidError, match="A job needs at least one opcode"):
        lab.run(lab.queue.submit([]))
    assert lab.statuses() == {}


def test_a_job_with_too_many_opcodes_is_refused_with_the_limit(lab: SimulatedJobs) -> None:
    for count in (queue.OPCODE_LIMIT + 1, 10_000):
        with pytest.raises(errors.InvalidError, match=f"a job of {count} opcodes is too long, the maximum is 500"):
            lab.run(lab.queue.submit([op()] * count))
    number = lab.run(lab.queue.submit([op()] * queue.OPCODE_LIMIT))
    assert lab.run(lab.wait(number)) == ["success"]


def test_jobs_submitted_together_are_accepted_or_refused_one_by_one(lab: SimulatedJobs) -> None:
    first, second, third = lab.run(lab.queue.submit_many([[op()], [], [op()]]))
    assert (first, third) == (1, 2)
    assert isinstance(second, errors.InvalidError)


def test_submissions_at_the_same_moment_get_different_numbers(lab: SimulatedJobs) -> None:
    async def scenario() -> list[int]:
        return await asyncio.gather(*(lab.queue.submit([op()]) for _ in range(20)))

    assert sorted(lab.run(scenario())) == list(range(1, 21))


def test_a_number_is_not_given_again_when_its_job_is_archived(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        await lab.wait(await lab.queue.submit([op()]))
        await lab.queue.archive(1)
        assert await lab.queue.submit([op()]) == 2

    lab.run(scenario())


def test_a_full_queue_takes_no_more_until_jobs_are_archived(world: simulated.World) -> None:
    lab = SimulatedJobs(world, limit=2)

    async def scenario() -> None:
        answers = await lab.queue.submit_many([[op()], [op()], [op()]])
        assert isinstance(answers[2], errors.QueueFullError)
        with pytest.raises(errors.QueueFullError):
            await lab.queue.submit([op()])
        await lab.wait(1, 2)
        await lab.queue.archive(1)
        assert await lab.queue.submit([op()]) == 3

    lab.run(scenario())


@pytest.mark.promise("cluster-68")
def test_a_drained_queue_takes_no_jobs_but_ends_those_it_has_and_stays_drained_over_a_restart(
    lab: SimulatedJobs,
) -> None:
    async def scenario() -> None:
        await lab.queue.submit([op(seconds=5)])
        await lab.queue.set_drained(True, transaction.Cause(reason="drained"))
        with pytest.raises(errors.QueueDrainedError):
            await lab.queue.submit([op()])
        assert await lab.wait(1) == ["success"]
        assert await lab.queue.submit([op()], ignore_drain=True) == 2
        await lab.wait(2)
        lab.boot()
        await lab.queue.start()
        assert lab.queue.drained
        await lab.queue.set_drained(False, transaction.Cause(reason="opened"))
        assert await lab.queue.submit([op()]) == 3

    lab.run(scenario())


@pytest.mark.promise("cluster-152")
def test_a_job_runs_to_its_end_without_a_waiting_client(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        await lab.queue.submit([op(seconds=5)])
        await asyncio.sleep(6)

    lab.run(scenario())
    assert lab.statuses() == {1: "success"}


def test_a_submission_whose_client_hangs_up_is_not_lost(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        submission = asyncio.create_task(lab.queue.submit([op()]))
        await asyncio.sleep(0)
        submission.cancel()
        await asyncio.sleep(1)

    lab.run(scenario())
    assert lab.statuses() == {1: "success"}


@pytest.mark.promise("cluster-56")
def test_a_job_can_be_canceled_until_it_runs(world: simulated.World) -> None:
    lab = SimulatedJobs(world, running=2)
    lab.scripts["locked"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(10))

    async def scenario() -> None:
        for _ in range(3):
            await lab.queue.submit([op("locked"), op()])
        await asyncio.sleep(1)
        assert list(lab.statuses().values()) == ["running", "waiting", "queued"]
        assert (await lab.queue.cancel(1))[0] is False
        assert await lab.queue.cancel(3) == (True, "Dequeued job 3")
        assert await lab.queue.cancel(2) == (True, "Job 2 will be canceled")
        assert await lab.wait(1, 2, 3) == ["success", "canceled", "canceled"]
        for number in (1, 2, 3):
            assert (await lab.queue.cancel(number))[0] is False

    begin = lab.runtime.clock.now()
    lab.run(scenario())
    assert lab.runtime.clock.now() - begin < 11
    assert [str(step.status) for step in lab.job(2).ops] == ["canceled", "canceled"]
    assert lab.job(3).ops[0].result == "Job canceled by request"
    assert [str(job.status) for job in lab.memory.stored if job.id == 2][-2:] == ["canceling", "canceled"]
    assert lab.locks.owners_and_waiters() == []


def test_a_canceled_waiter_lets_those_behind_it_go_on(lab: SimulatedJobs) -> None:
    lab.scripts["locked"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(10))

    async def scenario() -> None:
        for _ in range(3):
            await lab.queue.submit([op("locked")])
        await asyncio.sleep(1)
        await lab.queue.cancel(2)
        assert await lab.wait(3) == ["success"]

    begin = lab.runtime.clock.now()
    lab.run(scenario())
    assert lab.runtime.clock.now() - begin < 21


def test_a_new_priority_moves_a_job_that_waits_for_locks(lab: SimulatedJobs) -> None:
    lab.scripts["locked"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(10))

    async def scenario() -> None:
        for _ in range(3):
            await lab.queue.submit([op("locked")])
        await asyncio.sleep(1)
        assert (await lab.queue.change_priority(3, -5))[0]
        await asyncio.sleep(10)
        assert lab.statuses() == {1: "success", 2: "waiting", 3: "running"}
        assert (await lab.queue.change_priority(1, 5))[0] is False
        with pytest.raises(errors.InvalidError):
            await lab.queue.change_priority(2, 20)
        with pytest.raises(errors.InvalidError):
            await lab.queue.change_priority(2, -21)

    lab.run(scenario())
    assert lab.memory.durable.jobs["3"].priority == -5


def test_a_job_waits_for_those_it_depends_on_by_number_or_by_place_in_the_submission(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        await lab.queue.submit([op(seconds=10)])
        answers = await lab.queue.submit_many(
            [[op(seconds=5)], [op(depends=[(-1, ["success"])])], [op(depends=[(-2, []), (1, [])])]]
        )
        assert answers == [2, 3, 4]
        await asyncio.sleep(4)
        assert lab.statuses() == {1: "running", 2: "running", 3: "queued", 4: "queued"}
        await asyncio.sleep(3)
        assert lab.statuses() == {1: "running", 2: "success", 3: "success", 4: "queued"}
        assert await lab.wait(4) == ["success"]

    lab.run(scenario())
    wish = (lab.job(4).ops[0].input.depends or ())[0]
    assert wish.job == 2


def test_the_end_of_a_dependency_decides_over_the_jobs_that_wait_for_it(lab: SimulatedJobs) -> None:
    def fail(_: states.Snapshot) -> None:
        raise errors.NotFoundError("no such thing")

    lab.scripts["bad"] = Script(plan=fail)  # type: ignore[arg-type]

    async def scenario() -> None:
        await lab.queue.submit([op(seconds=100)])
        await lab.queue.submit([op("bad", depends=[(1, ["canceled", "success"])])])
        await lab.queue.submit([op(depends=[(2, ["success"])])])
        await lab.queue.submit([op(depends=[(2, [])])])
        dependency = await lab.queue.submit([op(depends=[(1, [])])])
        wants = await lab.queue.submit([op(depends=[(dependency, ["success"])])])
        tolerates = await lab.queue.submit([op(depends=[(dependency, ["canceled"])])])
        await lab.queue.cancel(dependency)
        assert await lab.wait(wants, tolerates) == ["canceled", "success"]
        assert await lab.wait(1, 2, 3, 4) == ["success", "error", "error", "success"]

    lab.run(scenario())
    result = lab.job(3).ops[0].result
    assert isinstance(result, list)
    assert "job 2" in str(result)


@pytest.mark.parametrize("wrong", [(-1, []), (1, []), (7, [])])
def test_a_dependency_on_the_job_itself_or_on_none_is_refused(lab: SimulatedJobs, wrong: tuple[int, list[str]]) -> None:
    with pytest.raises(errors.InvalidError, match="dependency"):
        lab.run(lab.queue.submit([op(depends=[wrong])]))
    assert lab.memory.durable.last_job == 0


def test_a_dependency_on_an_archived_job_counts(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        await lab.wait(await lab.queue.submit([op()]))
        lab.archived[1] = lab.job(1)
        await lab.queue.archive(1)
        assert await lab.wait(await lab.queue.submit([op(depends=[(1, ["success"])])])) == ["success"]

    lab.run(scenario())


def test_a_dependency_that_is_in_no_archive_any_more_fails_the_job_that_waits_for_it(lab: SimulatedJobs) -> None:
    step = jobs.Step(input=op(depends=[(7, [])]))

    async def scenario() -> None:
        waiting = jobs.Job(id=8, ops=(step,), received_timestamp=(1, 2))
        await lab.memory.submit([states.Put(waiting)], transaction.Cause())
        await lab.queue.start()
        assert await lab.wait(8) == ["error"]

    lab.run(scenario())
    assert "job 7, which this job depends on, does not exist any more" in str(lab.job(8).ops[0].result)


def test_jobs_that_ended_are_archived_alone_or_all_above_an_age(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        await lab.queue.submit([op(seconds=10)])
        assert await lab.queue.archive(1) is False
        await lab.wait(1)
        await asyncio.sleep(100)
        await lab.wait(await lab.queue.submit([op()]))
        await lab.wait(await lab.queue.submit([op()]))
        await lab.queue.submit([op(seconds=10)])
        assert await lab.queue.autoarchive(50, 10) == (1, 0)
        assert await lab.queue.archive(2) is True
        assert lab.memory.causes[-1] == transaction.Cause(job=0, opcode="", user="", reason="archive")
        assert await lab.queue.autoarchive(-1, 0) == (0, 1)
        assert await lab.queue.autoarchive(-1, 10) == (1, 0)
        with pytest.raises(errors.JobLostError):
            await lab.queue.archive(1)

    lab.run(scenario())
    assert list(lab.statuses()) == list(map(int, lab.memory.durable.jobs)) == [4]


def test_two_who_archive_at_once_do_not_disturb_each_other(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        await lab.wait(await lab.queue.submit([op()]))
        both = await asyncio.gather(lab.queue.archive(1), lab.queue.autoarchive(-1, 10))
        assert tuple(both) == (True, (0, 0))

    lab.run(scenario())


def test_after_a_restart_started_jobs_have_failed_and_queued_ones_run(world: simulated.World) -> None:
    lab = SimulatedJobs(world, running=2)
    lab.scripts["locked"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(10))

    async def before() -> None:
        await lab.wait(await lab.queue.submit([op()]))
        for _ in range(3):
            await lab.queue.submit([op("locked"), op()])
        await lab.queue.submit([op(depends=[(4, [])])])
        await asyncio.sleep(1)
        assert list(lab.statuses().values()) == ["success", "running", "waiting", "queued", "queued"]

    async def after() -> None:
        await lab.queue.start()
        assert list(lab.statuses().values()) == ["success", "error", "error", "queued", "queued"]
        assert await lab.wait(4, 5) == ["success", "success"]

    lab.run(before())
    lab.run(lab.queue.close())
    lab.boot()
    lab.run(after())
    for number in (2, 3):
        job = lab.memory.durable.jobs[str(number)]
        assert [str(step.status) for step in job.ops] == ["error", "error"]
        assert all("restarted" in str(step.result) for step in job.ops)
        assert job.end_timestamp


def test_stored_jobs_have_the_keys_and_values_that_readers_of_job_files_expect(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        await lab.wait(await lab.queue.submit([op(seconds=1)]))

    lab.run(scenario())
    data = msgspec.to_builtins(lab.job(1))
    times = ["received_timestamp", "start_timestamp", "end_timestamp"]
    assert list(data) == ["id", "ops", *times, "submitter", "request"]
    assert data["ops"][0]["input"]["OP_ID"] == "OP_TEST_DELAY"
    assert data["ops"][0]["status"] == "success"


def test_a_queue_that_is_closed_archives_no_more_of_the_jobs_that_clients_waited_for(
    lab: SimulatedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "RECENT", 3)
    monkeypatch.setattr(archiving, "_BATCH", 4)

    async def scenario(*, closed: bool) -> None:
        for _ in range(7):
            await lab.queue.run([op()], timeout=10)
        if closed:
            await lab.queue.close()
        await asyncio.sleep(1)

    lab.run(scenario(closed=False))
    assert sorted(lab.memory.durable.jobs) == ["5", "6", "7"]
    lab.boot()
    lab.run(scenario(closed=True))
    assert len(lab.memory.durable.jobs) == 3 + 7
