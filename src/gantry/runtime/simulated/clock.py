"""Virtual time: an event loop whose clock jumps to the next timer when nothing is ready to run.

``asyncio.sleep``, ``asyncio.timeout`` and ``call_later`` all use it, so an hour passes at once, and two runs from one
seed take the same steps. If nothing is ready and no timer is set, nothing can ever happen again: DeadlockError. So it
is after ``LONGEST_RUN_SECONDS`` of one run: daemons that renew a lease wake up for ever.
This loop has no threads and no sockets.

A machine's clock may run at another speed (``Clock.set_speed``): then all timers that its tasks set do so too, because
the loop's time is that of the machine whose task asks. A stopped process (``VirtualLoop.pause``) runs no task; what
should have run meanwhile runs when it goes on, in the order in which it became due.
"""

import asyncio
import contextvars
import functools
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any

from gantry.runtime.simulated import boot

EPOCH = 1_800_000_000.0
"""The time at which every simulated world begins: 2027-01-15 08:00 UTC."""


LONGEST_RUN_SECONDS = 14 * 3600.0
"""Virtual time after which a run counts as one that never ends; its tests wait for hours at most."""


class DeadlockError(RuntimeError):
    """All tasks are waiting, and no timer or message can wake any of them."""


class _Task(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets of tasks, asyncio's own too, have the same order in all runs."""

    def __init__(self, number: int, *arguments: Any, **options: Any) -> None:
        self._number = number
        super().__init__(*arguments, **options)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


def _make_task(
    numbers: Iterator[int],
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    *,
    context: contextvars.Context | None = None,
) -> asyncio.Task[Any]:
    task = _Task(next(numbers), coroutine, loop=loop, context=context)
    owner = boot.current() if context is None else context.run(boot.current)
    if owner is not None:
        owner.adopt(task)
    return task


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop that never waits. The loop is its own selector: time passes in ``select``.

    ``between`` is called before time passes, when nothing is ready to run; it must not schedule anything.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self.between: Callable[[], None] | None = None
        # The clocks of the machines whose speed was changed.
        self.clocks: dict[str, Clock] = {}
        self._held: dict[boot.Boot, list[asyncio.Handle]] = {}
        self.deadline = LONGEST_RUN_SECONDS
        self._time = 0.0
        self._selector = self
        self.set_task_factory(functools.partial(_make_task, itertools.count()))

    def time(self) -> float:
        """Return the virtual seconds since the world began, by the clock of the machine whose task asks."""
        clock = self._machine_clock()
        return self._time if clock is None else clock.monotonic()

    @property
    def true_time(self) -> float:
        """Return the virtual seconds since the world began."""
        return self._time

    def _machine_clock(self) -> "Clock | None":
        running = boot.current() if self.clocks else None
        return None if running is None else self.clocks.get(running.host)

    def call_at(  # type: ignore[override]  # typeshed has type variables for the arguments
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call ``callback`` when the clock of the machine whose task asks shows ``when``."""
        clock = self._machine_clock()
        timer = super().call_at(when if clock is None else clock.true_time(when), callback, *args, context=context)
        if self._held and (owner := _owner(timer)) in self._held:
            self._scheduled.remove(timer)
            heapq.heapify(self._scheduled)
            self._hold(owner, timer)
        return timer

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Call ``callback`` soon; if it belongs to a stopped process, when the process goes on."""
        handle = super().call_soon(callback, *args, context=context)
        if self._held and (owner := _owner(handle)) in self._held:
            self._ready.pop()
            self._held[owner].append(handle)
        return handle

    def pause(self, process: boot.Boot) -> None:
        """Stop the tasks of a process, as SIGSTOP does; ``process.resume`` lets them go on."""
        if process.ended or process in self._held:
            return
        self._held[process] = [handle for handle in self._ready if _owner(handle) is process]
        # The loop counts the ready handles before it runs them, so there must not be fewer.
        nothing = asyncio.Handle(lambda: None, (), self)
        nothing.cancel()
        self._ready = deque(nothing if _owner(handle) is process else handle for handle in self._ready)
        timers = [timer for timer in self._scheduled if _owner(timer) is process and not timer.cancelled()]
        # A cancelled timer stays: the loop counts how many of those it has.
        self._scheduled = [timer for timer in self._scheduled if _owner(timer) is not process or timer.cancelled()]
        heapq.heapify(self._scheduled)
        for timer in sorted(timers):
            self._hold(process, timer)
        process.resume = functools.partial(self._resume, process)

    def resume_all(self) -> None:
        """Let all stopped processes go on."""
        for process in list(self._held):
            self._resume(process)

    def _hold(self, process: boot.Boot, timer: asyncio.TimerHandle) -> None:
        timer._scheduled = False  # type: ignore[attr-defined]
        self._held[process].append(timer)

    def _resume(self, process: boot.Boot) -> None:
        process.resume = None
        handles = [handle for handle in self._held.pop(process) if not handle.cancelled()]
        timers = [handle for handle in handles if isinstance(handle, asyncio.TimerHandle)]
        self._ready.extend(handle for handle in handles if not isinstance(handle, asyncio.TimerHandle))
        self._ready.extend(sorted(timer for timer in timers if timer.when() <= self._time))
        for timer in timers:
            if timer.when() > self._time:
                timer._scheduled = True  # type: ignore[attr-defined]
                heapq.heappush(self._scheduled, timer)

    def advance_to(self, time: float) -> None:
        """Set the start of a world to a later time, before anything runs in it."""
        self._time = time

    def select(self, timeout: float | None) -> list[object]:
        """Advance the time to the next timer."""
        if timeout is None or self._time > self.deadline:
            waiting = ", ".join(sorted(task.get_name() for task in asyncio.all_tasks(self)))
            raise DeadlockError(f"deadlock: no task can run any more; these tasks are waiting: {waiting}")
        if timeout > 0 and self.between is not None:
            self.between()
        self._time += max(timeout, 0.0)
        return []

    def _process_events(self, events: list[object]) -> None:
        """Do nothing: there are no sockets (a hook of BaseEventLoop)."""

    def _write_to_self(self) -> None:
        """Do nothing: no other thread could wake this loop (a hook of BaseEventLoop)."""


def _owner(handle: asyncio.Handle) -> boot.Boot | None:
    context: contextvars.Context = handle._context  # type: ignore[attr-defined]
    return boot.of(context)


class Clock:
    """The clock of a machine, or the world's own, which is always right.

    ``offset`` is the number of seconds by which the calendar is ahead of the world's. A test may change it at any time,
    as an administrator or a time service does to a machine; ``monotonic``, timers and timeouts are not affected. They
    are by ``set_speed``, and the calendar is not.
    """

    def __init__(self, loop: VirtualLoop, host: str = "") -> None:
        self.offset = 0.0
        self.speed = 1.0
        self._loop = loop
        self._host = host
        # Since the true time ``_since`` the clock runs with ``speed``; its reading was ``_reading`` then.
        self._since = self._reading = 0.0

    def set_speed(self, speed: float) -> None:
        """Let the clock run ``speed`` times as fast from now on; timers that are set already keep their moment."""
        self._reading, self._since, self.speed = self.monotonic(), self._loop.true_time, speed
        self._loop.clocks[self._host] = self

    def now(self) -> float:
        """Return seconds since the epoch, by this machine's calendar."""
        return EPOCH + self._loop.true_time + self.offset

    def monotonic(self) -> float:
        """Return seconds since the world began, by this clock."""
        return self._reading + (self._loop.true_time - self._since) * self.speed

    def true_time(self, reading: float) -> float:
        """Return the true time at which this clock shows ``reading``, if its speed stays."""
        return self._since + (reading - self._reading) / self.speed

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds`` of virtual time."""
        boot.check()
        await asyncio.sleep(seconds)
