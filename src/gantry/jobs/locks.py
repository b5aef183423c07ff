"""The lock manager: the table of locks for coroutines.

``jobs.processor`` requests a unit's whole set, and releases it when the opcode has ended; ``jobs.queue`` cancels the
request of a canceled job. Locks exist in memory only and end with the master (contracts/cluster-design.md#locks).
"""

import asyncio
import contextlib
from collections.abc import Iterable

from gantry import errors
from gantry.jobs import lock_modes, lock_table
from gantry.model import lock
from gantry.runtime import measures

WAITS = measures.Measure(
    "gantry_lock_wait_duration_seconds",
    measures.Kind.DURATION,
    (),
    "Waits of opcodes for locks that were in use, until they got them, or their job or the object of a lock ended.",
)


class LockManager:
    """The lock table for coroutines."""

    def __init__(self, pass_limit: int = lock_table.PASS_LIMIT, *, counts: measures.Measures | None = None) -> None:
        self._table = lock_table.LockTable(pass_limit)
        self._counts = counts or measures.Measures()
        self._futures: dict[lock_table.Request, asyncio.Future[None]] = {}

    def ask(self, owner: int, lockset: lock.LockSet, *, priority: int = 0) -> lock_table.Request:
        """Request without waiting; the caller must ``release``, granted or not. Raises LockError for a wrong order."""
        return self._table.request(owner, lockset, priority=priority)

    async def granted(self, request: lock_table.Request, *, timeout: float | None = None) -> None:
        """Return when a request is granted.

        Raises LockError if one of its locks was removed or the request was canceled meanwhile, TimeoutError after
        ``timeout`` seconds; then, and when the caller is canceled, the request is released.
        """
        if request.state is lock_table.State.WAITING:
            future = self._futures[request] = asyncio.get_running_loop().create_future()
            try:
                # Thousands of jobs may wait here: only requests with a timeout pay for one.
                async with contextlib.nullcontext() if timeout is None else asyncio.timeout(timeout):
                    with self._counts.timed(WAITS):
                        await future
            except (TimeoutError, asyncio.CancelledError):
                self.release(request)
                raise
            finally:
                del self._futures[request]
        if request.state is lock_table.State.FAILED:
            raise errors.LockError("a lock was removed while the job waited for it", hint="its object was removed")
        if request.state is lock_table.State.RELEASED:
            raise errors.LockError("the request for locks was canceled")

    async def acquire(
        self, owner: int, lockset: lock.LockSet, *, priority: int = 0, timeout: float | None = None
    ) -> lock_table.Request:
        """Request and wait; errors as of ``ask`` and ``granted``."""
        request = self.ask(owner, lockset, priority=priority)
        await self.granted(request, timeout=timeout)
        return request

    def try_acquire(self, owner: int, lockset: lock.LockSet, *, priority: int = 0) -> lock_table.Request | None:
        """Return the locks if all are free now, otherwise None."""
        request = self.ask(owner, lockset, priority=priority)
        if request.state is lock_table.State.GRANTED:
            return request
        self.release(request)
        return None

    def release(self, request: lock_table.Request) -> None:
        """Release locks, or cancel a waiting request; a second call does nothing."""
        ended = self._table.release(request)
        self._notify([request, *ended])

    def remove(self, request: lock_table.Request, key: lock_modes.Key) -> None:
        """Drop the lock of a removed object; requests that wait for it get LockError.

        See contracts/cluster-design.md#locks.
        """
        self._notify(self._table.remove(request, key))

    def add(self, request: lock_table.Request, key: lock_modes.Key) -> None:
        """Give a job the exclusive lock of an object that it creates; LockError if its locks do not allow that."""
        self._table.add(request, key)

    def change_priority(self, owner: int, priority: int) -> None:
        """Change the priority of an owner's waiting requests."""
        self._table.change_priority(owner, priority)

    def owners_and_waiters(self) -> list[lock_table.Usage]:
        """Describe the locks in use (contracts/jobs.md#locks-as-clients-see-them)."""
        return self._table.usage()

    def is_holder(self, owner: int) -> bool:
        """Return whether a job holds a lock."""
        return self._table.is_holder(owner)

    def _notify(self, requests: Iterable[lock_table.Request]) -> None:
        for request in requests:
            future = self._futures.get(request)
            if future is not None and not future.done():
                future.set_result(None)
