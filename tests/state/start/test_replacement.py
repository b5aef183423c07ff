"""A whole copy of another machine replaces the state: a crash at any write leaves the old state or the new one."""

import asyncio
import errno
from collections.abc import Iterator

import pytest
from tests.state import build

from gantry import errors
from gantry.lib_files import journal_names
from gantry.node.membership import reading
from gantry.rpc import calls
from gantry.runtime import simulated
from gantry.state.start import recovery, replacement
from gantry.state.store import transaction

WHERE = build.WHERE


@pytest.fixture
def world() -> Iterator[simulated.World]:
    with simulated.World(seed=1) as simulated_world:
        yield simulated_world


async def _work(store: transaction.Store, first: int, count: int) -> None:
    for number in range(first, first + count):
        await store.commit(build.put(build.vm(number), build.queued(number)), build.CAUSE)
    await asyncio.sleep(3)


def _pieces(machine: simulated.SimulatedRuntime) -> list[calls.CopyPiece]:
    sections = {path: machine.disk.status(path).size for path in build.sections(machine)}
    pieces: list[calls.CopyPiece] = []
    following: tuple[str, int] | None = ("", 0)
    while following:
        call = calls.CopyFetch(name=following[0], offset=following[1])
        part = reading.part(machine.disk, WHERE, sections, call)
        pieces += part.pieces
        following = part.following
    return pieces


def _prepared(world: simulated.World) -> tuple[simulated.SimulatedRuntime, list[calls.CopyPiece], list[object]]:
    """Return a machine with a state of 3 instances, the files of one with 8, and the contents of both."""
    contents: list[object] = []
    for name, count in (("one", 3), ("two", 8)):
        machine = world.machine(name)
        store = build.new_store(world, machine)
        build.on(world, machine, _work(store, 1, count))
        contents.append(build.content(store.snapshot))
        world.kill(name)
    return world.machine("one"), _pieces(world.machine("two")), contents


async def _installed(machine: simulated.SimulatedRuntime, pieces: list[calls.CopyPiece]) -> str:
    copy = replacement.Replacement(machine.disk, WHERE)
    await copy.begin()
    await copy.write(pieces)
    await recovery.recover(machine, copy.where)
    copy.check_history()
    return await copy.install(highest_job=0)


def test_the_copy_is_installed_and_the_replaced_files_are_kept(world: simulated.World) -> None:
    machine, pieces, (old, new) = _prepared(world)
    previous = build.on(world, machine, _installed(machine, pieces))
    assert previous == f"{WHERE.lib}/before-recovery-1"
    assert build.content(build.opened(world, machine).snapshot) == new
    assert not machine.disk.exists(WHERE.replacement)
    world.kill("one")
    machine = world.machine("one")

    async def put_back() -> None:
        await machine.disk.remove_tree(WHERE.journal)
        for name in ("config.data", "journal"):
            await machine.disk.rename({f"{previous}/{name}": f"{WHERE.lib}/{name}"})
        await machine.disk.rename(
            {f"{previous}/queue/{name}": f"{WHERE.queue}/{name}" for name in machine.disk.names(f"{previous}/queue")}
        )
        await machine.disk.remove(WHERE.journal_end)

    build.on(world, machine, put_back())
    assert build.content(build.opened(world, machine).snapshot) == old


@pytest.mark.parametrize("power", [True, False])
def test_a_crash_at_any_write_leaves_the_old_state_or_the_new_one(power: bool) -> None:
    outcomes: list[bool] = []
    for visit in range(1, 400):
        with simulated.World(seed=visit) as world:
            machine, pieces, (old, new) = _prepared(world)
            remaining = visit

            def end(world: simulated.World = world) -> None:
                nonlocal remaining
                remaining -= 1
                if remaining == 0:
                    (world.crash if power else world.kill)("one")

            machine.disk.on_visit = end
            task = machine.spawn(_installed(machine, pieces))
            world.run(asyncio.sleep(100))
            machine.disk.on_visit = None
            if remaining > 0:
                assert task.done()
                break
            machine = world.machine("one")
            content = build.content(build.opened(world, machine).snapshot)
            assert content in (old, new), visit
            assert not machine.disk.exists(WHERE.replacement)
            outcomes.append(content == new)
    else:
        pytest.fail("the installation has more writes than this test looks at")
    assert set(outcomes) == {True, False}
    # Without a loss of power there is one moment from which the new state counts.
    assert power or outcomes == sorted(outcomes)


def test_a_copy_whose_journal_is_damaged_is_refused_before_anything_is_replaced(world: simulated.World) -> None:
    machine, pieces, (old, _) = _prepared(world)
    damaged = [
        calls.CopyPiece(name=piece.name, offset=piece.offset, content=piece.content.replace(b"inst2", b"inst9", 1))
        if piece.name.startswith("journal/")
        else piece
        for piece in pieces
    ]
    with pytest.raises(errors.ConfigurationError, match="checksum"):
        build.on(world, machine, _installed(machine, damaged))
    assert build.content(build.opened(world, machine).snapshot) == old


@pytest.mark.parametrize("name", ["../certs/node.key", "queue/lock", "journal/1.log", "queue/archive/../../x", ""])
def test_only_the_files_of_a_state_are_written(world: simulated.World, name: str) -> None:
    machine, _, _ = _prepared(world)
    copy = replacement.Replacement(machine.disk, WHERE)

    async def write() -> None:
        await copy.begin()
        await copy.write([calls.CopyPiece(name=name, offset=0, content=b"x")])

    with pytest.raises(errors.ProtocolError, match="is not a file of the state"):
        build.on(world, machine, write())


def test_a_piece_that_was_lost_is_noticed(world: simulated.World) -> None:
    machine, _, _ = _prepared(world)
    copy = replacement.Replacement(machine.disk, WHERE)

    async def write() -> None:
        await copy.begin()
        await copy.write([calls.CopyPiece(name="config.data", offset=0, content=b"12")])
        await copy.write([calls.CopyPiece(name="config.data", offset=3, content=b"4")])

    with pytest.raises(errors.ProtocolError, match="does not follow"):
        build.on(world, machine, write())


def test_the_highest_known_job_number_survives(world: simulated.World) -> None:
    machine, pieces, _ = _prepared(world)

    async def install() -> str:
        copy = replacement.Replacement(machine.disk, WHERE)
        await copy.begin()
        await copy.write(pieces)
        return await copy.install(highest_job=4711)

    build.on(world, machine, install())
    with pytest.raises(errors.ConfigurationError, match="serial says 4711"):
        build.opened(world, machine)


def test_the_parts_of_a_copy_have_every_byte_that_counts(
    world: simulated.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole, _ = _prepared(world)
    monkeypatch.setattr(reading, "PART_BYTES", 300)
    two = world.machine("two")
    joined: dict[str, bytes] = {}
    for piece in _pieces(two):
        assert piece.offset == len(joined.get(piece.name, b""))
        assert len(piece.content) <= 300
        joined[piece.name] = joined.get(piece.name, b"") + piece.content
    assert joined == {piece.name: piece.content for piece in whole}
    assert joined["config.data"] == two.disk.read(WHERE.config)
    assert set(joined) >= {"queue/serial", "queue/version", "queue/job-8", "journal/" + f"{1:016d}.log"}
    newest = journal_names.path(WHERE.journal, 1)
    part = reading.part(two.disk, WHERE, {newest: 10}, calls.CopyFetch(name="journal/"))
    assert part.pieces[0].content == two.disk.read(newest)[:10]


def test_pieces_are_written_into_folders_that_the_copy_does_not_have_yet(world: simulated.World) -> None:
    machine = world.machine("one")
    copy = replacement.Replacement(machine.disk, WHERE)
    build.on(world, machine, copy.write([calls.CopyPiece(name="queue/serial", offset=0, content=b"7\n")]))
    assert machine.disk.read(f"{WHERE.replacement}/queue/serial") == b"7\n"


def test_nothing_of_an_earlier_attempt_is_in_the_copy(world: simulated.World) -> None:
    machine, pieces, (_, new) = _prepared(world)
    earlier = replacement.Replacement(machine.disk, WHERE)
    section = "journal/0000000000000099.log"
    build.on(world, machine, earlier.write([calls.CopyPiece(name=section, offset=0, content=b"no record\n")]))
    build.on(world, machine, _installed(machine, pieces))
    assert not machine.disk.exists(f"{WHERE.lib}/{section}")
    assert build.content(build.opened(world, machine).snapshot) == new


def test_a_copy_that_is_a_checkpoint_alone_replaces_journal_and_queue_too(world: simulated.World) -> None:
    machine, pieces, _ = _prepared(world)

    async def install() -> str:
        copy = replacement.Replacement(machine.disk, WHERE)
        await copy.begin()
        await copy.write([piece for piece in pieces if piece.name == "config.data"])
        copy.check_history()
        return await copy.install(highest_job=0)

    previous = build.on(world, machine, install())
    assert machine.disk.names(WHERE.journal) == []
    assert machine.disk.read(f"{WHERE.queue}/serial") == b"0\n"
    assert {"job-1", "job-2", "job-3"} <= set(machine.disk.names(f"{previous}/queue"))


def test_a_folder_without_a_configuration_is_no_copy_and_nothing_is_begun(world: simulated.World) -> None:
    machine, _, (old, _) = _prepared(world)
    copy = replacement.Replacement(machine.disk, WHERE)
    with pytest.raises(errors.NotFoundError, match="folder /kept has no copy of the state") as refused:
        build.on(world, machine, copy.copy_from("/kept"))
    assert refused.value.hint == "gnt-cluster verify lists the copies that nodes have kept"
    assert not machine.disk.exists(WHERE.replacement)
    assert build.content(build.opened(world, machine).snapshot) == old


def test_pieces_that_follow_each_other_are_joined(world: simulated.World) -> None:
    machine = world.machine("one")
    copy = replacement.Replacement(machine.disk, WHERE)
    for offset, content in ((0, b"12"), (2, b"345"), (5, b"6")):
        piece = calls.CopyPiece(name="config.data", offset=offset, content=content)
        build.on(world, machine, copy.write([piece]))
    assert machine.disk.read(f"{WHERE.replacement}/config.data") == b"123456"


def test_a_piece_that_the_disk_does_not_take_is_an_error(world: simulated.World) -> None:
    machine = world.machine("one")
    copy = replacement.Replacement(machine.disk, WHERE)
    machine.disk.capacity = 4096
    pieces = [
        calls.CopyPiece(name="queue/serial", offset=0, content=b"7\n"),
        calls.CopyPiece(name="config.data", offset=0, content=bytes(10_000)),
    ]
    with pytest.raises(OSError) as caught:
        build.on(world, machine, copy.write(pieces))
    assert caught.value.errno == errno.ENOSPC


def test_the_archive_of_a_copy_extends_the_archive_here(world: simulated.World) -> None:
    machine, pieces, (_, new) = _prepared(world)
    archived = {f"archive/{number // 20_000}/job-{number}": b"of the copy" for number in (11, 12, 20_001)}
    archive_pieces = [calls.CopyPiece(name=f"queue/{name}", offset=0, content=archived[name]) for name in archived]

    async def keep() -> None:
        await machine.disk.make_directory(f"{WHERE.queue}/archive/0")
        for number in (10, 11):
            await machine.disk.write(f"{WHERE.queue}/archive/0/job-{number}", b"from here")

    build.on(world, machine, keep())
    build.on(world, machine, _installed(machine, [*pieces, *archive_pieces]))
    assert machine.disk.names(f"{WHERE.queue}/archive/0") == ["job-10", "job-11", "job-12"]
    assert machine.disk.read(f"{WHERE.queue}/archive/0/job-10") == b"from here"
    for name, content in archived.items():
        assert machine.disk.read(f"{WHERE.queue}/{name}") == content
    assert build.content(build.opened(world, machine).snapshot) == new
