"""A node loses its power right after the first call of a new master, and then hears of the former master only.

The former master and a node that is no candidate are cut off during the election, so the former master still takes
itself for the master, and the node has promised nothing. The new master reaches the node again and calls it; the node
loses its power. When it starts again, only the former master reaches it. The node must refuse that: the epoch of a call
is on stable storage before the call is carried out (explanation/state.md#epochs).
"""

import contextlib

from gantry import errors
from gantry.lib_files import epoch as epochs
from gantry.model import cluster_settings
from gantry.sim import cluster
from gantry.sim.schedules import stage as stages

POLICY = cluster_settings.Replication.MAJORITY
"""Under ``seed`` a master that is cut off ends as soon as it hears of another."""

CALL_SECONDS = 20.0
"""For the new master to call the node."""
START_SECONDS = 40.0
"""For the node to start again."""

LIVE_FIELDS = ("node", ["name", "mfree"], None)
"""The arguments of a query for which a master calls all nodes."""


async def play(stage: stages.Stage) -> None:
    """Play all acts; Unplayable as soon as one of them does not succeed."""
    former, wires = stage.master_of(POLICY), stage.lab.world.network
    forgetful = stage.choose([name for name in stage.up(former) if not stage.has_copy(name)], "node without a copy")
    with contextlib.ExitStack() as ends:
        ends.callback(stage.faults.isolate(former))
        with contextlib.ExitStack() as election:
            election.callback(stage.faults.isolate(forgetful))
            successor = await stage.elect(former, forgetful)
        wires.partition(former, forgetful)
        await stage.wait_for(lambda: _has_heard(stage, forgetful, of=successor), "a call", seconds=CALL_SECONDS)
        ends.callback(stage.faults.isolate(forgetful))
        stage.faults.crash(forgetful)
        wires.heal(former, forgetful)
        await stage.wait_for(lambda: forgetful in stage.up(), "the start of the node", seconds=START_SECONDS)
        if former in stage.lab.masters():
            with contextlib.suppress(OSError, errors.GantryError):
                await stage.clients.ask("Query", *LIVE_FIELDS, on=former)


def _has_heard(stage: stages.Stage, name: str, *, of: str) -> bool:
    """Return whether a node has recorded the epoch of a master; let that master call all nodes."""
    if of not in stage.lab.daemons:
        raise stages.Unplayable(f"{of} is not the master any more")
    disk, path = stage.lab.world.machine(name).disk, f"{cluster.FOLDERS.lib}/epoch"
    newest = max(epochs.decode(disk.read(path)) if disk.exists(path) else [], default=epochs.Mastership())
    if newest.epoch >= stage.lab.daemons[of].store.epoch:
        return True
    stage.begin(_query(stage, of))
    return False


async def _query(stage: stages.Stage, master: str) -> None:
    with contextlib.suppress(OSError, errors.GantryError):
        await stage.clients.ask("Query", *LIVE_FIELDS, on=master)
