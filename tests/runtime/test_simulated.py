"""What only the simulated runtime does: virtual time, faults, and the same run from the same seed."""

import asyncio
import datetime
import errno
import signal
from collections.abc import Callable, Coroutine, Iterator

import pytest

from gantry.runtime import bytestream, commands, http_interface, interface
from gantry.runtime.simulated import SimulatedRuntime, World, clock, processes


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=5) as new_world:
        yield new_world


async def answer(request: http_interface.Request) -> http_interface.Response:
    return http_interface.Response(200, request.body)


async def serve(machine: SimulatedRuntime, handler: http_interface.Handler = answer) -> interface.Server:
    return await machine.network.serve_http("0.0.0.0", 1811, handler, tls=None, body_limit=1000)


async def ask(machine: SimulatedRuntime, host: str, *, timeout: float = 10) -> bytes:
    client = machine.network.http_client(tls=None)
    return (await client.post(host, 1811, "/", b"hello", timeout=timeout)).body


async def story(world: World, trace: list[object]) -> None:
    """Run with every source of randomness."""
    first, second = world.machine("one"), world.machine("two")
    world.network.drop = 0.2
    await serve(second)

    async def worker(number: int) -> None:
        file = await first.disk.append_file(f"/journal-{number}")
        for step in range(5):
            await file.append(first.random.token(3))
            try:
                await ask(first, "two", timeout=1)
            except TimeoutError:
                trace.append("lost")
            trace.append((number, step, first.clock.now(), first.random.uuid()))

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(worker(number))
    unsynced = [first.disk.write(f"/file-{number}", b"x" * 100, sync=False) for number in range(10)]
    await asyncio.gather(*unsynced)
    world.crash("one")
    trace.append([(name, first.disk.status(f"/{name}").size) for name in first.disk.names("/")])


def test_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    def play(seed: int) -> list[object]:
        trace: list[object] = []
        with World(seed) as world:
            world.run(story(world, trace))
        return trace

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_an_hours_sleep_takes_no_time_and_timeouts_obey_the_virtual_clock(world: World) -> None:
    async def main() -> None:
        before = world.clock.now()
        await world.clock.sleep(3600)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600 * 10):
                await asyncio.Event().wait()
        assert world.clock.now() - before == pytest.approx(3600 + 3600 * 10)

    world.run(main())


def test_waiting_for_something_that_can_never_happen_is_a_deadlock(world: World) -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(clock.DeadlockError):
        world.run(main())


def test_a_closed_world_has_no_task_even_if_the_end_of_one_begins_another() -> None:
    tasks = list[asyncio.Task[None]]()

    async def begin(later: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            if later:
                tasks.append(asyncio.create_task(begin(later - 1)))
                await asyncio.sleep(1)

    with World(seed=1) as world:
        tasks.append(world.loop.create_task(begin(3)))
        world.run(asyncio.sleep(1))
    assert len(tasks) > 1
    assert all(task.done() for task in tasks)


def test_a_closed_world_has_no_task_of_a_stopped_daemon() -> None:
    ended = list[str]()

    async def daemon(machine: SimulatedRuntime) -> None:
        try:
            await machine.clock.sleep(3600)
        finally:
            ended.append(machine.host)

    with World(seed=1) as world:
        for name in ("a", "b"):
            machine = world.machine(name)
            pid = launched(machine, daemon(machine))
            world.run(asyncio.sleep(1))
            machine.processes.signal(pid, signal.SIGSTOP)
    assert ended == ["a", "b"]


def test_a_world_whose_run_took_too_long_can_be_closed() -> None:
    ended = list[str]()

    async def daemon(machine: SimulatedRuntime) -> None:
        try:
            while True:
                await machine.clock.sleep(60)
        finally:
            await asyncio.sleep(1)
            ended.append(machine.host)

    with World(seed=1) as world:
        machine = world.machine("a")
        with pytest.raises(clock.DeadlockError):
            world.run(daemon(machine))
    assert ended == ["a"]


def test_a_world_begins_in_the_morning_of_15_january_2027(world: World) -> None:
    begin = datetime.datetime(2027, 1, 15, 8, tzinfo=datetime.UTC)
    assert world.clock.now() == world.machine("one").clock.now() == begin.timestamp()


def test_a_callback_that_fails_is_reported_and_the_loop_continues(world: World) -> None:
    reports = list[dict[str, object]]()

    def fail(error: BaseException) -> None:
        raise error

    async def scenario() -> None:
        world.loop.set_exception_handler(lambda _, context: reports.append(context))
        for error in (ValueError("first"), asyncio.CancelledError("second")):
            world.loop.call_soon(fail, error)
        await world.clock.sleep(1)

    world.run(scenario())
    assert [repr(report["exception"]) for report in reports] == ["ValueError('first')", "CancelledError('second')"]
    assert "Exception in callback" in str(reports[0]["message"])
    assert isinstance(reports[0]["handle"], asyncio.Handle)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_callback_that_exits_ends_the_run(world: World, error: BaseException) -> None:
    def leave() -> None:
        raise error

    world.loop.call_soon(leave)
    with pytest.raises(type(error)) as caught:
        world.run(world.clock.sleep(1))
    assert caught.value is error
    assert world.clock.monotonic() == 0


def test_sets_of_tasks_have_the_order_of_creation(world: World) -> None:
    async def main() -> None:
        tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(50)]
        assert [task for task in tasks if task in set(tasks)] == tasks
        assert sorted(tasks, key=hash) == tasks
        await asyncio.wait(tasks)

    world.run(main())


def test_crash_keeps_synced_bytes_and_tears_unsynced_bytes_at_every_position() -> None:
    lengths: set[int] = set()
    for seed in range(40):
        with World(seed) as world:
            machine = world.machine("one")
            file = world.run(machine.disk.append_file("/journal"))
            world.run(file.append(b"safe"))
            machine.spawn(file.append(b"torn"))
            world.run(asyncio.sleep(0))
            world.crash("one")
            content = machine.disk.read("/journal")
            assert b"safetorn".startswith(content)
            lengths.add(len(content))
    assert lengths == {4, 5, 6, 7, 8}


def test_crash_loses_unsynced_writes_in_some_runs_and_tears_them_in_others() -> None:
    contents: set[bytes] = set()
    for seed in range(60):
        with World(seed) as world:
            disk = world.machine("one").disk
            world.run(disk.write("/file", b"old"))
            world.run(disk.write("/file", b"new!", sync=False))
            assert disk.read("/file") == b"new!"
            world.crash("one")
            contents.add(disk.read("/file"))
    assert contents == {b"old", b"", b"n", b"ne", b"new", b"new!"}


def test_synced_write_survives_a_crash_with_all_names_changed_before_it() -> None:
    for seed in range(20):
        with World(seed) as world:
            disk = world.machine("one").disk
            world.run(disk.write("/a", b"1"))
            world.run(disk.rename({"/a": "/b"}))
            world.run(disk.write("/c", b"2"))
            world.run(disk.remove("/c"))
            world.crash("one")
            assert disk.read("/b") == b"1"
            assert not disk.exists("/a")
            assert disk.names("/") in (["b"], ["b", "c"])


def test_one_sync_makes_all_changes_stable() -> None:
    for seed in range(20):
        with World(seed) as world:
            disk = world.machine("one").disk
            for number in range(5):
                world.run(disk.write(f"/file-{number}", b"new!", sync=False))
            world.run(disk.rename({"/file-0": "/moved"}))
            world.run(disk.remove("/file-1"))
            world.run(disk.sync("/"))
            world.crash("one")
            assert disk.names("/") == ["file-2", "file-3", "file-4", "moved"]
            assert {disk.read(f"/{name}") for name in disk.names("/")} == {b"new!"}


def test_kill_keeps_unsynced_bytes_and_frees_locks_and_sockets(world: World) -> None:
    machine = world.machine("one")

    async def daemon() -> None:
        machine.disk.lock("/lock")
        await serve(machine)
        await machine.network.serve_unix("/sock", silent, mode=0o600, limit=100)
        await machine.disk.write("/file", b"kept", sync=False)
        await asyncio.Event().wait()

    async def silent(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        machine.spawn(daemon())
        await world.clock.sleep(1)
        reader, _ = await machine.network.connect_unix("/sock", limit=100)
        with pytest.raises(BlockingIOError):
            machine.disk.lock("/lock")
        world.kill("one")
        assert await reader.read(1) == b""
        assert machine.disk.read("/file") == b"kept"
        machine.disk.lock("/lock")
        with pytest.raises(ConnectionRefusedError):
            await ask(machine, "localhost")
        with pytest.raises(ConnectionRefusedError):
            await machine.network.connect_unix("/sock", limit=100)
        await machine.network.serve_unix("/sock", silent, mode=0o600, limit=100)

    world.run(main())


def test_killed_tasks_and_their_subtasks_end_and_write_nothing_more(world: World) -> None:
    machine = world.machine("one")
    ended: list[str] = []

    async def stubborn(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
            await machine.disk.write(f"/{name}", b"last words")

    async def daemon() -> None:
        asyncio.get_running_loop().create_task(stubborn("child"), name="child")
        await stubborn("parent")

    async def main() -> None:
        task = machine.spawn(daemon())
        await world.clock.sleep(1)
        world.kill("one")
        await asyncio.wait([task])
        await world.clock.sleep(1)
        assert sorted(ended) == ["child", "parent"]
        assert machine.disk.names("/") == []

    world.run(main())


def test_full_disk_writes_a_part_of_an_append_and_works_again_with_free_space(world: World) -> None:
    disk = world.machine("one").disk

    async def main() -> None:
        file = await disk.append_file("/journal")
        await file.append(b"1234")
        disk.capacity = 6
        with pytest.raises(OSError) as caught:
            await file.append(b"5678")
        assert caught.value.errno == errno.ENOSPC
        assert disk.read("/journal") == b"123456"
        with pytest.raises(OSError):
            await disk.write("/file", b"x")
        await file.truncate(4)
        assert disk.free_space("/") == (2, 6)
        await file.append(b"56")
        disk.capacity = None
        await disk.write("/file", b"x")

    world.run(main())


def test_bytes_of_a_failed_sync_stay_unstable_until_the_file_is_truncated() -> None:
    lengths: set[int] = set()
    for seed in range(30):
        with World(seed) as world:
            disk = world.machine("one").disk
            file = world.run(disk.append_file("/journal"))
            world.run(file.append(b"good"))
            disk.fail_sync = True
            for attempt in (file.append(b"bad"), file.truncate(4), disk.write("/new", b"")):
                with pytest.raises(OSError) as caught:
                    world.run(attempt)
                assert caught.value.errno == errno.EIO
            disk.fail_sync = False
            world.run(file.append(b"more"))
            world.crash("one")
            lengths.add(len(disk.read("/journal")))
            assert not disk.exists("/new")
    assert min(lengths) == 4
    assert max(lengths) == 11


def test_truncate_after_a_failed_sync_makes_appends_stable_again(world: World) -> None:
    disk = world.machine("one").disk
    file = world.run(disk.append_file("/journal"))
    world.run(file.append(b"good"))
    disk.fail_sync = True
    with pytest.raises(OSError):
        world.run(file.append(b"bad"))
    disk.fail_sync = False
    world.run(file.truncate(4))
    world.run(file.append(b"more"))
    world.crash("one")
    assert disk.read("/journal") == b"goodmore"


def test_each_open_file_and_open_disk_reports_a_failed_sync_once(world: World) -> None:
    disk = world.machine("one").disk
    first, second = (world.run(disk.append_file("/journal")) for _ in range(2))
    file_system = disk.file_system("/")

    def fails(work: Coroutine[object, object, None]) -> bool:
        try:
            world.run(work)
        except OSError as error:
            return error.errno == errno.EIO
        return False

    async def synced_elsewhere() -> None:
        disk.delay = (0.005, 0.005)
        appending = asyncio.create_task(first.append(b"lost"))
        await asyncio.sleep(0.001)
        disk.delay, disk.fail_sync = (0.001, 0.001), True
        with pytest.raises(OSError):
            await disk.sync("/")
        disk.fail_sync = False
        await appending

    assert fails(synced_elsewhere())
    assert disk.stable("/journal") == b""
    assert not fails(first.truncate(0))
    assert fails(second.append(b""))
    assert not fails(second.append(b""))
    assert not fails(disk.sync("/"))
    assert fails(file_system.sync())
    assert not fails(file_system.sync())
    third = world.run(disk.append_file("/journal"))
    assert not fails(third.append(b"kept"))
    assert disk.stable("/journal") == b"kept"


@pytest.mark.parametrize("crashed", [False, True], ids=["running", "crashed"])
def test_a_failed_sync_that_was_not_reported_is_forgotten_at_the_next_boot(world: World, crashed: bool) -> None:
    machine = world.machine("one")
    disk = machine.disk

    async def lose() -> None:
        file = await disk.append_file("/journal")
        disk.delay = (0.005, 0.005)
        appending = machine.spawn(file.append(b"lost"))
        await asyncio.sleep(0.001)
        world.kill("one")
        await asyncio.wait([appending])
        disk.fail_sync = True
        with pytest.raises(OSError):
            await disk.sync("/")
        disk.fail_sync = False

    world.run(lose())
    if crashed:
        world.crash("one")
    file = world.run(disk.append_file("/journal"))
    if crashed:
        world.run(file.append(b"kept"))
        assert disk.stable("/journal") == disk.read("/journal")
    else:
        with pytest.raises(OSError) as caught:
            world.run(file.append(b"kept"))
        assert caught.value.errno == errno.EIO


def test_flipped_byte_stays_flipped_after_a_crash(world: World) -> None:
    disk = world.machine("one").disk
    world.run(disk.write("/file", b"abc"))
    disk.flip("/file", 1)
    world.crash("one")
    assert disk.read("/file") == b"a\x9dc"


def test_partition_loses_messages_until_it_heals(world: World) -> None:
    first, second = world.machine("one"), world.machine("two")

    async def main() -> None:
        world.network.register("192.0.2.2", "two")
        await serve(second)
        assert await ask(first, "192.0.2.2") == b"hello"
        world.network.partition("two", "one")
        before = world.clock.now()
        with pytest.raises(TimeoutError):
            await ask(first, "two", timeout=30)
        assert world.clock.now() - before == pytest.approx(30)
        assert await ask(second, "localhost") == b"hello"
        world.network.heal("one", "two")
        assert await ask(first, "two") == b"hello"

    world.run(main())


def test_dropped_requests_and_dropped_answers_both_time_out(world: World) -> None:
    first, second = world.machine("one"), world.machine("two")
    served: list[bytes] = []

    async def count(request: http_interface.Request) -> http_interface.Response:
        served.append(request.body)
        return http_interface.Response(200, b"")

    async def main() -> None:
        await serve(second, count)
        world.network.drop = 0.3
        answered = 0
        for _ in range(100):
            try:
                await ask(first, "two", timeout=1)
            except TimeoutError:
                continue
            answered += 1
        assert 0 < answered < len(served) < 100

    world.run(main())


def test_duplicated_requests_are_served_twice_and_answered_once(world: World) -> None:
    first, second = world.machine("one"), world.machine("two")
    served: list[bytes] = []

    async def count(request: http_interface.Request) -> http_interface.Response:
        served.append(request.body)
        return http_interface.Response(200, b"")

    async def main() -> None:
        await serve(second, count)
        world.network.duplicate = 1.0
        await ask(first, "two")
        await world.clock.sleep(2 * world.network.lateness)
        assert served == [b"hello", b"hello"]

    world.run(main())


def test_crash_of_the_server_resets_the_clients_connection(world: World) -> None:
    first, second = world.machine("one"), world.machine("two")

    async def hang(request: http_interface.Request) -> http_interface.Response:
        world.crash("two")
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        second.spawn(serve(second, hang))
        await world.clock.sleep(1)
        with pytest.raises(ConnectionResetError):
            await ask(first, "two")
        with pytest.raises(ConnectionRefusedError):
            await ask(first, "two")

    world.run(main())


def test_started_programs_survive_a_kill_and_end_with_the_power(world: World) -> None:
    machine = world.machine("one")

    async def forever(call: processes.Invocation) -> commands.Completed:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        machine.processes.programs["/bin/vm"] = forever
        pid = await machine.spawn(machine.processes.start(["/bin/vm"], environment=None, log="/log"))
        world.kill("one")
        await world.clock.sleep(1)
        assert machine.processes.alive(pid)
        world.crash("one")
        assert not machine.processes.alive(pid)

    world.run(main())


def test_a_partition_in_one_direction_serves_requests_whose_answers_are_lost(world: World) -> None:
    first, second = world.machine("one"), world.machine("two")
    served: list[bytes] = []

    async def count(request: http_interface.Request) -> http_interface.Response:
        served.append(request.body)
        return http_interface.Response(200, b"")

    async def main() -> None:
        await serve(second, count)
        world.network.partition("two", "one", one_way=True)
        with pytest.raises(TimeoutError):
            await ask(first, "two")
        assert served == [b"hello"]
        world.network.heal("one", "two")
        world.network.partition("one", "two", one_way=True)
        with pytest.raises(TimeoutError):
            await ask(first, "two")
        assert served == [b"hello"]

    world.run(main())


def test_a_late_request_arrives_after_later_ones_even_if_its_sender_has_timed_out_or_ended(
    world: World,
) -> None:
    second = world.machine("two")
    served: list[str] = []

    async def note(request: http_interface.Request) -> http_interface.Response:
        served.append(request.path)
        return http_interface.Response(200, b"")

    async def send(machine: SimulatedRuntime, path: str) -> None:
        client = machine.network.http_client(tls=None)
        await client.post("two", 1811, path, b"", timeout=0.01)

    async def main() -> None:
        await serve(second, note)
        world.network.reorder, world.network.lateness = 1.0, 1000.0
        with pytest.raises(TimeoutError):
            await send(world.machine("one"), "/gave-up")
        world.machine("three").spawn(send(world.machine("three"), "/ended"))
        await world.clock.sleep(0.001)
        world.kill("three")
        world.network.reorder = 0.0
        await send(world.machine("one"), "/later")
        await world.clock.sleep(1000)
        assert served[0] == "/later"
        assert sorted(served[1:]) == ["/ended", "/gave-up"]

    world.run(main())


def test_a_connection_breaks_before_the_request_was_served_or_in_the_middle_of_the_answer(world: World) -> None:
    first, second = world.machine("one"), world.machine("two")
    served: list[bytes] = []

    async def count(request: http_interface.Request) -> http_interface.Response:
        served.append(request.body)
        return http_interface.Response(200, b"")

    async def main() -> None:
        await serve(second, count)
        world.network.reset = 1.0
        for _ in range(100):
            with pytest.raises(ConnectionResetError):
                await ask(first, "two")
        assert 20 < len(served) < 80
        world.network.reset = 0.0
        await ask(first, "two")

    world.run(main())


def test_a_calendar_that_jumps_leaves_timers_and_other_machines_alone(world: World) -> None:
    first, second = world.machine("one"), world.machine("two")

    async def main() -> None:
        before, since = world.clock.now(), first.clock.monotonic()
        sleeping = asyncio.create_task(first.clock.sleep(10))
        first.clock.offset = -86_400.0
        assert first.clock.now() == pytest.approx(before - 86_400)
        await first.disk.write("/file", b"")
        assert first.disk.status("/file").mtime == pytest.approx(before - 86_400, abs=1)
        await sleeping
        assert first.clock.monotonic() - since == pytest.approx(10)
        assert second.clock.now() == world.clock.now() == pytest.approx(before + 10)

    world.run(main())


def test_a_machine_can_crash_during_any_write() -> None:
    """The append begins at the first visit to the device, the file's own sync and that of its name follow."""
    outcomes: set[tuple[bytes, bytes]] = set()
    for seed in range(60):
        with World(seed) as world:
            machine = world.machine("one")
            world.run(machine.disk.write("/file", b"old"))
            world.run(machine.disk.append_file("/journal"))
            visits = iter(range(seed % 3, -1, -1))

            def end(visits: Iterator[int] = visits, world: World = world) -> None:
                if next(visits, None) == 0:
                    world.crash("one")

            async def work(machine: SimulatedRuntime = machine) -> None:
                file = await machine.disk.append_file("/journal")
                await file.append(b"xy")
                await machine.disk.write("/file", b"new")
                raise AssertionError

            machine.disk.on_visit = end
            task = machine.spawn(work())
            world.run(asyncio.wait([task]))
            assert task.cancelled()
            outcomes.add((machine.disk.read("/journal"), machine.disk.read("/file")))
    assert outcomes == {(b"", b"old"), (b"x", b"old"), (b"xy", b"old")}


def test_writes_and_reads_fail_sometimes_and_a_failed_append_has_written_a_part(world: World) -> None:
    disk = world.machine("one").disk
    failed = 0

    async def main() -> None:
        nonlocal failed
        file = await disk.append_file("/journal")
        disk.fail_write = 0.5
        for _ in range(100):
            size = file.size
            try:
                await file.append(b"1234")
            except OSError:
                assert file.size == size + 2
                failed += 1
        disk.fail_write, disk.fail_read = 1.0, 1.0
        for attempt in (disk.write("/file", b""), _read(disk, "/journal")):
            with pytest.raises(OSError):
                await attempt
        assert not disk.exists("/file")
        disk.fail_write = disk.fail_read = 0.0
        assert len(disk.read("/journal")) == 4 * 100 - 2 * failed

    world.run(main())
    assert 20 < failed < 80


def test_files_below_a_broken_folder_cannot_be_created_or_replaced(world: World) -> None:
    disk = world.machine("one").disk

    async def main() -> None:
        await disk.make_directory("/guests")
        await disk.write("/guests/old", b"old")
        disk.broken = {"/guests": 1.0}
        for attempt in (disk.write("/guests/old", b"new"), disk.make_sparse("/guests/disk", 10)):
            with pytest.raises(OSError):
                await attempt
        assert disk.read("/guests/old") == b"old"
        assert disk.names("/guests") == ["old"]
        await disk.write("/guests-of-others", b"new")
        disk.broken = {}
        await disk.write("/guests/old", b"new")

    world.run(main())


def test_between_is_called_before_time_passes(world: World) -> None:
    looked: list[float] = []
    world.loop.between = lambda: looked.append(world.clock.monotonic())

    async def main() -> None:
        await asyncio.gather(*(world.clock.sleep(seconds) for seconds in (1, 1, 3)))
        await world.clock.sleep(0)

    world.run(main())
    assert looked == [0.0, 1.0]


async def _read(disk: interface.Disk, path: str) -> bytes:
    return disk.read(path)


@pytest.mark.parametrize(("number", "gentle"), [(signal.SIGTERM, True), (signal.SIGKILL, False)])
def test_a_signal_ends_a_daemon_and_releases_its_locks_ports_and_sockets(
    world: World, number: signal.Signals, gentle: bool
) -> None:
    machine = world.machine("one")
    stop = asyncio.Event()
    events: list[str] = []

    async def silent(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        await asyncio.Event().wait()

    async def daemon() -> None:
        machine.disk.lock("/lock")
        await serve(machine)
        await machine.network.serve_unix("/sock", silent, mode=0o600, limit=100)
        await stop.wait()
        events.append("stopped")

    async def main() -> None:
        process = machine.launch(["/sbin/daemon", "-d"], daemon(), terminate=stop.set)
        neighbour = machine.spawn(machine.clock.sleep(3600))
        await world.clock.sleep(1)
        pid = int(machine.disk.read("/lock"))
        assert pid == process.boot.pid
        assert machine.processes.command_line(pid) == ["/sbin/daemon", "-d"]
        machine.processes.signal(pid, number)
        await asyncio.wait([process.task])
        assert events == (["stopped"] if gentle else [])
        assert not machine.processes.alive(pid)
        machine.disk.lock("/lock").release()
        with pytest.raises(ConnectionRefusedError):
            await ask(machine, "localhost")
        with pytest.raises(ConnectionRefusedError):
            await machine.network.connect_unix("/sock", limit=100)
        assert not neighbour.done()

    world.run(main())


def launched(machine: SimulatedRuntime, main: Coroutine[object, object, object]) -> int:
    return machine.launch(["daemon"], main).boot.pid


def test_a_stopped_daemon_does_nothing_until_it_goes_on_and_its_clock_has_moved(world: World) -> None:
    machine = world.machine("a")
    ticks: list[float] = []
    answered: list[float] = []

    async def answer(request: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, b"here", "text/plain")

    async def daemon() -> None:
        await machine.network.serve_http("", 80, answer, tls=None, body_limit=100)
        while True:
            await machine.clock.sleep(1)
            ticks.append(machine.clock.monotonic())

    async def ask() -> None:
        client = world.machine("b").network.http_client(tls=None)
        assert (await client.request("GET", "a", 80, "/", timeout=60)).body == b"here"
        answered.append(world.clock.monotonic())

    async def scenario() -> None:
        pid = launched(machine, daemon())
        await world.clock.sleep(2.5)
        machine.processes.signal(pid, signal.SIGSTOP)
        asking = asyncio.ensure_future(ask())
        await world.clock.sleep(10)
        assert (len(ticks), answered) == (2, [])
        machine.processes.signal(pid, signal.SIGCONT)
        await asking
        await world.clock.sleep(1)

    world.run(scenario())
    assert [round(tick, 1) for tick in ticks] == [1.0, 2.0, 12.5, 13.5]
    assert 12.5 <= answered[0] < 12.6


def test_timers_of_a_stopped_daemon_end_in_their_order_or_when_they_are_due(world: World) -> None:
    machine = world.machine("a")
    order: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await machine.clock.sleep(seconds)
        order.append((name, round(machine.clock.monotonic(), 1)))

    async def daemon() -> None:
        await asyncio.gather(wait("later", 9), wait("third", 3), wait("second", 2), wait("first", 1))

    async def scenario() -> None:
        pid = launched(machine, daemon())
        await world.clock.sleep(0.5)
        machine.processes.signal(pid, signal.SIGSTOP)
        await world.clock.sleep(5)
        machine.processes.signal(pid, signal.SIGCONT)
        await world.clock.sleep(5)

    world.run(scenario())
    assert order == [("first", 5.5), ("second", 5.5), ("third", 5.5), ("later", 9.0)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cancels_a_daemon_that_does_not_handle_it(world: World, number: signal.Signals) -> None:
    machine = world.machine("a")

    async def scenario() -> None:
        daemon = machine.launch(["daemon"], machine.clock.sleep(60))
        await world.clock.sleep(0.5)
        machine.processes.signal(daemon.boot.pid, number)
        await asyncio.wait([daemon.task], timeout=1)
        assert daemon.task.cancelled()
        assert not machine.processes.alive(daemon.boot.pid)

    world.run(scenario())


def test_a_program_of_a_guest_is_called_without_systemd(world: World) -> None:
    arguments = ["/bin/vm", "-name", "web"]
    assert world.run(world.machine("a").processes.in_scope("web", arguments)) == arguments


def test_a_stopped_daemon_can_be_killed(world: World) -> None:
    machine = world.machine("a")

    async def scenario() -> None:
        daemon = machine.launch(["daemon"], machine.clock.sleep(1))
        await world.clock.sleep(0.5)
        machine.processes.signal(daemon.boot.pid, signal.SIGSTOP)
        await world.clock.sleep(5)
        assert not daemon.task.done()
        machine.processes.signal(daemon.boot.pid, signal.SIGKILL)
        await asyncio.wait([daemon.task], timeout=1)
        assert daemon.task.cancelled()

    world.run(scenario())


def test_timers_and_timeouts_follow_the_speed_of_their_machines_clock(world: World) -> None:
    fast, right = world.machine("fast"), world.machine("right")
    ended: dict[str, float] = {}

    async def wait(machine: SimulatedRuntime, *, seconds: float) -> None:
        begin = machine.clock.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await machine.clock.sleep(100)
        assert machine.clock.monotonic() - begin == pytest.approx(seconds)
        ended[machine.host] = world.clock.monotonic()

    async def scenario() -> None:
        await world.clock.sleep(7)
        fast.clock.set_speed(2)
        await asyncio.gather(fast.spawn(wait(fast, seconds=10)), right.spawn(wait(right, seconds=10)))
        assert fast.clock.now() == right.clock.now()
        fast.clock.set_speed(1)
        await fast.spawn(wait(fast, seconds=3))

    world.run(scenario())
    assert ended == {"fast": pytest.approx(20), "right": pytest.approx(17)}


def test_messages_on_a_slow_link_take_seconds_in_both_directions(world: World) -> None:
    async def answer(request: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, b"here", "text/plain")

    async def ask(name: str) -> float:
        begin = world.clock.monotonic()
        await world.machine(name).network.http_client(tls=None).request("GET", "a", 80, "/", timeout=60)
        return world.clock.monotonic() - begin

    async def scenario() -> None:
        await world.machine("a").network.serve_http("", 80, answer, tls=None, body_limit=100)
        world.machine("b")
        world.network.slow_down("a", "b", 4)
        assert 4 <= await ask("b") < 8.1
        assert await ask("c") < 0.1
        world.network.slow_down("b", "a", 0)
        assert await ask("b") < 0.1

    world.machine("c")
    world.run(scenario())


def test_a_disk_loses_a_synced_tail(world: World) -> None:
    disk = world.machine("a").disk

    async def scenario() -> None:
        await disk.write("/cut", b"0123456789")
        await disk.write("/gone", b"0123456789")
        disk.lose_tail("/cut", 4)
        disk.lose_tail("/gone", 0)
        world.crash("a")
        assert disk.read("/cut") == b"0123"
        assert not disk.exists("/gone")

    world.run(scenario())


def test_files_of_an_earlier_moment_can_be_put_back(world: World) -> None:
    async def scenario() -> None:
        disk = world.machine("a").disk
        await disk.make_directory("/lib/sub")
        await disk.write("/lib/changed", b"before")
        await disk.write("/lib/sub/removed", b"there")
        await disk.write("/lib/unsynced", b"lost", sync=False)
        earlier = disk.stable_files("/lib")
        await disk.write("/lib/changed", b"after")
        await disk.remove("/lib/sub/removed")
        await disk.write("/lib/new", b"new")
        await disk.write("/elsewhere", b"stays")
        disk.put_back("/lib", earlier)
        world.crash("a")
        assert disk.names("/lib") == ["changed", "sub"]
        assert (disk.read("/lib/changed"), disk.read("/lib/sub/removed")) == (b"before", b"there")
        assert disk.read("/elsewhere") == b"stays"

    world.run(scenario())


def test_requests_are_seen_when_they_are_sent_and_served_with_their_answers(world: World) -> None:
    seen = list[tuple[str, str, str]]()
    first, second = world.machine("one"), world.machine("two")

    def sent(source: str, target: str, request: http_interface.Request) -> None:
        seen.append(("sent", source, target))

    def arrives(source: str, target: str, request: http_interface.Request) -> Callable[[bytes], None]:
        seen.append(("arrives", source, target))
        return lambda body: seen.append(("answered", source, body.decode()))

    async def scenario() -> None:
        await second.spawn(serve(second))
        world.network.on_request, world.network.on_arrival = sent, arrives
        await first.spawn(ask(first, "two"))
        world.network.partition("one", "two")
        with pytest.raises(TimeoutError):
            await first.spawn(ask(first, "two", timeout=1))

    world.run(scenario())
    assert seen == [
        ("sent", "one", "two"),
        ("arrives", "one", "two"),
        ("answered", "one", "hello"),
        ("sent", "one", "two"),
    ]
