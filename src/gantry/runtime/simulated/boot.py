"""The life of a simulated machine from switching on to its end, and that of each daemon on it: which tasks are its own.

A task that a task of a machine creates is the machine's too (a context variable tells); a daemon that is a process of
its own has a boot of its own below the machine's, which ends with it. When a boot ends, by a signal, a kill or a loss
of power, its tasks are cancelled and every door is shut to them: what their ``finally`` blocks still try to write or
send raises CancelledError. Locks, ports and sockets are theirs only while ``ended`` is false. So a daemon ends as
abruptly as by SIGKILL, whatever it is written like.
"""

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")

FIRST_PID = 1
"""The process id of what runs on a machine without a process of its own."""

_current: contextvars.ContextVar["Boot | None"] = contextvars.ContextVar("boot", default=None)


def current() -> "Boot | None":
    """Return the boot whose code runs; None for the test that looks at the world from outside."""
    return _current.get()


def check() -> None:
    """Raise CancelledError when the caller belongs to a machine or process that has ended; every door asks first."""
    boot = _current.get()
    if boot is not None and boot.ended:
        raise asyncio.CancelledError("the simulated machine has ended")


class Boot:
    """The tasks of one machine between two ends, or those of one process of it.

    ``host`` is the machine's name, ``pid`` the process's number.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, *, pid: int = FIRST_PID) -> None:
        self._loop = loop
        self.host = host
        # dictionaries, not sets: they keep the order, and one seed shall give one run
        self._tasks: dict[asyncio.Task[object], None] = {}
        self._processes: dict[int, Boot] = {}
        self.pid = pid
        self.ended = False

    def process(self, pid: int) -> "Boot":
        """Return the boot of a new process, which ends with this one at the latest."""
        made = self._processes[pid] = Boot(self._loop, self.host, pid=pid)
        return made

    def spawn(self, coroutine: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Run ``coroutine`` as a task of this boot."""
        context = contextvars.copy_context()
        context.run(_current.set, self)
        return self._loop.create_task(coroutine, context=context)

    def adopt(self, task: asyncio.Task[object]) -> None:
        """Count ``task`` among those that end with the boot."""
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def end(self) -> None:
        """Cancel all tasks, those of the processes too, and shut the doors to them."""
        self.ended = True
        for process in self._processes.values():
            process.end()
        self._processes.clear()
        for task in list(self._tasks):
            task.cancel()
