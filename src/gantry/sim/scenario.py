"""A scenario: from a seed, what clients want and what goes wrong, step by step, and what must hold all the while.

    result = scenario.run(7)
    print(result.story)

Virtual minutes pass in it. A violation ends it at once; its step, its time and what led to it stand in the story.
"""

import asyncio
import traceback
from collections.abc import Coroutine
from dataclasses import dataclass

from gantry.runtime.simulated import clock
from gantry.sim import acknowledged, built, client, cluster, copies, facts, faults, invariants, outcome, story
from gantry.sim.steps import instances, networks, nodes, others, segments
from gantry.sim.steps import wish as wishes

STEPS = 60
CLIENTS = 6
"""How many jobs are under way at once, at most."""

GLANCE_EVERY = 3
"""How many moments pass from one glance to the next; there are some thousands in a run."""

UNBROKEN = "a scenario comes to its end"
"""What an error breaks that neither a client nor an administrator has expected."""

DRAINING = 20.0
PATIENCE = 3 * 3600.0
"""Seconds between two looks at the jobs when nothing goes wrong any more, and within which all must have ended: a call
to a node may wait for an hour."""


@dataclass(frozen=True)
class Result:
    """How a run has ended: the promise that was broken, if any, the story, steps, jobs and virtual seconds."""

    seed: int
    broken: str
    story: str
    jobs: int
    seconds: float


class Scenario:
    """One run in a world that stands."""

    def __init__(self, lab: cluster.SimulatedCluster, kind: built.Kind, *, told: story.Story) -> None:
        self._lab = lab
        self._story = told
        self._chance = lab.world.source("scenario")
        self._facts = facts.Facts()
        self._copies = copies.Copies(lab)
        self._acknowledged = acknowledged.Acknowledgements(lab, self._copies, candidates=lab.names[: kind.pool])
        self._faults = faults.Faults(lab, told)
        self._clients = client.Clients(lab, self._facts, self._acknowledged, story=told)
        # A dictionary, for its order.
        self._busy: dict[asyncio.Task[None], None] = {}
        self._moments = 0
        self._glimpsed: story.Violation | None = None
        lab.world.loop.between = self._glance
        fresh = {facts.THERE: True, "offline": False, "drained": False}
        self._facts.begin({("node", name): fresh for name in lab.names})
        self._facts.begin({("instance", name): {facts.THERE: False} for name in instances.NAMES})
        self._facts.begin({("network", name): {facts.THERE: False} for name in (*networks.NAMES, *segments.NAMES)})

    @property
    def jobs(self) -> int:
        """Return how many jobs clients have heard of."""
        return len(self._clients.jobs)

    async def play(self) -> None:
        """Start the cluster, take all steps, heal it, and look at what is left; raises Violation."""
        for name in reversed(self._lab.names):
            await self._lab.restart(name)
        for step in range(1, STEPS + 1):
            self._faults.pass_time(step)
            if self._chance.random() < 0.3:
                self._faults.begin()
            for _ in range(self._chance.choice([0, 1, 1, 2])):
                if len(self._busy) < CLIENTS:
                    self._wish()
            if self._chance.random() < 0.15:
                self._begin(self._clients.meddle())
            await self._lab.world.clock.sleep(self._chance.choice([0.0, 0.05, 0.5, 2.0, 5.0, 15.0]))
            self._look()
        await self._faults.heal(self._clients.knock)
        await self._finish()

    def _wish(self) -> None:
        draws = [self._instance, self._instance, self._instance, self._network, self._network, self._segment]
        draws += [self._node, self._other]
        wish = self._chance.choice(draws)()
        if wish and self._facts.claim(wish.keys):
            self._begin(self._clients.carry_out(wish))

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        self._busy[asyncio.get_running_loop().create_task(work)] = None

    def _instance(self) -> wishes.Wish | None:
        return instances.draw(self._chance, self._facts)

    def _network(self) -> wishes.Wish | None:
        return networks.draw(self._chance, self._facts)

    def _segment(self) -> wishes.Wish | None:
        return segments.draw(self._chance, self._facts)

    def _node(self) -> wishes.Wish | None:
        return nodes.draw(self._chance, self._facts, token=self._token)

    def _other(self) -> wishes.Wish:
        return others.draw(self._chance, self._facts, jobs=self._clients.own(ended=False))

    def _token(self, name: str) -> tuple[str, str]:
        """Return a machine's address and its join token, if it has one."""
        disk, path = self._lab.world.machine(name).disk, f"{cluster.FOLDERS.lib}/join-token"
        return self._lab.address(name), disk.read(path).decode().strip() if disk.exists(path) else ""

    def _glance(self) -> None:
        """Look at what may be over before the next step; nothing is raised in the middle of the event loop."""
        self._moments += 1
        if self._moments % GLANCE_EVERY == 0 and self._glimpsed is None:
            try:
                invariants.glance(self._lab)
            except story.Violation as violation:
                self._story.tell(story.OUTSIDE, str(violation))
                self._glimpsed = violation

    def _look(self) -> None:
        if self._glimpsed is not None:
            raise self._glimpsed
        for task in [one for one in self._busy if one.done()]:
            del self._busy[task]
            task.result()
        self._acknowledged.look()
        invariants.check(self._lab, self._copies, self._story)

    async def _finish(self) -> None:
        await self._drain()
        end = outcome.Outcome(self._lab, self._clients, told=self._acknowledged, found=self._copies)
        await end.settle()
        self._look()
        await end.check()

    async def _drain(self) -> None:
        """Return when all jobs have ended."""
        await self._clients.undrain()
        self._clients.give_up()
        clock = self._lab.world.clock
        until = clock.monotonic() + PATIENCE
        while self._busy or (left := await self._clients.unfinished()):
            if clock.monotonic() > until:
                numbers = ", ".join(map(str, self._clients.own(ended=False) if self._busy else left))
                raise story.Violation(outcome.JOBS_END, f"ends of jobs within {PATIENCE:g} s", f"jobs {numbers}")
            await clock.sleep(DRAINING)
            self._faults.pass_time(faults.NEVER)
            self._look()


def run(seed: int) -> Result:
    """Run the scenario of a seed."""
    kind = built.KINDS[seed % len(built.KINDS)]
    with built.lab(seed, kind) as lab:
        told = story.Story(lab.world.clock)
        lab.world.loop.set_exception_handler(lambda _, context: told.fail(context))
        told.tell(story.OUTSIDE, f"seed {seed}: {kind.nodes} machines, candidate pool {kind.pool}")
        scenario = Scenario(lab, kind, told=told)
        begin = lab.world.clock.monotonic()
        with story.listening(told):
            broken = _play(lab, scenario, told)
            seconds = lab.world.clock.monotonic() - begin
    told.tell(story.OUTSIDE, f"ends after {seconds:.0f} s and {scenario.jobs} jobs: {broken or 'nothing was violated'}")
    return Result(seed, broken, told.text, scenario.jobs, seconds)


def _play(lab: cluster.SimulatedCluster, scenario: Scenario, told: story.Story) -> str:
    try:
        lab.run(scenario.play())
    except story.Violation as violation:
        told.tell(story.OUTSIDE, f"VIOLATED: {violation.promise}")
        told.tell(story.OUTSIDE, f"expected: {violation.expected}")
        told.tell(story.OUTSIDE, f"seen:     {violation.seen}")
        return violation.promise
    except clock.DeadlockError as error:
        told.tell(story.OUTSIDE, f"VIOLATED: {outcome.JOBS_END}: {error}")
        return outcome.JOBS_END
    except Exception as error:  # noqa: BLE001 - whatever it is: it is this seed's, and the others go on
        where = " > ".join(frame.name for frame in traceback.extract_tb(error.__traceback__))
        told.tell(story.OUTSIDE, f"VIOLATED: {UNBROKEN}: {error!r} in {where}")
        return UNBROKEN
    return ""
