import asyncio

import pytest
from tests.state import build

from gantry.runtime import simulated
from gantry.state.objects import snapshot
from gantry.state.store import transaction


def test_a_checkpoint_that_the_disk_refuses_is_logged_and_the_commits_go_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine, limits=transaction.Limits(records=2))

        def refuse(path: str) -> None:
            raise OSError(5, "Input/output error", path)

        with monkeypatch.context() as patch:
            patch.setattr(machine.disk, "write_all_back", refuse)
            for number in range(6):
                build.on(world, machine, store.commit(build.put(build.vm(number)), build.CAUSE))
        assert "no checkpoint was written" in caplog.text
        world.crash("one")
        assert len(build.opened(world, machine).snapshot.instances) == 6


def test_the_machine_may_die_at_any_point_of_a_checkpoint() -> None:
    for step in range(40):
        with simulated.World(seed=step) as world:
            machine = world.machine("one")
            store = build.new_store(world, machine)
            jobs = [build.queued(number) for number in range(1, 6)]
            build.on(world, machine, store.commit(build.put(build.vm(1), *jobs), build.CAUSE))
            gone = snapshot.Delete("jobs", "2")
            build.on(world, machine, store.commit([*build.put(build.ended(jobs[0])), gone], build.CAUSE))
            machine.disk.delay = (0.001, 0.001)
            machine.spawn(store.close())
            world.run(asyncio.sleep(0.0005 + step * 0.001))
            world.crash("one")
            again = build.opened(world, machine)
            assert build.content(again.snapshot) == build.content(store.snapshot)
            build.on(world, machine, again.close())
            names = [name for name in machine.disk.names(build.WHERE.queue) if name.startswith("job-")]
            assert names == ["job-1", "job-3", "job-4", "job-5"]
            assert machine.disk.names(f"{build.WHERE.queue}/archive/0") == ["job-2"]
