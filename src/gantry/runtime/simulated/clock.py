"""Virtual time: an event loop whose clock jumps to the next timer when nothing is ready to run.

``asyncio.sleep``, ``asyncio.timeout`` and ``call_later`` all use it, so an hour passes at once, and two runs from one
seed take the same steps. If nothing is ready and no timer is set, nothing can ever happen again: DeadlockError. So it
is after ``LONGEST_RUN_SECONDS`` of one run: daemons that renew a lease wake up for ever.
This loop has no threads and no sockets. A scenario has some ten thousand callbacks, so the work that
asyncio does for each of them is most of the loop's cost: those methods are written out here, without debug mode, and
with asyncio's order of callbacks.

A machine's clock may run at another speed (``Clock.set_speed``): then all timers that its tasks set do so too, because
the loop's time is that of the machine whose task asks. A stopped process (``VirtualLoop.pause``) runs no task; what
should have run meanwhile runs when it continues, in the order in which it became due.
"""

import asyncio
import contextvars
import functools
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from gantry.runtime.simulated import boot

EPOCH = 1_800_000_000.0
"""The time at which every simulated world begins: 2027-01-15 08:00 UTC."""


LONGEST_RUN_SECONDS = 14 * 3600.0
"""Virtual time after which a run counts as one that never ends; its tests wait for hours at most."""


MIN_TIMERS, MAX_CANCELLED_SHARE = 100, 0.5
"""From this number of timers on, all cancelled ones are removed when they exceed this share, as asyncio does."""


class DeadlockError(RuntimeError):
    """All tasks are waiting, and no timer or message can wake any of them."""


class _Task(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets of tasks, asyncio's own too, have the same order in all runs."""

    number: int

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


def _nothing() -> None:
    """Do nothing: what a cancelled callback is left with."""


class _Callback(asyncio.Handle):
    """A callback that is ready to run. Its fields are asyncio's; its constructor does not ask for debug mode."""

    __slots__ = ()
    _context: contextvars.Context
    _callback: Callable[..., object]
    _args: tuple[Any, ...]

    def __init__(
        self,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = arguments
        self._cancelled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        """Cancel the callback, and forget what it would use."""
        self._cancelled = True
        self._callback, self._args = _nothing, ()


class _Timer(_Callback, asyncio.TimerHandle):
    """A callback that is due at ``when()``; ``waits`` is true while it is among the loop's timers."""

    __slots__ = ("waits",)
    _loop: "VirtualLoop"

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        loop: "VirtualLoop",
        context: contextvars.Context | None,
    ) -> None:
        super().__init__(callback, arguments, loop, context)
        self._when = when
        self.waits = True

    # Timers of one moment are equal in the order, but never the same.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def cancel(self) -> None:
        """Cancel the callback, and forget what it would use."""
        if not self._cancelled:
            super().cancel()
            if self.waits:
                self._loop.cancelled_timers += 1


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop that never waits: when nothing is ready to run, time passes to the next timer.

    ``between`` is called before time passes; it must not schedule anything. ``cancelled_timers`` is the number of
    cancelled timers that have not been removed yet.
    """

    # Fields of BaseEventLoop.
    _stopping: bool
    _clock_resolution: float
    _closed: bool

    def __init__(self) -> None:
        super().__init__()
        self.between: Callable[[], None] | None = None
        # The clocks of the machines whose speed was changed.
        self.clocks: dict[str, Clock] = {}
        self.cancelled_timers = 0
        self._held: dict[boot.Boot, list[_Callback]] = {}
        self.deadline = LONGEST_RUN_SECONDS
        self._time = 0.0
        self._ready: deque[_Callback] = deque()
        # A heap.
        self._scheduled: list[tuple[float, _Timer]] = []
        self._task_numbers = itertools.count()

    def time(self) -> float:
        """Return the virtual seconds since the world began, by the clock of the machine whose task asks."""
        if not self.clocks:
            return self._time
        clock = self._machine_clock()
        return self._time if clock is None else clock.monotonic()

    @property
    def true_time(self) -> float:
        """Return the virtual seconds since the world began."""
        return self._time

    def _machine_clock(self) -> "Clock | None":
        running = boot.current()
        return None if running is None else self.clocks.get(running.host)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        """Run a coroutine as a task of the machine whose task asks, or of that in the ``context``."""
        # asyncio puts the task into a set while it initializes it.
        task = _Task.__new__(_Task)
        task.number = next(self._task_numbers)
        task.__init__(coro, loop=self, name=name, context=context)  # type: ignore[misc]
        owner = boot.current() if context is None else boot.of(context)
        if owner is not None:
            owner.adopt(task)
        return task

    def call_later(  # type: ignore[override]  # typeshed has type variables for the arguments
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call ``callback`` after ``delay`` seconds of the clock of the machine whose task asks."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call ``callback`` when the clock of the machine whose task asks shows ``when``."""
        if self.clocks and (clock := self._machine_clock()) is not None:
            when = clock.true_time(when)
        timer = _Timer(when, callback, args, self, context)
        if self._held and (owner := boot.of(timer._context)) in self._held:
            self._hold(owner, timer)
        else:
            heapq.heappush(self._scheduled, (when, timer))
        return timer

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Call ``callback`` soon; if it belongs to a stopped process, when the process continues."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = _Callback(callback, args, self, context)
        if self._held and (owner := boot.of(handle._context)) in self._held:
            self._held[owner].append(handle)
        else:
            self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        """Run all callbacks until the loop is stopped (a hook of BaseEventLoop)."""
        ready, timers = self._ready, self._scheduled
        while True:
            if timers and (timers[0][1]._cancelled or len(timers) > MIN_TIMERS):
                self._forget_cancelled()
            if not ready and not self._stopping:
                self._pass_time()
            elif self._time > self.deadline:
                raise self._deadlock()
            end = self._time + self._clock_resolution
            while timers and timers[0][0] < end:
                timer = heapq.heappop(timers)[1]
                timer.waits = False
                ready.append(timer)
            # What these callbacks add waits for the next round.
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    self._call(handle)
            if self._stopping:
                return

    def _call(self, handle: _Callback) -> None:
        try:
            handle._context.run(handle._callback, *handle._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio does: the loop continues
            self.call_exception_handler(
                {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
            )

    def _forget_cancelled(self) -> None:
        """Remove the cancelled timers that are next, or all if they are many."""
        timers = self._scheduled
        if len(timers) > MIN_TIMERS and self.cancelled_timers / len(timers) > MAX_CANCELLED_SHARE:
            for _, timer in timers:
                timer.waits = not timer._cancelled
            timers[:] = [entry for entry in timers if entry[1].waits]
            heapq.heapify(timers)
            self.cancelled_timers = 0
            return
        while timers and timers[0][1]._cancelled:
            heapq.heappop(timers)[1].waits = False
            self.cancelled_timers -= 1

    def _pass_time(self) -> None:
        """Advance the time to the next timer."""
        if not self._scheduled or self._time > self.deadline:
            raise self._deadlock()
        seconds = self._scheduled[0][0] - self._time
        if seconds > 0:
            if self.between is not None:
                self.between()
            self._time += seconds

    def _deadlock(self) -> DeadlockError:
        waiting = ", ".join(sorted(task.get_name() for task in asyncio.all_tasks(self)))
        return DeadlockError(f"deadlock: no task can run any more; these tasks are waiting: {waiting}")

    def pause(self, process: boot.Boot) -> None:
        """Stop the tasks of a process, as SIGSTOP does; ``process.resume`` lets them continue."""
        if process.ended or process in self._held:
            return
        ready = list(self._ready)
        self._held[process] = [handle for handle in ready if boot.of(handle._context) is process]
        # The loop counts the ready handles before it runs them, so there must not be fewer.
        nothing = _Callback(_nothing, (), self, None)
        nothing.cancel()
        self._ready.clear()
        self._ready.extend(nothing if boot.of(handle._context) is process else handle for handle in ready)
        # A cancelled timer stays: the loop counts how many of those it has.
        stay, stop = list[tuple[float, _Timer]](), list[_Timer]()
        for entry in self._scheduled:
            timer = entry[1]
            if boot.of(timer._context) is process and not timer._cancelled:
                stop.append(timer)
            else:
                stay.append(entry)
        self._scheduled[:] = stay
        heapq.heapify(self._scheduled)
        for timer in stop:
            self._hold(process, timer)
        process.resume = functools.partial(self._resume, process)

    def resume_all(self) -> None:
        """Let all stopped processes continue."""
        for process in list(self._held):
            self._resume(process)

    def _hold(self, process: boot.Boot, timer: _Timer) -> None:
        timer.waits = False
        self._held[process].append(timer)

    def _resume(self, process: boot.Boot) -> None:
        process.resume = None
        handles = [handle for handle in self._held.pop(process) if not handle._cancelled]
        timers = [handle for handle in handles if isinstance(handle, _Timer)]
        self._ready.extend(handle for handle in handles if not isinstance(handle, _Timer))
        self._ready.extend(sorted(timer for timer in timers if timer.when() <= self._time))
        for timer in timers:
            if timer.when() > self._time:
                timer.waits = True
                heapq.heappush(self._scheduled, (timer.when(), timer))

    def advance_to(self, time: float) -> None:
        """Set the start of a world to a later time, before anything runs in it."""
        self._time = time

    def _write_to_self(self) -> None:
        """Do nothing: no other thread could wake this loop (a hook of BaseEventLoop)."""


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
