"""Pruning: removes what is beyond the retention of journal and archive, on the master and on its candidates.

A round runs after each checkpoint and every ``PERIOD_SECONDS``, so that it runs on an idle cluster too:

1. A checkpoint begins if one is due by the age of the records (``journal.growth``): only whole sections can be removed.
2. Sections beyond the retention are removed, the oldest first. Those that a start needs, after the checkpoint, stay;
   so do those that a candidate will be sent or may ask for because it lags (``journal.backlog``).
3. Archived jobs beyond the retention are removed in the order of their numbers, in batches.
4. Each candidate does the same with its own files (call ReplicaPrune): it may have an older past than the master.

A failure is logged once; the next round tries again. ``daemons.master`` starts it.
"""

import asyncio
import contextlib
import functools
import logging

from gantry import errors
from gantry.lib_files import journal_names, queue
from gantry.model import retention as settings
from gantry.rpc import calls, targets
from gantry.runtime import interface, paths, retention
from gantry.state.candidates import candidate, replication
from gantry.state.journal import backlog, history, journal
from gantry.state.store import transaction

log = logging.getLogger(__name__)

PERIOD_SECONDS = 60.0

BATCH = 10_000
"""Archived jobs that are removed at most before other work of the round, or of a candidate, gets its turn."""


class Pruning:
    """The pruning of a running store; ``caller`` calls the candidates."""

    def __init__(
        self,
        runtime: interface.Runtime,
        where: paths.Paths,
        *,
        store: transaction.Store,
        past: history.History,
        candidates: replication.Candidates,
        caller: candidate.Caller,
    ) -> None:
        self._disk = runtime.disk
        self._where = where
        self._store = store
        self._past = past
        self._candidates = candidates
        self._caller = caller
        self._archive = retention.ArchiveFolder(runtime, f"{where.queue}/archive", folder_size=queue.ARCHIVE_SIZE)
        self._failing: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        # A candidate that is slow or frozen delays neither the master's own files nor the other candidates.
        self._calls: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start the rounds."""
        self._task = asyncio.create_task(self._run(), name="pruning")

    async def close(self) -> None:
        """Stop the rounds."""
        tasks = [*([self._task] if self._task else []), *self._calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_SECONDS):
                    await self._store.checkpointer.stored.wait()
            await self.prune()

    async def prune(self) -> None:
        """Run one round."""
        self._store.checkpoint_if_due()
        keep_journal, keep_archive = map(_limits, self._store.retention)
        before = self._oldest_needed()
        try:
            await self._past.prune(keep_journal, before=min(before, self._store.checkpointer.last.serial + 1))
            while await self._archive.trim(keep_archive, most=BATCH, ends=self._store.lowest_job) >= BATCH:
                pass
            self._failing.discard("")
        except OSError as error:
            self._log_once("", f"old records or archived jobs cannot be removed: {error.strerror or error}")
        call = calls.ReplicaPrune(journal=keep_journal, archive=keep_archive, before=before, most=BATCH)
        for target in self._candidates.targets():
            if target.uuid not in self._calls:
                task = self._calls[target.uuid] = asyncio.create_task(self._prune_replica(target, call))
                task.add_done_callback(functools.partial(self._end_call, target.uuid))

    def _end_call(self, uuid: str, _: asyncio.Task[None]) -> None:
        del self._calls[uuid]

    async def _prune_replica(self, target: targets.Target, call: calls.ReplicaPrune) -> None:
        try:
            while await self._caller.call(target, call) >= call.most:
                pass
            self._failing.discard(target.uuid)
        except errors.GantryError as error:
            self._log_once(target.uuid, f"master candidate {target.name} keeps old records for now: {error}")

    def _log_once(self, key: str, message: str) -> None:
        if key not in self._failing:
            log.warning("%s", message)
        self._failing.add(key)

    def _oldest_needed(self) -> int:
        """Return the first serial of the oldest section that a candidate needs; one above the journal if none does.

        All sections are needed while the disk does not say which there are.
        """
        try:
            firsts = journal.sections(self._disk, self._where.journal)
            sizes = [self._disk.status(journal_names.path(self._where.journal, first)).size for first in firsts]
        except OSError:
            return 0
        return backlog.oldest_needed(firsts, sizes, self._candidates.positions(), end=self._store.position.serial)


def _limits(keep: settings.Retention) -> retention.Retention:
    return retention.Retention(keep.seconds, keep.size)
