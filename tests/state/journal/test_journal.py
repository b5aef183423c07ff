import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state import build

from gantry import errors
from gantry.lib_files import frame
from gantry.runtime import simulated
from gantry.state.journal import history, journal, record
from gantry.state.objects import snapshot
from gantry.state.start import recovery
from gantry.state.store import transaction


def written(world: simulated.World, machine: simulated.SimulatedRuntime) -> transaction.Store:
    store = build.new_store(world, machine)
    for number in range(1, 6):
        build.on(world, machine, store.commit(build.put(build.vm(number)), build.CAUSE))
    world.kill("one")
    return store


def append(world: simulated.World, machine: simulated.SimulatedRuntime, tail: bytes) -> None:
    async def work() -> None:
        file = await machine.disk.append_file(build.sections(machine)[-1])
        await file.append(tail)
        file.close()

    build.on(world, machine, work())


@pytest.mark.parametrize("tail", [b"0123abcd 99 {half", b"0123abcd 400 " + bytes(400), bytes(300), b"0"])
def test_a_torn_last_record_is_dropped_with_a_word_in_the_log(tail: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        written(world, machine)
        path = build.sections(machine)[-1]
        size = machine.disk.status(path).size
        append(world, machine, tail)
        store = build.opened(world, machine)
        assert set(store.snapshot.instances) == {f"i{number}" for number in range(1, 6)}
        assert f"{path}: dropped the last {len(tail)} bytes, from byte offset {size}" in caplog.text
        assert "its changes were never acknowledged" in caplog.text
        build.on(world, machine, store.commit(build.put(build.vm(6)), build.CAUSE))
        world.crash("one")
        assert "i6" in build.opened(world, machine).snapshot.instances


def test_a_torn_record_that_the_end_mark_includes_is_not_called_unacknowledged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        written(world, machine)
        path = build.sections(machine)[-1]
        build.on(world, machine, machine.disk.write(path, machine.disk.read(path)[:-3]))
        build.on(world, machine, transaction.Store.open(machine, build.WHERE, behind=recovery.Behind.COMPLETED))
        assert "dropped the last" in caplog.text
        assert "its changes may have been acknowledged" in caplog.text
        assert "never acknowledged" not in caplog.text


@settings(deadline=None, max_examples=40)
@given(position=st.integers(0, 2**20))
def test_a_flipped_byte_in_the_middle_stops_the_daemon_with_file_and_offset(position: int) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        written(world, machine)
        path = build.sections(machine)[-1]
        data = machine.disk.read(path)
        lines = data.splitlines(keepends=True)
        at = position % (len(data) - len(lines[-1]))
        machine.disk.flip(path, at)
        with pytest.raises(errors.ConfigurationError, match=f"{path}, byte offset [0-9]+:") as refused:
            build.opened(world, machine)
        named = int(str(refused.value).split("byte offset ")[1].split(":")[0])
        assert named <= at < named + max(map(len, lines))
        assert "master candidate" in refused.value.hint


def test_a_frame_that_was_cut_out_or_brought_from_elsewhere_breaks_the_chain() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        written(world, machine)
        path = build.sections(machine)[-1]
        lines = machine.disk.read(path).splitlines(keepends=True)
        build.on(world, machine, machine.disk.write(path, b"".join(lines[:1] + lines[2:])))
        with pytest.raises(errors.ConfigurationError, match="chain hash"):
            build.opened(world, machine)


def test_a_missing_section_is_noticed() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        written(world, machine)
        old, last = build.sections(machine)[-1], f"{build.WHERE.journal}/{5:016d}.log"
        build.on(world, machine, machine.disk.rename({old: last}))
        with pytest.raises(errors.ConfigurationError, match="records 2 to 4 are missing"):
            build.opened(world, machine)


def test_a_torn_frame_is_damage_in_all_sections_but_the_last() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine, limits=transaction.Limits(records=3))
        for number in range(1, 12):
            build.on(world, machine, store.commit(build.put(build.vm(number)), build.CAUSE))
        first, *_, last = build.sections(machine)

        def cut(path: str) -> journal.Replay:
            data = machine.disk.read(path)
            build.on(world, machine, machine.disk.write(path, data[:-3]))
            return journal.Replay(machine.disk, build.WHERE.journal, journal.Position())

        replay = cut(last)
        assert len(list(replay)) == store.position.serial - 1
        assert replay.torn
        offset = machine.disk.read(first).rstrip(b"\n").rfind(b"\n") + 1
        with pytest.raises(errors.ConfigurationError, match=f"{first}, byte offset {offset}: the frame has"):
            list(cut(first))


@pytest.mark.parametrize(
    ("serial", "kind", "what"),
    [
        (9, "nodes", "record 9 follows record 6"),
        (6, "nodes", "record 6 follows record 6"),
        (7, "wires", "not a record that this version can read: 'delete wires'"),
    ],
)
def test_a_record_out_of_order_or_of_another_version_is_damage_with_its_offset(
    serial: int, kind: str, what: str
) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        end = written(world, machine).position
        assert end.serial == 6
        path = build.sections(machine)[-1]
        offset = machine.disk.status(path).size
        foreign = record.Record(
            serial=serial, time=1.0, epoch=1, cause=build.CAUSE, changes=(snapshot.Delete(kind, "n1"),)
        )
        append(world, machine, frame.pack(end.digest, [record.encode(foreign)]))
        with pytest.raises(errors.ConfigurationError, match=f"{path}, byte offset {offset}: {what}"):
            build.opened(world, machine)


def test_the_whole_history_stays_readable_over_checkpoints() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine, limits=transaction.Limits(records=3))
        for number in range(1, 12):
            build.on(world, machine, store.commit(build.put(build.vm(number)), build.CAUSE))
        build.on(world, machine, store.close())
        assert len(build.sections(machine)) > 3
        records = list(journal.Replay(machine.disk, build.WHERE.journal, journal.Position()))
        assert [entry.serial for entry in records] == list(range(1, 13))
        assert records[-1].cause == build.CAUSE
        assert records[-1].changes == tuple(build.put(build.vm(11)))


def test_what_follows_a_failed_sync_of_the_daemon_before_survives_a_loss_of_power() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        machine.disk.fail_sync = True
        with pytest.raises(errors.StorageError):
            build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
        world.kill("one")
        machine.disk.fail_sync = False
        store = build.opened(world, machine)
        build.on(world, machine, store.commit(build.put(build.vm(2)), build.CAUSE))
        world.crash("one")
        assert "i2" in build.opened(world, machine).snapshot.instances


def test_a_section_that_a_failing_disk_left_empty_loses_nothing() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        for number in range(1, 3):
            build.on(world, machine, store.commit(build.put(build.vm(number)), build.CAUSE))
        build.on(world, machine, machine.disk.write(f"{build.WHERE.journal}/{5:016d}.log", b""))
        for number in range(3, 6):
            build.on(world, machine, store.commit(build.put(build.vm(number)), build.CAUSE))
        world.crash("one")
        again = build.opened(world, machine)
        assert set(again.snapshot.instances) == {f"i{number}" for number in range(1, 6)}
        build.on(world, machine, again.commit(build.put(build.vm(6)), build.CAUSE))
        records = history.records(machine.disk, build.WHERE.journal, after=4)
        assert [entry.serial for entry in records] == [5, 6, 7]


def test_no_section_begins_while_the_one_before_cannot_be_cut_back() -> None:
    """A torn frame is dropped at the end of the journal; in its middle it would be damage."""
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
        free, total = machine.disk.free_space("/")
        machine.disk.capacity, machine.disk.fail_sync = total - free + 100, 1.0
        with pytest.raises(errors.StorageError):
            build.on(world, machine, store.commit(build.put(build.vm(2)), build.CAUSE))
        build.on(world, machine, store.close())
        machine.disk.capacity, machine.disk.fail_sync = None, 0.0
        assert set(build.opened(world, machine).snapshot.instances) == {"i1"}


@pytest.mark.parametrize("seed", range(10))
def test_a_section_whose_name_could_not_be_synced_at_first_is_not_lost_with_the_power(seed: int) -> None:
    with simulated.World(seed=seed) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
        machine.disk.fail_sync = True
        build.on(world, machine, store.close())
        machine.disk.fail_sync = False
        path = f"{build.WHERE.journal}/{3:016d}.log"
        replay = journal.Replay(machine.disk, build.WHERE.journal, journal.Position())
        assert [entry.serial for entry in replay] == [1, 2]

        async def work() -> None:
            log = await journal.Journal.open(machine.disk, build.WHERE.journal, replay=replay)
            machine.disk.fail_sync = True
            with pytest.raises(OSError):
                await log.rotate(3)
            machine.disk.fail_sync = False
            await log.rotate(3)
            await log.append(b"frame")
            log.close()

        build.on(world, machine, work())
        world.crash("one")
        assert machine.disk.read(path) == b"frame"


def test_a_journal_without_sections_has_no_records_and_no_size() -> None:
    with simulated.World(seed=1) as world:
        replay = journal.Replay(world.machine("one").disk, build.WHERE.journal, journal.Position())
        assert list(replay) == []
        assert (replay.section, replay.size, replay.end) == ("", 0, journal.Position())


def test_files_that_are_no_sections_are_not_read() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        written(world, machine)
        before = journal.sections(machine.disk, build.WHERE.journal)
        assert before
        for name in ("7.log", "0000000000000x07.log", "00000000000000007.log", "0000000000000007.old"):
            build.on(world, machine, machine.disk.write(f"{build.WHERE.journal}/{name}", b"x"))
        assert journal.sections(machine.disk, build.WHERE.journal) == before
