"""The stage of a schedule: what it needs to cause faults, to let administrators act, and to submit jobs.

A schedule gives up when an act does not succeed, because another fault was in its way: ``Unplayable``.
"""

import asyncio
import contextlib
import contextvars
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace

from gantry.model import cluster_settings, instance
from gantry.runtime import http_interface
from gantry.sim import client, cluster, faults, invariants, story
from gantry.sim.steps import wish
from gantry.state.objects import snapshot as states

POLL_SECONDS = 0.5
ELECTION_ATTEMPTS = 6
ELECTION_BACK_OFF_SECONDS = 5.0
INSIST_ATTEMPTS = 6
INSIST_BACK_OFF_SECONDS = 6.0


class Unplayable(Exception):  # noqa: N818 - it is the end of a schedule, not an error of the program
    """An act did not succeed, so the schedule ends without its last act."""


Matches = Callable[[str, str, http_interface.Request], bool]
"""Returns for the sender, the receiver and a request whether it is the one that a trap waits for."""


@dataclass
class Trap:
    """What has sprung a trap: ``sender`` is the machine that has sent the request, empty until then."""

    sender: str = ""


@dataclass(frozen=True)
class Stage:
    """The cluster of a run, its faults, clients and story, and a random source of the schedule's own."""

    lab: cluster.SimulatedCluster
    faults: faults.Faults
    clients: client.Clients
    story: story.Story
    chance: random.Random

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        await self.lab.world.clock.sleep(seconds)

    async def wait_for(self, condition: Callable[[], bool], what: str, *, seconds: float) -> None:
        """Return when a condition is true; Unplayable if it is not in time."""
        deadline = self.lab.world.clock.monotonic() + seconds
        while not condition():
            if self.lab.world.clock.monotonic() >= deadline:
                raise Unplayable(f"{what}: not within {seconds:g} s")
            await self.sleep(POLL_SECONDS)

    def master_of(self, policy: cluster_settings.Replication) -> str:
        """Return the machine of the only master, if it is bound to a policy alone; else Unplayable."""
        masters = self.lab.masters()
        if len(masters) != 1:
            raise Unplayable(f"masters: {', '.join(masters) or 'none'}")
        if any(rule.policy is not policy for rule in self.lab.daemons[masters[0]].candidates.rules):
            raise Unplayable(f"the policy is not {policy.value}")
        return masters[0]

    def choose(self, names: Sequence[str], what: str) -> str:
        """Return one of the names; Unplayable if there is none."""
        if not names:
            raise Unplayable(f"there is no {what}")
        return self.chance.choice(names)

    def up(self, *but: str) -> list[str]:
        """Return the machines whose daemons run, without some."""
        return [name for name in self.faults.up() if name not in but]

    async def carry_out(self, job: wish.Wish) -> None:
        """Submit a job as a client and wait until it has ended; Unplayable if another client has one of its objects."""
        if not self.clients.facts.claim(job.keys):
            raise Unplayable(f"another client is about to: {job.text}")
        await self.clients.carry_out(job)

    async def must(self, job: wish.Wish) -> None:
        """Submit a job as a client; Unplayable if it does not succeed."""
        await self.carry_out(job)
        for key, fields in job.effects.items():
            for name, value in fields.items():
                if value is not None and self.clients.facts.get(key, name) != value:
                    raise Unplayable(f"no success: {job.text}")

    async def succeeds(self, job: wish.Wish) -> bool:
        """Submit a job as a client; return whether the client knows that it has succeeded.

        It must have an object; False too if another client has one of its objects.
        """
        # A field of which the value is unknown is never compared with the state.
        mark = f"success {self.chance.getrandbits(32)}"
        effects = {key: {**job.effects.get(key, {}), mark: None} for key in job.keys}
        if not self.clients.facts.claim(job.keys):
            return False
        await self.clients.carry_out(replace(job, effects=effects))
        return mark in self.clients.facts.thing(job.keys[0]).fields

    async def insist(self, job: wish.Wish) -> None:
        """Submit a job as a client, again if it does not succeed; Unplayable if no attempt succeeds."""
        for _ in range(INSIST_ATTEMPTS):
            if await self.succeeds(job):
                return
            await self.sleep(INSIST_BACK_OFF_SECONDS)
        raise Unplayable(f"no success: {job.text}")

    def state(self) -> states.Snapshot:
        """Return the durable state of the only master; Unplayable if there is not one master."""
        masters = self.lab.masters()
        if len(masters) != 1:
            raise Unplayable(f"masters: {', '.join(masters) or 'none'}")
        return self.lab.daemons[masters[0]].store.durable

    def instance(self, name: str) -> instance.Instance:
        """Return an instance in the durable state of the only master; Unplayable if it is not there."""
        state = self.state()
        uuid = state.names.get(("instances", name), "")
        if uuid not in state.instances:
            raise Unplayable(f"there is no instance {name}")
        return state.instances[uuid]

    async def elect(self, *but: str) -> str:
        """Let an administrator make a machine the master, none of ``but``, until there is one; return its name.

        Another administrator may make another machine the master meanwhile (``faults``).
        """
        for _ in range(ELECTION_ATTEMPTS):
            names = [name for name in self.lab.masters() if name not in but]
            if len(names) == 1:
                return names[0]
            if candidates := [name for name in self.up(*but) if self.has_copy(name)]:
                await self.faults.take_over(self.chance.choice(candidates))
            else:
                await self.sleep(ELECTION_BACK_OFF_SECONDS)
        raise Unplayable("there is no master")

    def has_copy(self, name: str) -> bool:
        """Return whether a machine has a copy of the state."""
        return self.lab.world.machine(name).disk.exists(cluster.FOLDERS.config)

    def has_guests(self, name: str) -> bool:
        """Return whether guests run on a machine, as an administrator sees there."""
        return any(invariants.guests(self.lab, name))

    def kill_master(self, name: str) -> None:
        """Kill the master daemon of a machine, if there is one."""
        if name in self.lab.daemons:
            self.story.tell(name, "fault: its master daemon is killed")
            self.lab.kill_master(name)

    @contextlib.contextmanager
    def trap(self, matches: Matches, spring: Callable[[str], None]) -> Iterator[Trap]:
        """Call ``spring`` with its sender when a request that matches is sent, before it travels; at most once."""
        wires, trap = self.lab.world.network, Trap()

        def watch(source: str, target: str, request: http_interface.Request) -> None:
            if not trap.sender and matches(source, target, request):
                trap.sender = source
                spring(source)

        wires.on_request = watch
        try:
            yield trap
        finally:
            wires.on_request = None

    def begin(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Do something in the background, outside of all machines, whose tasks would end with them."""
        # A trap is called in the task of a machine, which is in its context.
        return asyncio.get_running_loop().create_task(work, context=contextvars.Context())
