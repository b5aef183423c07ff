"""A master and a candidate's replica of its state on simulated machines."""

from collections.abc import Coroutine
from typing import TypeVar

import msgspec
from tests.state import build

from gantry.lib_files import frame
from gantry.model import cluster_settings
from gantry.node.membership import fence, replica, ssconf
from gantry.rpc import calls, targets
from gantry.runtime import simulated
from gantry.state.candidates import replication
from gantry.state.start import creation
from gantry.state.store import transaction

Result = TypeVar("Result")
T = TypeVar("T")
WHERE = build.WHERE
TARGET = targets.Target("n1", "node1", "192.0.2.2", 1811)


class Caller:
    """Calls the copy on a machine as the agent would."""

    def __init__(self, copy: replica.Replica) -> None:
        self._copy = copy

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        result: object
        match call:
            case calls.JournalAppend():
                result = await self._copy.append(call)
            case calls.CheckpointStore():
                result = await self._copy.store(call)
            case calls.JournalFetch():
                result = await self._copy.following(call)
            case _:
                result = await self._copy.status()
        return result  # type: ignore[return-value]


class Pair:
    """A master and a candidate."""

    def __init__(self, world: simulated.World) -> None:
        self.world = world
        self.master, self.node = world.machine("node0"), world.machine("node1")
        self.copy = self.fresh()
        build.on(world, self.master, creation.create(self.master, WHERE, build.FIRST))

    def fresh(self) -> replica.Replica:
        """Return a replica that knows nothing, as after a restart of the daemon."""
        files = ssconf.Files(self.node.disk, WHERE)
        return replica.Replica(self.node, WHERE, files=files, barrier=fence.Fence(self.node, WHERE, files=files))

    async def open(self) -> transaction.Store:
        candidates = replication.Candidates(self.master, Caller(self.copy))
        store = await transaction.Store.open(self.master, WHERE, candidates=candidates)
        candidates.set_targets([TARGET], policy=cluster_settings.Replication.SEED)
        await self.master.clock.sleep(1)
        return store

    def at_master(self, work: Coroutine[object, object, T]) -> T:
        return build.on(self.world, self.master, work)

    def at_node(self, work: Coroutine[object, object, T]) -> T:
        return build.on(self.world, self.node, work)

    def replicated(self, count: int) -> None:
        """Let a master make ``count`` changes; they are in the candidate's journal."""

        async def work() -> None:
            store = await self.open()
            for number in range(count):
                await store.commit(build.put(build.vm(number), build.queued(number + 1)), build.CAUSE)
            # The replica's tasks are those of the master here; they mark the end of the replica.
            await self.master.clock.sleep(0.1)

        self.at_master(work())
        self.world.kill("node0")

    def reopened(self) -> dict[str, object]:
        async def work() -> dict[str, object]:
            store = await transaction.Store.open(self.node, WHERE)
            try:
                return build.content(store.snapshot)
            finally:
                await store.close()

        return self.at_node(work())

    def section(self) -> str:
        return build.sections(self.node)[-1]


def append(previous: str, *, epoch: int = 0, serial: int = 1, line: bytes = b"") -> calls.JournalAppend:
    record = {"serial": serial, "time": 1.0, "epoch": epoch, "cause": {}, "changes": []}
    frame_line = line or frame.pack(previous, [msgspec.json.encode(record)])
    return calls.JournalAppend(epoch=epoch, previous=previous, frame=frame_line.decode())
