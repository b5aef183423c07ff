"""Copies that a node keeps aside: which, how many, and what is said about them."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterator

import msgspec
import pytest
from tests.node.membership import pairs
from tests.node.membership.pairs import append
from tests.state import build

from gantry.node.membership import fence, frames, kept_copies, replica, ssconf
from gantry.runtime import simulated
from gantry.state.start import recovery

WHERE = build.WHERE


@pytest.fixture
def pair() -> Iterator[pairs.Pair]:
    with simulated.World(seed=3) as world:
        yield pairs.Pair(world)


def replica_and_fence(pair: pairs.Pair) -> tuple[replica.Replica, fence.Fence]:
    files = ssconf.Files(pair.node.disk, WHERE)
    barrier = fence.Fence(pair.node, WHERE, files=files)
    return replica.Replica(pair.node, WHERE, files=files, barrier=barrier), barrier


def test_a_deleted_copy_without_a_record_of_the_present_master_is_kept_whole(
    pair: pairs.Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.replicated(3)
    copy, barrier = replica_and_fence(pair)
    end = pair.at_node(copy.status())
    pair.at_node(barrier.admit(end.epoch + 1))
    pair.at_node(copy.forget())
    folder = f"{WHERE.lib}/before-replacement-1"
    assert not pair.node.disk.exists(WHERE.config)
    assert pair.at_node(copy.status()).serial == 0
    kept = pair.at_node(recovery.recover(pair.node, dataclasses.replace(WHERE, lib=folder)))
    assert (kept.replay.end.serial, kept.replay.end.digest) == (end.serial, end.digest)
    assert (
        f"serial {end.serial} epoch {end.epoch}, may have records that no other node has; it is kept in" in caplog.text
    )
    (line,) = copy.kept()
    assert line.startswith(f"{folder} has a copy of the state, serial {end.serial} epoch {end.epoch},")
    assert f"gnt-cluster recover --from {folder}" in line
    assert f"rm -r {folder}" in line


def end_at(pair: pairs.Pair, visit: int, end: Callable[[str], None]) -> None:
    """End the node's machine at a visit to its disk."""
    visits = iter(range(visit, -1, -1))
    pair.node.disk.on_visit = lambda: end("node1") if next(visits, None) == 0 else None


@pytest.mark.parametrize("how", ["crash", "kill"])
def test_a_deletion_that_is_interrupted_at_any_point_loses_nothing_of_the_kept_copy(how: str) -> None:
    """The node is asked again, as the master does."""
    interrupted, visit = True, 0
    while interrupted:
        with simulated.World(seed=3) as world:
            pair = pairs.Pair(world)
            pair.replicated(3)
            copy, barrier = replica_and_fence(pair)
            end = pair.at_node(copy.status())
            pair.at_node(barrier.admit(end.epoch + 1))
            end_at(pair, visit, getattr(world, how))
            task = pair.node.spawn(copy.forget())
            world.run(asyncio.wait([task]))
            interrupted, pair.node.disk.on_visit = task.cancelled(), None
            if interrupted:
                copy, barrier = replica_and_fence(pair)
                pair.at_node(copy.forget())
            assert not pair.node.disk.exists(WHERE.config)
            reached = []
            for line in copy.kept():
                where = dataclasses.replace(WHERE, lib=line.split()[0])
                reached.append(pair.at_node(recovery.recover(pair.node, where)).replay.end.serial)
            assert max(reached) == end.serial
        visit += 1
    assert visit > 10


def test_a_deleted_copy_that_follows_the_present_master_is_not_kept(pair: pairs.Pair) -> None:
    pair.replicated(3)
    copy, barrier = replica_and_fence(pair)
    pair.at_node(barrier.admit(pair.at_node(copy.status()).epoch))
    pair.at_node(copy.forget())
    assert copy.kept() == []


def begin(pair: pairs.Pair, kept: kept_copies.KeptCopies, serial: int, *, size: int = 1) -> str:
    """Keep a copy whose journal has ``size`` bytes, and return its folder."""
    folder = pair.at_node(kept.begin(frames.Position(serial=serial, epoch=1), "test"))
    pair.at_node(pair.node.disk.make_directory(f"{folder}/journal"))
    pair.at_node(pair.node.disk.write(f"{folder}/journal/0000000000000002.log", bytes(size)))
    return folder


def test_the_newest_copies_stay(pair: pairs.Pair) -> None:
    kept = kept_copies.KeptCopies(pair.node.disk, WHERE)
    folders = [begin(pair, kept, serial) for serial in range(1, 13)]
    names = [line.split()[0] for line in kept.described()]
    assert names == folders[-kept_copies.MOST_COPIES :]
    assert folders[-1].endswith("before-replacement-12")


def test_large_copies_go_before_there_are_as_many_but_not_the_newest(
    pair: pairs.Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_copies, "MOST_BYTES", 1000)
    kept = kept_copies.KeptCopies(pair.node.disk, WHERE)
    for serial in (1, 2, 3):
        begin(pair, kept, serial, size=600)
    assert [line.split()[0][-1] for line in kept.described()] == ["2", "3"]


def test_attempts_that_moved_nothing_leave_the_older_copies_alone(pair: pairs.Pair) -> None:
    kept = kept_copies.KeptCopies(pair.node.disk, WHERE)
    folder = begin(pair, kept, 1)
    for serial in range(2, 9):
        pair.at_node(kept.begin(frames.Position(serial=serial, epoch=1), "test"))
    assert [line.split()[0] for line in kept.described()] == [folder]
    assert begin(pair, kept, 9).endswith("before-replacement-2")
    assert len(kept.described()) == 2


def test_frames_that_are_cut_off_stay_in_a_file_and_acknowledged_ones_are_not_cut(pair: pairs.Pair) -> None:
    pair.replicated(2)
    copy, barrier = replica_and_fence(pair)
    common = pair.at_node(copy.status())
    former = append(common.digest, epoch=1, serial=common.serial + 1)
    end = pair.at_node(copy.append(former))
    successor = append(common.digest, epoch=2, serial=common.serial + 1)
    call = msgspec.structs.replace(successor, replaces=end.digest)
    barrier.acknowledged.note((1, end.serial))
    assert pair.at_node(copy.append(call)).digest == end.digest
    pair.world.kill("node1")
    copy, _ = replica_and_fence(pair)
    assert pair.at_node(copy.append(call)).epoch == 2
    assert pair.node.disk.read(f"{WHERE.lib}/cut-records/1-{end.serial}.log") == former.frame.encode()
