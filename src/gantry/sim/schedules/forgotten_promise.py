"""All machines but the new master lose their power right after they have granted it an epoch.

The new master sends its first record as soon as it has the grants. At that moment it is cut off, and all other
machines lose their power: none of them has the record, some have granted its epoch. They start again and elect another
master, which must get another epoch: a grant is on stable storage before the answer (explanation/state.md#epochs).
"""

import contextlib

from gantry.rpc import calls
from gantry.runtime import http_interface
from gantry.sim.schedules import stage as stages

OTHER_MASTER_SECONDS = 60.0
"""For the other machines to elect a master while the first is cut off."""


async def play(stage: stages.Stage) -> None:
    """Play all acts; Unplayable as soon as one of them does not succeed."""
    former = stage.choose(stage.lab.masters(), "master")
    first = stage.choose([name for name in stage.up(former) if stage.has_copy(name)], "candidate")
    peers = [name for name in stage.lab.names if name != first]

    def is_record(source: str, target: str, request: http_interface.Request) -> bool:
        return source == first and target != first and request.path == f"/{calls.JournalAppend.procedure()}"

    with contextlib.ExitStack() as ends:

        def lose_power(_: str) -> None:
            ends.callback(stage.faults.isolate(first))
            for name in peers:
                stage.faults.crash(name)

        stage.kill_master(former)
        with stage.trap(is_record, lose_power) as trap:
            await stage.faults.take_over(first)
        if not trap.sender:
            raise stages.Unplayable(f"{first} has not become the master")
        await stage.wait_for(
            lambda: any(name != first for name in stage.lab.masters()), "another master", seconds=OTHER_MASTER_SECONDS
        )
