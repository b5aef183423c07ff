"""A former master whose journal ends with frames that its successor does not have keeps the journal before them."""

import asyncio
from typing import cast

import msgspec
import pytest
from tests.state import build, test_refresh
from tests.state.candidates import test_replication

from gantry import errors
from gantry.model import cluster_settings
from gantry.rpc import calls, targets
from gantry.runtime import simulated
from gantry.state.candidates import candidate, replication
from gantry.state.files import checkpoint
from gantry.state.objects import snapshot as states
from gantry.state.start import creation
from gantry.state.start import recovery as recoveries
from gantry.state.store import transaction

SEED, MAJORITY = cluster_settings.Replication.SEED, cluster_settings.Replication.MAJORITY
LIMITS = transaction.Limits(records=12)


class RivalMasters(test_replication.Cables):
    """Three candidates, each of which can be the master; calls to a master's own machine are not made."""

    def __init__(self, world: simulated.World, policy: cluster_settings.Replication = MAJORITY) -> None:
        super().__init__(world, 2)
        self.policy = policy
        self.machines["n0"] = world.machine("node0")
        self.replicas["n0"] = self.fresh("n0")
        self.replacements: list[str] = []
        build.on(world, self.machines["n0"], creation.create(self.machines["n0"], build.WHERE, build.FIRST))

    async def call(self, target: targets.Target, call: calls.Call[candidate.Result]) -> candidate.Result:
        if isinstance(call, calls.CheckpointStore) and call.replace and target.uuid not in self.down:
            self.replacements.append(target.uuid)
        return await super().call(target, call)

    def master(self, uuid: str, *, above: int) -> transaction.Store:
        """Begin an epoch on a machine."""
        machine = self.machines[uuid]
        self.candidates = candidates = replication.Candidates(machine, self)
        peers = [target for target in self.where if target.uuid != uuid]

        async def begin() -> transaction.Store:
            store = await transaction.Store.open(
                machine, build.WHERE, candidates=candidates, limits=LIMITS, behind=recoveries.Behind.COMPLETED
            )
            store.check_evidence()
            store.claim(above + 1)
            candidates.set_targets(peers, policy=self.policy)
            # The candidates answer before the first record is written.
            await asyncio.sleep(0.5)
            await store.begin_epoch(above=above)
            return store

        return build.on(self.world, machine, begin())

    def crash(self, uuid: str) -> None:
        self.world.crash(self.machines[uuid].host)
        self.replicas[uuid] = self.fresh(uuid)

    def past(self, uuid: str, store: transaction.Store) -> test_refresh.Past:
        machine = self.machines[uuid]
        return build.on(self.world, machine, test_refresh.past(machine, store))

    def position(self, uuid: str) -> int:
        return checkpoint.decode(self.machines[uuid].disk.read(build.WHERE.config), path="").position.serial


async def live(store: transaction.Store, first: int, last: int) -> None:
    """Create, end and archive jobs and instances."""
    for number in range(first, last):
        changes = build.put(build.vm(number, ip=f"10.0.0.{number}"), build.queued(number))
        await store.commit(changes, build.CAUSE)
        if number > 3 and str(number - 3) in store.snapshot.jobs:
            await store.commit(build.put(build.ended(build.queued(number - 3))), build.CAUSE)
            await store.commit([states.Delete("jobs", str(number - 3))], build.CAUSE)
        await asyncio.sleep(0.2)


def diverged(masters: RivalMasters, *, frames: int = 1) -> None:
    """Let ``n0`` write frames that no candidate receives, and stop it."""
    store = masters.master("n0", above=0)
    build.on(masters.world, masters.machines["n0"], live(store, 1, 20))
    test_replication.wait(masters.world, 3)
    masters.down = {"n1", "n2"}

    async def cut_off() -> None:
        for number in range(frames):
            commit = asyncio.ensure_future(live(store, 30 + number, 31 + number))
            await asyncio.wait([commit], timeout=10)
            commit.cancel()

    build.on(masters.world, masters.machines["n0"], cut_off())
    masters.crash("n0")
    masters.down = {"n0"}


def failed_over(masters: RivalMasters) -> transaction.Store:
    successor = masters.master("n1", above=1)
    build.on(masters.world, masters.machines["n1"], live(successor, 40, 43))
    return successor


@pytest.mark.parametrize(("policy", "frames"), [(MAJORITY, 1), (SEED, 1), (SEED, 4)])
def test_a_former_master_with_frames_of_its_own_keeps_its_history(
    policy: cluster_settings.Replication, frames: int
) -> None:
    with simulated.World(seed=1) as world:
        masters = RivalMasters(world, policy)
        diverged(masters, frames=frames)
        successor = failed_over(masters)
        masters.replacements.clear()
        masters.down = set()
        test_replication.wait(world, 60)
        state = build.on(world, masters.machines["n0"], masters.replicas["n0"].status())
        assert state.digest == successor.position.digest
        assert masters.replacements == []
        # Whoever votes with the help of this node has what it had.
        assert state.given_up[0] == 1
        before = masters.past("n1", successor)
        content = build.content(successor.snapshot)
        masters.crash("n1")
        store = masters.master("n0", above=2)
        back = masters.past("n0", store)
        assert back.holdings == before.holdings
        assert back.problem == ""
        assert back.stream[: len(before.stream)] == before.stream
        assert len(before.stream) > 50
        assert {**build.content(store.snapshot), "serial": 0} == {**content, "serial": 0}
        assert back.archived == before.archived


@pytest.mark.parametrize("behind", [recoveries.Behind.COMPLETED, recoveries.Behind.ACCEPTED])
def test_a_former_master_that_is_not_confirmed_writes_no_checkpoint_with_its_own_frames(
    behind: recoveries.Behind,
) -> None:
    with simulated.World(seed=1) as world:
        masters = RivalMasters(world)
        diverged(masters)
        before, machine = masters.position("n0"), masters.machines["n0"]
        files = machine.disk.names(build.WHERE.queue)

        async def refused() -> None:
            store = await transaction.Store.open(machine, build.WHERE, limits=LIMITS, behind=behind)
            await asyncio.sleep(5)
            # As the role does before it reports the outcome of a vote, and before it asks for grants.
            store.check_evidence()
            await asyncio.sleep(5)
            await store.close()

        build.on(world, machine, refused())
        assert masters.position("n0") == before
        assert set(machine.disk.names(build.WHERE.queue)) == set(files)
        failed_over(masters)
        masters.replacements.clear()
        masters.down = set()
        test_replication.wait(world, 60)
        assert masters.replacements == []


def test_frames_that_a_refused_start_fetched_are_in_no_checkpoint() -> None:
    with simulated.World(seed=1) as world:
        masters = RivalMasters(world)
        diverged(masters)
        machine = masters.machines["n1"]

        async def stopped() -> None:
            await (await transaction.Store.open(machine, build.WHERE, limits=LIMITS)).close()

        # Nothing follows the checkpoint that the fetched frames continue.
        build.on(world, machine, stopped())
        before = masters.position("n1")

        async def refused() -> None:
            store = await transaction.Store.open(
                machine, build.WHERE, limits=LIMITS, behind=recoveries.Behind.COMPLETED
            )
            lines = await masters.replicas["n0"].following(
                calls.JournalFetch(after=store.position.digest, serial=store.position.serial)
            )
            for line in lines:
                await store.adopt(line.encode())
            assert lines
            await store.close()

        build.on(world, machine, refused())
        assert masters.position("n1") == before


def test_what_a_former_master_needs_of_the_journal_is_not_known_until_its_frames_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with simulated.World(seed=1) as world:
        masters = RivalMasters(world, SEED)
        diverged(masters, frames=30)
        successor = failed_over(masters)
        honest = masters.call

        async def full(target: targets.Target, call: calls.Call[candidate.Result]) -> candidate.Result:
            if isinstance(call, calls.JournalAppend) and target.uuid == "n0":
                raise errors.StorageError("the disk of node0 is full")
            return await honest(target, call)

        monkeypatch.setattr(masters, "call", full)
        masters.down = set()
        test_replication.wait(world, 60)
        # A record with this serial is in both journals, and in that of the former master it is another one.
        assert masters.candidates.positions() == [successor.position.serial, None]
        monkeypatch.undo()
        test_replication.wait(world, 60)
        assert masters.candidates.positions() == [successor.position.serial] * 2


def test_jobs_of_a_master_that_went_on_alone_leave_nothing_in_the_queue_of_its_successor() -> None:
    with simulated.World(seed=1) as world:
        masters = RivalMasters(world, SEED)
        store = masters.master("n0", above=0)
        build.on(world, masters.machines["n0"], live(store, 1, 20))
        test_replication.wait(world, 3)
        first = masters.position("n0")
        masters.down = {"n1", "n2"}

        async def alone() -> None:
            # It archives a job of its checkpoint, creates another one, and a third that it archives.
            await store.commit([states.Delete("jobs", "17")], build.CAUSE)
            await store.commit(build.put(build.queued(60)), build.CAUSE)
            await store.commit(build.put(build.ended(build.queued(61))), build.CAUSE)
            await asyncio.sleep(5)
            await store.commit([states.Delete("jobs", "61")], build.CAUSE)
            await asyncio.sleep(5)
            await masters.machines["n0"].disk.sync(build.WHERE.lib)

        build.on(world, masters.machines["n0"], alone())
        assert masters.machines["n0"].disk.exists(f"{build.WHERE.queue}/job-60")
        assert masters.machines["n0"].disk.exists(f"{build.WHERE.queue}/archive/0/job-17")
        assert masters.machines["n0"].disk.exists(f"{build.WHERE.queue}/archive/0/job-61")
        assert masters.position("n0") == first
        masters.crash("n0")
        masters.down = {"n0"}
        successor = masters.master("n1", above=1)
        build.on(world, masters.machines["n1"], live(successor, 40, 41))
        masters.replacements.clear()
        masters.down = set()
        test_replication.wait(world, 60)
        assert masters.replacements == []
        for gone in ("job-60", "archive/0/job-61"):
            assert not masters.machines["n0"].disk.exists(f"{build.WHERE.queue}/{gone}")
        content = build.content(successor.snapshot)
        assert "17" in successor.snapshot.jobs
        masters.crash("n1")
        returned = masters.master("n0", above=2)
        assert {**build.content(returned.snapshot), "serial": 0} == {**content, "serial": 0}
        assert returned.snapshot.last_job == 40


@pytest.mark.parametrize("loss", ["field", "history", "disk"])
def test_a_former_master_gets_the_whole_state_if_its_frames_cannot_be_cut(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simulated.World(seed=1) as world:
        masters = RivalMasters(world)
        diverged(masters)
        successor = failed_over(masters)
        masters.replacements.clear()
        honest = masters.call

        async def older(target: targets.Target, call: calls.Call[candidate.Result]) -> candidate.Result:
            if isinstance(call, calls.JournalAppend) and loss == "field":
                without = msgspec.structs.replace(call, replaces="")
                return cast("candidate.Result", await honest(target, without))
            if isinstance(call, calls.JournalFetch) and loss == "history":
                return cast("candidate.Result", ())
            if isinstance(call, calls.JournalFetch) and loss == "disk":
                raise errors.StorageError("the journal on node0 cannot be read")
            return await honest(target, call)

        monkeypatch.setattr(masters, "call", older)
        masters.down = set()
        test_replication.wait(world, 60)
        assert set(masters.replacements) == {"n0"}
        state = build.on(world, masters.machines["n0"], masters.replicas["n0"].status())
        assert state.digest == successor.position.digest


@pytest.mark.parametrize("kind", [calls.JournalFetch, calls.JournalAppend])
def test_a_lost_message_does_not_cost_the_history(
    kind: type[calls.Call[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with simulated.World(seed=1) as world:
        masters = RivalMasters(world)
        diverged(masters)
        successor = failed_over(masters)
        masters.replacements.clear()
        honest = masters.call
        lost: list[calls.Call[object]] = []

        async def losing(target: targets.Target, call: calls.Call[candidate.Result]) -> candidate.Result:
            if isinstance(call, kind) and target.uuid == "n0" and "n0" not in masters.down and len(lost) < 3:
                lost.append(cast("calls.Call[object]", call))
                # A lost answer is as frequent as a lost call.
                if len(lost) == 2:
                    await honest(target, call)
                raise errors.RemoteError("node node0 does not answer")
            return await honest(target, call)

        monkeypatch.setattr(masters, "call", losing)
        masters.down = set()
        test_replication.wait(world, 90)
        assert len(lost) > 1
        assert masters.replacements == []
        state = build.on(world, masters.machines["n0"], masters.replicas["n0"].status())
        assert state.digest == successor.position.digest


def test_a_copy_that_is_cut_counts_only_when_it_has_the_newest_record() -> None:
    with simulated.World(seed=1) as world:
        masters = RivalMasters(world)
        diverged(masters)
        masters.down = {"n0", "n2"}
        machine = masters.machines["n1"]
        candidates = replication.Candidates(machine, masters)

        async def begin() -> transaction.Store:
            store = await transaction.Store.open(machine, build.WHERE, candidates=candidates, limits=LIMITS)
            store.claim(2)
            candidates.set_targets([target for target in masters.where if target.uuid != "n1"], policy=MAJORITY)
            waiting = asyncio.ensure_future(store.begin_epoch(above=1))
            await asyncio.sleep(3)
            assert not waiting.done()
            masters.down = {"n2"}
            await waiting
            return store

        store = build.on(world, machine, begin())
        state = build.on(world, masters.machines["n0"], masters.replicas["n0"].status())
        assert (state.digest, state.epoch) == (store.position.digest, 2)
        test_replication.wait(world, 1)
        masters.world.crash("node0")
        assert build.on(world, masters.machines["n0"], masters.fresh("n0").status()).digest == store.position.digest


def test_a_former_master_does_not_cut_the_copies_of_its_successor() -> None:
    with simulated.World(seed=1) as world:
        masters = RivalMasters(world)
        diverged(masters)
        successor = failed_over(masters)
        masters.down = set()
        position = successor.position

        async def call(copy: str) -> None:
            end = await masters.replicas[copy].status()
            late = calls.JournalAppend(epoch=1, previous="", frame="", replaces=end.digest)
            with pytest.raises(errors.FencedError):
                await masters.replicas[copy].append(late)
            assert await masters.replicas[copy].status() == end
            assert end.digest == position.digest

        build.on(world, masters.machines["n2"], call("n2"))
