"""Ended jobs leave the queue for the archive: by request, by age, or because newer ones took their place.

A job is deleted from the state when its end is stored; the store then moves its file to the archive.
"""

import asyncio
import collections
import logging
from collections.abc import Sequence

from gantry import errors
from gantry.jobs import records, uninterrupted
from gantry.model import job as model
from gantry.runtime import interface
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

log = logging.getLogger(__name__)

RECENT = 1000
"""The number of ended jobs that a client waited for (``Queue.run``) which stay in the queue, for ``gnt-job list``."""

_BATCH = 100


class Archiving:
    """Moves the ended jobs of a book to the archive."""

    def __init__(self, book: records.Records, clock: interface.Clock) -> None:
        self._book = book
        self._clock = clock
        self._waited_for: collections.deque[records.Record] = collections.deque()
        self._tidying: asyncio.Task[None] | None = None

    def tasks(self) -> list[asyncio.Task[None]]:
        """Return what works in the background."""
        return [self._tidying] if self._tidying else []

    def keep(self, record: records.Record) -> None:
        """Keep a job that a client waited for among the last ``RECENT``; older ones are archived in the background."""
        self._waited_for.append(record)
        if len(self._waited_for) >= RECENT + _BATCH and self._tidying is None:
            self._tidying = asyncio.create_task(self._tidy())

    async def _tidy(self) -> None:
        """Archive the oldest of the jobs that clients waited for."""
        try:
            while len(self._waited_for) >= RECENT + _BATCH:
                oldest = [self._waited_for.popleft() for _ in range(_BATCH)]
                await self._move([record for record in oldest if record.durable.status in model.FINAL])
        except errors.GantryError as error:
            log.warning("ended jobs could not be archived: %s", error)
        finally:
            self._tidying = None

    async def archive(self, record: records.Record) -> bool:
        """Archive a job; return False if it has not ended, or its end is not stored yet."""
        if record.durable.status not in model.FINAL:
            return False
        return bool(await uninterrupted.finish(self._move([record])))

    async def archive_old(self, age: float, timeout: float) -> tuple[int, int]:
        """Archive the jobs that ended more than ``age`` seconds ago (-1: all ended jobs), for ``timeout`` seconds.

        Returns the number of archived jobs, and the number of jobs that could not be archived in time.
        """
        before = self._clock.now() - age
        until = self._clock.monotonic() + timeout
        old = [record for record in self._book.finished() if age == -1 or _ended(record.durable) < before]
        archived = 0
        while old and self._clock.monotonic() < until:
            batch, old = old[:_BATCH], old[_BATCH:]
            archived += await uninterrupted.finish(self._move(batch))
        return archived, len(old)

    async def _move(self, batch: Sequence[records.Record]) -> int:
        # The store moves a job's file when the job is deleted, so the job's end must be stored before. Another
        # call may be archiving some of these jobs now.
        stored = self._book.store.snapshot.jobs
        mine = [record for record in batch if stored.get(str(record.current.id)) == record.current]
        if mine:
            deletes = [states.Delete("jobs", str(record.current.id)) for record in mine]
            await self._book.store.submit(deletes, transaction.Cause(job=0, opcode="", user="", reason="archive"))
        for record in mine:
            self._book.drop(record)
        return len(mine)


def _ended(job: model.Job) -> float:
    seconds, micros = job.end_timestamp or job.received_timestamp or (0, 0)
    return seconds + micros / 1e6
