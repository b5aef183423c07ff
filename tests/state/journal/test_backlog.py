"""The frames that are read from the journal on disk for a candidate that was away."""

from collections.abc import Iterator

import pytest
from tests.state import build

from gantry.lib_files import frame, journal_names
from gantry.runtime import simulated
from gantry.state.journal import backlog, history, journal
from gantry.state.store import transaction


class FilledJournal:
    """A journal of 40 records in sections of a few records, and the position after each record."""

    def __init__(self, world: simulated.World) -> None:
        self.world, self.machine = world, world.machine("one")
        store = build.new_store(world, self.machine, limits=transaction.Limits(records=9))
        self.ends = {1: store.position}
        for number in range(2, 41):
            build.on(world, self.machine, store.commit(build.put(build.vm(number)), build.CAUSE))
            self.ends[number] = store.position

    def read(self, serial: int, *, digest: str = "", until: int = 40) -> list[backlog.Lines]:
        disk = self.machine.disk
        digest = digest or self.ends[serial].digest
        return list(
            backlog.read(disk, build.WHERE.journal, serial=serial, digest=digest, until=lambda: self.ends[until])
        )


@pytest.fixture
def filled_journal() -> Iterator[FilledJournal]:
    with simulated.World(seed=1) as world:
        yield FilledJournal(world)


@pytest.mark.parametrize("batch", [1, 2000, 1 << 20])
@pytest.mark.parametrize("serial", [1, 7, 10, 11, 39])
def test_all_frames_after_one_are_read_in_batches(
    filled_journal: FilledJournal, serial: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "BATCH", batch)
    firsts = journal.sections(filled_journal.machine.disk, build.WHERE.journal)
    end = filled_journal.ends[serial]
    for lines in filled_journal.read(serial):
        assert lines.previous == end.digest
        assert lines.begins == (end.serial + 1 in firsts)
        frames = list(frame.scan(lines.lines))
        assert len(lines.lines) <= batch or len(frames) == 1
        end = lines.end
        assert end == filled_journal.ends[end.serial]
        assert end.digest == frames[-1].digest
    assert end.serial == 40


def test_frames_that_are_not_published_are_not_read(filled_journal: FilledJournal) -> None:
    assert filled_journal.read(5, until=20)[-1].end == filled_journal.ends[20]
    assert filled_journal.read(20, until=20) == []


@pytest.mark.parametrize("serial", [5, 40, 41, 1 << 62])
def test_nothing_follows_a_frame_that_is_not_in_the_journal(filled_journal: FilledJournal, serial: int) -> None:
    assert filled_journal.read(serial, digest="f" * 64) == []


def test_nothing_is_read_where_the_journal_does_not_go_back_so_far(filled_journal: FilledJournal) -> None:
    disk = filled_journal.machine.disk
    firsts = journal.sections(disk, build.WHERE.journal)
    for first in firsts[:2]:
        filled_journal.world.run(disk.remove(journal_names.path(build.WHERE.journal, first)))
    assert filled_journal.read(firsts[2] - 2) == []
    assert filled_journal.read(firsts[2] - 1)[-1].end.serial == 40


def test_nothing_is_read_where_too_much_is_missing(
    filled_journal: FilledJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "LIMIT", 10_000)
    assert filled_journal.read(1) == []
    assert filled_journal.read(30)[-1].end.serial == 40


def test_reading_ends_before_damage(filled_journal: FilledJournal) -> None:
    disk = filled_journal.machine.disk
    firsts = journal.sections(disk, build.WHERE.journal)
    disk.flip(journal_names.path(build.WHERE.journal, firsts[2]), 300)
    assert filled_journal.read(1)[-1].end.serial == firsts[2] - 1
    assert len(list(history.records(disk, build.WHERE.journal, after=30))) == 10


def test_reading_ends_before_a_record_of_another_version(filled_journal: FilledJournal) -> None:
    machine, end = filled_journal.machine, filled_journal.ends[40]
    line = frame.pack(end.digest, [b'{"serial":41,"epoch":"one"}'])
    filled_journal.ends[41] = journal.Position(41, frame.digest(line), end.epoch)

    async def append() -> None:
        file = await machine.disk.append_file(build.sections(machine)[-1])
        await file.append(line)
        file.close()

    build.on(filled_journal.world, machine, append())
    assert filled_journal.read(30, until=41)[-1].end == end
    assert filled_journal.read(40, until=41) == []
