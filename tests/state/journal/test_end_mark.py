"""The end mark: the highest position counts, also after a crash, and the checkpoint follows changes of members."""

import asyncio
import errno
import re
import zlib
from collections.abc import Iterator

import pytest
from tests.state import build

from gantry import errors
from gantry.lib_files import journal_end
from gantry.runtime import simulated
from gantry.runtime.simulated import opened
from gantry.state.files import checkpoint
from gantry.state.journal import end_mark, journal
from gantry.state.objects import snapshot

PATH = build.WHERE.journal_end


@pytest.fixture
def world() -> Iterator[simulated.World]:
    with simulated.World(seed=1) as world:
        yield world


@pytest.fixture
def machine(world: simulated.World) -> simulated.SimulatedRuntime:
    return world.machine("one")


def test_the_mark_is_where_the_journal_ends(world: simulated.World, machine: simulated.SimulatedRuntime) -> None:
    store = build.new_store(world, machine)
    assert end_mark.read(machine.disk, PATH) == end_mark.at(store.position, 0)
    for number in range(1, 5):
        build.on(world, machine, store.commit(build.put(build.queued(number)), build.CAUSE))
        assert end_mark.read(machine.disk, PATH) == end_mark.at(store.position, store.durable.last_job)
        assert machine.disk.stable(PATH) == machine.disk.read(PATH)


def test_a_torn_last_line_is_ignored_and_a_file_without_a_line_is_named(
    world: simulated.World, machine: simulated.SimulatedRuntime
) -> None:
    build.on(world, machine, machine.disk.make_directory(build.WHERE.lib))
    old = end_mark.at(journal.Position(7, "a" * 64, 2), 12)
    new = end_mark.at(journal.Position(3, "b" * 64, 3), 11)
    for content in (b"", journal_end.encode(old)[:-1], bytes(200)):
        build.on(world, machine, machine.disk.write(PATH, journal_end.encode(new) + journal_end.encode(old) + content))
        assert end_mark.read(machine.disk, PATH) == new
    build.on(world, machine, machine.disk.write(PATH, bytes(200)))
    with pytest.raises(errors.ConfigurationError, match="journal-end is damaged"):
        end_mark.read(machine.disk, PATH)


def test_a_mark_of_an_earlier_version_has_no_job_number(
    world: simulated.World, machine: simulated.SimulatedRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    build.on(world, machine, machine.disk.make_directory(build.WHERE.lib))
    line = b"7 2 aa"
    earlier = b"%s %08x\n" % (line, zlib.crc32(line))
    build.on(world, machine, machine.disk.write(PATH, earlier))
    assert end_mark.read(machine.disk, PATH) == end_mark.at(journal.Position(7, "aa", 2), None)
    # A node daemon of an earlier version appends to the file of a later one.
    later = journal_end.encode(end_mark.at(journal.Position(6, "bb", 2), 12))
    build.on(world, machine, machine.disk.write(PATH, later + earlier))
    assert end_mark.read(machine.disk, PATH) == end_mark.at(journal.Position(7, "aa", 2), None)
    assert not caplog.records


def test_an_earlier_version_finds_the_position_in_the_mark() -> None:
    pattern = re.compile(rb"(([0-9]{1,15}) ([0-9]{1,15}) ([0-9a-f]*)) ([0-9a-f]{8})\n")
    lines = journal_end.encode(end_mark.at(journal.Position(7, "aa", 2), 12)).splitlines(keepends=True)
    (match,) = filter(None, map(pattern.fullmatch, lines))
    assert match.group(2, 3, 4) == (b"7", b"2", b"aa")
    assert int(match[5], 16) == zlib.crc32(match[1])


@pytest.mark.parametrize("text", ["7 %s a", "%s 2 a", "-7 2 a", "7 2.5 a", "7 two a", "7 2"])
def test_a_line_with_impossible_numbers_does_not_count_whatever_its_checksum(
    world: simulated.World, machine: simulated.SimulatedRuntime, text: str
) -> None:
    build.on(world, machine, machine.disk.make_directory(build.WHERE.lib))
    whole = end_mark.at(journal.Position(7, "a" * 64, 2), 12)
    line = text.replace("%s", "9" * 4002).encode()
    forged = b"%s %08x\n" % (line, zlib.crc32(line))
    build.on(world, machine, machine.disk.write(PATH, journal_end.encode(whole) + forged))
    assert end_mark.read(machine.disk, PATH) == whole


def test_a_mark_that_cannot_be_written_fails_no_change(
    world: simulated.World, machine: simulated.SimulatedRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    store = build.new_store(world, machine)
    machine.disk.broken = {build.WHERE.lib: 1.0}
    for number in (1, 2):
        build.on(world, machine, store.commit(build.put(build.vm(number)), build.CAUSE))
        lines = [each for each in caplog.records if "journal-end cannot be written" in each.message]
        assert [each.levelname for each in lines] == ["ERROR"]
    machine.disk.broken = {}
    build.on(world, machine, store.commit(build.put(build.vm(3)), build.CAUSE))
    assert end_mark.read(machine.disk, PATH) == end_mark.at(store.position, store.durable.last_job)


def test_a_mark_that_cannot_follow_its_frame_is_written_before_the_change_is_acknowledged(
    world: simulated.World, machine: simulated.SimulatedRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    store = build.new_store(world, machine)
    build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
    torn: list[bytes] = []

    def tear(file: opened.AppendFile, data: bytes) -> None:
        torn.append(data)
        file._node.content += data[:10]
        raise OSError(errno.EIO, "Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opened.AppendFile, "append_here", tear)
        build.on(world, machine, store.commit(build.put(build.vm(2)), build.CAUSE))
    assert torn == [machine.disk.stable(PATH)]
    assert end_mark.read(machine.disk, PATH) == end_mark.at(store.position, store.durable.last_job)
    assert not caplog.records


def test_no_mark_follows_a_frame_while_another_mark_is_being_written(
    world: simulated.World, machine: simulated.SimulatedRuntime
) -> None:
    async def check() -> None:
        await machine.disk.make_directory(build.WHERE.lib)
        marks = [end_mark.at(journal.Position(serial, "a" * 64, 2), 12) for serial in (1, 2, 3)]
        writer = end_mark.EndMark(machine.disk, PATH)
        await writer.write(marks[0])
        writing = machine.spawn(writer.write(marks[1]))
        await asyncio.sleep(0)
        assert writer.follow_up(marks[2]) is None
        await writing
        assert writer.follow_up(marks[2]) is not None

    build.on(world, machine, check())


@pytest.mark.parametrize("how", ["removed", "not written"])
def test_the_mark_is_never_ahead_of_the_journal(
    world: simulated.World, machine: simulated.SimulatedRuntime, how: str
) -> None:
    store = build.new_store(world, machine)
    build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
    reached = store.position
    with pytest.MonkeyPatch.context() as patch:
        if how == "removed":
            build.on(world, machine, machine.disk.remove(build.sections(machine)[-1]))
        else:
            patch.setattr(machine.disk, "fail_write", 1.0)
        with pytest.raises(errors.StorageError):
            build.on(world, machine, store.commit(build.put(build.vm(2)), build.CAUSE))
    assert end_mark.read(machine.disk, PATH) == end_mark.at(reached, store.durable.last_job)


def test_a_power_loss_between_a_frame_and_its_mark_leaves_a_state_that_opens() -> None:
    behind = 0
    for step in range(40):
        with simulated.World(seed=step) as world:
            machine = world.machine("one")
            store = build.new_store(world, machine)
            build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
            before = end_mark.read(machine.disk, PATH)
            committing = machine.spawn(store.commit(build.put(build.vm(2)), build.CAUSE))
            world.run(world.clock.sleep(step / 10_000))
            is_acknowledged = committing.done()
            world.crash("one")
            is_kept = "i2" in build.opened(world, machine).snapshot.instances
            assert is_kept or not is_acknowledged
            behind += is_kept and end_mark.read(machine.disk, PATH) == before
    assert behind


def test_the_file_stays_small(
    world: simulated.World, machine: simulated.SimulatedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_end, "SIZE", 300)
    store = build.new_store(world, machine)
    for number in range(1, 20):
        build.on(world, machine, store.commit(build.put(build.vm(number)), build.CAUSE))
        assert machine.disk.status(PATH).size < 400
    assert end_mark.read(machine.disk, PATH) == end_mark.at(store.position, store.durable.last_job)


def test_a_change_of_members_ends_in_a_checkpoint(world: simulated.World, machine: simulated.SimulatedRuntime) -> None:
    store = build.new_store(world, machine)

    def checkpointed() -> int:
        return checkpoint.decode(machine.disk.read(build.WHERE.config), path="").position.serial

    changes: list[list[snapshot.Change]] = [build.put(build.node(3)), [snapshot.Delete("nodes", "n3")]]
    for change in changes:
        build.on(world, machine, store.commit(change, build.CAUSE))
        build.on(world, machine, machine.clock.sleep(2))
        assert checkpointed() == store.durable_serial
    build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
    build.on(world, machine, machine.clock.sleep(2))
    assert checkpointed() == store.durable_serial - 1
