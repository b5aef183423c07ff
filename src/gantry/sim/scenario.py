"""A scenario: random jobs of clients and random faults from a seed, step by step, with checks of all promises.

    result = scenario.run(7)
    print(result.story)

A scenario takes virtual minutes. A violation ends it at once; the story has its time and the events before it.
"""

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass

from gantry.lib_files import epoch as epochs
from gantry.node.membership import fence
from gantry.runtime.simulated import clock
from gantry.sim import (
    acknowledged,
    built,
    client,
    cluster,
    copies,
    facts,
    faults,
    fenced,
    introduction,
    invariants,
    outcome,
    placements,
    quarantined,
    story,
    work_locks,
)
from gantry.sim.chores import desk
from gantry.sim.schedules import stage, table
from gantry.sim.steps import (
    backups,
    database,
    disks,
    groups,
    instances,
    maintenance,
    moves,
    networks,
    nodes,
    ranges,
    reading,
    segments,
    settings,
)
from gantry.sim.steps import wish as wishes

STEPS = 60
CLIENTS = 6
"""The maximum number of jobs that clients run at once."""

GLANCE_EVERY = 3
"""Number of moments between two calls of ``glance``; a run has some thousands of moments."""

STORAGE, MOVES, GROUPS, SETTINGS, HOOKS, DOORS, DATABASE = (
    "storage",
    "moves",
    "groups",
    "settings",
    "hooks",
    "doors",
    "database",
)
THEMES = (STORAGE, STORAGE, MOVES, GROUPS, SETTINGS, HOOKS, DOORS, DATABASE)
"""What a run does besides its usual steps; each run has up to ``MAX_THEMES`` of them, so that each run stays short."""
MAX_THEMES = 2
REFUSING_SHARE = 0.15
"""The share of hook scripts that fail at first, in runs with hooks; faults change it."""
MORE_SHARE = 0.15
"""The share of steps with one more wish, in runs with node groups and in runs with front ends."""
ADDRESS_SHARE = 0.5
"""The share of steps with one more wish for an address, in runs with a database."""
UNSURE_SHARE = 0.15
"""The share of a shared database's commits whose answer is lost, in runs with a database; faults add to it."""
LAST_UNSURE_SHARE = 0.5
"""The same, after all faults have ended."""
LAST_ADDRESSES = 10
"""The number of wishes for addresses at that time."""
LAST_INTERVAL_SECONDS = 2.0
"""Between two of them."""

UNBROKEN = "a scenario comes to its end"
"""The promise that an unexpected error in the scenario's own code breaks."""

DRAIN_INTERVAL_SECONDS = 20.0
"""Between two checks for unfinished jobs, after all faults have ended."""
DRAIN_TIMEOUT_SECONDS = 3 * 3600.0
"""For all jobs to end after all faults have ended; a call to a node may take an hour."""


@dataclass(frozen=True)
class Result:
    """The result of a run: the broken promise (or empty), the story, the number of jobs, the virtual seconds."""

    seed: int
    broken: str
    story: str
    jobs: int
    seconds: float


class Scenario:
    """One run with a prebuilt cluster."""

    def __init__(
        self, lab: cluster.SimulatedCluster, kind: built.Kind, *, run_story: story.Story, schedule: str = ""
    ) -> None:
        self._lab = lab
        self._story = run_story
        self._chance = lab.world.source("scenario")
        self._more_chance = lab.world.source("more")
        self._facts = facts.Facts()
        self._copies = copies.Copies(lab)
        self._acknowledged = acknowledged.Acknowledgements(lab, self._copies, candidates=lab.names[: kind.pool])
        self._faults = faults.Faults(lab, self._copies, run_story)
        self._kind = kind
        self._themes = {self._chance.choice(THEMES) for _ in range(self._chance.randint(0, MAX_THEMES))}
        self._marks = invariants.Marks(lab)
        self._used_ids = invariants.UsedIds(lab)
        self._fenced = fenced.Fenced(lab)
        self._quarantined = quarantined.Quarantined(lab)
        self._placements = placements.Placements(lab)
        self._work_locks = work_locks.WorkLocks(lab)
        self._clients = client.Clients(lab, self._facts, self._acknowledged, story=run_story)
        self._stage = stage.Stage(lab, self._faults, self._clients, run_story, lab.world.source("schedule"))
        self._schedule = schedule or table.draw(self._stage.chance)
        self._schedule_step = self._stage.chance.randint(1, table.LAST_STEP)
        self._desk = desk.Desk(lab, self._faults, self._clients, run_story, is_reserved=bool(schedule))
        # A dictionary, for its order.
        self._busy: dict[asyncio.Task[None], None] = {}
        self._moments = 0
        self._glimpsed: story.Violation | None = None
        lab.world.loop.between = self._glance
        lab.database.committed = self._glance_at_database
        fresh = {facts.THERE: True, "offline": False, "drained": False, "group": groups.FIRST}
        self._facts.begin({("node", name): fresh for name in lab.names})
        self._facts.begin({("instance", name): {facts.THERE: False} for name in instances.NAMES})
        self._facts.begin({("network", name): {facts.THERE: False} for name in (*networks.NAMES, *segments.NAMES)})
        self._facts.begin({(groups.KIND, name): {facts.THERE: False} for name in groups.NAMES})
        self._facts.begin({(ranges.KIND, name): {facts.THERE: False} for name in ranges.UUIDS})

    @property
    def jobs(self) -> int:
        """Return the number of jobs that clients know."""
        return len(self._clients.jobs)

    async def play(self) -> None:
        """Start the cluster, run all steps, end all faults, and check the outcome; raises Violation."""
        for name in self._lab.names if HOOKS in self._themes else ():
            await self._lab.hooks.install(name, cluster.FOLDERS.hooks)
            self._lab.hooks.failing = REFUSING_SHARE
        self._lab.doors.enabled = DOORS in self._themes
        self._lab.database.usually_unsure = UNSURE_SHARE if DATABASE in self._themes else 0.0
        for name in reversed(self._lab.names):
            await self._lab.restart(name)
        for step in range(1, STEPS + 1):
            self._faults.pass_time(step)
            if self._chance.random() < 0.3:
                self._faults.begin()
            for _ in range(self._chance.choice([0, 1, 1, 2])):
                if len(self._busy) < CLIENTS:
                    self._wish()
            self._do_more()
            if self._schedule and step == self._schedule_step:
                self._begin(self._play())
            for work in self._desk.work(step):
                self._begin(work)
            if self._chance.random() < 0.15:
                self._begin(self._clients.meddle())
            if DATABASE in self._themes and self._chance.random() < 0.3 and (text := self._lab.database.take()):
                self._story.tell("other", f"{text} in the database")
            if self._chance.random() < 0.2:
                method, arguments = reading.question(self._chance)
                self._begin(self._clients.read(method, arguments))
            await self._lab.world.clock.sleep(self._chance.choice([0.0, 0.05, 0.5, 2.0, 5.0, 15.0]))
            self._look()
        self._lab.database.usually_unsure = 0.0
        await self._faults.heal(self._clients.knock)
        await self._finish()

    async def _play(self) -> None:
        """Play the schedule of this run."""
        self._story.tell(story.OUTSIDE, f"schedule {self._schedule} begins")
        try:
            await table.SCHEDULES[self._schedule](self._stage)
        except stage.Unplayable as reason:
            self._story.tell(story.OUTSIDE, f"schedule {self._schedule} ends early: {reason}")
        else:
            self._story.tell(story.OUTSIDE, f"schedule {self._schedule} ends")

    async def _lose_answers(self) -> None:
        """Lose answers of the database at last: no later master compares it with its state."""
        self._lab.database.usually_unsure = LAST_UNSURE_SHARE
        for _ in range(LAST_ADDRESSES):
            self._try(database.tempt(self._more_chance, self._facts))
            await self._lab.world.clock.sleep(LAST_INTERVAL_SECONDS)
        self._lab.database.usually_unsure = 0.0
        await self._drain()

    def _wish(self) -> None:
        draws = [self._instance, self._instance, self._instance, self._network, self._network, self._segment]
        draws += [self._node, self._other]
        draws += [draw for theme, more in self._themed.items() if theme in self._themes for draw in more]
        self._try(self._chance.choice(draws)())

    def _do_more(self) -> None:
        """Do what the draws of some themes do too seldom, from a source of its own: other runs stay as they are."""
        more = {
            GROUPS: (groups.tempt, MORE_SHARE),
            DOORS: (networks.draw_port, MORE_SHARE),
            DATABASE: (database.tempt, ADDRESS_SHARE),
            STORAGE: (moves.tempt, MORE_SHARE),
        }
        for theme, (draw, share) in more.items():
            if theme in self._themes and len(self._busy) < CLIENTS and self._more_chance.random() < share:
                self._try(draw(self._more_chance, self._facts))

    def _try(self, wish: wishes.Wish | None) -> None:
        if wish and self._facts.claim(wish.keys):
            self._begin(self._clients.carry_out(wish))

    @property
    def _themed(self) -> Mapping[str, Sequence[Callable[[], wishes.Wish | None]]]:
        """Return the steps of each theme."""
        chance, known = self._chance, self._facts
        return {
            STORAGE: [
                *[lambda: disks.draw(chance, known)] * 4,
                *[self._move] * 2,
                lambda: backups.draw(chance, known),
                lambda: reading.draw(chance, known),
            ],
            MOVES: [self._move] * 4,
            GROUPS: [*[lambda: groups.draw(chance, known)] * 4, self._move],
            DATABASE: [lambda: database.draw(chance, known), *[self._network, self._instance] * 2],
            SETTINGS: [*[lambda: settings.draw(chance, known)] * 3, *[lambda: ranges.draw(chance, known)] * 3],
        }

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        self._busy[asyncio.get_running_loop().create_task(work)] = None

    def _instance(self) -> wishes.Wish | None:
        return instances.draw(self._chance, self._facts, storage=STORAGE in self._themes)

    def _move(self) -> wishes.Wish | None:
        return moves.draw(self._chance, self._facts, has_power=self._lab.has_power)

    def _network(self) -> wishes.Wish | None:
        return networks.draw(self._chance, self._facts)

    def _segment(self) -> wishes.Wish | None:
        return segments.draw(self._chance, self._facts)

    def _node(self) -> wishes.Wish | None:
        return nodes.draw(self._chance, self._facts, token=self._token)

    def _other(self) -> wishes.Wish:
        return maintenance.draw(self._chance, self._facts, jobs=self._clients.own(ended=False))

    def _token(self, name: str) -> tuple[str, str]:
        """Return a machine's address and its join token, if it has one."""
        disk, path = self._lab.world.machine(name).disk, f"{cluster.FOLDERS.lib}/join-token"
        return self._lab.address(name), disk.read(path).decode().strip() if disk.exists(path) else ""

    def _glance(self) -> None:
        """Check invariants between steps; record a violation, because raising would break the event loop."""
        self._moments += 1
        if self._moments % GLANCE_EVERY == 0 and self._glimpsed is None:
            try:
                invariants.glance(self._lab)
                self._marks.glance()
                self._placements.glance()
                self._work_locks.glance()
            except story.Violation as violation:
                self._story.tell(story.OUTSIDE, str(violation))
                self._glimpsed = violation

    def _glance_at_database(self) -> None:
        """Check after a commit of the shared database that it has the addresses of the state; record a violation."""
        try:
            for name in self._lab.masters():
                invariants.check_stored(self._lab, self._lab.daemons[name])
        except story.Violation as violation:
            self._glimpsed = self._glimpsed or violation

    def _look(self) -> None:
        if self._glimpsed is not None:
            raise self._glimpsed
        for task in [task for task in self._busy if task.done()]:
            del self._busy[task]
            task.result()
        self._acknowledged.update()
        self._marks.check()
        self._used_ids.check()
        self._fenced.check()
        self._quarantined.check()
        invariants.check(self._lab, self._copies, self._story, firm=self._kind.firm)

    async def _finish(self) -> None:
        await self._drain()
        if DATABASE in self._themes:
            await self._lose_answers()
        end = outcome.Outcome(
            self._lab,
            self._clients,
            acknowledgements=self._acknowledged,
            found_copies=self._copies,
            kind=self._kind,
        )
        await end.settle()
        if not self._lab.masters():
            # A master may learn that it was replaced only when a call ends whose answer was lost before the faults did.
            await self._faults.heal(self._clients.knock)
            await self._drain()
            await end.settle()
        if await introduction.introduce(self._lab, run_story=self._story):
            await end.settle()
        if self._obeyed_without_proof():
            # Under ``seed`` a master may have no proof. Such a node vouches for nobody until it believes the master.
            await self._lab.world.clock.sleep(fence.TRUST_SECONDS)
            await end.settle()
        self._look()
        await end.check()
        await self._desk.close()

    def _obeyed_without_proof(self) -> bool:
        """Return whether a node obeys a master of which it has seen no proof, although it knows a proven one."""
        for name in self._lab.names:
            disk, path = self._lab.world.machine(name).disk, f"{cluster.FOLDERS.lib}/epoch"
            lines = epochs.decode(disk.read(path)) if disk.exists(path) else []
            if any(line.is_proven for line in lines) and not max(lines).is_proven:
                return True
        return False

    async def _drain(self) -> None:
        """Wait until all jobs have ended."""
        opened = await self._clients.undrain()
        self._clients.give_up()
        clock = self._lab.world.clock
        deadline = clock.monotonic() + DRAIN_TIMEOUT_SECONDS
        while self._busy or (unfinished := await self._clients.unfinished()) or not opened:
            if clock.monotonic() > deadline:
                numbers = ", ".join(map(str, self._clients.own(ended=False) if self._busy else unfinished))
                raise story.Violation(
                    outcome.JOBS_END, f"ends of jobs within {DRAIN_TIMEOUT_SECONDS:g} s", f"jobs {numbers}"
                )
            await clock.sleep(DRAIN_INTERVAL_SECONDS)
            # An answer may have been lost only now.
            self._clients.give_up()
            self._faults.pass_time(faults.NEVER)
            self._look()
            # A change that was stored without an acknowledgement, a drained queue too, may be valid only now.
            opened = await self._clients.undrain()


def run(seed: int, *, schedule: str = "") -> Result:
    """Run the scenario of a seed; ``schedule`` is played in place of that which the seed draws."""
    kind = built.kind_of(seed)
    with built.lab(seed, kind) as lab:
        run_story = story.Story(lab.world.clock)
        lab.world.loop.set_exception_handler(lambda _, context: run_story.fail(context))
        run_story.tell(
            story.OUTSIDE,
            f"seed {seed}: {kind.nodes} machines, candidate pool {kind.pool}, replication {kind.replication}",
        )
        scenario = Scenario(lab, kind, run_story=run_story, schedule=schedule)
        begin = lab.world.clock.monotonic()
        with story.listening(run_story):
            broken = _play(lab, scenario, run_story)
            seconds = lab.world.clock.monotonic() - begin
    run_story.tell(
        story.OUTSIDE, f"ends after {seconds:.0f} s and {scenario.jobs} jobs: {broken or 'nothing was violated'}"
    )
    return Result(seed, broken, run_story.text, scenario.jobs, seconds)


def _play(lab: cluster.SimulatedCluster, scenario: Scenario, run_story: story.Story) -> str:
    try:
        lab.run(scenario.play())
    except story.Violation as violation:
        run_story.tell(story.OUTSIDE, f"VIOLATED: {violation.promise}")
        run_story.tell(story.OUTSIDE, f"expected: {violation.expected}")
        run_story.tell(story.OUTSIDE, f"seen:     {violation.seen}")
        return violation.promise
    except clock.DeadlockError as error:
        run_story.tell(story.OUTSIDE, f"VIOLATED: {outcome.JOBS_END}: {error}")
        return outcome.JOBS_END
    except Exception as error:  # noqa: BLE001 - any error fails this seed only; other seeds continue
        where = " > ".join(frame.name for frame in traceback.extract_tb(error.__traceback__))
        run_story.tell(story.OUTSIDE, f"VIOLATED: {UNBROKEN}: {error!r} in {where}")
        return UNBROKEN
    return ""
