"""What one program writes below ``lib``, the other reads: the node daemon's copy and the master's state."""

import random
from collections.abc import Iterator

import msgspec
import pytest
from tests.node.membership.pairs import WHERE, Pair

from gantry import errors
from gantry.lib_files import epoch, frame
from gantry.node.membership import fence, frames, journal_end, queue_lock, replica_contents, sections, ssconf
from gantry.rpc import calls
from gantry.runtime import simulated
from gantry.state.journal import end_mark, journal
from gantry.state.start import evidence


@pytest.fixture
def pair() -> Iterator[Pair]:
    with simulated.World(seed=1) as world:
        yield Pair(world)


def by_the_node(pair: Pair) -> frames.Position:
    """Return the end of the candidate's journal as its node daemon reads it."""
    disk = pair.node.disk
    return replica_contents.Reader(disk, WHERE, sections.Sections(disk, WHERE.journal)).load().end


def by_the_master(pair: Pair) -> journal.Position:
    """Return the end as a master daemon on that machine reads it, up to damage."""
    disk = pair.node.disk
    start = frames.checkpoint(disk.read(WHERE.config))
    replay = journal.Replay(disk, WHERE.journal, journal.Position(start.serial, start.digest, start.epoch))
    try:
        for _ in replay:
            pass
    except errors.ConfigurationError:
        pass
    return replay.end


def test_the_journal_ends_at_the_same_frame_for_both(pair: Pair) -> None:
    pair.replicated(5)
    node, master = by_the_node(pair), by_the_master(pair)
    assert (node.serial, node.digest, node.epoch) == (master.serial, master.digest, master.epoch)
    assert node.serial > 5
    assert node.last_job == 5


def test_whatever_damages_the_journal_neither_reads_a_frame_that_the_other_refuses(pair: Pair) -> None:
    pair.replicated(5)
    path, chance = pair.section(), random.Random(1)
    whole = pair.node.disk.read(path)
    ends = set()
    for number in range(60):
        damaged = bytearray(whole)
        position = chance.randrange(len(whole))
        if number % 3 == 0:
            del damaged[position:]
        elif number % 3 == 1:
            damaged[position] ^= 1 << chance.randrange(8)
        else:
            damaged[position : position + 1] = bytes(chance.randrange(1, 600))
        pair.at_node(pair.node.disk.write(path, bytes(damaged)))
        node, master = by_the_node(pair), by_the_master(pair)
        assert (node.serial, node.digest) == (master.serial, master.digest)
        ends.add(node.serial)
    assert len(ends) > 3


def test_each_reads_the_mark_of_the_others_end(pair: Pair) -> None:
    pair.replicated(3)
    node = by_the_node(pair)
    mark = end_mark.read(pair.node.disk, WHERE.journal_end)
    assert mark is not None
    assert (mark.serial, mark.epoch, mark.digest, mark.last_job) == (node.serial, node.epoch, node.digest, 3)
    owner = queue_lock.QueueLock(pair.master, WHERE)
    of_master = end_mark.read(pair.master.disk, WHERE.journal_end)
    assert of_master is not None
    furthest = journal_end.JournalEnd(pair.master, WHERE, owner=owner).furthest()
    assert furthest == (of_master.epoch, of_master.serial)
    assert of_master.serial >= node.serial


@pytest.mark.parametrize("owner", ["", "uuid-of-node2"])
def test_the_master_knows_the_epoch_that_its_node_obeys(pair: Pair, owner: str) -> None:
    barrier = fence.Fence(pair.node, WHERE, files=ssconf.Files(pair.node.disk, WHERE))
    pair.at_node(pair.node.disk.make_directory(WHERE.lib))
    pair.at_node(barrier.admit(7, owner))
    assert evidence.read(pair.node.disk, WHERE).epoch == 7
    grant = calls.GrantedEpoch(epoch=9, node="node2", uuid="uuid-of-node2")
    assert pair.at_node(barrier.grant(grant))
    assert evidence.read(pair.node.disk, WHERE).granted == 9


def test_the_node_keeps_the_grant_that_the_master_wrote_for_it(pair: Pair) -> None:
    grant = calls.GrantedEpoch(epoch=9, node="node1", uuid="n1")
    pair.at_node(pair.node.disk.make_directory(WHERE.lib))
    pair.at_node(pair.node.disk.write(f"{WHERE.lib}/promise", epoch.encode_grant(grant)))
    barrier = fence.Fence(pair.node, WHERE, files=ssconf.Files(pair.node.disk, WHERE))
    assert barrier.granted() == grant
    assert not pair.at_node(barrier.grant(calls.GrantedEpoch(epoch=9, node="node2", uuid="n2")))


def test_files_of_earlier_versions_are_read_by_both(pair: Pair) -> None:
    disk = pair.node.disk
    for content, expected in ((b"5", 5), (b"8 u1 7763d46d\n7 u1 7763d46d\n", 7)):
        pair.at_node(disk.make_directory(WHERE.lib))
        pair.at_node(disk.write(f"{WHERE.lib}/epoch", content))
        assert evidence.read(disk, WHERE).epoch == expected
        assert fence.Fence(pair.node, WHERE, files=ssconf.Files(disk, WHERE)).unproven_epoch() == expected


def test_a_frame_of_the_state_is_one_for_the_node() -> None:
    records: list[dict[str, object]] = [
        {"serial": serial, "time": 1.0, "epoch": 2, "cause": {}, "changes": []} for serial in (1, 2)
    ]
    line = frame.pack(frame.GENESIS, [msgspec.json.encode(record) for record in records])
    end = frames.follow(frames.START, line)
    assert (end.serial, end.epoch, end.digest) == (2, 2, frame.digest(line))
