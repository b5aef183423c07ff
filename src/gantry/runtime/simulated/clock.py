"""Virtual time: an event loop whose clock jumps to the next timer when nothing is ready to run.

``asyncio.sleep``, ``asyncio.timeout`` and ``call_later`` all use it, so an hour passes at once, and two runs from one
seed take the same steps. If nothing is ready and no timer is set, nothing can ever happen again: DeadlockError. So it
is after ``LONGEST_RUN_SECONDS`` of one run: daemons that renew a lease wake up for ever.
This loop has no threads and no sockets.
"""

import asyncio
import contextvars
import functools
import itertools
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

    def __init__(self) -> None:
        super().__init__()
        self.between: Callable[[], None] | None = None
        self.deadline = LONGEST_RUN_SECONDS
        self._time = 0.0
        self._selector = self
        self.set_task_factory(functools.partial(_make_task, itertools.count()))

    def time(self) -> float:
        """Return the virtual seconds since the world began."""
        return self._time

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


class Clock:
    """The clock of a machine, or the world's own, which is always right.

    ``offset`` is the number of seconds by which the calendar is ahead of the world's. A test may change it at any time,
    as an administrator or a time service does to a machine; ``monotonic``, timers and timeouts are not affected.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.offset = 0.0
        self._loop = loop

    def now(self) -> float:
        """Return seconds since the epoch, by this machine's calendar."""
        return EPOCH + self._loop.time() + self.offset

    def monotonic(self) -> float:
        """Return seconds since the world began."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds`` of virtual time."""
        boot.check()
        await asyncio.sleep(seconds)
