import asyncio
import errno
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from tests import collector
from tests.jobs.simulated_jobs import Script, SimulatedJobs, op, procedure

from gantry import errors
from gantry.model import cluster, lock, network, opcodes
from gantry.model.lock import ALL_NAMES, Level, Mode
from gantry.operations import base
from gantry.runtime import simulated, traces
from gantry.runtime.real import tracing
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

NET = network.Network(uuid="u1", name="net1")
LOCK = {(Level.NETWORK, "u1"): Mode.EXCLUSIVE}


def raising(error: Exception) -> Callable[..., Awaitable[None]]:
    async def act(*_: object) -> None:
        raise error

    return act


class Journal:
    """Steps that record their execution and their undo."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, name: str, *, fails: bool = False, undo_fails: bool = False) -> base.Step:
        async def do() -> None:
            self.lines.append(f"do {name}")
            if fails:
                raise errors.RemoteError("node2 does not answer")

        async def undo() -> None:
            self.lines.append(f"undo {name}")
            if undo_fails:
                raise errors.RemoteError("node2 is still silent")

        return base.Step(name, procedure(do), procedure(undo))


def run(lab: SimulatedJobs, *ops: opcodes.TestDelay) -> tuple[list[str], list[object]]:
    """Run one job; return the statuses and results of its opcodes."""

    async def scenario() -> None:
        number = await lab.queue.submit(ops)
        await lab.wait(number)

    lab.run(scenario())
    job = lab.job(max(lab.queue.jobs()))
    return [str(step.status) for step in job.ops], [step.result for step in job.ops]


def messages(lab: SimulatedJobs, number: int = 1) -> list[object]:
    return [entry[3] for step in lab.job(number).ops for entry in step.log]


def test_the_span_of_a_job_says_whether_it_failed(lab: SimulatedJobs) -> None:
    lab.scripts["good"] = Script()
    lab.scripts["bad"] = Script(plan=base.Plan(steps=[Journal().step("one", fails=True)]))
    with collector.listening() as received:
        tracer = tracing.Tracer("gantry-test", "1.0", "node1", received.url)
        with traces.installed(tracer):
            for name in ("good", "bad"):
                run(lab, op(name))
        tracer.close()
    assert [span.failed for span in received.spans if span.name == "job"] == [False, True]


@pytest.mark.promise("cluster-51")
def test_a_unit_declares_locks_then_inspects_plans_changes_steps_and_answers(lab: SimulatedJobs) -> None:
    order: list[str] = []

    def locks(_: states.Snapshot) -> lock.LockSet:
        order.append("locks")
        return LOCK

    async def inspect(environment: base.Environment) -> None:
        (usage,) = [lock for lock in lab.locks.owners_and_waiters() if lock.name == "network/u1"]
        order.append(f"inspect with {usage.mode} lock of job {usage.owners}, {lab.memory.durable.jobs['1'].status}")

    async def do() -> None:
        order.append(f"step with {list(lab.memory.durable.networks)}")

    def finish(snapshot: states.Snapshot) -> list[states.Change]:
        order.append("finish")
        return [states.Put(network.Network(uuid="u2", name="net2"))]

    def plan(_: states.Snapshot) -> base.Plan:
        order.append("plan")
        return base.Plan(
            changes=[states.Put(NET)],
            steps=[base.Step("make it", procedure(do))],
            finish=finish,
            result=lambda: ["made", len(lab.memory.durable.networks)],
        )

    lab.scripts["unit"] = Script(locks=locks, inspect=inspect, plan=plan)
    assert run(lab, op("unit")) == (["success"], [["made", 2]])
    assert order == [
        "locks",
        "inspect with exclusive lock of job [1], running",
        "plan",
        "step with ['u1']",
        "finish",
    ]
    assert messages(lab) == ["make it"]
    assert lab.locks.owners_and_waiters() == []


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(lab: SimulatedJobs) -> None:
    journal = Journal()
    lab.scripts["unit"] = Script(
        plan=base.Plan(lines=["add network net1"], changes=[states.Put(NET)], steps=[journal.step("one")])
    )
    assert run(lab, op("unit", dry_run=True)) == (["success"], [["add network net1"]])
    assert journal.lines == []
    assert not lab.store.snapshot.networks


def test_a_failing_step_undoes_those_before_it_and_takes_the_changes_back(lab: SimulatedJobs) -> None:
    journal = Journal()
    old = cluster.NodeGroup(uuid="g", name="default")
    lab.memory.snapshot = lab.memory.snapshot.apply([states.Put(old)], serial=2)
    lab.scripts["unit"] = Script(
        plan=base.Plan(
            changes=[states.Put(NET), states.Put(cluster.NodeGroup(uuid="g", name="renamed"))],
            steps=[journal.step("one"), journal.step("two", fails=True), journal.step("three")],
        )
    )
    statuses, results = run(lab, op("unit"), op())
    assert statuses == ["error", "error"]
    assert results == [
        ["RemoteError", ["node2 does not answer"]],
        ["OpExecError", ["Preceding opcode failed"]],
    ]
    assert journal.lines == ["do one", "do two", "undo two", "undo one"]
    assert not lab.memory.durable.networks
    assert lab.memory.durable.nodegroups["g"] == old


def test_the_changes_of_a_step_are_stored_before_its_actions_and_reverted_after_a_failure(lab: SimulatedJobs) -> None:
    durable = list[list[str]]()

    async def do() -> None:
        durable.append(sorted(lab.memory.durable.networks))

    async def fail() -> None:
        durable.append(sorted(lab.memory.durable.networks))
        raise errors.RemoteError("node2 does not answer")

    other = network.Network(uuid="u2", name="net2")
    steps = [base.Step("one", procedure(do)), base.Step("two", procedure(fail), changes=[states.Put(other)])]
    lab.scripts["unit"] = Script(plan=base.Plan(changes=[states.Put(NET)], steps=steps))
    assert run(lab, op("unit"))[0] == ["error"]
    assert durable == [["u1"], ["u1", "u2"]]
    assert not lab.memory.durable.networks


def test_an_undo_that_fails_is_logged_and_does_not_stop_the_others(lab: SimulatedJobs) -> None:
    journal = Journal()
    lab.scripts["unit"] = Script(
        plan=base.Plan(
            changes=[states.Put(NET)], steps=[journal.step("one"), journal.step("two", fails=True, undo_fails=True)]
        )
    )
    statuses, _ = run(lab, op("unit"))
    assert statuses == ["error"]
    assert journal.lines[-2:] == ["undo two", "undo one"]
    assert "- WARNING: could not undo: two: node2 is still silent" in messages(lab)


def test_the_state_keeps_what_a_node_may_still_have_after_an_undo_that_failed(lab: SimulatedJobs) -> None:
    step = Journal().step("one", fails=True, undo_fails=True)
    lab.scripts["unit"] = Script(plan=base.Plan(changes=[states.Put(NET)], steps=[step]))
    assert run(lab, op("unit"))[0] == ["error"]
    assert "u1" in lab.memory.durable.networks


def test_a_plan_may_keep_what_was_done_when_a_step_fails(lab: SimulatedJobs) -> None:
    journal = Journal()
    lab.scripts["unit"] = Script(
        plan=base.Plan(
            changes=[states.Put(NET)],
            steps=[journal.step("one"), journal.step("two", fails=True)],
            keep_on_failure=True,
        )
    )
    assert run(lab, op("unit"))[0] == ["error"]
    assert journal.lines == ["do one", "do two"]
    assert "u1" in lab.memory.durable.networks


@pytest.mark.parametrize(
    ("kept", "result"),
    [
        (True, ["OpExecError", ["the disk is full; make room"]]),
        (False, ["OpPrereqError", ["the disk is full; make room", "insufficient_resources"]]),
    ],
)
def test_an_error_that_says_that_nothing_changed_says_so_only_when_it_is_true(
    lab: SimulatedJobs, kept: bool, result: object
) -> None:
    step = base.Step("one", procedure(raising(errors.NoRoomError("the disk is full", hint="make room"))))
    lab.scripts["unit"] = Script(plan=base.Plan(changes=[states.Put(NET)], steps=[step], keep_on_failure=kept))
    assert run(lab, op("unit")) == (["error"], [result])
    assert ("u1" in lab.memory.durable.networks) is kept


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (errors.NotUniqueError("taken"), ["OpPrereqError", ["taken", "resource_not_unique"]]),
        (errors.ExecutionError("broken"), ["OpExecError", ["broken"]]),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x"),
            ["OpExecError", ["the master's own machine failed: No space left on device: /x"]],
        ),
        (
            OSError(errno.EIO, "Input/output error"),
            ["OpExecError", ["the master's own machine failed: Input/output error"]],
        ),
        (TimeoutError("a bug"), ["ProgrammerError", ["TimeoutError: a bug"]]),
        (ValueError("a bug"), ["ProgrammerError", ["ValueError: a bug"]]),
    ],
)
def test_an_error_becomes_the_result_as_clients_know_it(lab: SimulatedJobs, error: Exception, result: object) -> None:
    lab.scripts["unit"] = Script(inspect=raising(error))
    assert run(lab, op("unit")) == (["error"], [result])
    assert run(lab, op()) == (["success"], [None])


def test_an_opcode_without_a_unit_fails_its_job_alone(lab: SimulatedJobs) -> None:
    async def scenario() -> None:
        number = await lab.queue.submit([opcodes.ClusterVerify()])
        assert await lab.wait(number) == ["error"]

    lab.run(scenario())


def test_a_result_that_cannot_be_written_fails_the_job(lab: SimulatedJobs) -> None:
    lab.scripts["unit"] = Script(plan=base.Plan(result=object))
    assert run(lab, op("unit"))[0] == ["error"]


def test_locks_that_changed_while_the_job_waited_are_requested_again(lab: SimulatedJobs) -> None:
    networks = {"u1": Mode.EXCLUSIVE}

    def all_networks(snapshot: states.Snapshot) -> lock.LockSet:
        return {(Level.NETWORK, uuid): Mode.EXCLUSIVE for uuid in networks}

    async def look(environment: base.Environment) -> None:
        seen.append([lock.name for lock in lab.locks.owners_and_waiters() if lock.owners and "/u" in lock.name])

    seen: list[list[str]] = []
    lab.scripts["first"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(10))
    lab.scripts["second"] = Script(locks=all_networks, inspect=look)

    async def scenario() -> None:
        first, second = await lab.queue.submit([op("first")]), await lab.queue.submit([op("second")])
        await asyncio.sleep(1)
        networks["u2"] = Mode.EXCLUSIVE
        await lab.wait(first, second)

    lab.run(scenario())
    assert seen == [["network/u1", "network/u2"]]


@pytest.mark.promise("cluster-52")
def test_the_lock_of_an_object_that_was_deleted_goes_with_it_and_fails_those_who_queue(lab: SimulatedJobs) -> None:
    lab.memory.snapshot = lab.memory.snapshot.apply([states.Put(NET)], serial=2)
    lab.scripts["remove"] = Script(
        locks=LOCK,
        inspect=lambda environment: environment.sleep(10),
        plan=base.Plan(changes=[states.Delete("networks", "u1")]),
    )
    lab.scripts["use"] = Script(locks={(Level.NETWORK, "u1"): Mode.SHARED})
    lab.scripts["all"] = Script(locks={(Level.NETWORK, ALL_NAMES): Mode.SHARED})

    async def scenario() -> None:
        answers = await lab.queue.submit_many([[op("remove")], [op("use")], [op("all")]])
        assert answers == [1, 2, 3]
        assert await lab.wait(1, 2, 3) == ["success", "error", "success"]

    lab.run(scenario())
    result = lab.job(2).ops[0].result
    assert isinstance(result, list)
    assert result[0] == "LockError"


def test_an_object_that_a_job_creates_is_locked_until_the_job_has_ended(lab: SimulatedJobs) -> None:
    lab.scripts["create"] = Script(
        plan=base.Plan(
            changes=[states.Put(NET)], steps=[base.Step("work", procedure(lambda: lab.runtime.clock.sleep(10)))]
        )
    )
    lab.scripts["use"] = Script(locks=lambda now: {(Level.NETWORK, now.network("net1").uuid): Mode.SHARED})

    async def scenario() -> None:
        await lab.queue.submit_many([[op("create")]])
        await lab.runtime.clock.sleep(1)
        assert "u1" in lab.store.snapshot.networks
        await lab.queue.submit_many([[op("use")]])
        await lab.runtime.clock.sleep(1)
        assert lab.statuses() == {1: "running", 2: "waiting"}
        assert await lab.wait(1, 2) == ["success", "success"]

    lab.run(scenario())


def test_a_unit_that_would_delete_without_the_lock_is_stopped_before(lab: SimulatedJobs) -> None:
    lab.memory.snapshot = lab.memory.snapshot.apply([states.Put(NET)], serial=2)
    lab.scripts["remove"] = Script(plan=base.Plan(changes=[states.Delete("networks", "u1")]))
    assert run(lab, op("remove"))[0] == ["error"]
    assert "u1" in lab.store.snapshot.networks


def test_changes_are_committed_in_the_turn_of_the_plan_so_that_two_never_plan_on_the_same_state(
    lab: SimulatedJobs,
) -> None:
    def plan(snapshot: states.Snapshot) -> base.Plan:
        number = len(snapshot.networks)
        return base.Plan(changes=[states.Put(network.Network(uuid=f"u{number}", name=f"net{number}"))])

    lab.scripts["unit"] = Script(plan=plan)

    async def scenario() -> None:
        numbers = await lab.queue.submit_many([[op("unit")]] * 20)
        await lab.wait(*(number for number in numbers if isinstance(number, int)))

    lab.run(scenario())
    assert set(lab.statuses().values()) == {"success"}
    assert len(lab.memory.durable.networks) == 20


def test_a_job_without_changes_commands_nodes_only_when_what_it_is_based_on_is_acknowledged(lab: SimulatedJobs) -> None:
    seen: list[tuple[str, str]] = []

    async def inspect(_: base.Environment) -> None:
        # Another client changes the state in the turn of the plan.
        owner = lab.memory.snapshot.the_cluster
        cause = transaction.Cause(reason="another client")
        lab.memory.submit([states.Put(msgspec.structs.replace(owner, mac_prefix="aa:00:01"))], cause)

    async def command() -> None:
        seen.append((lab.memory.snapshot.the_cluster.mac_prefix, lab.memory.durable.the_cluster.mac_prefix))

    plan = base.Plan(steps=[base.Step("command a node", procedure(command))])
    lab.scripts["starts"] = Script(inspect=inspect, plan=plan)
    lab.run(lab.queue.submit([op("starts")]))
    assert lab.run(lab.wait(1)) == ["success"]
    assert seen == [("aa:00:01", "aa:00:01")]


def test_the_journal_learns_who_asked_and_why(lab: SimulatedJobs) -> None:
    opcode = opcodes.decode(
        {"OP_ID": "OP_TEST_DELAY", "duration": 0, "reason": [["gnt:user", "moving racks", 1], ["gnt:opcode:x", "", 2]]}
    )
    lab.scripts[""] = Script(plan=base.Plan(changes=[states.Put(NET)]))

    async def scenario() -> None:
        await lab.wait(await lab.queue.submit([opcode]))

    lab.run(scenario())
    causes = {(cause.job, cause.opcode, cause.user, cause.reason) for cause in lab.memory.causes}
    assert causes == {(1, "OP_TEST_DELAY", "gnt:user", "moving racks")}


def test_a_full_disk_fails_the_job_but_not_the_queue_and_its_end_is_stored_when_there_is_room(
    lab: SimulatedJobs,
) -> None:
    lab.scripts["unit"] = Script(
        inspect=lambda environment: environment.sleep(10), plan=base.Plan(changes=[states.Put(NET)])
    )

    async def scenario() -> None:
        number = await lab.queue.submit([op("unit")])
        await lab.until(number, "running")
        lab.memory.full = True
        await asyncio.sleep(300)
        with pytest.raises(errors.StorageError):
            await lab.queue.submit([op()])
        assert lab.statuses() == {1: "running"}
        assert await lab.queue.archive(number) is False
        lab.memory.full = False
        assert await lab.wait(number) == ["error"]
        assert lab.memory.durable.jobs["1"] == lab.job(1)
        assert await lab.wait(await lab.queue.submit([op("unit")])) == ["success"]
        assert await lab.queue.archive(number) is True

    lab.run(scenario())
    result = lab.job(2).ops[0].result
    assert result is None
    assert "u1" in lab.memory.durable.networks


def test_a_job_that_could_not_be_stored_as_running_is_not_executed(world: simulated.World) -> None:
    lab = SimulatedJobs(world)
    executed = []

    async def inspect(_: base.Environment) -> None:
        executed.append(True)

    lab.scripts["unit"] = Script(inspect=inspect)
    lab.scripts["locked"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(10))
    lab.scripts["unit"].locks = LOCK

    async def scenario() -> None:
        await lab.queue.submit_many([[op("locked")], [op("unit")]])
        await asyncio.sleep(1)
        lab.memory.full = True
        await asyncio.sleep(60)
        lab.memory.full = False
        assert await lab.wait(1, 2) == ["success", "error"]

    lab.run(scenario())
    assert not executed
    assert {str(job.status) for job in lab.memory.durable.jobs.values()} == {"success", "error"}


def test_a_daemon_that_stops_gives_locks_back_and_stores_nothing_more(lab: SimulatedJobs) -> None:
    lab.scripts["unit"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(10))

    async def scenario() -> None:
        await lab.queue.submit_many([[op("unit")], [op("unit")]])
        await asyncio.sleep(1)
        await lab.queue.close()

    lab.run(scenario())
    assert lab.locks.owners_and_waiters() == []
    assert [str(job.status) for job in lab.memory.durable.jobs.values()].count("running") == 1
