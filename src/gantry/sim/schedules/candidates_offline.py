"""All candidates but the master are marked offline, one by one; then they are back, and the master is off.

Some of them have lost their power before, and do not know that they are marked. The master acknowledges changes with
the candidates that are left, at last alone. When it loses its power, the others must not become the master without
these changes, although by their own copies some of them still are candidates.
"""

import contextlib

from gantry.model import cluster_settings
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import nodes, settings

POLICY = cluster_settings.Replication.MAJORITY
OFF_SHARE = 0.5
"""The share of the candidates that lose their power before they are marked, besides all that have guests."""
APART_SECONDS = 60.0
"""For the others to try to elect a master."""
RETURN_SECONDS = 120.0
"""For the cluster to have a master again."""


async def play(stage: stages.Stage) -> None:
    """Play all acts; Unplayable as soon as one of them does not succeed."""
    lab = stage.lab
    former = stage.master_of(POLICY)
    peers = [name for name in stage.up(former) if stage.has_copy(name)]
    stage.chance.shuffle(peers)
    marked = list[str]()
    with contextlib.ExitStack() as ends:
        with contextlib.ExitStack() as off:
            for name in peers:
                # An administrator may only give up a node on which nothing runs.
                if stage.has_guests(name) or stage.chance.random() < OFF_SHARE:
                    off.callback(stage.faults.turn_off(name))
                await stage.carry_out(nodes.mark_offline(name, offline=True))
                if stage.clients.facts.get((nodes.KIND, name), "offline") is not True:
                    # Too few of the candidates that are left answer: the master is right to refuse it.
                    break
                marked.append(name)
                await stage.carry_out(settings.tag_cluster(f"without-{name}"))
            ends.callback(stage.faults.turn_off(former))
        await stage.sleep(APART_SECONDS)
    await stage.wait_for(lambda: len(lab.masters()) == 1, "a master", seconds=RETURN_SECONDS)
    for name in marked:
        await stage.carry_out(nodes.mark_offline(name, offline=False))
