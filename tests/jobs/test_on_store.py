"""The queue over the real store, on a simulated disk that loses power in a crash."""

import asyncio
import gc
from collections.abc import Coroutine

import msgspec
import pytest
from tests.jobs.simulated_jobs import Script, SimulatedJobs, op

from gantry import errors
from gantry.model import cluster
from gantry.model import job as jobs
from gantry.model.lock import Level, Mode
from gantry.operations import base
from gantry.runtime import paths, simulated
from gantry.state.files import archive, jobfiles
from gantry.state.objects import snapshot as states
from gantry.state.start import creation
from gantry.state.store import transaction

WHERE = paths.Paths.below("/g")
LOCK = {(Level.NODE, "n"): Mode.EXCLUSIVE}


async def open_store(lab: SimulatedJobs) -> None:
    runtime = lab.world.machine("node1")
    if not runtime.disk.exists(WHERE.config):
        owner = cluster.Cluster(uuid="c", name="c", master_node="m", max_running_jobs=2)
        await creation.create(runtime, WHERE, [states.Put(owner)])
    lab.store = await transaction.Store.open(runtime, WHERE)
    lab.boot()
    await lab.queue.start()


async def on_machine(world: simulated.World, work: Coroutine[object, object, None]) -> None:
    await world.machine("node1").spawn(work)


@pytest.mark.promise("cluster-30", "cluster-66")
def test_after_a_power_loss_started_jobs_have_failed_and_queued_ones_run(world: simulated.World) -> None:
    lab = SimulatedJobs(world)
    lab.scripts["long"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(100))

    async def before() -> None:
        await open_store(lab)
        answers = await lab.queue.submit_many([[op("long"), op()], [op("long")], [op()]])
        assert answers == [1, 2, 3]
        await asyncio.sleep(1)
        assert lab.statuses() == {1: "running", 2: "waiting", 3: "queued"}

    async def after() -> None:
        await open_store(lab)
        assert await lab.wait(1, 2, 3) == ["error", "error", "success"]
        assert await lab.queue.submit([op()]) == 4

    world.run(on_machine(world, before()))
    world.crash("node1")
    world.run(on_machine(world, after()))
    for number in (1, 2):
        assert all("restarted" in str(step.result) for step in lab.job(number).ops)


@pytest.mark.promise("cluster-58", "cluster-67")
def test_an_archived_job_moves_to_the_history_folder_and_is_not_loaded_again(world: simulated.World) -> None:
    lab = SimulatedJobs(world)

    async def before() -> None:
        await open_store(lab)
        for _ in range(3):
            await lab.wait(await lab.queue.submit([op()]))
        await asyncio.sleep(100)
        await lab.wait(await lab.queue.submit([op()]))
        assert await lab.queue.archive(1)
        assert await lab.queue.autoarchive(50, 10) == (2, 0)
        await asyncio.sleep(10)
        disk = world.machine("node1").disk
        assert [name for name in disk.names(WHERE.queue) if name.startswith("job-")] == ["job-4"]
        assert disk.names(f"{WHERE.queue}/archive/0") == ["job-1", "job-2", "job-3"]
        job = msgspec.json.decode(disk.read(f"{WHERE.queue}/archive/0/job-1"), type=jobs.Job)
        assert job.status is jobs.Status.SUCCESS

    async def after() -> None:
        await open_store(lab)
        assert list(lab.queue.jobs()) == [4]

    world.run(on_machine(world, before()))
    world.kill("node1")
    world.run(on_machine(world, after()))


def test_no_end_is_shown_that_a_crash_could_take_back(world: simulated.World) -> None:
    lab = SimulatedJobs(world)
    disk = world.machine("node1").disk

    async def before() -> None:
        await open_store(lab)
        await lab.queue.submit([op(seconds=5)])
        await lab.queue.submit([op(depends=[(1, ["success"])])])
        await lab.until(1, "running")
        disk.fail_sync = True
        change = await lab.queue.wait_for_change(
            1, lambda job: [job.status], previous=["running"], serial=None, timeout=60
        )
        assert change is None
        assert lab.statuses() == {1: "running", 2: "queued"}
        assert not await lab.queue.archive(1)

    async def after() -> None:
        await open_store(lab)
        assert await lab.wait(1, 2) == ["error", "error"]

    world.run(on_machine(world, before()))
    world.crash("node1")
    disk.fail_sync = False
    world.run(on_machine(world, after()))


def test_an_end_is_shown_and_counts_when_the_disk_takes_it_at_last(world: simulated.World) -> None:
    lab = SimulatedJobs(world)
    disk = world.machine("node1").disk

    async def before() -> None:
        await open_store(lab)
        await lab.queue.submit([op(seconds=5)])
        await lab.queue.submit([op(depends=[(1, ["success"])])])
        await lab.until(1, "running")
        disk.fail_sync = True
        await asyncio.sleep(60)
        assert lab.statuses() == {1: "running", 2: "queued"}
        disk.fail_sync = False
        assert await lab.wait(1, 2) == ["success", "success"]

    async def after() -> None:
        await open_store(lab)
        assert lab.statuses() == {1: "success", 2: "success"}

    world.run(on_machine(world, before()))
    world.crash("node1")
    world.run(on_machine(world, after()))


def test_log_messages_are_shown_while_the_disk_fails(world: simulated.World) -> None:
    lab = SimulatedJobs(world)
    disk = world.machine("node1").disk

    async def speak(environment: base.Environment) -> None:
        await environment.sleep(5)
        environment.log.info("still here")
        await environment.sleep(5)

    lab.scripts["speaks"] = Script(inspect=speak)

    async def scenario() -> None:
        await open_store(lab)
        await lab.queue.submit([op("speaks")])
        await lab.until(1, "running")
        disk.fail_sync = True
        change = await lab.queue.wait_for_change(
            1, lambda job: [job.status], previous=["running"], serial=None, timeout=60
        )
        assert change is not None
        values, log = change
        assert values == ["running"]
        assert [entry[3] for entry in log] == ["still here"]
        disk.fail_sync = False
        assert await lab.wait(1) == ["success"]
        assert [entry[3] for entry in lab.job(1).ops[0].log] == ["still here"]

    world.run(on_machine(world, scenario()))


def test_a_cancelation_or_priority_that_the_disk_did_not_take_is_not_confirmed(world: simulated.World) -> None:
    lab = SimulatedJobs(world)
    disk = world.machine("node1").disk

    async def before() -> None:
        await open_store(lab)
        await lab.queue.submit_many([[op(seconds=1000)], [op(seconds=1000)], [op()], [op()]])
        await asyncio.sleep(1)
        assert list(lab.statuses().values()) == ["running", "running", "queued", "queued"]
        disk.fail_sync = True
        with pytest.raises(errors.StorageError, match="job 3 was changed, but the change is not stored yet"):
            await lab.queue.cancel(3)
        with pytest.raises(errors.StorageError, match="job 4"):
            await lab.queue.change_priority(4, -10)
        assert lab.job(3).status is jobs.Status.QUEUED
        disk.fail_sync = False
        await lab.until(3, "canceled")

    async def after() -> None:
        await open_store(lab)
        assert await lab.wait(3, 4) == ["canceled", "success"]

    world.run(on_machine(world, before()))
    world.crash("node1")
    world.run(on_machine(world, after()))


def test_a_job_is_always_in_the_queue_or_in_the_archive(world: simulated.World) -> None:
    lab = SimulatedJobs(world)

    async def scenario() -> None:
        await open_store(lab)
        store = lab.store
        assert isinstance(store, transaction.Store)
        archived = archive.Archive(lab.runtime.disk, WHERE.queue, store.leaving)
        await lab.wait(await lab.queue.submit([op()]))
        moving = asyncio.create_task(lab.queue.archive(1))
        for _ in range(round(3 * jobfiles.DELAY / 0.01)):
            job = lab.queue.jobs().get(1) or archived.job(1)
            assert job is not None
            assert job.status is jobs.Status.SUCCESS
            assert 1 in lab.queue.jobs() or 1 in archived.numbers()
            await asyncio.sleep(0.01)
        assert await moving
        assert not store.leaving
        assert archived.numbers() == {1}

    world.run(on_machine(world, scenario()))


def test_a_submission_whose_caller_has_gone_may_fail_silently(
    world: simulated.World, caplog: pytest.LogCaptureFixture
) -> None:
    lab = SimulatedJobs(world)

    async def scenario() -> None:
        await open_store(lab)
        disk = world.machine("node1").disk
        disk.fail_sync = True
        caller = asyncio.create_task(lab.queue.submit([op()]))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await asyncio.sleep(10)
        gc.collect()
        disk.fail_sync = False

    world.run(on_machine(world, scenario()))
    assert "could not be written" in caplog.text
    assert "never retrieved" not in caplog.text
