"""The store: the one place where the cluster's state changes, and becomes durable.

A daemon opens it (lock, recovery), plans on ``snapshot``, and commits:

1. ``submit`` applies the changes to the current snapshot, checked as a whole, and adds their record to the group that
   gathers. It does not wait, so a plan made in the same turn of the loop cannot be overtaken.
2. One writer writes the group as a frame: written and synced here, then sent to the master candidates. Records that
   arrive during that gather in the next group: any number of transactions shares one sync.
3. When the frame is durable here and on enough candidates (``candidates.replication``), all its tickets are answered,
   in order.
   While too few candidates answer, only a change of the candidates or of the policy is written and sent after it.

Plans see a change at once, before it is durable and acknowledged: ``snapshot``. What goes to nodes comes from the
acknowledged state alone: ``durable``, ``follow``. If a frame cannot be written, the snapshot returns
to the last durable one, all tickets fail, and observers are called: the state in memory and on disk are the same again.
When the journal has grown, its content becomes a checkpoint, concurrently with commits (``checkpointer``); a crash
leaves either the old checkpoint with the whole journal after it, or the new checkpoint.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence

from gantry import errors
from gantry.lib_files import frame, journal_end
from gantry.model import job, retention
from gantry.runtime import file_interface, interface, measures, paths
from gantry.state.candidates import candidate, copies, replication
from gantry.state.files import archive, jobfiles, ownership
from gantry.state.journal import end_mark, extension, growth, journal, record
from gantry.state.objects import access_rules, membership
from gantry.state.objects import snapshot as states
from gantry.state.start import hand_edit, recovery
from gantry.state.store import checkpointer, group

logger = logging.getLogger(__name__)

Cause = record.Cause
Limits = growth.Limits

WRITES = measures.Measure(
    "gantry_journal_write_duration_seconds",
    measures.Kind.DURATION,
    (),
    "Writes of a frame of changes to the journal of this machine, until it is on stable storage. Without master "
    "candidates, this includes its line in journal-end.",
)
RECORDS = measures.Measure("gantry_journal_records", measures.Kind.COUNTER, (), "Changes in these frames.")
COPYING = measures.Measure(
    "gantry_journal_copy_duration_seconds",
    measures.Kind.DURATION,
    (),
    "From the end of such a write until enough master candidates have the frame, so that its changes are acknowledged.",
)

Observer = Callable[[states.Snapshot, states.Snapshot, Sequence[states.Change]], None]
"""Called with before, after and the changes, which are empty when changes were undone: then read everything again."""

Follower = Callable[[record.Record, states.Snapshot], None]
"""Called with each record that has been acknowledged, in order, and the state before it."""


class Store:
    """The stored state; created by ``open``, ended by ``close``.

    ``archive`` has the archived jobs, ``leaving`` those of them whose files are not in the archive yet;
    ``checkpointer`` knows the last checkpoint.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        where: paths.Paths,
        *,
        recovered: recovery.Recovered,
        log: journal.Journal,
        lock: file_interface.FileLock,
        candidates: replication.Candidates,
        limits: Limits | None,
        counts: measures.Measures,
    ) -> None:
        self._runtime = runtime
        self._counts = counts
        self._where = where
        self._journal = log
        self._lock = lock
        self._newest = self._durable = recovered.state
        self._position = recovered.replay.end
        self._epoch = self._position.epoch
        # In the order of their records: frames that are sent, the frame that is being written, the next one.
        self._writing, self._appending, self._gathering = group.Group(), group.Group(), group.Group()
        self._observers: list[Observer] = []
        self._followers: list[Follower] = []
        self._closed = False
        # Whether the journal ends with a frame that is not acknowledged, and perhaps never will be by this daemon.
        self._unsettled = recovered.is_unconfirmed
        self._evidence = recovered.evidence
        # Set when the journal has everything that other files tell of: before, nothing may change them.
        self._complete = asyncio.Event()
        self._end_mark = end_mark.EndMark(runtime.disk, where.journal_end)
        self._work = asyncio.Event()
        self._files = jobfiles.JobFiles(runtime, where.queue, durable=lambda: self._durable, filed=recovered.filed)
        self._files.mark(recovered.due)
        self.leaving: Mapping[int, job.Job] = self._files.leaving
        self.archive = archive.Archive(runtime.disk, where.queue, self.leaving)
        self._candidates = candidates
        self.checkpointer = checkpointer.Checkpointer(
            runtime,
            where,
            log=log,
            files=self._files,
            archived=self.archive,
            candidates=candidates,
            recovered=recovered,
            limits=limits,
            wake=self._work.set,
        )
        candidates.start(self._position, self._copy, journal=where.journal)
        self._writer = asyncio.create_task(self._write_groups(), name="journal writer")
        self._behind = asyncio.create_task(self._write_job_files(), name="job files")
        if not (recovered.is_behind or recovered.is_unconfirmed):
            self._complete.set()

    @classmethod
    async def open(
        cls,
        runtime: interface.Runtime,
        where: paths.Paths,
        *,
        candidates: replication.Candidates | None = None,
        limits: Limits | None = None,
        behind: recovery.Behind = recovery.Behind.REFUSED,
        counts: measures.Measures | None = None,
    ) -> "Store":
        """Take the queue's lock and recover the state.

        Raises WrongStateError if another daemon has the lock, ConfigurationError for a missing or damaged state, and
        for a journal that has lost its end (``start.evidence``), StorageError when the disk fails. With another
        ``behind`` such a journal is opened, to ``adopt`` frames or to ``accept_loss``; before, nothing can be
        committed. Without ``limits``, those of ``journal.growth.limits_for`` count. ``counts`` gets what is measured.
        """
        with contextlib.ExitStack() as undo, ownership.disk_faults(where):
            await jobfiles.prepare(runtime.disk, where.queue)
            lock = await ownership.take(runtime, where)
            undo.callback(lock.release)
            recovered = await recovery.recover(runtime, where, behind=behind)
            log = await journal.Journal.open(
                runtime.disk, where.journal, replay=recovered.replay, is_behind=recovered.is_behind
            )
            undo.callback(log.close)
            if recovered.edited:
                await hand_edit.note(log, recovered, now=runtime.clock.now())
            undo.pop_all()
        store = cls(
            runtime,
            where,
            recovered=recovered,
            log=log,
            lock=lock,
            candidates=candidates or replication.Candidates(runtime, candidate.NoCaller()),
            limits=limits,
            counts=counts or measures.Measures(),
        )
        if recovered.edited:
            await store._begin_checkpoint()
        return store

    def check_evidence(self) -> None:
        """Raise ConfigurationError if other files tell of records that the journal lacks."""
        if not self._complete.is_set():
            self._evidence.check(self._durable, self._position)

    def losses(self, *, is_known: bool = False) -> list[str]:
        """Return what shows that the journal lacks records; WrongStateError if nothing does, unless a loss is known."""
        check = self._evidence.losses if is_known else self._evidence.checked_losses
        return check(self._durable, self._position)

    async def accept_loss(self, losses: Sequence[str], *, last_job: int, epoch: int) -> None:
        """Continue without the records that ``losses`` tell of; for a store opened with ``Behind.ACCEPTED``.

        The next job number is above all that were given, also above ``last_job``, and the epoch above all that ran,
        also above ``epoch``, so that neither is used twice.
        """
        known_job = max(self._durable.last_job, self._evidence.highest_job, last_job)
        last_job = known_job + self._evidence.unknown_jobs
        # The record does not have the number: after a crash before the next checkpoint, only this file does.
        await self._runtime.disk.write(f"{self._where.queue}/serial", b"%d\n" % last_job)
        self._newest = self._durable = dataclasses.replace(self._durable, last_job=last_job)
        self._epoch = max(self._epoch, self._evidence.highest_epoch, epoch) + 1
        self._complete.set()
        await self.commit((), Cause(reason=f"{record.ACCEPTED_LOSS}: {'; '.join(losses)}"))

    @property
    def snapshot(self) -> states.Snapshot:
        """Return the current state; its last changes may not be durable yet."""
        return self._newest

    @property
    def durable(self) -> states.Snapshot:
        """Return the acknowledged state: durable here and on enough candidates."""
        return self._durable

    @property
    def durable_serial(self) -> int:
        """Return the serial of the last durable record."""
        return self._durable.serial

    @property
    def may_be_superseded(self) -> bool:
        """Return whether another master may have a state without durable changes of this one, or with more."""
        return self._candidates.may_be_superseded

    @property
    def position(self) -> journal.Position:
        """Return the end of the journal."""
        return self._position

    @property
    def epoch(self) -> int:
        """Return the epoch of this master, which its records carry."""
        return self._epoch

    def observe(self, observer: Observer) -> None:
        """Call ``observer`` after every change of ``snapshot``, in the same turn of the loop."""
        self._observers.append(observer)

    def follow(self, follower: Follower) -> None:
        """Call ``follower`` with every record as soon as it is acknowledged; ``durable`` has it already."""
        self._followers.append(follower)

    def submit(self, changes: Sequence[states.Change], cause: Cause) -> group.Ticket:
        """Apply changes now; await the ticket until they are durable. The access rules about deleted objects end too.

        Raises PrerequisiteError when an invariant forbids them: nothing was changed. WrongStateError when the store is
        closed, or another node has become the master.
        """
        self._check_open()
        before = self._newest
        changes = [*changes, *access_rules.ended(before, changes)]
        after = before.apply(changes, serial=before.serial + 1)
        now = self._runtime.clock.now()
        journal_record = record.Record(
            serial=after.serial, time=now, epoch=self._epoch, cause=cause, changes=tuple(changes)
        )
        ticket = self._gathering.add(journal_record, before, after)
        self._work.set()
        self._move(after, changes)
        return ticket

    async def commit(self, changes: Sequence[states.Change], cause: Cause) -> states.Snapshot:
        """Apply changes and return the state after them when they are durable; raises the errors of ``submit``.

        Also raises StorageError if they were undone, ExecutionError if a newer master may or may not have them.
        """
        return await self.submit(changes, cause)

    async def acknowledged(self, state: states.Snapshot) -> None:
        """Return when a state that was ``snapshot`` is acknowledged; raises the errors of its last change's ticket.

        Raises ExecutionError if that change was undone before.
        """
        if state.serial <= self._durable.serial:
            return
        tickets = [group_.ticket_of(state) for group_ in self._unanswered]
        for ticket in filter(None, tickets):
            await asyncio.shield(ticket)
            return
        raise errors.ExecutionError(
            "a change on which this operation is based could not be stored, and was undone",
            hint="repeat the operation",
        )

    def claim(self, epoch: int) -> None:
        """Send the candidates the epoch that nodes granted; its first record comes with ``begin_epoch``."""
        self._candidates.granted_epoch = epoch

    async def begin_epoch(self, changes: Sequence[states.Change] = (), *, above: int = 0, who: str = "") -> int:
        """Write the record of a newly confirmed master, with an epoch higher than ours and than ``above``.

        A candidate that has it refuses an older master. Call this before any other commit.
        """
        self._check_open()
        self._epoch = max(self._epoch, above) + 1
        await self.commit(changes, Cause(reason=f"{who or self._runtime.host} confirmed as master"))
        return self._epoch

    async def adopt(self, line: bytes) -> None:
        """Append a frame that a master candidate has and this node lacks; call this before any commit.

        Raises ConfigurationError if it does not follow the journal, StorageError if it cannot be written.
        """
        extended = extension.extend(self._durable, self._position, line)
        try:
            await self._journal.append(line)
        except OSError as error:
            raise errors.StorageError(f"{self._journal.path} could not be written: {error.strerror or error}") from None
        self._durable, self._position, self._epoch = extended.state, extended.end, extended.end.epoch
        self._unsettled = True
        self.checkpointer.count(extended.records, len(line))
        self._files.mark(extended.due)
        self._candidates.start(self._position, self._copy, journal=self._where.journal)
        self._move(self._durable, ())

    @property
    def retention(self) -> tuple[retention.Retention, retention.Retention]:
        """Return what is kept of the journal and of the archive, by the durable settings."""
        the_cluster = self._durable.the_cluster
        return retention.parse(the_cluster.journal_retention), retention.parse(the_cluster.archive_retention)

    def checkpoint_if_due(self) -> None:
        """Begin a checkpoint if one is due by the age of the records; nothing else would, on an idle cluster."""
        self._work.set()

    @property
    def lowest_job(self) -> int:
        """Return the lowest number of a job that is not in the archive yet."""
        numbers = (*map(int, self._newest.jobs), *map(int, self._durable.jobs), *self.leaving)
        return min(numbers, default=self._durable.last_job + 1)

    async def close(self) -> None:
        """Store the submitted changes, write a checkpoint, release the lock; later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        self._work.set()
        self._candidates.stop_waiting()
        try:
            await self._writer
            await self._candidates.settle()
            settled = self._candidates.refusal is None and not self._unsettled
            if self.checkpointer.growth.records and settled and self._complete.is_set():
                await self._begin_checkpoint()
            await self.checkpointer.finish()
        finally:
            self._behind.cancel()
            await asyncio.gather(self._behind, return_exceptions=True)
            await self._candidates.close()
            self._files.close()
            self._journal.close()
            self._end_mark.close()
            self._lock.release()

    def _check_open(self) -> None:
        if self._closed:
            raise errors.WrongStateError("the state is closed: the daemon is stopping")
        if self._candidates.refusal is not None:
            raise self._candidates.refusal
        self.check_evidence()
        self._complete.set()

    async def _write_job_files(self) -> None:
        await self._complete.wait()
        await self._files.run()

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
        ours, end, size = self._writing, self._position, 0
        try:
            is_acknowledged = False
            while not is_acknowledged:
                sent = await self._send(end)
                if sent is None:
                    return
                end, length = sent
                size += length
                with self._counts.timed(COPYING):
                    is_acknowledged = await self._confirm(end_mark.at(end, ours.last.last_job))
        except (errors.WrongStateError, errors.NotMasterError) as error:
            # The frame is in the journal here: it is valid again if this node is confirmed again.
            self._unsettled = True
            message = f"it is not known yet whether the change is valid: {error.message}"
            self._take_back(errors.ExecutionError, message, hint=error.hint)
            return
        self._durable, self._position, self._unsettled = ours.last, end, False
        self.checkpointer.count(len(ours.records), size)
        self._files.mark(ours.due)
        self.checkpointer.growth.members_changed |= any(
            membership.changes(before, each.changes) for each, before in ours.news
        )
        for follower in self._followers:
            for journal_record, before in ours.news:
                follower(journal_record, before)
        ours.succeed()
        self._writing = group.Group()

    async def _confirm(self, mark: journal_end.Mark) -> bool:
        """Do what ``Candidates.acknowledged`` does for a frame that was sent, and write the mark of its end."""
        if self._end_mark.has(mark):
            return await self._candidates.acknowledged()
        is_acknowledged, _ = await asyncio.gather(self._candidates.acknowledged(), self._end_mark.write(mark))
        return is_acknowledged

    async def _send(self, end: journal.Position) -> tuple[journal.Position, int] | None:
        """Write what has gathered as the frame after ``end`` and send it; None if nothing is left to send.

        Return its end and its length; without candidates its end mark has been written too, if possible. If a frame
        after another one cannot be written, only that one is undone, and ``end`` and 0 are returned.
        """
        ours = self._writing
        more, self._appending, self._gathering = self._gathering, self._gathering, group.Group()
        line = frame.pack(end.digest, more.records)
        position = journal.Position(more.last.serial, frame.digest(line), more.epoch)
        mark = end_mark.at(position, more.last.last_job)
        # With candidates, a mark after the frame would only delay what is sent to them.
        follow_up = None if self._candidates.targets() else self._end_mark.follow_up(mark)
        try:
            with self._counts.timed(WRITES):
                is_written = await self._journal.append(line, follow_up)
        except OSError as error:
            message = f"{self._journal.path} could not be written: {error.strerror or error}; the change was undone"
            logger.error("%s", message)
            hint = f"free space on the file system of {self._where.journal}, then repeat the operation"
            if not self._journal.is_in_place():
                # What is in memory is all that the section had, so a checkpoint makes up for it.
                self.checkpointer.growth.section_lost = True
                hint = "repeat the operation: the whole state is being written to config.data; its history has a gap"
            if not ours.records:
                self._take_back(errors.StorageError, message, hint=hint)
                return None
            for failed in (more, self._gathering):
                failed.fail(errors.StorageError, message, hint=hint)
            self._appending, self._gathering = group.Group(), group.Group()
            self._move(ours.last, ())
            return end, 0
        self._counts.count(RECORDS, amount=len(more.records))
        ours.extend(more)
        self._appending = group.Group()
        # Not earlier: a change that is undone here must not stay on a candidate, which may become the master.
        self._candidates.publish(line, position, begins_section=self._journal.written == len(line))
        if follow_up is not None:
            self._end_mark.followed(mark, is_written=is_written)
        return position, len(line)

    def _take_back(self, kind: type[errors.GantryError], message: str, *, hint: str) -> None:
        """Return to the durable state: later changes may depend on the failed one."""
        self._epoch = self._position.epoch
        self._fail_all(kind, message, hint=hint)
        self._move(self._durable, ())

    def _fail_all(self, kind: type[errors.GantryError], message: str, *, hint: str) -> None:
        for failed in self._unanswered:
            failed.fail(kind, message, hint=hint)
        self._writing, self._appending, self._gathering = group.Group(), group.Group(), group.Group()

    @property
    def _unanswered(self) -> tuple[group.Group, ...]:
        return self._writing, self._appending, self._gathering

    def _is_checkpoint_due(self) -> bool:
        keep = self.retention[0]
        is_valid = self._candidates.refusal is None and not self._unsettled
        return is_valid and self.checkpointer.is_due(self._durable, keep)

    async def _begin_checkpoint(self) -> None:
        await self.checkpointer.begin(self._durable, self._position)

    async def _copy(self) -> copies.Copy:
        return await self.checkpointer.copy(self._durable, self._position)
