import asyncio

import pytest
from tests.jobs.house import House, Script, op

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


def test_an_answer_comes_at_once_when_the_values_differ(house: House) -> None:
    async def scenario() -> None:
        number = await house.queue.submit([op(seconds=5)])
        change = await house.queue.wait_for_change(number, values, previous=None, serial=None, timeout=10)
        assert change == (["running", ["running"]], [])
        await house.wait(number)

    begin = house.runtime.clock.now()
    house.run(scenario())
    assert house.runtime.clock.now() == begin + 5


def test_an_answer_comes_when_the_status_changes(house: House) -> None:
    async def scenario() -> None:
        number = await house.queue.submit([op(seconds=5)])
        await house.until(number, "running")
        begin = house.runtime.clock.now()
        change = await house.queue.wait_for_change(
            number, values, previous=["running", ["running"]], serial=None, timeout=10
        )
        assert change == (["success", ["success"]], [])
        assert house.runtime.clock.now() - begin == pytest.approx(5, abs=0.1)

    house.run(scenario())


def test_nothing_is_the_answer_when_the_time_is_over(house: House) -> None:
    async def scenario() -> None:
        number = await house.queue.submit([op(seconds=50)])
        await house.until(number, "running")
        before = values(house.job(number))
        assert await house.queue.wait_for_change(number, values, previous=before, serial=0, timeout=10) is None

    house.run(scenario())


def test_a_job_that_has_ended_answers_every_time(house: House) -> None:
    async def scenario() -> None:
        number = await house.queue.submit([op()])
        await house.wait(number)
        for _ in range(3):
            change = await house.queue.wait_for_change(
                number, values, previous=values(house.job(number)), serial=9, timeout=10
            )
            assert change == (["success", ["success"]], [])

    house.run(scenario())


def test_an_unknown_job_is_lost(house: House) -> None:
    with pytest.raises(errors.JobLostError):
        house.run(house.queue.wait_for_change(7, values, previous=None, serial=None, timeout=10))


def test_whoever_waits_sees_each_log_message_when_it_is_written(house: House) -> None:
    house.scripts["chat"] = Script(inspect=chat)
    seen = []

    async def scenario() -> None:
        number = await house.queue.submit([op("chat"), op("chat")])
        begin = house.runtime.clock.monotonic()
        serial, previous = 0, None
        while house.job(number).status not in jobs.FINAL:
            change = await house.queue.wait_for_change(number, values, previous=previous, serial=serial, timeout=60)
            assert change is not None
            previous, entries = change
            for entry in entries:
                serial = entry[0]
                seen.append((entry[0], round(house.runtime.clock.monotonic() - begin), entry[2], entry[3]))

    house.run(scenario())
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


def test_whoever_waits_sees_how_far_the_work_is_and_it_is_never_stored(house: House) -> None:
    house.scripts["copies"] = Script(inspect=copies)
    seen = list[tuple[float, list[object]]]()

    async def scenario() -> None:
        number = await house.queue.submit([op("copies")])

        def with_progress(job: jobs.Job) -> list[object]:
            return [str(job.status), house.queue.progress(number)]

        previous: list[object] | None = None
        while house.job(number).status not in jobs.FINAL:
            change = await house.queue.wait_for_change(number, with_progress, previous=previous, serial=0, timeout=60)
            assert change is not None
            previous, _ = change
            seen.append((round(house.runtime.clock.monotonic()), previous))

    house.run(scenario())
    begin = seen[0][0]
    assert [(moment - begin, *values) for moment, values in seen] == [
        (0, "running", ""),
        (1, "running", "10 %"),
        (2, "running", "60 %"),
        (3, "running", ""),
        (4, "success", ""),
    ]
    assert [str(job.status) for job in house.memory.stored] == ["running", "success"]


def test_the_progress_of_a_job_ends_with_it(house: House) -> None:
    async def fail(environment: base.Environment) -> None:
        environment.log.progress("10 %")
        raise errors.ExecutionError("the disk is broken")

    house.scripts["fails"] = Script(inspect=fail)

    async def scenario() -> None:
        number = await house.queue.submit([op("fails")])
        await house.wait(number)
        assert house.queue.progress(number) == ""

    house.run(scenario())


@pytest.mark.promise("cluster-62")
def test_log_messages_cost_no_transaction_of_their_own(house: House) -> None:
    house.scripts["chat"] = Script(inspect=chat)

    async def scenario() -> None:
        await house.wait(await house.queue.submit([op("chat")]))

    house.run(scenario())
    assert [str(job.status) for job in house.memory.stored] == ["running", "success"]
    assert [len(step.log) for step in house.memory.durable.jobs["1"].ops] == [2]


def test_many_may_wait_for_one_job_and_each_may_leave_without_effect_on_the_others(house: House) -> None:
    async def scenario() -> None:
        number = await house.queue.submit([op(seconds=5)])
        await house.until(number, "running")
        before = values(house.job(number))
        waiters = [
            asyncio.create_task(house.queue.wait_for_change(number, values, previous=before, serial=0, timeout=60))
            for _ in range(5)
        ]
        await asyncio.sleep(1)
        waiters[0].cancel()
        assert await asyncio.gather(*waiters[1:]) == [(["success", ["success"]], [])] * 4

    house.run(scenario())


def test_no_client_sees_a_status_that_a_crash_could_revert(house: House) -> None:
    order = [jobs.Status.QUEUED, jobs.Status.RUNNING, jobs.Status.SUCCESS]

    async def scenario() -> None:
        number = await house.queue.submit([op()])
        while house.job(number).status not in jobs.FINAL:
            durable = house.memory.durable.jobs[str(number)]
            assert order.index(house.job(number).status) <= order.index(durable.status)
            await asyncio.sleep(0)

    house.run(scenario())
