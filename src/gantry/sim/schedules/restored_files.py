"""A candidate's files are put back from an earlier moment, while the master, which has the newest changes, is off.

Of three candidates one is cut off, so the master and another one acknowledge some changes. The files of that other one
are put back from before these changes, the master loses its power, and the third is back: two of three candidates
answer, and neither has the changes. They may elect a master only when the former one is back.
"""

import contextlib

from gantry.model import cluster as clusters
from gantry.sim import cluster
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import settings

POLICY = clusters.Replication.MAJORITY
CHANGES = 3
"""The number of changes that two candidates acknowledge."""
APART_SECONDS = 60.0
"""For the two candidates without the changes to try to elect a master."""


async def play(stage: stages.Stage) -> None:
    """Play all acts; Unplayable as soon as one of them does not succeed."""
    lab = stage.lab
    former = stage.master_of(POLICY)
    candidates = [name for name in stage.up(former) if stage.has_copy(name)]
    if len(candidates) != 2:
        raise stages.Unplayable(f"{len(candidates)} other candidates, not 2")
    restored = stage.choose(candidates, "candidate")
    (behind,) = {*candidates} - {restored}
    disk = lab.world.machine(restored).disk
    files = disk.stable_files(cluster.FOLDERS.lib)
    with contextlib.ExitStack() as ends:
        with contextlib.ExitStack() as cut:
            cut.callback(stage.faults.isolate(behind))
            for number in range(CHANGES):
                await stage.must(settings.tag_cluster(f"kept{number}"))
            stage.faults.crash(restored)
            disk.put_back(cluster.FOLDERS.lib, files)
            stage.story.tell(restored, "fault: its files are those of an earlier moment")
            ends.callback(stage.faults.turn_off(former))
        await stage.sleep(APART_SECONDS)
