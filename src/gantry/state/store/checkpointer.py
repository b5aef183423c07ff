"""The checkpointer: how far the journal has grown, and the checkpoint that is written beside the commits.

``transaction.Store`` owns it. It counts each frame (``journal.growth``), asks after each group whether a checkpoint is
due, and passes the durable state to ``begin``. At most one checkpoint is written at a time. First a new section begins
at the end of the journal; then a task writes the jobs' files and ``config.data``. A failure is logged and changes
nothing: the journal holds everything that the file would.
"""

import asyncio
import logging
from collections.abc import Callable

from gantry.model import retention
from gantry.runtime import interface, paths
from gantry.state.candidates import candidate, copies, replication
from gantry.state.files import archive, checkpoint, jobfiles
from gantry.state.journal import growth, journal
from gantry.state.objects import snapshot
from gantry.state.start import recovery

logger = logging.getLogger(__name__)


class Checkpointer:
    """The checkpoints of an open store.

    ``last`` is the last record that the stored checkpoint includes; ``stored`` reports that there is a newer one.
    ``wake`` is called when another checkpoint is due at the end of one.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        where: paths.Paths,
        *,
        log: journal.Journal,
        files: jobfiles.JobFiles,
        archived: archive.Archive,
        candidates: replication.Candidates,
        recovered: recovery.Recovered,
        limits: growth.Limits | None,
        wake: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._where = where
        self._journal = log
        self._files = files
        self._archived = archived
        self._candidates = candidates
        self._limits = limits
        self._wake = wake
        self._task: asyncio.Task[None] | None = None
        self.growth = growth.Growth()
        if recovered.replayed:
            self.count(recovered.replayed, recovered.replay.size)
        self.last = recovered.replay.start
        self.stored = candidate.Signal()

    def count(self, records: int, size: int) -> None:
        """Count what a frame adds to the journal."""
        self.growth.add(records, size, now=self._runtime.clock.now())

    def is_due(self, state: snapshot.Snapshot, keep: retention.Retention) -> bool:
        """Return whether a checkpoint of the state is due, and none is being written."""
        if self._task is not None and not self._task.done():
            return False
        limits = self._limits or growth.limits_for(state.size)
        return self.growth.is_due(limits, keep, now=self._runtime.clock.now())

    async def begin(self, state: snapshot.Snapshot, position: journal.Position) -> None:
        """Start a section at the end of the journal, and write the checkpoint of that moment concurrently."""
        before, self.growth = self.growth, growth.Growth()
        try:
            await self._journal.rotate(position.serial + 1)
        except OSError as error:
            self._note_failure(error, before)
        else:
            self._task = asyncio.create_task(self._write(state, position, before), name="checkpoint")

    def _note_failure(self, error: OSError, before: growth.Growth) -> None:
        """Log a failure; if the journal lacks a section, the next change begins another checkpoint."""
        self.growth.section_lost |= before.section_lost
        content = "a section of the journal is missing" if before.section_lost else "the journal holds everything"
        logger.error("no checkpoint was written, %s: %s", content, error)

    async def finish(self) -> None:
        """Return when no checkpoint is being written."""
        if self._task is not None:
            await self._task

    async def copy(self, state: snapshot.Snapshot, position: journal.Position) -> copies.Copy:
        """Return the state in the form in which a master candidate receives it."""
        return copies.Copy(state, position, (await self._encode(state, position)).decode(), self._archived)

    async def _write(self, state: snapshot.Snapshot, position: journal.Position, before: growth.Growth) -> None:
        try:
            await self._files.flush()
            await self._files.sync()
            config = await self._encode(state, position)
            await self._runtime.disk.write(self._where.config, config)
        except OSError as error:
            self._note_failure(error, before)
        else:
            self.last = position
            self._candidates.refresh(copies.Copy(state, position, config.decode(), self._archived))
            self.stored.notify()
        if self.growth.members_changed:
            self._wake()

    async def _encode(self, state: snapshot.Snapshot, position: journal.Position) -> bytes:
        now = self._runtime.clock.now()
        return await self._runtime.compute(lambda: checkpoint.encode(state, position, now=now))
