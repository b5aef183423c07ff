"""What the simulated disk loses with the power, what its faults leave behind, and how long its writes take."""

import asyncio
import errno
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

import pytest

from gantry.runtime.simulated import World, disk


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=5) as new_world:
        yield new_world


@pytest.fixture
def machine_disk(world: World) -> disk.Disk:
    return world.machine("a").disk


async def append_unsynced(machine_disk: disk.Disk, path: str, data: bytes) -> None:
    """Append data of which a power loss keeps any part: its sync fails."""
    file = await machine_disk.append_file(path)
    machine_disk.fail_sync = 1.0
    with pytest.raises(OSError) as caught:
        await file.append(data)
    assert caught.value.errno == errno.EIO
    machine_disk.fail_sync = 0.0


@pytest.mark.parametrize(("stable", "unstable"), [(b"", b"x"), (b"safe", b"x"), (b"safe", b"torn")])
def test_each_number_of_unsynced_bytes_is_as_likely_to_survive_a_power_loss(stable: bytes, unstable: bytes) -> None:
    contents = Counter[bytes]()
    for seed in range(100):
        with World(seed) as world:
            machine_disk = world.machine("a").disk
            world.run(machine_disk.write("/file", stable))
            world.run(append_unsynced(machine_disk, "/file", unstable))
            world.crash("a")
            contents[machine_disk.read("/file")] += 1
    parts = [stable + unstable[:size] for size in range(len(unstable) + 1)]
    assert sorted(contents) == parts
    assert max(contents.values()) < 2 * 100 / len(parts)


def test_what_has_survived_one_power_loss_survives_the_next() -> None:
    for seed in range(20):
        with World(seed) as world:
            machine_disk = world.machine("a").disk
            world.run(append_unsynced(machine_disk, "/file", b"0123456789"))
            world.crash("a")
            content = machine_disk.read("/file")
            assert machine_disk.stable("/file") == content
            world.crash("a")
            assert machine_disk.read("/file") == content


def test_bytes_in_place_of_a_lost_tail_are_not_stable_before_their_sync(world: World, machine_disk: disk.Disk) -> None:
    world.run(machine_disk.write("/file", b"0123456789"))
    machine_disk.lose_tail("/file", 4)
    world.run(append_unsynced(machine_disk, "/file", b"new"))
    assert machine_disk.stable("/file") == b"0123"


def test_a_tail_that_was_not_synced_is_lost_without_making_the_rest_stable(
    world: World, machine_disk: disk.Disk
) -> None:
    world.run(machine_disk.write("/file", b"01"))
    world.run(append_unsynced(machine_disk, "/file", b"23456789"))
    machine_disk.lose_tail("/file", 4)
    assert (machine_disk.read("/file"), machine_disk.stable("/file")) == (b"0123", b"01")


def test_a_new_disk_has_an_empty_root_that_all_can_list(machine_disk: disk.Disk) -> None:
    status = machine_disk.status("/")
    assert (status.is_directory, status.mode, machine_disk.names("/")) == (True, 0o755, [])


def test_a_file_that_lost_all_its_bytes_is_gone_for_good(world: World, machine_disk: disk.Disk) -> None:
    world.run(machine_disk.write("/file", b"0123"))
    machine_disk.lose_tail("/file", 0)
    assert (machine_disk.stable("/file"), machine_disk.stable_names("/")) == (None, [])


def test_a_name_that_was_lost_with_the_power_does_not_come_back() -> None:
    survived = set[bool]()
    for seed in range(20):
        with World(seed) as world:
            machine_disk = world.machine("a").disk
            world.run(machine_disk.write("/file", b"", sync=False))
            world.crash("a")
            survived.add(exists := machine_disk.exists("/file"))
            world.run(machine_disk.sync("/"))
            assert machine_disk.exists("/file") is ("file" in machine_disk.stable_names("/")) is exists
    assert survived == {False, True}


@pytest.mark.parametrize("crashed", [False, True], ids=["running", "crashed"])
def test_the_next_sync_of_the_disk_reports_a_failed_append_unless_the_power_was_lost(
    world: World, machine_disk: disk.Disk, crashed: bool
) -> None:
    world.run(append_unsynced(machine_disk, "/file", b"lost"))
    if crashed:
        world.crash("a")
        world.run(machine_disk.sync("/"))
    else:
        with pytest.raises(OSError) as caught:
            world.run(machine_disk.sync("/"))
        assert caught.value.errno == errno.EIO
        world.run(machine_disk.sync("/"))


@pytest.mark.parametrize(("sync", "visits"), [(False, 1), (True, 2)])
def test_a_write_takes_the_time_of_its_visits_to_the_disk(
    world: World, machine_disk: disk.Disk, sync: bool, visits: int
) -> None:
    async def timed() -> float:
        begin = world.clock.monotonic()
        await machine_disk.write("/file", b"new", sync=sync)
        return world.clock.monotonic() - begin

    assert 0 <= world.run(timed()) <= 0.002 * visits
    machine_disk.delay = (2.0, 3.0)
    assert 2 * visits <= world.run(timed()) <= 3 * visits


def test_a_failed_sync_of_names_is_reported_and_loses_no_file_that_was_stable(
    world: World, machine_disk: disk.Disk
) -> None:
    for path in ("/kept", "/removed"):
        world.run(machine_disk.write(path, b"old"))
    world.run(machine_disk.remove("/removed"))
    machine_disk.fail_sync = 1.0
    with pytest.raises(OSError) as caught:
        world.run(machine_disk.sync("/"))
    assert caught.value.errno == errno.EIO
    assert machine_disk.stable_names("/") == ["kept", "removed"]
    machine_disk.fail_sync = 0.0
    world.run(machine_disk.sync("/"))
    assert machine_disk.stable_names("/") == ["kept"]
    world.run(world.run(machine_disk.append_file("/kept")).append(b" and new"))
    assert machine_disk.stable("/kept") == b"old and new"


@pytest.mark.parametrize("crashes", [False, True], ids=["kill", "crash"])
def test_a_machine_that_ends_during_a_truncation_or_creation_has_changed_nothing(world: World, crashes: bool) -> None:
    machine = world.machine("a")
    machine_disk = machine.disk
    file = world.run(machine_disk.append_file("/journal"))
    world.run(file.append(b"0123456789"))

    def end() -> None:
        if crashes:
            world.crash("a")
        else:
            world.kill("a")

    async def scenario() -> None:
        machine_disk.on_visit = end
        for work in (file.truncate(4), machine_disk.make_sparse("/sparse", 10)):
            task = machine.spawn(work)
            await asyncio.wait([task])
            assert task.cancelled()

    world.run(scenario())
    assert machine_disk.names("/") == ["journal"]
    assert machine_disk.read("/journal") == machine_disk.stable("/journal") == b"0123456789"


def test_code_of_an_ended_machine_does_not_visit_the_disk(world: World) -> None:
    machine = world.machine("a")
    visits = list[float]()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await machine.disk.sync("/")

    async def scenario() -> None:
        task = machine.spawn(stubborn())
        await world.clock.sleep(1)
        machine.disk.on_visit = lambda: visits.append(world.clock.monotonic())
        world.kill("a")
        await asyncio.wait([task])
        assert task.cancelled()

    world.run(scenario())
    assert visits == []


def test_the_content_of_a_generated_file_is_made_at_each_read(world: World, machine_disk: disk.Disk) -> None:
    machine_disk.generated["/proc/uptime"] = lambda: b"%d" % world.clock.monotonic()
    assert machine_disk.exists("/proc/uptime")
    assert not machine_disk.exists("/proc/stat")
    assert machine_disk.read("/proc/uptime") == b"0"
    world.run(world.clock.sleep(5))
    assert machine_disk.read("/proc/uptime") == b"5"


def test_a_file_is_lengthened_by_zeros_that_use_no_capacity_and_never_shortened(
    world: World, machine_disk: disk.Disk
) -> None:
    machine_disk.capacity = 10
    world.run(machine_disk.write("/file", b"abc"))
    for size, length in ((3, 3), (100, 100), (5, 100), (101, 101)):
        world.run(machine_disk.lengthen("/file", size))
        assert machine_disk.read("/file") == b"abc" + bytes(length - 3)
        assert machine_disk.status("/file").size == length
        assert machine_disk.free_space("/") == (7, 10)


def test_a_write_needs_its_directory_before_and_after_its_visit_to_the_disk(
    world: World, machine_disk: disk.Disk
) -> None:
    machine_disk.capacity = 0
    with pytest.raises(FileNotFoundError):
        world.run(machine_disk.write("/missing/file", b"data"))
    machine_disk.capacity = None
    world.run(machine_disk.make_directory("/directory"))

    async def scenario() -> None:
        machine_disk.delay = (1.0, 1.0)
        writing = asyncio.ensure_future(machine_disk.write("/directory/file", b"data", sync=False))
        await world.clock.sleep(0.5)
        machine_disk.delay = (0.1, 0.1)
        await machine_disk.remove_tree("/directory")
        with pytest.raises(FileNotFoundError):
            await writing
        assert machine_disk.names("/") == []

    world.run(scenario())


def test_files_that_are_written_in_one_call_are_not_stable_before_the_next_sync(
    world: World, machine_disk: disk.Disk
) -> None:
    world.run(machine_disk.make_directory("/lib"))
    assert world.run(machine_disk.write_all({"/lib/one": b"1", "/lib/two": b"2"})) == {}
    assert (machine_disk.names("/lib"), machine_disk.stable_names("/lib")) == (["one", "two"], [])
    world.run(machine_disk.sync("/"))
    stable = machine_disk.stable_files("/lib")
    assert stable == {"/lib": (0o750, None), "/lib/one": (0o640, b"1"), "/lib/two": (0o640, b"2")}


WORKS: dict[str, tuple[Callable[[disk.Disk], Awaitable[object]], int]] = {
    "write": (lambda drive: drive.write("/new", b""), 2),
    "write without sync": (lambda drive: drive.write("/new", b"", sync=False), 1),
    "write all": (lambda drive: drive.write_all({"/new": b"", "/other": b""}), 2),
    "digest": (lambda drive: drive.digest("/one"), 1),
    "sync": (lambda drive: drive.sync("/"), 1),
    "open to append": (lambda drive: drive.append_file("/new"), 1),
    "make a directory": (lambda drive: drive.make_directory("/new"), 1),
    "rename": (lambda drive: drive.rename({"/one": "/new", "/two": "/other"}), 2),
    "remove": (lambda drive: drive.remove("/one"), 1),
    "remove all": (lambda drive: drive.remove_all(["/one", "/missing", "/two"]), 2),
    "remove a tree": (lambda drive: drive.remove_tree("/folder"), 1),
    "make sparse": (lambda drive: drive.make_sparse("/new", 10), 1),
    "lengthen": (lambda drive: drive.lengthen("/one", 10), 1),
}


@pytest.mark.parametrize("name", WORKS)
def test_a_machine_can_end_at_each_visit_that_work_makes_to_the_disk(
    world: World, machine_disk: disk.Disk, name: str
) -> None:
    work, count = WORKS[name]
    visits = list[float]()
    for path in ("/one", "/two"):
        world.run(machine_disk.write(path, b""))
    world.run(machine_disk.make_directory("/folder"))
    machine_disk.delay = (1.0, 1.0)
    begin = world.clock.monotonic()
    machine_disk.on_visit = lambda: visits.append(world.clock.monotonic() - begin)
    world.run(_done(work(machine_disk)))
    assert visits == pytest.approx(range(1, count + 1))


async def _done(work: Awaitable[object]) -> None:
    await work


def test_a_directory_is_stable_with_its_parents_as_soon_as_it_is_made(world: World, machine_disk: disk.Disk) -> None:
    world.run(machine_disk.make_directory("/lib/gantry", mode=0o700))
    assert machine_disk.stable_files("/lib") == {"/lib": (0o700, None), "/lib/gantry": (0o700, None)}


def test_a_power_loss_leaves_any_part_of_a_removed_tree_but_no_file_without_its_directory() -> None:
    remaining = set[str]()
    for seed in range(40):
        with World(seed) as world:
            machine_disk = world.machine("a").disk
            world.run(machine_disk.make_directory("/lib/gantry"))
            world.run(machine_disk.write("/lib/gantry/config", b""))
            world.run(machine_disk.remove_tree("/lib"))
            world.crash("a")
            paths = ["/lib", "/lib/gantry", "/lib/gantry/config"]
            remaining.add(" ".join(path for path in paths if machine_disk.exists(path)))
    assert remaining == {"", "/lib", "/lib /lib/gantry", "/lib /lib/gantry /lib/gantry/config"}


def test_a_file_is_still_there_when_its_removal_is_announced(world: World, machine_disk: disk.Disk) -> None:
    announced = list[tuple[str, bytes]]()
    machine_disk.on_remove = lambda path: announced.append((path, machine_disk.read(path)))
    world.run(machine_disk.write("/file", b"content"))
    world.run(machine_disk.remove("/file"))
    assert announced == [("/file", b"content")]
    assert not machine_disk.exists("/file")


@pytest.mark.parametrize(("capacity", "free"), [(2, 0), (3, 0), (4, 1), (None, 2**40 - 3)])
def test_free_space_is_what_the_content_leaves_of_the_capacity_and_never_negative(
    world: World, machine_disk: disk.Disk, capacity: int | None, free: int
) -> None:
    world.run(machine_disk.write("/file", b"abc"))
    machine_disk.capacity = capacity
    assert machine_disk.free_space("/") == (free, 2**40 if capacity is None else capacity)


def test_a_lock_file_has_the_id_of_the_process_that_locked_it_last(world: World, machine_disk: disk.Disk) -> None:
    async def lock() -> None:
        machine_disk.lock("/lock").release()

    lock_by_test = machine_disk.lock("/lock")
    assert machine_disk.read("/lock") == b"1\n"
    lock_by_test.release()
    daemon = world.machine("a").launch(["daemon"], lock())
    world.run(asyncio.wait([daemon.task]))
    assert machine_disk.read("/lock") == b"%d\n" % daemon.boot.pid


def test_the_image_of_a_disk_can_be_restored_on_another_and_survives_a_power_loss(
    world: World, machine_disk: disk.Disk
) -> None:
    other = world.machine("b").disk
    world.run(machine_disk.make_directory("/lib", mode=0o700))
    world.run(machine_disk.write("/lib/file", b"content", mode=0o600))
    world.run(other.write("/gone", b""))
    assert (other.names("/"), other.stable_names("/")) == (["gone"], ["gone"])
    image = machine_disk.image()
    assert image == {"/": (0o755, None), "/lib": (0o700, None), "/lib/file": (0o600, b"content")}
    other.restore(image)
    world.crash("b")
    assert (other.names("/"), other.stable_names("/")) == (["lib"], ["lib"])
    assert (other.image(), other.read("/lib/file")) == (image, b"content")
    assert other.status("/lib/file").mtime == world.clock.now()
    assert (other.status("/lib").is_directory, other.status("/lib/file").is_directory) == (True, False)


def test_what_is_stable_of_a_directory_is_asked_by_its_names(world: World, machine_disk: disk.Disk) -> None:
    world.run(machine_disk.make_directory("/lib"))
    world.run(machine_disk.write("/library", b""))
    assert machine_disk.stable("/lib") is None
    assert list(machine_disk.stable_files("/lib")) == ["/lib"]


@pytest.mark.parametrize(
    ("capacity", "fails", "number", "content"),
    [
        (None, 0.0, 0, b"0123456789"),
        (10, 0.0, 0, b"0123456789"),
        (9, 0.0, errno.ENOSPC, b"012345678"),
        (4, 0.0, errno.ENOSPC, b"0123"),
        (None, 1.0, errno.EIO, b"0123456"),
        (8, 1.0, errno.EIO, b"012345"),
    ],
)
def test_a_failed_append_has_written_what_fits_or_half_of_it(
    world: World, machine_disk: disk.Disk, capacity: int | None, fails: float, number: int, content: bytes
) -> None:
    file = world.run(machine_disk.append_file("/journal"))
    world.run(file.append(b"0123"))
    world.run(world.clock.sleep(5))
    machine_disk.capacity, machine_disk.fail_write, machine_disk.delay = capacity, fails, (0.0, 0.0)
    if number:
        with pytest.raises(OSError) as caught:
            world.run(file.append(b"456789"))
        assert (caught.value.errno, caught.value.filename) == (number, "/journal")
    else:
        world.run(file.append(b"456789"))
    assert machine_disk.read("/journal") == content
    assert file.size == len(content)
    assert machine_disk.status("/journal").mtime == world.clock.now()
    assert machine_disk.stable("/journal") == (b"0123" if number else content)


def test_a_file_is_truncated_to_zeros_beyond_its_end(world: World, machine_disk: disk.Disk) -> None:
    file = world.run(machine_disk.append_file("/journal"))
    world.run(file.append(b"0123"))
    for size, content in ((6, b"0123\0\0"), (4, b"0123"), (4, b"0123"), (2, b"01"), (0, b"")):
        world.run(file.truncate(size))
        assert machine_disk.read("/journal") == machine_disk.stable("/journal") == content


def test_data_of_a_failed_sync_stays_lost_until_it_is_truncated(world: World, machine_disk: disk.Disk) -> None:
    world.run(machine_disk.write("/journal", b"0123"))
    world.run(append_unsynced(machine_disk, "/journal", b"456789"))
    file = world.run(machine_disk.append_file("/journal"))
    for size, stable in ((8, b"0123"), (5, b"0123"), (4, b"0123")):
        world.run(file.truncate(size))
        assert machine_disk.stable("/journal") == stable
    world.run(file.append(b"new"))
    assert machine_disk.stable("/journal") == b"0123new"


def test_a_failed_truncation_keeps_the_length(world: World, machine_disk: disk.Disk) -> None:
    file = world.run(machine_disk.append_file("/journal"))
    world.run(file.append(b"0123"))
    machine_disk.fail_sync = 1.0
    with pytest.raises(OSError) as caught:
        world.run(file.truncate(2))
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, "/journal")
    assert machine_disk.read("/journal") == machine_disk.stable("/journal") == b"0123"
    file.close()
    with pytest.raises(OSError) as caught:
        world.run(file.truncate(2))
    assert caught.value.errno == errno.EBADF
