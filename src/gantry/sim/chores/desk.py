"""The chores of a run: which ones, when they begin, what is looked up meanwhile, and the end of the cluster.

``scenario`` calls ``work`` in each step, and ``close`` after all checks. All draws are from sources of their own, so
runs without chores stay as they are.
"""

from collections.abc import Coroutine, Iterator

from gantry.sim import client, cluster, farewell, faults, lookups, story
from gantry.sim.chores import table
from gantry.sim.schedules import stage as stages

LOOK_SHARE = 0.5
"""The share of steps with a question of somebody who looks something up."""
FAREWELL_SHARE = 0.3
"""The share of the runs with chores at whose end the cluster is destroyed."""


class Desk:
    """The chores of a run; none if the run is for a schedule by name (``is_reserved``)."""

    def __init__(
        self,
        lab: cluster.SimulatedCluster,
        run_faults: faults.Faults,
        clients: client.Clients,
        run_story: story.Story,
        *,
        is_reserved: bool,
    ) -> None:
        self._lab = lab
        self._story = run_story
        self._stage = stages.Stage(lab, run_faults, clients, run_story, lab.world.source("chores"))
        self._chance = lab.world.source("which chores")
        self._chores = [] if is_reserved else table.draw(self._chance)
        self._first_step = self._chance.randint(1, table.LAST_STEP)
        self._lookups = lookups.Lookups(lab, clients, run_story)

    def work(self, step: int) -> Iterator[Coroutine[object, object, None]]:
        """Yield what begins in a step."""
        if self._chores and step == self._first_step:
            yield self._do()
        if self._chores and self._chance.random() < LOOK_SHARE:
            yield self._lookups.look()

    async def _do(self) -> None:
        """Do all chores, one after the other."""
        for name in self._chores:
            self._story.tell(story.OUTSIDE, f"chore {name} begins")
            try:
                await table.CHORES[name](self._stage)
            except (stages.Unplayable, OSError) as reason:
                # What an administrator does on a machine itself fails with its disk.
                self._story.tell(story.OUTSIDE, f"chore {name} ends early: {reason}")
            else:
                self._story.tell(story.OUTSIDE, f"chore {name} ends")

    async def close(self) -> None:
        """Destroy the cluster, in some runs; raises Violation."""
        if self._chores and self._chance.random() < FAREWELL_SHARE:
            self._story.tell(story.OUTSIDE, "the cluster is destroyed")
            await farewell.destroy(self._lab)
