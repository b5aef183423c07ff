"""How far a candidate's copy ever reached: a copy that lost records which it acknowledged says so."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest
from tests.node.membership.pairs import Pair, append
from tests.state import build

from gantry import errors
from gantry.lib_files import journal_end
from gantry.rpc import calls
from gantry.runtime import simulated
from gantry.state.journal import end_mark, journal

WHERE = build.WHERE


@pytest.fixture
def pair() -> Iterator[Pair]:
    with simulated.World(seed=1) as world:
        yield Pair(world)


@pytest.mark.parametrize("loss", ["frames", "section", "copy"])
def test_a_copy_that_lost_frames_which_it_acknowledged_says_how_far_it_reached(pair: Pair, loss: str) -> None:
    pair.replicated(3)
    before = pair.at_node(pair.copy.status())
    pair.world.run(asyncio.sleep(0.1))
    pair.world.kill("node1")
    disk, path = pair.node.disk, pair.section()

    async def lose() -> None:
        if loss == "frames":
            await disk.write(path, b"".join(disk.read(path).splitlines(keepends=True)[:-2]))
        else:
            await disk.remove(path if loss == "section" else WHERE.config)

    pair.at_node(lose())
    after = pair.at_node(pair.fresh().status())
    assert after.serial < before.serial
    assert after.given_up == (before.epoch, before.serial)
    newer = pair.fresh()
    request = calls.GrantEpoch(epoch=before.epoch + 1, node="node2", newest=(before.epoch, before.serial - 1))
    assert not pair.at_node(newer.grant_epoch(request)).granted
    whole = msgspec.structs.replace(request, newest=(before.epoch, before.serial))
    assert pair.at_node(newer.grant_epoch(whole)).granted


def test_a_copy_marks_the_highest_job_number_for_the_master_that_opens_it(pair: Pair) -> None:
    pair.replicated(3)
    end = pair.at_node(pair.copy.status())
    pair.world.run(asyncio.sleep(0.1))
    mark = end_mark.read(pair.node.disk, WHERE.journal_end)
    assert mark == end_mark.at(journal.Position(end.serial, end.digest, end.epoch), 3)


@pytest.mark.parametrize("content", [b"", bytes(40), b"7 %s aa 00000000\n" % (b"9" * 4002)])
def test_a_node_that_cannot_read_how_far_its_copy_reached_has_no_vote(pair: Pair, content: bytes) -> None:
    pair.replicated(1)
    pair.world.kill("node1")
    pair.at_node(pair.node.disk.write(WHERE.journal_end, content))
    with pytest.raises(
        errors.StorageError, match=r"journal-end on node1 is damaged: no line is valid; .*no vote until"
    ):
        pair.at_node(pair.fresh().status())


def test_a_mark_that_cannot_be_written_keeps_no_frame_from_the_copy(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.replicated(1)
    pair.world.run(asyncio.sleep(0.1))
    pair.node.disk.broken = {WHERE.lib: 1.0}
    pair.at_node(pair.node.disk.remove(WHERE.journal_end))
    end = pair.at_node(pair.copy.status())
    pair.at_node(pair.copy.append(append(end.digest, serial=3)))
    pair.world.run(asyncio.sleep(1))
    assert pair.at_node(pair.copy.status()).serial == 3
    assert "journal-end cannot be written" in caplog.text


def test_the_file_that_marks_the_end_of_a_copy_stays_small(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_end, "SIZE", 300)
    pair.replicated(30)
    assert pair.node.disk.status(WHERE.journal_end).size < 500
    assert pair.at_node(pair.copy.status()).serial == 31


def test_frames_are_acknowledged_without_reading_the_mark_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.replicated(1)
    pair.world.run(asyncio.sleep(0.1))
    read, paths_read = pair.node.disk.read, list[str]()

    def noted(path: str) -> bytes:
        paths_read.append(path)
        return read(path)

    monkeypatch.setattr(pair.node.disk, "read", noted)
    for serial in range(3, 6):
        end = pair.at_node(pair.copy.status())
        pair.at_node(pair.copy.append(append(end.digest, serial=serial)))
        pair.world.run(asyncio.sleep(0.1))
    assert pair.at_node(pair.copy.status()).serial == 5
    assert WHERE.journal_end not in paths_read
