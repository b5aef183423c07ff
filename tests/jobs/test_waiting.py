import asyncio

import pytest
from tests.jobs.simulated_jobs import Script, SimulatedJobs, op

from gantry import errors
from gantry.model import job as jobs
from gantry.operations import base


def values(job: jobs.Job) -> list[object]:
    return [str(job.status), [str(step.status) for step in job.ops]]


async def chat(environment: base.Environment) -> None:
    await environment.sleep(1)
    environment.log.info("begin")
    await environment.sleep(10)
    environment.log.warning("it takes long")
    await environment.sleep(10)


def test_an_answer_comes_at_once_when_the_values_differ(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        number = await lab.queue.submit([op(seconds=5)])
        change = await lab.queue.wait_for_change(number, values, previous=None, serial=None, timeout=10)
        assert change == (["running", ["running"]], [])
        await lab.wait(number)

    begin = lab.runtime.clock.now()
    lab.run(scenario())
    assert lab.runtime.clock.now() == begin + 5


def test_an_answer_comes_when_the_status_changes(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        number = await lab.queue.submit([op(seconds=5)])
        await lab.until(number, "running")
        begin = lab.runtime.clock.now()
        change = await lab.queue.wait_for_change(
            number, values, previous=["running", ["running"]], serial=None, timeout=10
        )
        assert change == (["success", ["success"]], [])
        assert lab.runtime.clock.now() - begin == pytest.approx(5, abs=0.1)

    lab.run(scenario())


def test_nothing_is_the_answer_when_the_time_is_over(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        number = await lab.queue.submit([op(seconds=50)])
        await lab.until(number, "running")
        before = values(lab.job(number))
        assert await lab.queue.wait_for_change(number, values, previous=before, serial=0, timeout=10) is None

    lab.run(scenario())


def test_a_job_that_has_ended_answers_every_time(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        number = await lab.queue.submit([op()])
        await lab.wait(number)
        for _ in range(3):
            change = await lab.queue.wait_for_change(
                number, values, previous=values(lab.job(number)), serial=9, timeout=10
            )
            assert change == (["success", ["success"]], [])

    lab.run(scenario())


def test_an_unknown_job_is_lost(lab: SimulatedJobs) -> None:
    with pytest.raises(errors.JobLostError):
        lab.run(lab.queue.wait_for_change(7, values, previous=None, serial=None, timeout=10))


def test_whoever_waits_sees_each_log_message_when_it_is_written(lab: SimulatedJobs) -> None:
    lab.scripts["chat"] = Script(inspect=chat)
    seen = []

    async def scenario() -> None:
        number = await lab.queue.submit([op("chat"), op("chat")])
        begin = lab.runtime.clock.monotonic()
        serial, previous = 0, None
        while lab.job(number).status not in jobs.FINAL:
            change = await lab.queue.wait_for_change(number, values, previous=previous, serial=serial, timeout=60)
            assert change is not None
            previous, entries = change
            for entry in entries:
                serial = entry[0]
                seen.append((entry[0], round(lab.runtime.clock.monotonic() - begin), entry[2], entry[3]))

    lab.run(scenario())
    assert seen == [
        (1, 1, "message", "begin"),
        (2, 11, "message", "- WARNING: it takes long"),
        (3, 22, "message", "begin"),
        (4, 32, "message", "- WARNING: it takes long"),
    ]


async def copies(environment: base.Environment) -> None:
    for percent in (10, 60):
        await environment.sleep(1)
        environment.log.progress(f"{percent} %")
    await environment.sleep(1)
    environment.log.progress("")
    await environment.sleep(1)


def test_whoever_waits_sees_how_far_the_work_is_and_it_is_never_stored(lab: SimulatedJobs) -> None:
    lab.scripts["copies"] = Script(inspect=copies)
    seen = list[tuple[float, list[object]]]()

    async def scenario() -> None:
        number = await lab.queue.submit([op("copies")])

        def with_progress(job: jobs.Job) -> list[object]:
            return [str(job.status), lab.queue.progress(number)]

        previous: list[object] | None = None
        while lab.job(number).status not in jobs.FINAL:
            change = await lab.queue.wait_for_change(number, with_progress, previous=previous, serial=0, timeout=60)
            assert change is not None
            previous, _ = change
            seen.append((round(lab.runtime.clock.monotonic()), previous))

    lab.run(scenario())
    begin = seen[0][0]
    assert [(moment - begin, *values) for moment, values in seen] == [
        (0, "running", ""),
        (1, "running", "10 %"),
        (2, "running", "60 %"),
        (3, "running", ""),
        (4, "success", ""),
    ]
    assert [str(job.status) for job in lab.memory.stored] == ["running", "success"]


def test_the_progress_of_a_job_ends_with_it(lab: SimulatedJobs) -> None:
    async def fail(environment: base.Environment) -> None:
        environment.log.progress("10 %")
        raise errors.ExecutionError("the disk is broken")

    lab.scripts["fails"] = Script(inspect=fail)

    async def scenario() -> None:
        number = await lab.queue.submit([op("fails")])
        await lab.wait(number)
        assert lab.queue.progress(number) == ""

    lab.run(scenario())


@pytest.mark.promise("cluster-62")
def test_log_messages_cost_no_transaction_of_their_own(lab: SimulatedJobs) -> None:
    lab.scripts["chat"] = Script(inspect=chat)

    async def scenario() -> None:
        await lab.wait(await lab.queue.submit([op("chat")]))

    lab.run(scenario())
    assert [str(job.status) for job in lab.memory.stored] == ["running", "success"]
    assert [len(step.log) for step in lab.memory.durable.jobs["1"].ops] == [2]


def test_many_may_wait_for_one_job_and_each_may_leave_without_effect_on_the_others(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        number = await lab.queue.submit([op(seconds=5)])
        await lab.until(number, "running")
        before = values(lab.job(number))
        waiters = [
            asyncio.create_task(lab.queue.wait_for_change(number, values, previous=before, serial=0, timeout=60))
            for _ in range(5)
        ]
        await asyncio.sleep(1)
        waiters[0].cancel()
        assert await asyncio.gather(*waiters[1:]) == [(["success", ["success"]], [])] * 4

    lab.run(scenario())


def test_no_client_sees_a_status_that_a_crash_could_revert(lab: SimulatedJobs) -> None:
    order = [jobs.Status.QUEUED, jobs.Status.RUNNING, jobs.Status.SUCCESS]

    async def scenario() -> None:
        number = await lab.queue.submit([op()])
        while lab.job(number).status not in jobs.FINAL:
            durable = lab.memory.durable.jobs[str(number)]
            assert order.index(lab.job(number).status) <= order.index(durable.status)
            await asyncio.sleep(0)

    lab.run(scenario())
