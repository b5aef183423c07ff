"""The queue over the real store, on a simulated disk that a crash takes the power from."""

import asyncio
from collections.abc import Coroutine

import msgspec
import pytest
from tests.jobs.house import House, Script, op

from gantry.model import cluster
from gantry.model import job as jobs
from gantry.operations.base import Level, Mode
from gantry.runtime import paths, simulated
from gantry.state import snapshot as states
from gantry.state import transaction

WHERE = paths.Paths.below("/g")
LOCK = {(Level.NODE, "n"): Mode.EXCLUSIVE}


async def open_store(house: House) -> None:
    runtime = house.world.machine("node1")
    if not runtime.disk.exists(WHERE.config):
        owner = cluster.Cluster(uuid="c", name="c", master_node="m", max_running_jobs=2)
        await transaction.create(runtime, WHERE, [states.Put(owner)])
    house.store = await transaction.Store.open(runtime, WHERE)
    house.boot()
    await house.queue.start()


async def on_machine(world: simulated.World, work: Coroutine[object, object, None]) -> None:
    await world.machine("node1").spawn(work)


@pytest.mark.promise("cluster-30", "cluster-66")
def test_after_a_power_loss_started_jobs_have_failed_and_queued_ones_run(world: simulated.World) -> None:
    house = House(world)
    house.scripts["long"] = Script(locks=LOCK, inspect=lambda environment: environment.sleep(100))

    async def before() -> None:
        await open_store(house)
        answers = await house.queue.submit_many([[op("long"), op()], [op("long")], [op()]])
        assert answers == [1, 2, 3]
        await asyncio.sleep(1)
        assert house.statuses() == {1: "running", 2: "waiting", 3: "queued"}

    async def after() -> None:
        await open_store(house)
        assert await house.wait(1, 2, 3) == ["error", "error", "success"]
        assert await house.queue.submit([op()]) == 4

    world.run(on_machine(world, before()))
    world.crash("node1")
    world.run(on_machine(world, after()))
    for number in (1, 2):
        assert all("restarted" in str(step.result) for step in house.job(number).ops)


@pytest.mark.promise("cluster-58", "cluster-67")
def test_an_archived_job_moves_to_the_history_folder_and_is_not_loaded_again(world: simulated.World) -> None:
    house = House(world)

    async def before() -> None:
        await open_store(house)
        for _ in range(3):
            await house.wait(await house.queue.submit([op()]))
        await asyncio.sleep(100)
        await house.wait(await house.queue.submit([op()]))
        assert await house.queue.archive(1)
        assert await house.queue.autoarchive(50, 10) == (2, 0)
        await asyncio.sleep(10)
        disk = world.machine("node1").disk
        assert [name for name in disk.names(WHERE.queue) if name.startswith("job-")] == ["job-4"]
        assert disk.names(f"{WHERE.queue}/archive/0") == ["job-1", "job-2", "job-3"]
        job = msgspec.json.decode(disk.read(f"{WHERE.queue}/archive/0/job-1"), type=jobs.Job)
        assert job.status is jobs.Status.SUCCESS

    async def after() -> None:
        await open_store(house)
        assert list(house.queue.jobs()) == [4]

    world.run(on_machine(world, before()))
    world.kill("node1")
    world.run(on_machine(world, after()))
