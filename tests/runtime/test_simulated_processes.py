"""How daemons and programs of a simulated machine start, get signals and end."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from gantry.runtime import commands
from gantry.runtime.simulated import SimulatedRuntime, World, processes


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=5) as new_world:
        yield new_world


@pytest.fixture
def machine(world: World) -> SimulatedRuntime:
    return world.machine("a")


@pytest.mark.parametrize(
    ("number", "ends"),
    [
        (signal.SIGTERM, True),
        (signal.SIGINT, True),
        (signal.SIGHUP, True),
        (signal.SIGKILL, True),
        (signal.SIGUSR1, False),
        (signal.SIGCONT, False),
        (0, False),
    ],
)
def test_a_started_program_ends_by_some_signals_and_ignores_others(
    world: World, machine: SimulatedRuntime, number: int, ends: bool
) -> None:
    ended = list[str]()

    async def program(call: processes.Invocation) -> commands.Completed:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(call.arguments[0])
        return commands.Completed(0, b"", b"")

    async def scenario() -> None:
        machine.processes.programs["/bin/vm"] = program
        pid = await machine.processes.start(["/bin/vm", "-n"], environment=None, log="/log")
        await world.clock.sleep(1)
        machine.processes.signal(pid, number)
        await world.clock.sleep(1)
        assert machine.processes.alive(pid) is not ends
        assert machine.processes.command_line(pid) == ([] if ends else ["/bin/vm", "-n"])
        assert ended == (["/bin/vm"] if ends else [])
        if ends:
            with pytest.raises(ProcessLookupError):
                machine.processes.signal(pid, number)

    world.run(scenario())


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGCONT, 0])
def test_a_daemon_ignores_other_signals(world: World, machine: SimulatedRuntime, number: int) -> None:
    async def scenario() -> None:
        daemon = machine.launch(["/sbin/daemon", "-d"], asyncio.sleep(3600))
        await world.clock.sleep(1)
        machine.processes.signal(daemon.boot.pid, number)
        await world.clock.sleep(1)
        assert machine.processes.alive(daemon.boot.pid)
        assert machine.processes.command_line(daemon.boot.pid) == ["/sbin/daemon", "-d"]

    world.run(scenario())


def test_processes_have_different_ids_and_are_known_until_they_end(world: World, machine: SimulatedRuntime) -> None:
    async def scenario() -> None:
        daemons = [machine.launch(["daemon", str(seconds)], asyncio.sleep(seconds)) for seconds in (1, 3, 5)]
        pids = [daemon.boot.pid for daemon in daemons]
        assert len({*pids, 1}) == 4
        await world.clock.sleep(2)
        daemons.append(machine.launch(["daemon", "7"], asyncio.sleep(7)))
        pids.append(daemons[-1].boot.pid)
        assert [machine.processes.alive(pid) for pid in pids] == [False, True, True, True]
        lines = [machine.processes.command_line(pid) for pid in pids]
        assert lines == [[], ["daemon", "3"], ["daemon", "5"], ["daemon", "7"]]
        with pytest.raises(ProcessLookupError):
            machine.processes.signal(pids[0], signal.SIGTERM)
        world.kill("a")
        assert not any(machine.processes.alive(pid) for pid in pids)

    world.run(scenario())


def test_all_tasks_of_a_daemon_end_with_its_main_task(world: World, machine: SimulatedRuntime) -> None:
    tasks = list[asyncio.Task[None]]()

    async def main() -> None:
        tasks.append(asyncio.create_task(machine.clock.sleep(3600)))
        machine.disk.lock("/lock")
        await machine.clock.sleep(1)

    async def scenario() -> None:
        machine.launch(["daemon"], main())
        await world.clock.sleep(0.5)
        with pytest.raises(BlockingIOError):
            machine.disk.lock("/lock")
        await world.clock.sleep(1)
        assert tasks[0].cancelled()
        machine.disk.lock("/lock").release()

    world.run(scenario())


def test_a_program_gets_its_whole_call_and_takes_its_time(world: World, machine: SimulatedRuntime) -> None:
    calls = list[processes.Invocation]()

    async def program(call: processes.Invocation) -> commands.Completed:
        calls.append(call)
        await asyncio.sleep(59)
        return commands.Completed(4, b"out", b"err")

    async def scenario() -> None:
        machine.processes.programs["/bin/p"] = program
        completed = await machine.processes.run(["/bin/p", "x"], environment={"A": "b"}, directory="/d", stdin=b"in")
        assert completed == commands.Completed(4, b"out", b"err")
        assert calls == [processes.Invocation(["/bin/p", "x"], {"A": "b"}, "/d", b"in")]
        with pytest.raises(TimeoutError):
            await machine.processes.run(["/bin/p", "x"], timeout=58)
        assert calls[1:] == [processes.Invocation(["/bin/p", "x"])]
        await machine.processes.start(["/bin/p", "y"], environment={"A": "b"}, log="/log")
        await world.clock.sleep(60)
        assert calls[2:] == [processes.Invocation(["/bin/p", "y"], {"A": "b"})]
        assert machine.disk.read("/log") == b"outerr"

    world.run(scenario())


@pytest.mark.parametrize("end", ["kill", "crash", "cancel"])
def test_a_tracked_program_survives_the_kill_of_its_daemon_until_the_next_tracks(
    world: World, machine: SimulatedRuntime, end: str
) -> None:
    events = list[str]()

    async def program(call: processes.Invocation) -> commands.Completed:
        try:
            await asyncio.sleep(3600)
        finally:
            events.append("program ended")
        raise AssertionError

    async def scenario() -> None:
        machine.processes.programs["/bin/copy"] = program
        task = machine.spawn(machine.processes.run(["/bin/copy"], timeout=7200, tracked=True))
        await world.clock.sleep(1)
        if end == "kill":
            world.kill("a")
        elif end == "crash":
            world.crash("a")
        else:
            task.cancel()
        await world.clock.sleep(1)
        assert task.cancelled()
        events.append("track")
        await machine.processes.track("/run")
        events.append("tracked")
        await machine.processes.track("/run")
        assert world.clock.monotonic() < 3

    world.run(scenario())
    ending = ["track", "program ended", "tracked"] if end == "kill" else ["program ended", "track", "tracked"]
    assert events == ending


def test_a_program_that_is_not_tracked_ends_with_its_daemon(world: World, machine: SimulatedRuntime) -> None:
    ended = list[float]()

    async def program(call: processes.Invocation) -> commands.Completed:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(world.clock.monotonic())
        raise AssertionError

    async def scenario() -> None:
        machine.processes.programs["/bin/copy"] = program
        machine.spawn(machine.processes.run(["/bin/copy"]))
        await world.clock.sleep(1)
        world.kill("a")
        await world.clock.sleep(1)

    world.run(scenario())
    assert ended == [1.0]


def test_a_machine_starts_programs_again_after_a_power_loss(world: World, machine: SimulatedRuntime) -> None:
    async def program(call: processes.Invocation) -> commands.Completed:
        return commands.Completed(0, b"output", b"")

    async def scenario() -> None:
        machine.processes.programs["/bin/vm"] = program
        world.crash("a")
        await machine.processes.start(["/bin/vm"], environment=None, log="/log")
        await world.clock.sleep(1)
        assert machine.disk.read("/log") == b"output"

    world.run(scenario())
