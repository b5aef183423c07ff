"""In which order the simulated loop calls what is due, what cancelled and stopped callbacks do, and when a run ends."""

import asyncio
import contextvars
import signal
from collections.abc import Iterator

import pytest

from gantry.runtime.simulated import SimulatedRuntime, World, clock


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=5) as new_world:
        yield new_world


def test_callbacks_run_in_their_order_and_those_that_they_add_in_the_next_round(world: World) -> None:
    order, to_cancel = list[str](), list[asyncio.Handle]()
    loop = world.loop

    def first() -> None:
        order.append("first")
        loop.call_soon(order.append, "added")
        to_cancel[0].cancel()

    async def scenario() -> None:
        loop.call_later(0, order.append, "timer")
        loop.call_soon(first)
        loop.call_soon(order.append, "second")
        to_cancel.append(loop.call_soon(order.append, "cancelled"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    world.run(scenario())
    assert order == ["first", "second", "timer", "added"]


def test_a_cancelled_timer_does_not_run_even_if_it_is_due_with_that_which_cancels_it(world: World) -> None:
    order = list[str]()
    timers = list[asyncio.TimerHandle]()

    def cancel() -> None:
        order.append("cancel")
        for timer in timers:
            timer.cancel()

    async def scenario() -> None:
        world.loop.call_later(1, cancel)
        timers.append(world.loop.call_later(1, order.append, "same moment"))
        timers.append(world.loop.call_later(2, order.append, "later"))
        await asyncio.sleep(3)
        order.append("end")

    world.run(scenario())
    assert order == ["cancel", "end"]
    assert world.loop.cancelled_timers == 0
    assert [timer.cancelled() for timer in timers] == [True, True]


@pytest.mark.parametrize("number", [10, 90, 1000])
def test_many_cancelled_timers_leave_the_others_in_their_order(world: World, number: int) -> None:
    order = list[int]()
    longest = 0

    async def scenario() -> None:
        nonlocal longest
        timers = {each: world.loop.call_later(each % 97 + each / 1000, order.append, each) for each in range(number)}
        await asyncio.sleep(0)
        for each, timer in timers.items():
            if each % 5:
                timer.cancel()
                timer.cancel()
        await asyncio.sleep(0)
        longest = world.loop.cancelled_timers
        await asyncio.sleep(100)

    world.run(scenario())
    assert order == sorted(range(0, number, 5), key=lambda each: each % 97 + each / 1000)
    assert longest < 100
    assert world.loop.cancelled_timers == 0


def test_a_callback_runs_in_the_context_of_its_caller_or_in_another_that_it_names(world: World) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    values = list[str]()
    other = contextvars.Context()
    other.run(variable.set, "other")

    def note() -> None:
        values.append(variable.get())

    async def scenario() -> None:
        variable.set("caller")
        world.loop.call_soon(note)
        world.loop.call_soon(note, context=other)
        world.loop.call_later(1, note)
        world.loop.call_later(2, note, context=other)
        world.loop.call_at(world.loop.time() + 3, note, context=other)
        variable.set("changed later")
        await asyncio.sleep(4)

    world.run(scenario())
    assert values == ["caller", "other", "caller", "other", "other"]


def test_a_closed_loop_refuses_callbacks() -> None:
    with World(seed=1) as world:
        loop = world.loop
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.call_soon(print)


async def tick(world: World, *, seconds: float) -> None:
    while True:
        await world.clock.sleep(seconds)


def test_a_run_ends_after_fourteen_hours_and_the_next_has_as_many(world: World) -> None:
    async def last(hours: float) -> str:
        await world.clock.sleep(hours * 3600)
        return "done"

    assert world.run(last(13.9)) == "done"
    assert world.run(last(13.9)) == "done"
    with pytest.raises(clock.DeadlockError):
        world.run(tick(world, seconds=60))
    assert 27.8 * 3600 + clock.LONGEST_RUN_SECONDS < world.clock.monotonic() < 42 * 3600 + 120


def test_a_run_that_is_never_idle_ends_too(world: World) -> None:
    def busy() -> None:
        world.loop.call_soon(busy)

    async def scenario() -> None:
        world.loop.call_later(15 * 3600, busy)
        await asyncio.Event().wait()

    with pytest.raises(clock.DeadlockError):
        world.run(scenario())


def test_tasks_and_timers_are_equal_only_to_themselves(world: World) -> None:
    async def scenario() -> None:
        tasks = [asyncio.create_task(world.clock.sleep(1)) for _ in range(2)]
        timers = [world.loop.call_at(1.0, print) for _ in range(2)]
        assert [tasks[0] == task for task in tasks] == [True, False]
        assert [timers[0] == timer for timer in timers] == [True, False]
        assert len(set(timers)) == 2
        for timer in timers:
            timer.cancel()

    world.run(scenario())


def test_a_deadlock_names_the_tasks_that_wait(world: World) -> None:
    async def main() -> None:
        waiting = [asyncio.create_task(asyncio.Event().wait(), name=name) for name in ("late", "early")]
        await asyncio.wait(waiting)

    with pytest.raises(clock.DeadlockError, match=r"these tasks are waiting: Task-\d+, early, late$"):
        world.run(main())


def test_a_world_can_begin_later(world: World) -> None:
    world.loop.advance_to(5000.0)
    assert (world.clock.monotonic(), world.machine("a").clock.now()) == (5000.0, clock.EPOCH + 5000)


def test_a_clock_keeps_its_reading_when_its_speed_changes(world: World) -> None:
    machine = world.machine("a")
    readings = list[float]()

    async def scenario() -> None:
        for speed in (2.0, 0.5, 1.0, 4.0):
            machine.clock.set_speed(speed)
            readings.append(machine.clock.monotonic())
            await world.clock.sleep(10)
        readings.append(machine.clock.monotonic())

    world.run(scenario())
    assert readings == [0, 20, 25, 35, 75]
    assert machine.clock.true_time(75) == world.loop.true_time == 40
    assert machine.clock.true_time(79) == 41
    assert world.clock.monotonic() == 40


def launched(machine: SimulatedRuntime, order: list[str], *sleeps: float) -> int:
    """Launch a daemon whose tasks sleep, and note the time when they have; return its process id."""

    async def sleeper(seconds: float) -> None:
        await machine.clock.sleep(seconds)
        order.append(f"{seconds:g} at {machine.clock.monotonic():g}")

    async def main() -> None:
        await asyncio.gather(*(sleeper(seconds) for seconds in sleeps))

    return machine.launch(["daemon"], main()).boot.pid


def test_a_stopped_daemon_leaves_the_timers_of_others_in_their_order(world: World) -> None:
    order, stopped_order = list[str](), list[str]()
    machine = world.machine("a")

    async def scenario() -> None:
        launched(machine, order, *(each * 7 % 13 + 1 for each in range(13)))
        pid = launched(machine, stopped_order, *(each * 5 % 13 + 1 for each in range(13)))
        await world.clock.sleep(0.5)
        machine.processes.signal(pid, signal.SIGSTOP)
        machine.processes.signal(pid, signal.SIGSTOP)
        await world.clock.sleep(6)
        assert stopped_order == []
        machine.processes.signal(pid, signal.SIGCONT)
        machine.processes.signal(pid, signal.SIGCONT)
        await world.clock.sleep(20)

    world.run(scenario())
    assert order == [f"{each} at {each}" for each in range(1, 14)]
    assert stopped_order == [f"{each} at {max(each, 6.5):g}" for each in range(1, 14)]


def test_a_timer_that_is_due_when_its_daemon_continues_runs_once(world: World) -> None:
    calls = list[float]()
    machine = world.machine("a")

    async def daemon() -> None:
        world.loop.call_at(5, lambda: calls.append(world.loop.time()))
        await asyncio.Event().wait()

    async def scenario() -> None:
        pid = machine.launch(["daemon"], daemon()).boot.pid
        await world.clock.sleep(1)
        machine.processes.signal(pid, signal.SIGSTOP)
        world.loop.call_at(5, machine.processes.signal, pid, signal.SIGCONT)
        await world.clock.sleep(20)

    world.run(scenario())
    assert calls == [5]


def test_a_timer_that_is_cancelled_while_its_daemon_is_stopped_does_not_run(world: World) -> None:
    calls = list[str]()
    machine = world.machine("a")
    timers = list[asyncio.TimerHandle]()

    async def daemon() -> None:
        timers.extend(world.loop.call_later(seconds, calls.append, str(seconds)) for seconds in (1, 2, 10, 11))
        await asyncio.Event().wait()

    async def scenario() -> None:
        pid = machine.launch(["daemon"], daemon()).boot.pid
        await world.clock.sleep(0.5)
        machine.processes.signal(pid, signal.SIGSTOP)
        await world.clock.sleep(5)
        timers[0].cancel()
        timers[2].cancel()
        assert world.loop.cancelled_timers == 0
        machine.processes.signal(pid, signal.SIGCONT)
        await world.clock.sleep(20)

    world.run(scenario())
    assert calls == ["2", "11"]


def test_what_others_ask_of_a_stopped_daemon_happens_when_it_continues(world: World) -> None:
    calls = list[tuple[str, float]]()
    machine = world.machine("a")
    contexts = list[contextvars.Context]()

    def note(name: str) -> None:
        calls.append((name, world.clock.monotonic()))

    async def daemon() -> None:
        contexts.append(contextvars.copy_context())
        await asyncio.Event().wait()

    async def scenario() -> None:
        pid = machine.launch(["daemon"], daemon()).boot.pid
        await world.clock.sleep(1)
        machine.processes.signal(pid, signal.SIGSTOP)
        world.loop.call_later(9, note, "long", context=contexts[0])
        world.loop.call_later(2, note, "timer", context=contexts[0])
        world.loop.call_later(1, note, "earlier timer", context=contexts[0])
        world.loop.call_soon(note, "soon", context=contexts[0])
        world.loop.call_soon(note, "of another")
        await world.clock.sleep(4)
        machine.processes.signal(pid, signal.SIGCONT)
        await world.clock.sleep(10)

    world.run(scenario())
    expected = [("of another", 1), ("soon", 5), ("earlier timer", 5), ("timer", 5), ("long", 10)]
    assert calls == expected


def test_a_daemon_that_is_stopped_while_it_is_ready_to_run_does_nothing_more(world: World) -> None:
    """The round that is being run counted its callbacks before."""
    calls = list[str]()
    machine = world.machine("a")
    contexts = list[contextvars.Context]()

    async def daemon() -> None:
        contexts.append(contextvars.copy_context())
        await asyncio.Event().wait()

    async def scenario() -> None:
        pid = machine.launch(["daemon"], daemon()).boot.pid
        await world.clock.sleep(1)
        world.loop.call_soon(machine.processes.signal, pid, signal.SIGSTOP)
        for name in ("first", "second"):
            world.loop.call_soon(calls.append, f"{name} of the daemon", context=contexts[0])
            world.loop.call_soon(calls.append, f"{name} of another")
        await world.clock.sleep(1)
        assert calls == ["first of another", "second of another"]
        machine.processes.signal(pid, signal.SIGCONT)
        await world.clock.sleep(0)
        await world.clock.sleep(0)

    world.run(scenario())
    assert calls[2:] == ["first of the daemon", "second of the daemon"]


def test_a_daemon_that_has_ended_cannot_be_stopped(world: World) -> None:
    machine = world.machine("a")

    async def scenario() -> None:
        daemon = machine.launch(["daemon"], machine.clock.sleep(1))
        await world.clock.sleep(2)
        world.loop.pause(daemon.boot)
        assert daemon.boot.resume is None
        assert not machine.processes.alive(daemon.boot.pid)

    world.run(scenario())
