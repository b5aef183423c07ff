"""How far a node's copy of the state ever reached: ``lib/journal-end``, beside the copy, so that a lost tail shows.

The file (``lib_files.journal_end``) is the master's too, since a master daemon opens the copy as it is. Its lines
follow each frame that the node acknowledges, a moment later: the master does not wait for them. A copy that ends before
the highest position has lost records which may have been acknowledged, by a disk that lied or by a person. Such a node
still takes frames, but it confirms no master that lacks these records (``replica.Replica``).
"""

import asyncio
import logging

from gantry import errors
from gantry.lib_files import journal_end
from gantry.node.membership import frames, open_file, queue_lock
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)


class JournalEnd:
    """The mark of one node; ``owner`` is the lock without which nobody writes the file."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, owner: queue_lock.QueueLock) -> None:
        self._disk = runtime.disk
        self._runtime = runtime
        self._path = folders.journal_end
        self._open = open_file.OpenFile(runtime.disk)
        self._owner = owner
        self._unwritten: frames.Position | None = None
        self._task: asyncio.Task[None] | None = None
        self._failing = False
        # Highest epoch and serial in the file, while size and time of the file are the same.
        self._known: tuple[tuple[int, float], tuple[int, int]] | None = None

    def furthest(self) -> tuple[int, int]:
        """Return the highest epoch and serial in the file, zeros without a file; StorageError if it has no valid line.

        A node that does not know how far its copy reached has no vote: its answer would hide lost records.
        """
        if not self._disk.exists(self._path):
            return 0, 0
        version = self._version()
        if self._known is None or self._known[0] != version:
            self._known = version, self._read()
        return self._known[1]

    def _version(self) -> tuple[int, float]:
        status = self._disk.status(self._path)
        return status.size, status.mtime

    def _read(self) -> tuple[int, int]:
        try:
            furthest = journal_end.decode(self._disk.read(self._path)).furthest
        except OSError as error:
            raise self._damaged(error.strerror or str(error)) from None
        if furthest is None:
            raise self._damaged("no line is valid")
        return furthest.epoch, furthest.serial

    def _damaged(self, reason: str) -> errors.StorageError:
        return errors.StorageError(
            f"{self._path} on {self._runtime.host} is damaged: {reason}",
            hint="the node has no vote until the file is removed: do that when the other candidates have all data",
        )

    def note(self, end: frames.Position) -> None:
        """Write where the copy ends, in a task; the caller holds the lock of the queue, and the task keeps it."""
        self._unwritten = end
        if self._task is None or self._task.done():
            self._owner.enter()
            self._task = asyncio.create_task(self._write_newest(), name="journal-end")

    async def settle(self) -> None:
        """Return when nothing is left to write."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _write_newest(self) -> None:
        try:
            while (end := self._unwritten) is not None:
                self._unwritten = None
                await self._try(end)
        finally:
            self._owner.leave()

    async def _try(self, end: frames.Position) -> None:
        """Write a line; a failure is logged, because the copy itself is durable."""
        try:
            await self._write(end)
            self._failing = False
        except (OSError, errors.StorageError) as error:
            if not self._failing:
                logger.error("%s cannot be written: %s; a copy that loses its end looks whole", self._path, error)
            self._failing = True

    async def _write(self, end: frames.Position) -> None:
        if (end.epoch, end.serial) <= self.furthest():
            return
        lines = journal_end.encode(journal_end.Mark(end.serial, end.epoch, end.digest, end.last_job))
        if self._failing or not self._disk.exists(self._path) or self._disk.status(self._path).size >= journal_end.SIZE:
            await self._disk.write(self._path, lines)
        else:
            try:
                await (await self._open.at(self._path)).append(lines)
            except BaseException:  # the next lines sync what these have left
                self._open.close()
                raise
        # Nobody else writes while this node holds the lock, so the file need not be read for each frame.
        self._known = self._version(), (end.epoch, end.serial)
