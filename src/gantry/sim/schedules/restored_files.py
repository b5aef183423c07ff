"""A candidate's files are put back from an earlier moment, while the master, which has the newest changes, is off.

Of three candidates one is cut off, so the master and another one acknowledge some changes, and two nodes that are no
candidates hear of them. The files of that other candidate are put back from before these changes, the master loses its
power, and the third is back: two of three candidates answer, and neither has the changes. Each of them must be refused
as the master until the former one is back (explanation/replication.md#a-copy-that-went-back). There are no other faults
meanwhile, because two nodes must be there that have heard of the changes.
"""

import contextlib

from gantry.model import cluster_settings
from gantry.rpc.calls import reach
from gantry.sim import cluster
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import settings

POLICY = cluster_settings.Replication.MAJORITY
CHANGES = 3
"""The number of changes that two candidates acknowledge."""
WITNESSES = 2
HEARD_SECONDS = 20.0
"""For the witnesses to hear of the changes, and to write that down."""
START_SECONDS = 40.0
"""For the restored candidate to start again."""
APART_SECONDS = 30.0
"""For other administrators to try to make one of the two candidates the master too."""


async def play(stage: stages.Stage) -> None:
    """Play all acts; Unplayable as soon as one of them does not succeed."""
    lab = stage.lab
    former = stage.master_of(POLICY)
    candidates = [name for name in stage.up(former) if stage.has_copy(name)]
    if len(candidates) != 2:
        raise stages.Unplayable(f"{len(candidates)} other candidates, not 2")
    witnesses = stage.up(former, *candidates)
    if len(witnesses) < WITNESSES:
        raise stages.Unplayable(f"{len(witnesses)} nodes that are no candidates, not {WITNESSES}")
    restored = stage.choose(candidates, "candidate")
    (behind,) = {*candidates} - {restored}
    disk = lab.world.machine(restored).disk
    with stage.faults.no_others(), contextlib.ExitStack() as ends:
        with contextlib.ExitStack() as cut:
            cut.callback(stage.faults.isolate(behind))
            files = disk.stable_files(cluster.FOLDERS.lib)
            for number in range(CHANGES):
                await stage.must(settings.tag_cluster(f"kept{number}"))
            acknowledged = lab.daemons[former].candidates.agreed
            await stage.wait_for(
                lambda: sum(_has_heard(stage, name, acknowledged) for name in witnesses) >= WITNESSES,
                "the witnesses have heard of the changes",
                seconds=HEARD_SECONDS,
            )
            stage.faults.crash(restored)
            disk.put_back(cluster.FOLDERS.lib, files)
            stage.story.tell(restored, "fault: its files are those of an earlier moment")
            ends.callback(stage.faults.turn_off(former))
        await stage.wait_for(lambda: restored in stage.up(), f"the start of {restored}", seconds=START_SECONDS)
        for name in (behind, restored):
            await stage.faults.take_over(name)
        await stage.sleep(APART_SECONDS)


def _has_heard(stage: stages.Stage, name: str, acknowledged: reach.Reach) -> bool:
    """Return whether a node has written down that changes up to a position are acknowledged."""
    disk, (path, _) = stage.lab.world.machine(name).disk, reach.files(cluster.FOLDERS)
    return disk.exists(path) and max(reach.decode(disk.read(path)), default=reach.UNKNOWN) >= acknowledged
