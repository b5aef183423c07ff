"""The store: the one place where the cluster's state changes, and where a change becomes safe.

A daemon opens it (lock, recovery), plans on ``snapshot``, and commits:

1. ``submit`` applies the changes to the newest snapshot, checked as a whole, and puts their record into the group that
   is being formed. It does not wait, so a plan made in the same turn of the loop cannot be overtaken.
2. One writer takes the group as a frame: written and synced here, then sent to the master candidates. Records that
   come during that gather in the next group: any number of transactions shares one sync.
3. When the frame is safe here and on a majority, all its tickets are answered, in order.

Readers see a change at once, before it is safe; nobody is told that it is done. When a frame cannot be written, the
snapshot goes back to the last one that is safe, all tickets fail, and observers hear of it: the state in memory and on
disk are the same again. When the journal has grown, its content becomes a checkpoint, beside the commits; any crash
leaves either the old checkpoint with the whole journal behind it, or the new one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import job
from gantry.runtime import interface, paths
from gantry.state import (
    archive,
    checkpoint,
    copies,
    extension,
    frame,
    group,
    jobfiles,
    journal,
    ownership,
    record,
    recovery,
    replication,
)
from gantry.state import snapshot as states

logger = logging.getLogger(__name__)

Cause = record.Cause

Observer = Callable[[states.Snapshot, states.Snapshot, Sequence[states.Change]], None]
"""Called with before, after and the changes; there are none when the state went back: look at everything anew."""


Follower = Callable[[record.Record, states.Snapshot], None]
"""Called with each record that has become safe, in order, and the state before it."""


@dataclass(frozen=True)
class Limits:
    """How far the journal may run ahead of the checkpoint, in records and bytes: recovery reads 50,000 a second."""

    records: int = 20_000
    size: int = 64 << 20


class Store:
    """All that survives; made by ``open``, ended by ``close``.

    ``archive`` has the jobs that were archived, ``leaving`` those of them whose files are not there yet.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        where: paths.Paths,
        *,
        found: recovery.Recovered,
        log: journal.Journal,
        lock: interface.FileLock,
        candidates: replication.Candidates,
        limits: Limits,
    ) -> None:
        self._runtime = runtime
        self._where = where
        self._journal = log
        self._lock = lock
        self._limits = limits
        self._newest = self._durable = found.state
        self._position = found.replay.end
        self._epoch = self._position.epoch
        self._gathering = group.Group()
        self._writing = group.Group()
        self._observers: list[Observer] = []
        self._followers: list[Follower] = []
        self._closed = False
        self._work = asyncio.Event()
        self._records_since = found.replayed
        self._bytes_since = found.replay.size
        self._checkpoint: asyncio.Task[None] | None = None
        self._files = jobfiles.JobFiles(runtime, where.queue, durable=lambda: self._durable, filed=found.filed)
        self._files.mark(found.due)
        self.leaving: Mapping[int, job.Job] = self._files.leaving
        self.archive = archive.Archive(runtime.disk, where.queue, self.leaving)
        self._candidates = candidates
        candidates.start(self._position, self._copy)
        self._writer = asyncio.create_task(self._write_groups(), name="journal writer")
        self._behind = asyncio.create_task(self._files.run(), name="job files")

    @classmethod
    async def open(
        cls,
        runtime: interface.Runtime,
        where: paths.Paths,
        *,
        candidates: replication.Candidates | None = None,
        limits: Limits | None = None,
    ) -> "Store":
        """Take the queue's lock and recover the state.

        Raises WrongStateError when another daemon has it, ConfigurationError when there is no state or it is damaged,
        StorageError when the disk fails.
        """
        with contextlib.ExitStack() as undo, ownership.disk_faults(where):
            await jobfiles.prepare(runtime.disk, where.queue)
            lock = await ownership.take(runtime, where)
            undo.callback(lock.release)
            found = await recovery.recover(runtime, where)
            log = await journal.Journal.open(runtime.disk, where.journal, replay=found.replay)
            undo.callback(log.close)
            if found.edited:
                await _note_edit(log, found, now=runtime.clock.now())
            undo.pop_all()
        store = cls(
            runtime,
            where,
            found=found,
            log=log,
            lock=lock,
            candidates=candidates or replication.Candidates(runtime, replication.Nobody()),
            limits=limits or Limits(),
        )
        if found.edited:
            await store._begin_checkpoint()
        return store

    @property
    def snapshot(self) -> states.Snapshot:
        """Return the newest state; its last changes may not be safe yet."""
        return self._newest

    @property
    def durable(self) -> states.Snapshot:
        """Return the newest state that is safe."""
        return self._durable

    @property
    def durable_serial(self) -> int:
        """Return the serial up to which everything is safe."""
        return self._durable.serial

    @property
    def deposed(self) -> bool:
        """Tell whether a node has refused this master: what was taken back here may hold for another one."""
        return self._candidates.refusal is not None

    @property
    def position(self) -> journal.Position:
        """Return where the journal ends."""
        return self._position

    @property
    def epoch(self) -> int:
        """Return which confirmation of a master the records carry."""
        return self._epoch

    def observe(self, observer: Observer) -> None:
        """Call ``observer`` after every change of ``snapshot``, in the same turn of the loop."""
        self._observers.append(observer)

    def follow(self, follower: Follower) -> None:
        """Call ``follower`` with every record as soon as it is safe."""
        self._followers.append(follower)

    def submit(self, changes: Sequence[states.Change], cause: Cause) -> group.Ticket:
        """Apply changes now; await the ticket for their safety.

        Raises PrerequisiteError when an invariant forbids them: nothing was changed. WrongStateError when the store is
        closed, or another node has become the master.
        """
        self._check_open()
        before = self._newest
        after = before.apply(changes, serial=before.serial + 1)
        now = self._runtime.clock.now()
        one = record.Record(serial=after.serial, time=now, epoch=self._epoch, cause=cause, changes=tuple(changes))
        ticket = self._gathering.add(one, before, after)
        self._work.set()
        self._move(after, changes)
        return ticket

    async def commit(self, changes: Sequence[states.Change], cause: Cause) -> states.Snapshot:
        """Apply changes and return the state after them when they are safe; raises as ``submit``, and more.

        StorageError says that they were taken back, ExecutionError that a newer master may or may not have them.
        """
        return await self.submit(changes, cause)

    def claim(self, epoch: int) -> None:
        """Let the candidates know the epoch that nodes promised; its first record comes with ``begin_epoch``."""
        self._candidates.promised = epoch

    async def begin_epoch(self, changes: Sequence[states.Change] = (), *, above: int = 0, who: str = "") -> int:
        """Write the record of a newly confirmed master, with an epoch higher than ours and than ``above``.

        A candidate that has it refuses an older master. To be called before anything else is committed.
        """
        self._check_open()
        self._epoch = max(self._epoch, above) + 1
        await self.commit(changes, Cause(reason=f"{who or self._runtime.host} confirmed as master"))
        return self._epoch

    async def adopt(self, line: bytes) -> None:
        """Take in a frame that a master candidate has and we have not; to be called before anything is committed.

        Raises ConfigurationError when it does not follow what is here, StorageError when it cannot be written.
        """
        found = extension.extend(self._durable, self._position, line)
        try:
            await self._journal.append(line)
        except OSError as error:
            raise errors.StorageError(f"{self._journal.path} could not be written: {error.strerror or error}") from None
        self._durable, self._position, self._epoch = found.state, found.end, found.end.epoch
        self._records_since += found.records
        self._bytes_since += len(line)
        self._files.mark(found.due)
        self._candidates.start(self._position, self._copy)
        self._move(self._durable, ())

    async def close(self) -> None:
        """Store what was submitted, write a checkpoint, give the lock back; later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        self._work.set()
        try:
            await self._writer
            await self._candidates.settle()
            if self._records_since and self._candidates.refusal is None:
                await self._begin_checkpoint()
            if self._checkpoint is not None:
                await self._checkpoint
        finally:
            self._behind.cancel()
            await asyncio.gather(self._behind, return_exceptions=True)
            await self._candidates.close()
            self._files.close()
            self._journal.close()
            self._lock.release()

    def _check_open(self) -> None:
        if self._closed:
            raise errors.WrongStateError("the state is closed: the daemon is stopping")
        if self._candidates.refusal is not None:
            raise self._candidates.refusal

    def _move(self, after: states.Snapshot, changes: Sequence[states.Change]) -> None:
        before, self._newest = self._newest, after
        for observer in self._observers:
            observer(before, after, changes)

    async def _write_groups(self) -> None:
        try:
            while not self._closed or self._gathering.records:
                await self._work.wait()
                self._work.clear()
                if self._gathering.records:
                    await self._write()
                if self._is_checkpoint_due():
                    await self._begin_checkpoint()
        finally:
            self._closed = True
            self._fail_all(errors.StorageError, "the state was closed before the change was stored", hint="")

    async def _write(self) -> None:
        ours = self._writing = self._gathering
        self._gathering = group.Group()
        line = frame.pack(self._position.digest, ours.records)
        position = journal.Position(ours.last.serial, frame.digest(line), ours.epoch)
        try:
            await self._journal.append(line)
        except OSError as error:
            message = f"{self._journal.path} could not be written: {error.strerror or error}; the change was taken back"
            logger.error("%s", message)
            hint = f"make room on the file system of {self._where.journal}, then repeat the operation"
            self._take_back(errors.StorageError, message, hint=hint)
            return
        # Not before: what is taken back here must not be kept by somebody else, who may be asked for it one day.
        self._candidates.publish(line, position)
        try:
            await self._candidates.acknowledged()
        except errors.WrongStateError as error:
            # The frame is in the journal here: it counts again if this machine is confirmed again.
            message = f"nobody knows yet whether the change will hold: {error.message}"
            self._take_back(errors.ExecutionError, message, hint=error.hint)
            return
        self._durable, self._position = ours.last, position
        self._records_since += len(ours.records)
        self._bytes_since += len(line)
        self._files.mark(ours.due)
        for follower in self._followers:
            for one, before in ours.news:
                follower(one, before)
        ours.succeed()
        self._writing = group.Group()

    def _take_back(self, kind: type[errors.GantryError], message: str, *, hint: str) -> None:
        """Go back to what is safe: later changes may build on the one that failed."""
        self._epoch = self._position.epoch
        self._fail_all(kind, message, hint=hint)
        self._move(self._durable, ())

    def _fail_all(self, kind: type[errors.GantryError], message: str, *, hint: str) -> None:
        for failed in (self._writing, self._gathering):
            failed.fail(kind, message, hint=hint)
        self._writing, self._gathering = group.Group(), group.Group()

    def _is_checkpoint_due(self) -> bool:
        running = self._checkpoint is not None and not self._checkpoint.done()
        return not running and (self._records_since >= self._limits.records or self._bytes_since >= self._limits.size)

    async def _begin_checkpoint(self) -> None:
        """Start a segment where the journal stands, and the checkpoint of that moment beside it."""
        state, position = self._durable, self._position
        self._records_since = self._bytes_since = 0
        try:
            await self._journal.rotate(position.serial + 1)
        except OSError as error:
            logger.error("no checkpoint was written, the journal holds everything: %s", error)
        else:
            self._checkpoint = asyncio.create_task(self._write_checkpoint(state, position), name="checkpoint")

    async def _write_checkpoint(self, state: states.Snapshot, position: journal.Position) -> None:
        try:
            await self._files.flush()
            await self._files.sync()
            await self._runtime.disk.write(self._where.config, await self._encode(state, position))
        except OSError as error:
            logger.error("no checkpoint was written, the journal holds everything: %s", error)

    async def _encode(self, state: states.Snapshot, position: journal.Position) -> bytes:
        now = self._runtime.clock.now()
        return await self._runtime.compute(lambda: checkpoint.encode(state, position, now=now))

    async def _copy(self) -> copies.Copy:
        state, position = self._durable, self._position
        return copies.Copy(state, position, (await self._encode(state, position)).decode(), self.archive)


async def create(runtime: interface.Runtime, where: paths.Paths, changes: Sequence[states.Change]) -> None:
    """Write the first state of a new cluster, its first record and its first checkpoint; nothing is left open.

    Raises ExistsError when there is a cluster already, and as ``Store.open``.
    """
    disk = runtime.disk
    now = runtime.clock.now()
    state = states.Snapshot().apply(changes, serial=1)
    cause = Cause(opcode="OP_CLUSTER_INIT", reason="cluster created")
    first = record.Record(serial=1, time=now, epoch=0, cause=cause, changes=tuple(changes))
    line = frame.pack(frame.GENESIS, [record.encode(first)])
    with contextlib.ExitStack() as undo, ownership.disk_faults(where):
        await jobfiles.prepare(disk, where.queue)
        undo.callback((await ownership.take(runtime, where)).release)
        if disk.exists(where.config):
            raise errors.ExistsError(f"there is a cluster already: {where.config}")
        await disk.remove_tree(where.journal)
        log = await journal.Journal.open(
            disk, where.journal, replay=journal.Replay(disk, where.journal, journal.Position())
        )
        undo.callback(log.close)
        await log.append(line)
        position = journal.Position(1, frame.digest(line), 0)
        await disk.write(where.config, checkpoint.encode(state, position, now=now))


async def _note_edit(log: journal.Journal, found: recovery.Recovered, *, now: float) -> None:
    """Put what somebody wrote into ``config.data`` by hand into the journal, as one record.

    So history and events know of it, and candidates, whose copies end before it and do not get it as a frame, get the
    whole state.
    """
    before, end = found.state, found.replay.end
    objects = [
        before.the_cluster,
        *(one for kind in checkpoint.COLLECTIONS for one in before.collection(kind).values()),
    ]
    changes = tuple(states.Put(one) for one in objects)
    cause = Cause(reason="config.data was edited by hand")
    one = record.Record(serial=before.serial + 1, time=now, epoch=end.epoch, cause=cause, changes=changes)
    line = frame.pack(end.digest, [record.encode(one)])
    await log.append(line)
    logger.warning("%s; it is record %d of the journal", cause.reason, one.serial)
    found.state = before.apply((), serial=one.serial)
    found.replay.end = journal.Position(one.serial, frame.digest(line), end.epoch)
    found.replayed += 1
