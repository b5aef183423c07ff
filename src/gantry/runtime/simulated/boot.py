"""The life of a simulated machine from switching on to its end: which tasks are its own.

A task that a task of a machine creates is the machine's too (a context variable tells). When the boot ends, by a kill
or by a loss of power, its tasks are cancelled and every door is shut to them: what their ``finally`` blocks still try
to write or send raises CancelledError. So a daemon ends as abruptly as by SIGKILL, whatever it is written like.
"""

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")

_current: contextvars.ContextVar["Boot | None"] = contextvars.ContextVar("boot", default=None)


def current() -> "Boot | None":
    """Return the boot whose code runs; None for the test that looks at the world from outside."""
    return _current.get()


def check() -> None:
    """Raise CancelledError when the caller belongs to a machine that has ended; every door asks first."""
    boot = _current.get()
    if boot is not None and boot.ended:
        raise asyncio.CancelledError("the simulated machine has ended")


class Boot:
    """The tasks of one machine between two ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # a dictionary, not a set: it keeps the order, and one seed shall give one run
        self._tasks: dict[asyncio.Task[object], None] = {}
        self.ended = False

    def spawn(self, coroutine: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Run ``coroutine`` as a task of this machine."""
        context = contextvars.copy_context()
        context.run(_current.set, self)
        return self._loop.create_task(coroutine, context=context)

    def adopt(self, task: asyncio.Task[object]) -> None:
        """Count ``task`` among those that end with the machine."""
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def end(self) -> None:
        """Cancel all tasks and shut the doors to them."""
        self.ended = True
        for task in list(self._tasks):
            task.cancel()
