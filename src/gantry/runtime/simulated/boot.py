"""A boot: the life of a simulated machine or of a daemon on it, from its start to its end, with the tasks in it.

A task that a machine's task creates also belongs to the machine, by a context variable. A daemon that is a process of
its own has its own boot below the machine's, and ends with it at the latest. When a boot ends, by a signal, a kill or a
loss of power, its tasks are cancelled and may not use the runtime any more: a write or send in a ``finally`` block
raises CancelledError. A boot has its locks, ports and sockets only while ``ended`` is false. So a daemon ends as
abruptly as by SIGKILL, whatever its code does.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")

FIRST_PID = 1
"""The process id of code that runs on a machine outside all daemons."""

_current: contextvars.ContextVar["Boot | None"] = contextvars.ContextVar("boot", default=None)


def current() -> "Boot | None":
    """Return the boot of the running code; None for the test, which is outside all machines."""
    return _current.get()


def of(context: contextvars.Context) -> "Boot | None":
    """Return the boot of the code that runs in a context, which may be the running code."""
    return context.get(_current)


def check() -> None:
    """Raise CancelledError if the caller's machine or process has ended; every runtime method calls this first."""
    boot = _current.get()
    if boot is not None and boot.ended:
        raise asyncio.CancelledError("the simulated machine has ended")


class Boot:
    """The tasks of a machine from its start to its end, or those of one of its processes.

    ``host`` is the machine's name, ``pid`` the process id.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, *, pid: int = FIRST_PID) -> None:
        self._loop = loop
        self.host = host
        # Dictionaries, not sets, because they keep their order: a seed must always give the same run.
        self._tasks: dict[asyncio.Task[object], None] = {}
        self._processes: dict[int, Boot] = {}
        self.pid = pid
        self.ended = False
        # Set while the tasks are stopped (``clock.VirtualLoop.pause``): lets them continue.
        self.resume: Callable[[], None] | None = None

    def process(self, pid: int) -> "Boot":
        """Return the boot of a new process, which ends with this one at the latest."""
        process = self._processes[pid] = Boot(self._loop, self.host, pid=pid)
        return process

    def spawn(self, coroutine: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Run ``coroutine`` as a task of this boot."""
        context = contextvars.copy_context()
        context.run(_current.set, self)
        return self._loop.create_task(coroutine, context=context)

    def adopt(self, task: asyncio.Task[object]) -> None:
        """Let ``task`` end with the boot."""
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def end(self) -> None:
        """Cancel all tasks, including those of the processes, and deny them the runtime."""
        self.ended = True
        for process in self._processes.values():
            process.end()
        self._processes.clear()
        for task in list(self._tasks):
            task.cancel()
        if self.resume is not None:
            # Stopped tasks could not end.
            self.resume()
