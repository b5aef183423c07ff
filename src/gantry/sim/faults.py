"""Temporary faults of machines, disks, network and clocks, drawn from the seed.

A fault begins at one step of a scenario and ends some steps later, or when all faults end. Only a minority of the
machines is down at a time for long, because a cluster without a master tests nothing. Simulated administrators restart
and move masters; they know only which machines seem to be down.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass

from gantry import errors
from gantry.model import cluster as clusters
from gantry.sim import cluster, copies, story

START_TIMEOUT_SECONDS = 40.0
"""For a daemon to start."""
HEALING_INTERVAL_SECONDS = 10.0
"""Between two checks after the faults have ended."""

HEALING_ROUNDS = 40
NEVER = 1 << 30
ENDS = "the cluster comes back by itself and its administrators"

GUEST_FOLDERS = (cluster.FOLDERS.instances, cluster.FOLDERS.instances, cluster.FOLDERS.file_storage)
SLOWNESS_SECONDS = (0.5, 2.0, 6.0, 15.0)
SPEEDS = (0.5, 2.0)
"""Speeds of a wrong clock. Only one clock is wrong at a time: two could differ by more than the lease allows."""
SKEWS = (-86400.0, -30.0, 5.0, 3600.0, 86400.0)

Preparation = Callable[[], Coroutine[object, object, None]]
"""What is done with a machine before it runs again."""


@dataclass(frozen=True)
class _Active:
    """An active fault: the step at which it ends, its description, and the function that ends it."""

    until: int
    text: str
    end: Callable[[], None]


class Faults:
    """All faults of a run."""

    def __init__(self, lab: cluster.SimulatedCluster, copies_on_disk: copies.Copies, run_story: story.Story) -> None:
        self.down: dict[str, int] = {}
        self._preparations: dict[str, Preparation] = {}
        self._copies = copies_on_disk
        self._wrong_clock = ""
        self._lab = lab
        self._story = run_story
        self._chance: random.Random = lab.world.source("faults")
        self._active: list[_Active] = []
        self._starting: dict[asyncio.Task[None], str] = {}
        self._losing: set[str] = set()
        self._step = 0
        self._paused = False

    def begin(self) -> None:
        """Begin a random fault, unless a schedule wants none."""
        if self._paused:
            return
        kinds = [self._end_machine] * 4 + [self._end_at_write] * 4 + [self._cut] * 3 + [self._noise] * 3
        kinds += [self._failing_disk] * 2 + [self._failing_guests] * 4
        kinds += [self._full_disk, self._skew, self._isolate, self._take_over]
        kinds += [self._isolate_master] * 2 + [self._slow_link, self._wrong_speed, self._lose_tail]
        kinds += [self._stop_daemons] * 2 + [self._take_over_both, self._failing_hooks, self._failing_volumes]
        kinds += [self._failing_database] * 2
        self._chance.choice(kinds)()

    def pass_time(self, step: int) -> None:
        """End the faults whose time is over, and let administrators start machines and masters that are down."""
        self._step = step
        over = [fault for fault in self._active if fault.until <= step]
        self._active = [fault for fault in self._active if fault.until > step]
        for fault in over:
            self._story.tell(story.OUTSIDE, f"over: {fault.text}")
            fault.end()
        for name in [name for name, until in self.down.items() if until <= step or step == NEVER]:
            del self.down[name]
            self._cut_tail(name)
            self._start(name, self._restart(name), "is started again")
        if not self._lab.masters() and not self._starting and (step == NEVER or self._chance.random() < 0.4):
            self._find_master(ignoring_offline=step == NEVER)

    def _last(self, text: str, end: Callable[[], None]) -> None:
        self._story.tell(story.OUTSIDE, f"fault: {text}")
        self._active.append(_Active(self._step + self._chance.randint(1, 8), text, end))

    def begin_lasting(self, text: str, end: Callable[[], None]) -> Callable[[], None]:
        """Tell of a fault that lasts until all faults end, or until the returned function is called."""
        self._story.tell(story.OUTSIDE, f"fault: {text}")
        fault = _Active(NEVER, text, end)
        self._active.append(fault)

        def end_now() -> None:
            if fault in self._active:
                self._active.remove(fault)
                self._story.tell(story.OUTSIDE, f"over: {text}")
                end()

        return end_now

    @contextlib.contextmanager
    def no_others(self) -> Iterator[None]:
        """End all faults that do not take a machine down, and begin no random ones until the end of the block."""
        self._story.tell(story.OUTSIDE, "no random faults from here on")
        self._end_active()
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
            self._story.tell(story.OUTSIDE, "random faults again")

    def _end_active(self) -> None:
        self._lab.hooks.failing = 0.0
        for name in self._lab.names:
            self._lab.world.machine(name).disk.on_visit = None
        for fault in self._active:
            fault.end()
        self._active.clear()

    async def take_over(self, name: str, *, voting: bool = True) -> None:
        """Let an administrator make a machine the master, perhaps without a vote, and wait for the outcome."""
        text = "shall be the master" if voting else "shall be the master without a vote"
        await asyncio.wait([self._start(name, self._lab.failover(name, voting=voting), text)])

    def up(self) -> list[str]:
        """Return the machines that are up and do not start right now."""
        return [name for name in self._lab.names if name not in self.down and name not in self._starting.values()]

    def _victim(self) -> str:
        """Return a machine that may go down, a master more often than others; empty if enough machines are down."""
        up = self.up()
        if 2 * len(up) <= len(self._lab.names) + 1:
            return ""
        return self._chance.choice([*up, *(name for name in self._lab.masters() if name in up)])

    def _end_machine(self) -> None:
        name = self._victim()
        if name:
            power = self._chance.random() < 0.5
            self._story.tell(name, "fault: loses its power" if power else "fault: its daemons are killed")
            (self._lab.crash if power else self._lab.kill)(name)
            self.down[name] = self._step + self._chance.randint(0, 6)

    def _end_at_write(self) -> None:
        name = self._victim()
        if not name or self._lab.world.machine(name).disk.on_visit:
            return
        power, visits = self._chance.random() < 0.7, self._chance.randint(1, 25)
        what = "loses its power" if power else "is killed"
        self._story.tell(name, f"fault: {what} at its write number {visits} from now")
        disk, pause = self._lab.world.machine(name).disk, self._chance.randint(0, 6)
        self._lab.end_at(name, visits, power=power)
        end = disk.on_visit

        def visit() -> None:
            if end is not None:
                end()
            if disk.on_visit is None:
                self._story.tell(name, f"{what} during a write")
                self.down[name] = self._step + pause

        disk.on_visit = visit

    def _cut(self) -> None:
        first, second = self._chance.sample(self._lab.names, 2)
        one_way, wires = self._chance.random() < 0.3, self._lab.world.network
        wires.partition(first, second, one_way=one_way)
        text = f"{first} {'hears nothing of' if one_way else 'and'} {second}{'' if one_way else ' are cut off'}"
        self._last(text, lambda: wires.heal(first, second))

    def _isolate(self) -> None:
        name = self._chance.choice(self._lab.names)
        self._last(f"{name} is cut off from all others", self._cut_from_all(name))

    def _cut_from_all(self, name: str) -> Callable[[], None]:
        """Cut a machine off from all others; return the function that ends that."""
        wires, peers = self._lab.world.network, [other for other in self._lab.names if other != name]

        def heal() -> None:
            for other in peers:
                wires.heal(name, other)

        for other in peers:
            wires.partition(name, other)
        return heal

    def isolate(self, name: str) -> Callable[[], None]:
        """Cut a machine off from all others as ``begin_lasting`` does."""
        return self.begin_lasting(f"{name} is cut off from all others", self._cut_from_all(name))

    def crash(self, name: str) -> None:
        """Cut a machine's power now; it starts again at the next step."""
        self._story.tell(name, "fault: loses its power")
        self._lab.crash(name)
        self.down[name] = self._step

    def turn_off(self, name: str, *, prepare: Preparation | None = None) -> Callable[[], None]:
        """Cut a machine's power until all faults end, or until the returned function is called.

        ``prepare`` is what an administrator does with the machine immediately before it runs again.
        """
        self.crash(name)
        self.down[name] = NEVER
        if prepare is not None:
            self._preparations[name] = prepare

        def turn_on() -> None:
            if self.down.get(name) == NEVER:
                self.down[name] = self._step

        return turn_on

    def _isolate_master(self) -> None:
        """Cut the cable of a master, perhaps one with a slow clock, and let an administrator take its role over."""
        masters = self._lab.masters()
        if not masters:
            return
        name, wires = self._chance.choice(masters), self._lab.world.network
        one_way = self._chance.choice([None, None, True, False])
        peers = [other for other in self._lab.names if other != name]

        def heal() -> None:
            for other in peers:
                wires.heal(name, other)

        for other in peers:
            first, second = (other, name) if one_way is False else (name, other)
            wires.partition(first, second, one_way=one_way is not None)
        ways = {None: "is cut off", True: "cannot send", False: "cannot receive"}
        self._last(f"{name}, the master, {ways[one_way]}", heal)
        if self._chance.random() < 0.5:
            self._set_speed(name, min(SPEEDS))
        self._take_over()

    def _slow_link(self) -> None:
        first, second = self._chance.sample(self._lab.names, 2)
        seconds, wires = self._chance.choice(SLOWNESS_SECONDS), self._lab.world.network
        wires.slow_down(first, second, seconds)
        self._last(
            f"messages between {first} and {second} take {seconds:g} s", lambda: wires.slow_down(first, second, 0)
        )

    def _stop_daemons(self) -> None:
        name = self._chance.choice([*self._lab.names, *self._lab.masters() * 2])
        programs = self._chance.choice([[cluster.NODE], [cluster.MASTER], [cluster.NODE, cluster.MASTER]])
        stopped = [program for program in programs if self._lab.stop(name, program)]

        def resume() -> None:
            for program in stopped:
                self._lab.resume(name, program)

        if stopped:
            self._last(f"{name}: {' and '.join(stopped)} stopped", resume)

    def _wrong_speed(self) -> None:
        self._set_speed(self._chance.choice([*self._lab.names, *self._lab.masters()]), self._chance.choice(SPEEDS))

    def _set_speed(self, name: str, speed: float) -> None:
        if self._wrong_clock:
            return
        self._wrong_clock, machine_clock = name, self._lab.world.machine(name).clock

        def correct() -> None:
            machine_clock.set_speed(1.0)
            self._wrong_clock = ""

        machine_clock.set_speed(speed)
        self._last(f"{name}'s clock has {speed:g} times the speed", correct)

    def _lose_tail(self) -> None:
        """Cut a machine's power, and lose synced frames at the end of its copy before it starts again.

        Only if enough other copies have these frames: what too few disks ever held, nobody can promise to keep. They
        are not lost at once: a client that has an answer of this moment looks its change up.
        """
        name = self._victim()
        if not name or not self._has_spare_copies(name):
            return
        self._lab.crash(name)
        self._losing.add(name)
        self._story.tell(name, "fault: loses its power, and the end of its copy")
        self.down[name] = self._step + self._chance.randint(0, 6)

    def _cut_tail(self, name: str) -> None:
        """Lose the end of a machine's copy if it is to be lost.

        At least half of the section stays: a copy from before the other nodes were added would ask nobody.
        """
        if name not in self._losing:
            return
        self._losing.discard(name)
        disk = self._lab.world.machine(name).disk
        # What a checkpoint has replaced is history: nobody sends it again.
        if path := self._copies.last_section(name):
            size = len(disk.stable(path) or b"")
            disk.lose_tail(path, self._chance.randint(size // 2, size))

    def _has_spare_copies(self, name: str) -> bool:
        """Return whether a majority of the candidates hold all frames of a machine's copy, without this machine."""
        masters = self._lab.masters()
        end = self._copies.end(name)
        if len(masters) != 1 or end not in self._copies.frames:
            return False
        state = self._lab.daemons[masters[0]].store.snapshot
        keeping = (clusters.Role.CANDIDATE, clusters.Role.MASTER)
        keepers = [node.name for node in state.nodes.values() if node.role(state.the_cluster) in keeping]
        holders = [
            other
            for other in keepers
            if other not in {name, *self._losing}
            and other in self._lab.names
            and self._copies.follows(self._copies.end(other), end)
        ]
        return 2 * len(holders) > len(keepers)

    def _noise(self) -> None:
        wires, chance = self._lab.world.network, self._chance
        wires.drop, wires.duplicate = chance.choice([0.0, 0.02, 0.1]), chance.choice([0.1, 0.4])
        wires.reorder, wires.reset = chance.choice([0.1, 0.3]), chance.choice([0.0, 0.02, 0.1])
        text = f"wires: lost {wires.drop}, twice {wires.duplicate}, late {wires.reorder}, broken {wires.reset}"
        self._last(text, self._calm)

    def _calm(self) -> None:
        wires = self._lab.world.network
        wires.drop = wires.duplicate = wires.reorder = wires.reset = 0.0

    def _failing_disk(self) -> None:
        name = self._chance.choice([*self._lab.names, *self._lab.masters()])
        disk, share = self._lab.world.machine(name).disk, self._chance.choice([0.1, 0.5, 1.0])
        what = self._chance.choice(["fail_sync", "fail_sync", "fail_write"])
        setattr(disk, what, share)
        self._last(f"{name}'s disk: {what} {share}", lambda: setattr(disk, what, 0.0))

    def _full_disk(self) -> None:
        name = self._chance.choice([*self._lab.names, *self._lab.masters()])
        disk, free_bytes = self._lab.world.machine(name).disk, self._chance.choice([0, 300, 3000])
        free, total = disk.free_space("/")
        disk.capacity = total - free + free_bytes
        self._last(f"{name}'s disk has {free_bytes} bytes left", lambda: setattr(disk, "capacity", None))

    def _failing_guests(self) -> None:
        """Let a node fail to start instances, or to create their disks, while its daemon answers."""
        name = self._chance.choice(self._lab.names)
        disk, folder = self._lab.world.machine(name).disk, self._chance.choice(GUEST_FOLDERS)
        share = self._chance.choice([0.3, 0.7, 1.0])
        disk.broken = {folder: share}
        self._last(f"{name}'s {folder} fails: {share}", lambda: setattr(disk, "broken", {}))

    def _failing_volumes(self) -> None:
        """Let LVM on a machine fail to change a share of the volumes."""
        name = self._chance.choice(self._lab.names)
        group, share = self._lab.groups[name], self._chance.choice([0.2, 0.5, 1.0])
        group.broken = share
        self._last(f"{name}'s volumes fail: {share}", lambda: setattr(group, "broken", 0.0))

    def _failing_database(self) -> None:
        """Let the database server be down, or lose the answers to commits."""
        server = self._lab.database
        if self._chance.random() < 0.5:
            server.down = True
            self._last("the database server is down", lambda: setattr(server, "down", False))
        else:
            server.unsure = self._chance.choice([0.2, 0.6])
            text = f"the database server loses answers: {server.unsure}"
            self._last(text, lambda: setattr(server, "unsure", 0.0))

    def _failing_hooks(self) -> None:
        """Let a share of the hook scripts fail, if there are any."""
        self._lab.hooks.failing = self._chance.choice([0.3, 1.0])
        text = f"hooks fail: {self._lab.hooks.failing}"
        self._last(text, lambda: setattr(self._lab.hooks, "failing", 0.0))

    def _skew(self) -> None:
        name, seconds = self._chance.choice(self._lab.names), self._chance.choice(SKEWS)
        clock = self._lab.world.machine(name).clock
        clock.offset = seconds
        self._last(f"{name}'s clock is wrong by {seconds:g} s", lambda: setattr(clock, "offset", 0.0))

    def _take_over(self) -> None:
        candidates = [name for name in self.up() if name not in self._lab.masters()]
        if candidates:
            name = self._chance.choice(candidates)
            self._start(name, self._lab.failover(name), "shall be the master")

    def _take_over_both(self) -> None:
        """Two administrators choose two new masters at the same moment."""
        self._take_over()
        self._take_over()

    def _find_master(self, *, ignoring_offline: bool) -> None:
        """Start the master daemon on the last master's machine, or take the role over on another machine.

        ``ignoring_offline`` does not count nodes that are marked offline and may know only keys that were replaced.
        """
        up = self.up()
        if self._lab.leader in up and self._chance.random() < 0.5:
            self._start(self._lab.leader, self._lab.start_master(self._lab.leader), "is started as the master again")
        elif up:
            name = self._chance.choice(up)
            work = self._lab.failover(name, ignoring_offline=ignoring_offline)
            self._start(name, work, "shall be the master")

    async def _restart(self, name: str) -> None:
        self._lab.world.machine(name).disk.on_visit = None
        if prepare := self._preparations.pop(name, None):
            await prepare()
        try:
            await self._lab.restart(name)
        except OSError:
            # Perhaps the node daemon has not started: retry the whole machine later.
            self._lab.kill(name)
            self.down[name] = self._step + 2
            raise

    def _start(self, name: str, work: Coroutine[object, object, None], text: str) -> asyncio.Task[None]:
        self._story.tell(name, text)
        task = asyncio.get_running_loop().create_task(self._try(name, work))
        self._starting[task] = name
        task.add_done_callback(lambda done: self._starting.pop(done, None))
        return task

    async def _try(self, name: str, work: Coroutine[object, object, None]) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                await work
        except (OSError, errors.GantryError) as error:
            self._story.tell(name, f"did not start: {type(error).__name__} {error}")
        else:
            self._story.tell(name, "is up")

    async def heal(self, knock: Callable[[], Coroutine[object, object, None]]) -> None:
        """End all faults, start all machines, and wait until there is exactly one master; Violation if that fails.

        ``knock`` makes the masters commit something, so that a master that was replaced during a partition notices.
        """
        self._story.tell(story.OUTSIDE, "all faults end")
        self._end_active()
        for _ in range(HEALING_ROUNDS):
            self.pass_time(NEVER)
            while self._starting:
                await asyncio.wait(self._starting)
            await self._lab.world.clock.sleep(HEALING_INTERVAL_SECONDS)
            await knock()
            if len(self._lab.masters()) == 1 and not self.down:
                return
        masters = ", ".join(self._lab.masters()) or "none"
        raise story.Violation(ENDS, "one master, soon after all faults have ended", f"masters: {masters}")
