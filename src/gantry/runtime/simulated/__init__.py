"""Simulated machines in memory, from one seed: virtual time, disks that tear writes, a network that loses messages.

Every fault is drawn from the seed and can be switched on and off during a run: those of ``disk.Disk`` (torn and lost
writes, failing reads, writes and syncs, a full disk, a crash during any write), of ``wires.Wires`` (partitions in one
or both directions, slow links, delay, loss, late and repeated requests, broken connections), of ``clock.Clock``
(calendars that are wrong or jump, clocks of another speed), stopped processes, and the ends of machines and processes,
by ``World.kill``, ``World.crash`` or a signal.

A test creates a ``World``, gets machines from it (each a Runtime), and runs a coroutine to its end in virtual time. The
same seed gives the same run, in other processes too if PYTHONHASHSEED is fixed or no set of strings is iterated.

    with World(seed=7) as world:
        first, second = world.machine("first"), world.machine("second")
        first.spawn(daemon(first))      # a task of the machine, and so are the tasks that it creates
        world.network.partition("first", "second")
        world.run(scenario(second))
        world.crash("first")            # power loss; the same name boots again from its disk
"""

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

from gantry.runtime.simulated import boot, bulk, clock, disk, network, processes, wires

T = TypeVar("T")


class Randomness:
    """A seeded random source."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def below(self, limit: int) -> int:
        """Return a number from 0 to ``limit - 1``."""
        return self._source.randrange(limit)

    def uuid(self) -> str:
        """Return a random UUID in lower case."""
        return str(uuid.UUID(int=self._source.getrandbits(128), version=4))

    def token(self, size: int) -> bytes:
        """Return ``size`` random bytes."""
        return self._source.randbytes(size)


class SimulatedRuntime:
    """A machine of a world; it keeps its name, disk and faults when it is killed or crashes."""

    def __init__(self, world: "World", host: str) -> None:
        self.host = host
        self.clock = clock.Clock(world.loop, host)
        self.random = Randomness(world.source(f"{host}/random"))
        self.disk = disk.Disk(self.clock, world.source(f"{host}/disk"))
        self.processes = processes.Processes(world.loop, self.disk, host)
        self.streams = bulk.Streams(world.streams, host, self.processes)
        self._loop = world.loop
        self._boot = boot.Boot(world.loop, host)
        self.network = network.Network(world.network, host, self.disk, lambda: boot.current() or self._boot)

    async def compute(self, work: Callable[[], bytes]) -> bytes:
        """Run ``work`` at once; it takes no virtual time."""
        await self.clock.sleep(0)
        return work()

    async def block(self, work: Callable[[], T]) -> T:
        """Run ``work`` at once; it takes no virtual time."""
        await self.clock.sleep(0)
        return work()

    def spawn(self, coroutine: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Run ``coroutine`` as a task of this machine; the task and its subtasks end with the machine."""
        return self._boot.spawn(coroutine)

    def launch(
        self,
        arguments: Sequence[str],
        main: Coroutine[object, object, object],
        *,
        terminate: Callable[[], None] | None = None,
    ) -> processes.Daemon:
        """Run a daemon as a process of its own, as ``processes.Processes.launch`` does, until the machine ends."""
        return self.processes.launch(arguments, main, machine=self._boot, terminate=terminate)

    def restart(self) -> None:
        """End the tasks of the machine, and with them its servers and locks (``World.kill``)."""
        self._boot.end()
        self._boot = boot.Boot(self._loop, self.host)


class World:
    """All machines, the network between them and the clock, from ``seed``."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = clock.VirtualLoop()
        self.clock = clock.Clock(self.loop)
        self.network = wires.Wires(self.loop, self.source("network"))
        self.streams = bulk.Listeners(self.network)
        self._machines: dict[str, SimulatedRuntime] = {}

    def source(self, name: str) -> random.Random:
        """Return the random source ``name`` of this seed; draws from one source do not affect the others."""
        return random.Random(f"{self.seed}/{name}")

    def machine(self, name: str) -> SimulatedRuntime:
        """Return the machine of that name; create it on the first call."""
        if name not in self._machines:
            self._machines[name] = SimulatedRuntime(self, name)
            self.network.register(name, name)
        return self._machines[name]

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run ``coroutine`` to its end; clock.DeadlockError if it waits for something that can never happen.

        Other tasks stop when it has ended, and continue with the next ``run``.
        """
        self.loop.deadline = self.loop.time() + clock.LONGEST_RUN_SECONDS
        return self.loop.run_until_complete(coroutine)

    def kill(self, name: str) -> None:
        """End the daemons of a machine as SIGKILL does; its disk and the programs that they started remain."""
        self.machine(name).restart()

    def crash(self, name: str) -> None:
        """Cut the power of a machine: its tasks end, and its disk returns to the synced content."""
        machine = self.machine(name)
        machine.restart()
        machine.processes.lose_power()
        machine.disk.lose_power()

    def close(self) -> None:
        """Cancel all tasks and close the event loop."""
        if self.loop.is_closed():
            return
        # A run that took too long has reached its deadline.
        self.loop.deadline = self.loop.time() + clock.LONGEST_RUN_SECONDS
        self.loop.resume_all()
        # A task that ends can begin others: a queue its next job, a server its last message to another.
        while tasks := sorted(asyncio.all_tasks(self.loop), key=hash):
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
