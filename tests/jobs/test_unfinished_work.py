"""Plans beyond their steps: steps after the last transaction, jobs of the plan, and a way to stop it."""

import asyncio
import dataclasses

import pytest
from msgspec import structs
from tests.jobs.simulated_jobs import Script, SimulatedJobs, op, procedure

from gantry import errors
from gantry.model import lock, network
from gantry.operations import base
from gantry.runtime import request_ids
from gantry.state.objects import snapshot as states

NET = network.Network(uuid="u1", name="net1")


async def _fails() -> None:
    raise errors.RemoteError("node2 does not answer")


def _ended(lab: SimulatedJobs, comment: str) -> list[tuple[str, object]]:
    async def scenario() -> None:
        await lab.wait(await lab.queue.submit([op(comment)]))

    lab.run(scenario())
    return [(str(step.status), step.result) for step in lab.job(1).ops]


def test_a_step_after_the_last_transaction_takes_nothing_back_when_it_fails(lab: SimulatedJobs) -> None:
    undone: list[str] = []

    async def undo() -> None:
        undone.append("undone")

    lab.scripts["late"] = Script(
        plan=base.Plan(
            steps=[base.Step("before", (), procedure(undo))],
            finish=lambda _: [states.Put(NET)],
            after=[base.Step("after", procedure(_fails), procedure(undo))],
        )
    )
    ((status, _),) = _ended(lab, "late")
    assert status == "error"
    assert lab.store.snapshot.networks["u1"] == NET
    assert not undone


def test_the_jobs_of_a_plan_are_submitted_and_named_in_its_result(lab: SimulatedJobs) -> None:
    lab.scripts["many"] = Script(
        plan=base.Plan(jobs=[[op("first")], [op("second")]], result=lambda: {"stay": {"vm1": "why"}})
    )
    ((status, result),) = _ended(lab, "many")
    assert status == "success"
    assert result == {"jobs": [[True, 2], [True, 3]], "stay": {"vm1": "why"}}
    assert sorted(lab.queue.jobs()) == [1, 2, 3]


def test_jobs_that_a_job_submits_have_its_reason_and_priority_and_name_its_opcode(lab: SimulatedJobs) -> None:
    trail, own_trail = (("gantry-rapi", "user", 1),), (("gnt-job", "", 2),)
    own = structs.replace(op("own", priority=3), reason=own_trail)
    lab.scripts["many"] = Script(plan=base.Plan(jobs=[[op()], [own]]))

    async def scenario() -> None:
        await lab.wait(await lab.queue.submit([structs.replace(op("many", priority=-5), reason=trail)]))

    lab.run(scenario())
    plain, other = (lab.queue.jobs()[number].ops[0].input for number in (2, 3))
    assert (plain.reason, plain.priority, plain.comment) == (trail, -5, "Submitted by OP_TEST_DELAY")
    assert (other.reason, other.priority, other.comment) == (own_trail, 3, "own")


@pytest.mark.parametrize(("request_id", "inherited"), [("req-9", "req-9"), ("", "job-1")])
def test_jobs_that_a_job_submits_have_its_request_or_its_number(
    lab: SimulatedJobs, request_id: str, inherited: str
) -> None:
    lab.scripts["many"] = Script(plan=base.Plan(jobs=[[op()], [op()]]))

    async def scenario() -> None:
        request_ids.CURRENT.set(request_id)
        await lab.wait(await lab.queue.submit([op("many")]))

    lab.run(scenario())
    assert [lab.queue.jobs()[number].request for number in (1, 2, 3)] == [request_id, inherited, inherited]


def test_a_job_that_runs_can_be_canceled_only_while_it_says_so(lab: SimulatedJobs) -> None:
    reached, release = asyncio.Event(), asyncio.Event()
    answers: list[bool] = []

    async def inspect(environment: base.Environment) -> None:
        reached.set()
        await release.wait()
        with environment.stoppable() as canceled:
            reached.set()
            while not canceled():
                await environment.sleep(1)
            raise errors.JobCanceledError

    lab.scripts["stops"] = Script(inspect=inspect)

    async def scenario() -> None:
        number = await lab.queue.submit([op("stops")])
        await reached.wait()
        answers.append((await lab.queue.cancel(number))[0])
        reached.clear()
        release.set()
        await reached.wait()
        answers.append((await lab.queue.cancel(number))[0])
        await lab.wait(number)

    lab.run(scenario())
    assert answers == [False, True]
    assert str(lab.job(1).ops[0].status) == "canceled"


def test_a_job_that_was_canceled_too_late_ends_as_what_it_is(lab: SimulatedJobs) -> None:
    inside = asyncio.Event()

    async def inspect(environment: base.Environment) -> None:
        with environment.stoppable() as canceled:
            inside.set()
            while not canceled():
                await environment.sleep(1)
        raise errors.RemoteError("node2 does not answer")

    lab.scripts["late"] = Script(inspect=inspect)

    async def scenario() -> None:
        number = await lab.queue.submit([op("late")])
        await inside.wait()
        await lab.queue.cancel(number)
        await lab.wait(number)

    lab.run(scenario())
    assert str(lab.job(1).ops[0].status) == "error"
    assert "node2 does not answer" in str(lab.job(1).ops[0].result)


def _killed(lab: SimulatedJobs, script: Script, *, at: asyncio.Event) -> list[str]:
    """Kill a job at a moment and run another one with its locks; return the log of the first one."""
    locks = {(lock.Level.INSTANCE, "vm1"): lock.Mode.EXCLUSIVE}
    lab.scripts["long"], lab.scripts["next"] = dataclasses.replace(script, locks=locks), Script(locks=locks)

    async def scenario() -> None:
        number = await lab.queue.submit([op("long"), op("never")])
        await at.wait()
        assert (await lab.queue.cancel(number))[0] is False
        assert await lab.queue.cancel(number, kill=True) == (True, f"Job {number} will be killed")
        assert await lab.wait(number) == ["canceled"]
        assert await lab.wait(await lab.queue.submit([op("next")])) == ["success"]

    lab.run(scenario())
    assert [str(step.status) for step in lab.job(1).ops] == ["canceled", "canceled"]
    assert lab.job(1).ops[0].result == "Job canceled by request"
    return [str(entry[-1]) for entry in lab.job(1).ops[0].log]


def _hangs(reached: asyncio.Event) -> base.Actions:
    async def hang() -> None:
        reached.set()
        await asyncio.Event().wait()

    return procedure(hang)


def test_a_killed_job_undoes_its_steps_and_releases_its_locks(lab: SimulatedJobs) -> None:
    reached, undone = asyncio.Event(), list[str]()

    async def undo() -> None:
        await asyncio.sleep(0)
        undone.append("undone")

    steps = [base.Step("first", (), procedure(undo)), base.Step("second", _hangs(reached), procedure(undo))]
    log = _killed(lab, Script(plan=base.Plan(changes=[states.Put(NET)], steps=steps)), at=reached)
    assert undone == ["undone", "undone"]
    assert "u1" not in lab.store.snapshot.networks
    assert log[-1] == "- WARNING: the job was canceled in the middle of this, which is undone: second"


def test_a_killed_job_names_the_steps_that_stay_done(lab: SimulatedJobs) -> None:
    reached = asyncio.Event()
    steps = [base.Step("first", ()), base.Step("second", _hangs(reached))]
    plan = base.Plan(changes=[states.Put(NET)], steps=steps, keep_on_failure=True)
    assert _killed(lab, Script(plan=plan), at=reached)[-2:] == [
        "- WARNING: the job was canceled, and this stays done: first",
        "- WARNING: the job was canceled in the middle of this: second",
    ]
    assert lab.store.snapshot.networks["u1"] == NET


def test_a_job_that_is_killed_before_or_after_its_changes_leaves_them_whole(lab: SimulatedJobs) -> None:
    reached = asyncio.Event()

    async def inspect(environment: base.Environment) -> None:
        reached.set()
        await asyncio.Event().wait()

    _killed(lab, Script(inspect=inspect, plan=base.Plan(changes=[states.Put(NET)])), at=reached)
    assert "u1" not in lab.store.snapshot.networks
    late = asyncio.Event()
    plan = base.Plan(changes=[states.Put(NET)], after=[base.Step("clean up", _hangs(late))])
    lab.scripts["late"] = Script(plan=plan)

    async def scenario() -> None:
        number = await lab.queue.submit([op("late")])
        await late.wait()
        await lab.queue.cancel(number, kill=True)
        assert await lab.wait(number) == ["canceled"]

    lab.run(scenario())
    assert lab.store.snapshot.networks["u1"] == NET
    (record,) = [job for job in lab.queue.jobs().values() if job.ops[0].input.comment == "late"]
    assert "this may not be done: clean up" in str(record.ops[0].log[-1])


def test_a_job_that_is_killed_while_its_changes_are_stored_begins_no_step(lab: SimulatedJobs) -> None:
    performed = list[str]()
    answers = list[asyncio.Future[tuple[bool, str]]]()

    async def perform() -> None:
        performed.append("done")

    async def undo() -> None:
        performed.append("undone")

    def plan(_: states.Snapshot) -> base.Plan:
        # It runs in the next turn of the event loop, before the changes of the plan are durable.
        answers.append(asyncio.ensure_future(lab.queue.cancel(1, kill=True)))
        return base.Plan(changes=[states.Put(NET)], steps=[base.Step("first", procedure(perform), procedure(undo))])

    lab.scripts["killed"] = Script(plan=plan)
    ((status, result),) = _ended(lab, "killed")
    assert (status, result) == ("canceled", "Job canceled by request")
    assert [answer.result() for answer in answers] == [(True, "Job 1 will be killed")]
    assert performed == ["undone"]
    assert "u1" not in lab.store.snapshot.networks


@pytest.mark.parametrize("kill", [False, True])
def test_a_job_that_takes_long_to_cancel_is_canceled_once_and_can_be_killed(lab: SimulatedJobs, kill: bool) -> None:
    inside = asyncio.Event()

    async def inspect(environment: base.Environment) -> None:
        with environment.stoppable() as canceled:
            inside.set()
            await environment.sleep(3600)
            if canceled():
                raise errors.JobCanceledError

    lab.scripts["slow"] = Script(inspect=inspect)

    async def scenario() -> float:
        number = await lab.queue.submit([op("slow")])
        await inside.wait()
        begin = lab.world.clock.monotonic()
        assert await lab.queue.cancel(number) == (True, f"Job {number} will be canceled")
        assert lab.job(number).status == "canceling"
        assert await lab.queue.cancel(number, kill=kill) == (True, f"Job {number} is being canceled already")
        assert await lab.wait(number) == ["canceled"]
        return lab.world.clock.monotonic() - begin

    assert lab.run(scenario()) == pytest.approx(0 if kill else 3600, abs=1)


def test_a_job_that_is_canceled_in_the_turn_in_which_it_gets_its_locks_does_nothing(lab: SimulatedJobs) -> None:
    performed = list[str]()
    locks = {(lock.Level.INSTANCE, "vm1"): lock.Mode.EXCLUSIVE}

    async def inspect(_: base.Environment) -> None:
        performed.append("inspected")

    lab.scripts["waits"] = Script(locks=locks, inspect=inspect)

    async def scenario() -> None:
        other_request = lab.locks.try_acquire(1_000_000, locks)
        assert other_request
        number = await lab.queue.submit([op("waits")])
        await lab.until(number, "waiting")
        lab.locks.release(other_request)
        assert await lab.queue.cancel(number) == (True, f"Job {number} will be canceled")
        assert await lab.wait(number) == ["canceled"]

    lab.run(scenario())
    assert lab.job(1).ops[0].result == "Job canceled by request"
    assert not performed
    assert lab.locks.owners_and_waiters() == []
