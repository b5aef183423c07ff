"""Frames of a former master at the end of a copy are cut off, and the cut may be interrupted at each point."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import pytest
from tests.node.membership import pairs
from tests.state import build

from gantry import errors
from gantry.lib_files import frame, journal_names
from gantry.model import cluster_settings, job
from gantry.node.membership import replica
from gantry.rpc import calls
from gantry.runtime import simulated
from gantry.state.candidates import replication
from gantry.state.journal import history
from gantry.state.start import recovery
from gantry.state.store import transaction

WHERE = build.WHERE


@pytest.fixture
def world() -> Iterator[simulated.World]:
    with simulated.World(seed=3) as world:
        yield world


def append(end: calls.CandidateState, epoch: int, *changes: object, begins: bool = False) -> calls.JournalAppend:
    """Return the call for a frame of one record after the end of a copy."""
    record = {"serial": end.serial + 1, "time": 1.0, "epoch": epoch, "cause": {}, "changes": changes}
    call = pairs.append(end.digest, epoch=epoch, line=frame.pack(end.digest, [msgspec.json.encode(record)]))
    return msgspec.structs.replace(call, begins_section=begins)


def put(queued: job.Job) -> object:
    return ["put", "jobs", queued]


@dataclass
class Scene:
    """A candidate whose copy ends with three frames of a former master, and the call that replaces these.

    ``ends`` are the ends of the copy from the last common frame on, with the state there.
    """

    pair: pairs.Pair
    image: dict[str, tuple[int, bytes | None]]
    ends: dict[tuple[int, int], dict[str, object]]
    common: calls.CandidateState
    diverged: calls.CandidateState
    call: calls.JournalAppend

    def restored(self) -> replica.Replica:
        self.pair.node.restart()
        self.pair.node.disk.restore(self.image)
        return self.pair.fresh()

    def interrupted(self, visit: int, end: Callable[[str], None]) -> bool:
        """Let the call arrive, ending the machine at a visit to the disk; False if there are fewer visits."""
        copy = self.restored()
        visits = iter(range(visit, -1, -1))
        self.pair.node.disk.on_visit = lambda: end("node1") if next(visits, None) == 0 else None
        task = self.pair.node.spawn(copy.append(self.call))
        self.pair.world.run(asyncio.wait([task]))
        self.pair.node.disk.on_visit = None
        return task.cancelled()

    def opened(self, *, behind: recovery.Behind = recovery.Behind.REFUSED) -> dict[str, object]:
        """Return the state that a master daemon reads from the copy."""
        store = self.pair.at_node(transaction.Store.open(self.pair.node, WHERE, behind=behind))
        content = build.content(store.snapshot)
        self.pair.world.kill("node1")
        return content

    def numbers(self, folder: str = "") -> set[int]:
        names = self.pair.node.disk.names(f"{WHERE.queue}{folder}")
        return {int(name[4:]) for name in names if name.startswith("job-")}

    def refused(self, call: calls.JournalAppend) -> None:
        """Check that a call changes nothing."""
        copy = self.restored()
        end = self.pair.at_node(copy.status())
        assert self.pair.at_node(copy.append(call)) == end
        assert end.digest == self.diverged.digest
        assert end.given_up == (0, 0)


def scene(world: simulated.World) -> Scene:
    """Let a former master archive, change and create jobs behind a cut cable, in two sections."""
    pair = pairs.Pair(world)
    ends: dict[tuple[int, int], dict[str, object]] = {}

    async def live() -> None:
        candidates = replication.Candidates(pair.master, pairs.Caller(pair.copy))
        limits = transaction.Limits(records=6)
        store = await transaction.Store.open(pair.master, WHERE, candidates=candidates, limits=limits)
        candidates.set_targets([pairs.TARGET], policy=cluster_settings.Replication.SEED)
        await pair.master.clock.sleep(1)
        for number in range(1, 9):
            await store.commit(build.put(build.vm(number), build.queued(number)), build.CAUSE)
            await pair.master.clock.sleep(1)
        for number in (2, 9):
            await store.commit(build.put(build.queued(number)), build.CAUSE)

    pair.at_master(live())
    world.kill("node0")

    def note(end: calls.CandidateState) -> None:
        store = pair.at_node(transaction.Store.open(pair.node, WHERE))
        ends[end.epoch, end.serial] = build.content(store.snapshot)
        world.kill("node1")
        pair.copy = pair.fresh()

    async def sent(call: calls.JournalAppend) -> calls.CandidateState:
        state = await pair.copy.append(call)
        await pair.node.clock.sleep(1)
        return state

    end = common = pair.at_node(pair.copy.status())
    note(end)
    for changes, begins in (
        ([["delete", "jobs", "3"], ["delete", "jobs", "2"]], False),
        ([put(build.queued(90)), put(build.ended(build.queued(9)))], True),
        ([put(build.queued(91))], False),
    ):
        end = pair.at_node(sent(append(end, 1, *changes, begins=begins)))
        note(end)

    async def written() -> None:
        """Bring the files of the queue to the end, as the master daemon did."""
        store = await transaction.Store.open(pair.node, WHERE)
        await pair.node.clock.sleep(3)
        assert store.snapshot.last_job == 91

    pair.at_node(written())
    world.kill("node1")
    pair.copy = pair.fresh()
    pair.at_node(pair.node.disk.sync(WHERE.lib))
    call = append(common, 2, put(build.queued(10)))
    return Scene(
        pair,
        dict(pair.node.disk.image()),
        ends,
        common,
        end,
        msgspec.structs.replace(call, replaces=end.digest),
    )


@pytest.mark.parametrize("how", ["crash", "kill"])
def test_a_cut_may_be_interrupted_at_any_point(world: simulated.World, how: str) -> None:
    stage = scene(world)
    assert stage.numbers("/archive/0") == {2, 3}
    reached, visit = set(), 0
    while stage.interrupted(visit, getattr(world, how)):
        copy = stage.pair.fresh()
        state = stage.pair.at_node(copy.status())
        extent = (state.epoch, state.serial)
        # In a vote the node stands for the records that it had, whether they are there or not.
        assert max(extent, state.given_up) >= (1, stage.diverged.serial)
        world.kill("node1")
        content = stage.opened(behind=recovery.Behind.ACCEPTED)
        if state.epoch < 2:
            reached.add(extent)
            assert {**content, "last_job": 0} == {**stage.ends[extent], "last_job": 0}
        call = msgspec.structs.replace(stage.call, replaces=state.digest)
        copy = stage.pair.fresh()
        if state.epoch < 2:
            state = stage.pair.at_node(copy.append(call))
        assert (state.epoch, state.serial) == (2, stage.common.serial + 1)
        world.kill("node1")
        final = stage.opened()
        assert final["last_job"] == 10
        assert set(final["jobs"]) == set(map(str, range(1, 11)))  # type: ignore[call-overload]
        visit += 1
    assert visit > 10
    assert {(0, stage.common.serial), (1, stage.diverged.serial)} <= reached
    serials = [entry.serial for entry in history.records(stage.pair.node.disk, WHERE.journal)]
    assert serials == list(range(2, stage.common.serial + 2))
    assert not stage.numbers() & {90, 91}
    assert stage.numbers("/archive/0") == set()


def test_a_cut_leaves_the_past_and_is_made_once(world: simulated.World) -> None:
    stage = scene(world)
    copy = stage.restored()
    state = stage.pair.at_node(copy.append(stage.call))
    assert (state.serial, state.epoch) == (stage.common.serial + 1, 2)
    assert state.given_up == (1, stage.diverged.serial)
    # The same call comes late: it concerns an end that the copy does not have any more.
    assert stage.pair.at_node(copy.append(stage.call)) == state
    following = stage.pair.at_node(copy.append(append(state, 2)))
    assert stage.pair.at_node(copy.append(stage.call)) == following
    with pytest.raises(errors.FencedError):
        stage.pair.at_node(copy.append(append(following, 1)))


def test_frames_are_not_cut_by_a_master_that_may_not(world: simulated.World) -> None:
    stage = scene(world)
    own = append(stage.common, 1)
    stage.refused(msgspec.structs.replace(own, replaces=stage.diverged.digest))
    stage.refused(msgspec.structs.replace(stage.call, replaces=""))
    stage.refused(msgspec.structs.replace(stage.call, replaces=stage.common.digest))
    older = msgspec.structs.replace(stage.common, epoch=0)
    with pytest.raises(errors.FencedError):
        stage.refused(msgspec.structs.replace(append(older, 0), replaces=stage.diverged.digest))
    grant = calls.GrantEpoch(epoch=3, node="n2", newest=(1, stage.diverged.serial))
    copy = stage.restored()
    assert stage.pair.at_node(copy.grant_epoch(grant)).granted
    with pytest.raises(errors.NotGrantedError):
        stage.pair.at_node(copy.append(stage.call))
    assert stage.pair.at_node(copy.status()).digest == stage.diverged.digest


def test_frames_that_both_have_are_not_cut(world: simulated.World) -> None:
    stage = scene(world)
    disk = stage.pair.node.disk
    lines = disk.read(stage.pair.section()).splitlines(keepends=True)
    first = frame.digest(lines[0])
    end = msgspec.structs.replace(stage.common, digest=first, serial=stage.common.serial + 2)
    call = append(end, 2)
    lines_after = msgspec.structs.replace(call, previous=stage.common.digest, frame=lines[0].decode() + call.frame)
    # The call begins with the frame that the copy has at the same place.
    before = [line for path in build.sections(stage.pair.node) for line in disk.read(path).splitlines(keepends=True)]
    previous = frame.digest(before[before.index(lines[0]) - 1])
    stage.refused(msgspec.structs.replace(lines_after, previous=previous, replaces=stage.diverged.digest))


def test_frames_of_the_checkpoint_are_not_cut(world: simulated.World) -> None:
    stage = scene(world)
    path = build.sections(stage.pair.node)[0]
    line = stage.pair.node.disk.read(path).splitlines(keepends=True)[0]
    early = msgspec.structs.replace(stage.common, digest=frame.digest(line), serial=2)
    stage.refused(msgspec.structs.replace(append(early, 2), replaces=stage.diverged.digest))
    unknown = msgspec.structs.replace(stage.common, digest="f" * 64)
    stage.refused(msgspec.structs.replace(append(unknown, 2), replaces=stage.diverged.digest))


def test_frames_that_do_not_follow_leave_the_copy_as_it_was(world: simulated.World) -> None:
    stage = scene(world)
    copy = stage.restored()
    with pytest.raises(errors.ProtocolError, match="cannot be appended"):
        stage.pair.at_node(copy.append(msgspec.structs.replace(stage.call, frame=stage.call.frame[:-2] + "\n")))
    assert stage.pair.at_node(copy.status()).digest == stage.diverged.digest


def test_a_copy_with_a_job_that_cannot_return_to_what_it_was_is_not_cut(world: simulated.World) -> None:
    stage = scene(world)
    path = f"{WHERE.queue}/archive/0/job-3"
    stage.restored()
    content = stage.pair.node.disk.read(path)
    stage.pair.at_node(stage.pair.node.disk.write(path, content + b" "))
    stage.image = dict(stage.pair.node.disk.image())
    stage.refused(stage.call)


@pytest.mark.parametrize("fault", ["fail_write", "fail_sync"])
def test_a_disk_that_fails_during_a_cut_is_reported(world: simulated.World, fault: str) -> None:
    stage = scene(world)
    copy = stage.restored()
    stage.pair.at_node(copy.status())
    setattr(stage.pair.node.disk, fault, 1.0 if fault == "fail_write" else True)
    with pytest.raises(errors.StorageError, match=r"node1 cannot be (cut|written)"):
        stage.pair.at_node(copy.append(stage.call))
    setattr(stage.pair.node.disk, fault, 0.0 if fault == "fail_write" else False)
    with contextlib.suppress(errors.StorageError):
        # The disk may report the failure once more.
        stage.pair.at_node(copy.status())
    state = stage.pair.at_node(copy.status())
    call = msgspec.structs.replace(stage.call, replaces=state.digest)
    assert stage.pair.at_node(copy.append(call)).epoch == 2


def test_the_sections_of_a_cut_copy_are_those_of_its_journal(world: simulated.World) -> None:
    stage = scene(world)
    copy = stage.restored()
    before = build.sections(stage.pair.node)
    assert len(before) > 2
    stage.pair.at_node(copy.append(msgspec.structs.replace(stage.call, begins_section=True)))
    path = journal_names.path(WHERE.journal, stage.common.serial + 1)
    assert build.sections(stage.pair.node) == [*before[:-1], path]
