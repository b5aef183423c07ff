"""All schedules by name, and the draw of the schedule of a run."""

import random
from collections.abc import Awaitable, Callable, Mapping

from gantry.sim.schedules import (
    candidates_offline,
    forced_start,
    forgotten_epoch,
    forgotten_promise,
    moved_meanwhile,
    restored_files,
    sleeping_node,
    small_node,
)
from gantry.sim.schedules import stage as stages

Play = Callable[[stages.Stage], Awaitable[None]]

SCHEDULES: Mapping[str, Play] = {
    "sleeping-node": sleeping_node.play,
    "forgotten-promise": forgotten_promise.play,
    "forgotten-epoch": forgotten_epoch.play,
    "moved-meanwhile": moved_meanwhile.play,
    "small-node": small_node.play,
    "candidates-offline": candidates_offline.play,
    "restored-files": restored_files.play,
    "forced-start": forced_start.play,
}

SHARES: Mapping[str, float] = {
    "sleeping-node": 0.15,
    "forgotten-promise": 0.06,
    "forgotten-epoch": 0.2,
    "moved-meanwhile": 0.05,
    "small-node": 0.1,
    "candidates-offline": 0.1,
    "restored-files": 0.08,
    "forced-start": 0.08,
}
"""The share of the runs that have each schedule; a schedule that the policy or the nodes of a run forbid ends at once.

A new schedule comes last, so that runs with other schedules stay as they are.
"""

LAST_STEP = 6
"""The last step before which a schedule begins, so that the run is long enough for it."""


def draw(chance: random.Random) -> str:
    """Return the name of the schedule of a run; empty for none."""
    drawn = chance.random()
    for name, share in SHARES.items():
        drawn -= share
        if drawn < 0:
            return name
    return ""
