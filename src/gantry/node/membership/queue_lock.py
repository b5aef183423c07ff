"""The lock of the queue's folder: its holder, a master daemon or this node's daemon, is the only writer of the state.

Calls of the node daemon hold it together, each for a short time; the last of them releases it.
"""

import contextlib
from collections.abc import Iterator

from gantry import errors
from gantry.runtime import file_interface, interface, paths


class QueueLock:
    """The node daemon's side of the lock."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths) -> None:
        self._disk = runtime.disk
        self._runtime = runtime
        self._folder = folders.queue
        self._lock: file_interface.FileLock | None = None
        self._users = 0

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock; WrongStateError while a master daemon holds it. The queue's folder must exist."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """Begin to hold the lock, as ``hold``; ``leave`` ends it."""
        if self._lock is None:
            try:
                self._lock = self._disk.lock(f"{self._folder}/lock")
            except BlockingIOError:
                raise errors.WrongStateError(
                    f"a master daemon runs on {self._runtime.host} and has locked its state: "
                    "the node cannot store a replica",
                    hint="stop gantry-masterd there if it is no longer the master",
                ) from None
        self._users += 1

    def leave(self) -> None:
        """End one use of the lock."""
        self._users -= 1
        if self._users == 0 and self._lock is not None:
            self._lock.release()
            self._lock = None
