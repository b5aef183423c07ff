"""The lock of a state folder: which holders an open waits for, and which it reports at once."""

import pytest
from tests.state import build

from gantry import errors
from gantry.runtime import simulated
from gantry.state.files import ownership
from gantry.state.store import transaction

LOCK = f"{build.WHERE.queue}/lock"


def test_a_daemon_that_stores_a_copy_keeps_no_master_out() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.on(world, machine, build.new_store(world, machine).close())

        async def store() -> None:
            lock = machine.disk.lock(LOCK)
            await machine.clock.sleep(2)
            lock.release()

        async def scenario() -> None:
            machine.launch(["gantry-noded"], store())
            await machine.clock.sleep(1)
            store_of_master = await transaction.Store.open(machine, build.WHERE)
            await store_of_master.close()

        build.on(world, machine, scenario())
        assert world.clock.monotonic() == pytest.approx(2, abs=0.5)


@pytest.mark.parametrize(("program", "seconds"), [("gantry-masterd", 0), ("something", ownership.TIMEOUT_SECONDS)])
def test_the_holder_of_the_lock_is_reported(program: str, seconds: float) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.on(world, machine, build.new_store(world, machine).close())

        async def keep() -> None:
            machine.disk.lock(LOCK)
            await machine.clock.sleep(3600)

        async def scenario() -> float:
            machine.launch(["/usr/bin/python3", f"/usr/sbin/{program}"], keep())
            await machine.clock.sleep(1)
            began = machine.clock.monotonic()
            with pytest.raises(errors.WrongStateError, match=rf"process \d+ holds {LOCK}"):
                await transaction.Store.open(machine, build.WHERE)
            return machine.clock.monotonic() - began

        assert build.on(world, machine, scenario()) == pytest.approx(seconds, abs=0.5)
