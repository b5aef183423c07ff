"""A checkpoint that arrives beside a candidate's copy, interrupted at each point."""

import asyncio
import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import msgspec
import pytest
from tests.node.membership import pairs
from tests.state import build

from gantry import errors
from gantry.model import cluster_settings
from gantry.node.membership import arrival, replica
from gantry.rpc import calls, targets
from gantry.runtime import paths, simulated
from gantry.state.candidates import copies, replication
from gantry.state.files import checkpoint
from gantry.state.journal import history
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

WHERE = build.WHERE
ARCHIVED = (1, *range(2, 23, 3))
Image = Mapping[str, tuple[int, bytes | None]]


class Withheld(pairs.Caller):
    """Passes calls on; loses all calls while ``down``, and withholds the parts of refreshes from ``late`` on."""

    def __init__(self, copy: replica.Replica) -> None:
        super().__init__(copy)
        self.parts: list[calls.CheckpointStore] = []
        self.down = self.late = False

    async def call(self, target: targets.Target, call: calls.Call[pairs.Result]) -> pairs.Result:
        if self.down:
            raise errors.RemoteError("node node1 cannot be reached")
        if isinstance(call, calls.CheckpointStore) and not call.replace and self.late:
            self.parts = [*(self.parts if call.part else []), call]
            return cast("pairs.Result", await super().call(target, calls.CandidateStatus()))
        return await super().call(target, call)


@dataclass
class Scene:
    """A candidate's disk before a checkpoint arrives, and what the copy has before and after."""

    pair: pairs.Pair
    image: Image
    parts: list[calls.CheckpointStore]
    before: dict[str, object]
    after: dict[str, object]
    """The state that the copy has before and after."""

    @property
    def checkpoint(self) -> int:
        """The serial of the copy's checkpoint."""
        return checkpoint.decode(self.pair.node.disk.read(WHERE.config), path="").position.serial

    def restored(self) -> replica.Replica:
        self.pair.node.restart()
        self.pair.node.disk.restore(self.image)
        return self.pair.fresh()

    async def arrive(self, copy: replica.Replica) -> None:
        for part in self.parts:
            await copy.store(part)

    def interrupted(self, visit: int, end: Callable[[str], None]) -> bool:
        """Let the parts arrive, ending the machine at a visit to the disk; False if there are fewer visits."""
        copy = self.restored()
        visits = iter(range(visit, -1, -1))
        self.pair.node.disk.on_visit = lambda: end("node1") if next(visits, None) == 0 else None
        task = self.pair.node.spawn(self.arrive(copy))
        self.pair.world.run(asyncio.wait([task]))
        self.pair.node.disk.on_visit = None
        return task.cancelled()

    def queue(self) -> set[str]:
        """Return the numbers of the jobs whose files are in the queue's folder."""
        return {name[4:] for name in self.pair.node.disk.names(WHERE.queue) if name.startswith("job-")}

    def listed(self) -> set[str]:
        """Return the numbers of the jobs that the checkpoint lists."""
        loaded = checkpoint.decode(self.pair.node.disk.read(WHERE.config), path="")
        return set(map(str, loaded.jobs))

    def serials(self) -> list[int]:
        return [entry.serial for entry in history.records(self.pair.node.disk, WHERE.journal)]

    def opened(self, where: paths.Paths = WHERE) -> transaction.Store:
        return self.pair.at_node(transaction.Store.open(self.pair.node, where))

    def kept(self) -> dict[str, object]:
        """Return the state in the copy that was kept aside."""
        store = self.opened(dataclasses.replace(WHERE, lib=f"{WHERE.lib}/before-replacement-1"))
        self.pair.world.kill("node1")
        return build.content(store.snapshot)


@pytest.fixture
def world() -> Iterator[simulated.World]:
    with simulated.World(seed=3) as world:
        yield world


class Kind(enum.Enum):
    """What arrives: the last checkpoint in the middle of the copy, one at its end, or a state with another history."""

    MIDDLE = "middle"
    END = "end"
    DIVERGED = "diverged"


def scene(world: simulated.World, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> Scene:
    """Let a master change, end and archive jobs before and after the checkpoints that it sends to a candidate."""
    monkeypatch.setattr(copies, "PART", 1000)
    pair = pairs.Pair(world)
    caller = Withheld(pair.copy)
    contents: list[dict[str, object]] = []

    async def work() -> list[calls.CheckpointStore]:
        candidates = replication.Candidates(pair.master, caller)
        limits = transaction.Limits(records=6)
        store = await transaction.Store.open(pair.master, WHERE, candidates=candidates, limits=limits)
        candidates.set_targets([pairs.TARGET], policy=cluster_settings.Replication.SEED)
        await pair.master.clock.sleep(1)
        for number in range(1, 24):
            await store.commit(build.put(build.vm(number), build.queued(number)), build.CAUSE)
            if number % 3 == 0:
                ended = build.ended(store.snapshot.jobs[str(number - 1)])
                await store.commit(build.put(ended), build.CAUSE)
                await store.commit([states.Delete("jobs", str(number - 1))], build.CAUSE)
            if number == 12:
                await pair.master.clock.sleep(2)
                caller.late = True
        # Its file is as old as the candidate's checkpoint.
        await store.commit([states.Delete("jobs", "1")], build.CAUSE)
        for number in range(24, 30):
            await store.commit(build.put(build.vm(number)), build.CAUSE)
        await pair.master.clock.sleep(2)
        contents.append(build.content(store.snapshot))
        if kind is Kind.MIDDLE:
            return caller.parts
        if kind is Kind.END:
            return list((await candidates.copy()).parts(replace=False))
        end = await pair.copy.status()
        await pair.copy.append(pairs.append(end.digest, serial=end.serial + 1))
        await pair.node.disk.write(f"{WHERE.queue}/job-77", b"{}")
        caller.down = True
        for number in (50, 51):
            await store.commit(build.put(build.vm(number)), build.CAUSE)
        contents.append(build.content(store.snapshot))
        # Of a later master: what the copy has more is of an earlier one.
        whole = (await candidates.copy()).parts(replace=True)
        return [msgspec.structs.replace(part, epoch=1) for part in whole]

    parts = pair.at_master(work())
    world.kill("node0")
    if kind is Kind.DIVERGED:
        contents[0]["serial"] = cast("int", contents[0]["serial"]) + 1
    pair.at_node(pair.node.disk.sync(WHERE.lib))
    assert len(parts) > 3
    return Scene(pair, pair.node.disk.image(), parts, before=contents[0], after=contents[-1])


@pytest.mark.parametrize("how", ["crash", "kill"])
@pytest.mark.parametrize("kind", Kind)
def test_an_arriving_checkpoint_may_be_interrupted_at_any_point(
    world: simulated.World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: Kind, how: str
) -> None:
    stage = scene(world, monkeypatch, kind)
    first = stage.checkpoint
    assert first > 10
    checkpoints, visit = [], 0
    while stage.interrupted(visit, getattr(world, how)):
        fresh = stage.pair.fresh()
        state = stage.pair.at_node(fresh.status())
        checkpoints.append(stage.checkpoint)
        assert not stage.pair.node.disk.exists(WHERE.incoming)
        assert stage.pair.at_node(fresh.status()) == state
        is_new = state.serial == stage.after["serial"] and kind is Kind.DIVERGED
        if is_new:
            assert stage.queue() == stage.listed()
            assert stage.kept() == stage.before
        else:
            assert stage.serials() == list(range(2, state.serial + 1))
        store = stage.opened()
        assert build.content(store.snapshot) == (stage.after if is_new else stage.before)
        assert all(store.archive.job(number) for number in ARCHIVED)
        world.kill("node1")
        visit += 1
    assert visit > 30
    assert checkpoints == sorted(checkpoints)
    assert set(checkpoints) == {first, stage.checkpoint}
    # All files of jobs were usable, and none is left over.
    assert "rewritten from record" not in caplog.text
    assert stage.queue() == stage.listed()


def test_a_master_daemon_can_open_the_copy_while_a_refresh_is_interrupted(
    world: simulated.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = scene(world, monkeypatch, Kind.MIDDLE)
    visit = 0
    while stage.interrupted(visit, world.kill):
        store = stage.opened()
        assert build.content(store.snapshot) == stage.before
        world.kill("node1")
        visit += 1
    assert visit > 30


@pytest.mark.parametrize("kind", [Kind.MIDDLE, Kind.END])
def test_frames_are_appended_while_a_checkpoint_arrives(
    world: simulated.World, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    stage = scene(world, monkeypatch, kind)
    copy = stage.restored()
    stage.pair.node.disk.delay = (0.01, 0.01)
    longest = 0.0

    async def appending(arriving: asyncio.Task[None]) -> int:
        nonlocal longest
        count = 0
        state = await copy.status()
        while not arriving.done():
            begin = world.clock.monotonic()
            state = await copy.append(pairs.append(state.digest, serial=state.serial + 1))
            longest = max(longest, world.clock.monotonic() - begin)
            count += 1
        await arriving
        return count

    async def both() -> int:
        return await appending(asyncio.create_task(stage.arrive(copy)))

    before, first = stage.pair.at_node(copy.status()), stage.checkpoint
    count = stage.pair.at_node(both())
    assert count > 10
    assert (stage.checkpoint > first) is (kind is Kind.MIDDLE)
    # An append is two visits to the disk, and may wait for the one that installs the checkpoint.
    assert longest < 0.05
    world.crash("node1")
    state = stage.pair.at_node(stage.pair.fresh().status())
    assert state.serial == before.serial + count
    assert state.given_up == (0, 0)
    store = stage.opened()
    assert store.durable_serial == state.serial
    assert stage.serials() == list(range(2, state.serial + 1))


def test_files_that_could_not_be_synced_do_not_replace_others(
    world: simulated.World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage = scene(world, monkeypatch, Kind.MIDDLE)
    fold = arrival.Arrival.fold

    async def failing(self: arrival.Arrival, sections: Mapping[str, int]) -> None:
        stage.pair.node.disk.fail_sync = True
        await fold(self, sections)

    monkeypatch.setattr(arrival.Arrival, "fold", failing)
    for _ in range(8):
        with pytest.raises(errors.StorageError, match="cannot be written"):
            stage.pair.at_node(stage.arrive(stage.restored()))
        stage.pair.node.disk.fail_sync = False
        world.crash("node1")
        store = stage.opened()
        assert build.content(store.snapshot) == stage.before
        assert "rewritten from record" not in caplog.text


def test_a_frame_that_joins_the_last_section_during_the_installation_prevents_it(
    world: simulated.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = scene(world, monkeypatch, Kind.END)
    copy = stage.restored()
    fold = arrival.Arrival.fold
    before, first = stage.pair.at_node(copy.status()), stage.checkpoint

    async def joined(self: arrival.Arrival, sections: Mapping[str, int]) -> None:
        await fold(self, sections)
        await copy.append(pairs.append(before.digest, serial=before.serial + 1))

    monkeypatch.setattr(arrival.Arrival, "fold", joined)
    stage.pair.at_node(stage.arrive(copy))
    assert stage.checkpoint == first
    world.crash("node1")
    assert stage.pair.at_node(stage.pair.fresh().status()).serial == before.serial + 1
    assert stage.opened().durable_serial == before.serial + 1


def test_a_checkpoint_that_does_not_end_a_section_changes_nothing(
    world: simulated.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = scene(world, monkeypatch, Kind.DIVERGED)
    stage.parts = [msgspec.structs.replace(part, replace=False) for part in stage.parts]
    copy = stage.restored()
    before = stage.pair.at_node(copy.status())
    config = stage.pair.node.disk.read(WHERE.config)
    stage.pair.at_node(stage.arrive(copy))
    assert stage.pair.at_node(copy.status()) == before
    assert stage.pair.node.disk.read(WHERE.config) == config
    assert not stage.pair.node.disk.exists(WHERE.incoming)


def test_a_replaced_copy_is_given_up(world: simulated.World, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = scene(world, monkeypatch, Kind.DIVERGED)
    copy = stage.restored()
    before = stage.pair.at_node(copy.status())
    stage.pair.at_node(stage.arrive(copy))
    assert stage.pair.at_node(copy.status()).given_up == (before.epoch, before.serial)


def test_a_torn_end_is_cut_off_before_a_section_begins(world: simulated.World, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = scene(world, monkeypatch, Kind.MIDDLE)
    copy = stage.restored()
    end = stage.pair.at_node(copy.status())
    stage.pair.node.disk.fail_write = 1.0
    with pytest.raises(errors.StorageError):
        stage.pair.at_node(copy.append(pairs.append(end.digest, serial=end.serial + 1)))
    stage.pair.node.disk.fail_write = 0.0
    following = pairs.append(end.digest, serial=end.serial + 1)
    state = stage.pair.at_node(copy.append(msgspec.structs.replace(following, begins_section=True)))
    assert state.serial == end.serial + 1
    assert stage.serials() == list(range(2, state.serial + 1))
