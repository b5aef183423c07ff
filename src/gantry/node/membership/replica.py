"""A master candidate's replica of the state: the same files as the master's own, so that a master can open them.

    lib/config.data                     the last stored checkpoint
    lib/journal/<serial>.log            the frames since that checkpoint, and older ones, for history (``sections``)
    lib/queue/                          the queue's files (``queue_files``) at the time of the checkpoint
    lib/incoming/                       a checkpoint that has not arrived completely (``arrival``)
    lib/journal-end                     how far the replica ever reached (``journal_end``)

Files without ``config.data`` are not a replica. ``CheckpointStore`` leaves the replica as it is until the last part has
arrived; meanwhile frames are appended. ``JournalAppend`` answers when the frames are on stable storage. Frames that do
not follow from the checkpoint, one after another, do not count; they are truncated when a master appends, not before.

A reported position is on the disk. A frame whose sync failed, or that a killed daemon wrote without a sync, can be read
but is lost at a power failure. So a replica that has been read is rewritten and synced before its position is reported.

These files have a single writer, the process that holds ``queue/lock``. A master daemon on this node always holds it,
so this module cannot change the daemon's files; calls here run one after another. As a master daemon may have written
in the meantime, with a sync that failed, the cached position is valid only while size and time of the files are the
same.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable

import msgspec

from gantry import errors
from gantry.lib_files import queue
from gantry.lib_files import ssconf as ssconf_file
from gantry.node.membership import (
    arrival,
    divergence,
    fence,
    frames,
    journal_end,
    kept_copies,
    lease,
    open_file,
    queue_lock,
    reading,
    replica_contents,
    sections,
    ssconf,
)
from gantry.rpc import calls
from gantry.runtime import interface, paths, retention

logger = logging.getLogger(__name__)


class Replica:
    """The replica on a node."""

    def __init__(
        self,
        runtime: interface.Runtime,
        folders: paths.Paths,
        *,
        files: ssconf.Files,
        barrier: fence.Fence,
        sign: Callable[[int, str], calls.Grant | None] = lambda epoch, uuid: None,
    ) -> None:
        """``sign`` signs the grant of an epoch to the node with a UUID."""
        self._sign = sign
        self._lease = lease.Lease(runtime, folders)
        self._disk = runtime.disk
        self._clock = runtime.clock
        self._runtime = runtime
        self._folders = folders
        self._files = files
        self._barrier = barrier
        self._cached: replica_contents.Contents | None = None
        self._arrival = arrival.Arrival(runtime, folders)
        self._kept = kept_copies.KeptCopies(runtime.disk, folders)
        self._sections = sections.Sections(runtime.disk, folders.journal)
        self._open = open_file.OpenFile(runtime.disk)
        self._divergence = divergence.Divergence(runtime, folders, self._sections)
        self._reader = replica_contents.Reader(runtime.disk, folders, self._sections)
        self._archive = retention.ArchiveFolder(runtime, f"{folders.queue}/archive", folder_size=queue.ARCHIVE_SIZE)
        self._owner = queue_lock.QueueLock(runtime, folders)
        self._mark = journal_end.JournalEnd(runtime, folders, owner=self._owner)
        # Held for each change of the replica, briefly; ``_storing`` for as long as a part of a checkpoint is stored.
        self._lock = asyncio.Lock()
        self._storing = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Hold the queue's lock for a change of the replica; WrongStateError while a master daemon holds it."""
        async with self._lock, self._owned():
            yield

    @contextlib.asynccontextmanager
    async def _owned(self) -> AsyncIterator[None]:
        """Hold the queue's lock, together with other calls; WrongStateError while a master daemon holds it."""
        if not self._disk.exists(self._folders.queue):
            await self._disk.make_directory(self._folders.queue)
        with self._owner.hold():
            yield

    async def status(self) -> calls.CandidateState:
        """Return the replica's end; serial 0 if there is no replica."""
        async with self._locked():
            return self._state((await self._contents()).end)

    def _state(self, end: frames.Position) -> calls.CandidateState:
        return calls.CandidateState(
            serial=end.serial,
            digest=end.digest,
            epoch=end.epoch,
            job=end.last_job,
            master=self._files.read("master_node"),
            heard=self._barrier.proven().epoch,
            given_up=self._lost(end),
            acknowledged=self._barrier.acknowledged.furthest(),
            unproven=self._barrier.unproven_epoch(),
        )

    def _lost(self, end: frames.Position) -> tuple[int, int]:
        """Return how far another replica of this node reached, or this replica before it lost its end."""
        given_up, mark = self._barrier.given_up(), self._mark.furthest()
        return max(given_up, mark) if mark > (end.epoch, end.serial) else given_up

    async def append(self, call: calls.JournalAppend, caller: str = "") -> calls.CandidateState:
        """Append frames; see ``calls.JournalAppend``. StorageError if they cannot be written.

        ``caller`` is the UUID of the calling node, here and below; empty if it is not known.
        """
        async with contextlib.AsyncExitStack() as locks:
            if call.replaces:
                # The installation of a checkpoint writes files of jobs as the frames have them that are cut.
                await locks.enter_async_context(self._storing)
            await locks.enter_async_context(self._locked())
            contents = await self._contents()
            self._check_epoch(contents, call.epoch, caller)
            if not self._disk.exists(self._folders.config):
                return self._state(contents.end)
            cut = None
            if call.previous != contents.end.digest:
                cut = await self._divergence.find(contents, call)
                # Acknowledged records are not cut off: the whole state is sent, and the whole copy here is kept.
                if cut is None or self._has_acknowledged(cut.contents.end, contents.end):
                    return self._state(contents.end)
            start = cut.contents if cut else contents
            lines, end = call.frame.encode(), start.end
            try:
                for line in lines.splitlines(keepends=True):
                    end = frames.follow(end, line)
            except ValueError as error:
                raise errors.ProtocolError(f"a frame cannot be appended on {self._runtime.host}: {error}") from None
            if end.epoch > call.epoch:
                raise errors.ProtocolError(
                    f"a frame cannot be appended on {self._runtime.host}: it has epoch {end.epoch}, "
                    f"its call epoch {call.epoch}"
                )
            if cut:
                await self._cut(contents, cut)
            self._cached = await self._append(start, end, lines=lines, begins=call.begins_section)
            self._mark.note(end)
            return self._state(end)

    def _has_acknowledged(self, after: frames.Position, until: frames.Position) -> bool:
        known = self._barrier.acknowledged
        return known.is_any_between((after.epoch, after.serial), (until.epoch, until.serial))

    async def _cut(self, contents: replica_contents.Contents, cut: divergence.Cut) -> None:
        """Cut off frames that the master's journal does not have; StorageError if that fails."""
        kept = cut.contents.end
        self._cached = None
        self._open.close()
        try:
            sizes = {contents.section: contents.good}
            lines = self._sections.following(kept.digest, kept.serial, sizes)
            path = await self._kept.keep_frames(b"".join(lines), contents.end)
            logger.warning(
                "records %d to %d are not the master's: cut off, and kept in %s",
                kept.serial + 1,
                contents.end.serial,
                path,
            )
            await self._barrier.give_up(contents.end.epoch, contents.end.serial)
            await self._divergence.cut(cut)
        except OSError as error:
            raise errors.StorageError(f"the replica on {self._runtime.host} cannot be cut: {error.strerror}") from error

    def _check_epoch(self, contents: replica_contents.Contents, epoch: int, caller: str) -> None:
        """Refuse a former master, whose successor may be known only from a record, and the epoch of another master."""
        self._barrier.check_use(epoch, caller, at_least=max(contents.end.epoch, self._arrival.epoch))

    async def grant_epoch(self, call: calls.GrantEpoch, caller: str = "") -> calls.GrantReply:
        """Grant an epoch to a node whose replica has all of this one's records; see ``calls.GrantEpoch``."""
        async with self._locked():
            end = (await self._contents()).end
            request = calls.GrantedEpoch(epoch=call.epoch, node=call.node, uuid=caller)
            known = self._barrier.acknowledged.furthest()
            lacks_records = max((end.epoch, end.serial), self._lost(end), known) > call.newest
            if self._lease.seconds_to_wait(call.node, stopped=call.stopped):
                return calls.GrantReply(granted=False, epoch=self._barrier.granted().epoch, lease=self._lease.status())
            granted = not lacks_records and await self._barrier.grant(request)
            grant = self._sign(call.epoch, caller) if granted and caller else None
            return calls.GrantReply(granted=granted, epoch=self._barrier.granted().epoch, grant=grant)

    async def renew_lease(self, call: calls.LeaseRenew, caller: str = "") -> None:
        """Grant the lease to a master that this node obeys; see ``calls.LeaseRenew``."""
        async with self._locked():
            self._check_epoch(await self._contents(), call.epoch, caller)
            if call.masters:
                await self._files.replace(ssconf_file.MASTERS, "\n".join(call.masters))
            await self._lease.grant(call.node, call.epoch)

    def lease_status(self, caller: str = "") -> calls.LeaseState:
        """Return the lease that was granted last."""
        return msgspec.structs.replace(self._lease.status(), loyal_seconds=self._barrier.loyal_seconds(caller))

    async def _append(
        self, contents: replica_contents.Contents, end: frames.Position, *, lines: bytes, begins: bool
    ) -> replica_contents.Contents:
        section = self._reader.next_section(contents, begins=begins)
        self._cached = None
        try:
            if not self._disk.exists(self._folders.journal):
                await self._disk.make_directory(self._folders.journal)
            await self._remove_sections(contents)
            if contents.section != section:
                await self._truncate(contents)
                # An earlier attempt may have created the file without syncing its name, which later syncs omit.
                await self._disk.write(section, b"")
            good = contents.good if section == contents.section else 0
            try:
                file = await self._open.at(section)
                if file.size > good:
                    logger.warning("%s: truncated at byte offset %d: the rest is not valid", section, good)
                    await file.truncate(good)
                await file.append(lines)
            except BaseException:  # a cancelled write ends before anybody reads the file
                self._open.close()
                raise
        except OSError as error:
            raise errors.StorageError(
                f"{section} on {self._runtime.host} cannot be written: {error.strerror}"
            ) from error
        return self._reader.with_times(dataclasses.replace(contents, end=end, section=section, good=good + len(lines)))

    async def _truncate(self, contents: replica_contents.Contents) -> None:
        """Cut off what an interrupted append left at the end of the last section, before another begins."""
        if contents.section and self._disk.status(contents.section).size > contents.good:
            file = await self._disk.append_file(contents.section)
            try:
                await file.truncate(contents.good)
            finally:
                file.close()

    async def _remove_sections(self, contents: replica_contents.Contents) -> None:
        """Remove sections that do not follow from the checkpoint."""
        for path in self._sections.after(contents.end.serial):
            if path != contents.section:
                await self._disk.remove(path)

    async def store(self, call: calls.CheckpointStore, caller: str = "") -> calls.CandidateState:
        """Store a part of a checkpoint, and install it with the last part; see ``calls.CheckpointStore``."""
        patterns = (queue.FILE, queue.ARCHIVED_FILE)
        invalid = [name for name in call.jobs if not any(pattern.fullmatch(name) for pattern in patterns)]
        if invalid:
            raise errors.ProtocolError(f"{invalid[0]!r} is not a file of the queue")
        async with self._storing, self._owned():
            async with self._lock:
                self._check_epoch(await self._contents(), call.epoch, caller)
            try:
                await self._store(call)
            except OSError as error:
                raise errors.StorageError(
                    f"the replica on {self._runtime.host} cannot be written: {error.strerror}"
                ) from error
            async with self._lock:
                return self._state((await self._contents()).end)

    async def _store(self, call: calls.CheckpointStore) -> None:
        try:
            await self._arrival.receive(call)
            if call.last:
                position = await self._arrival.position()
                await (self._replace(call.epoch) if call.replace else self._fold(position))
                await self._arrival.discard()
        except BaseException:
            self._arrival.end()
            raise

    async def _replace(self, epoch: int) -> None:
        async with self._lock:
            contents = await self._contents()
            self._cached = None
            self._open.close()
            await self._barrier.give_up(contents.end.epoch, contents.end.serial)
            previous = ""
            if self._may_have_more(contents.end, epoch):
                previous = await self._kept.begin(contents.end, "a master replaces the copy here")
            await self._arrival.replace(self._reader.sizes(contents, until=contents.end.serial), previous=previous)

    def _may_have_more(self, end: frames.Position, epoch: int) -> bool:
        """Return whether a replica may have records that the master of an epoch lacks.

        A replica with a record of that epoch has only what that master sent: it cuts off all else before.
        """
        return end.serial > 0 and end.epoch < epoch

    async def _fold(self, position: frames.Position) -> None:
        """Install a checkpoint in front of the frames that follow it; the lock is free while files are written."""
        async with self._lock:
            contents = await self._contents()
            if not self._reader.ends_section(contents, position):
                logger.warning("ignored a checkpoint that does not end a section here: record %d", position.serial)
                return
            sections = self._reader.sizes(contents, until=position.serial)
        await self._arrival.fold(sections)
        async with self._lock:
            contents = await self._contents()
            # A frame may have been appended to the section that was the last.
            if not self._reader.ends_section(contents, position):
                return
            self._cached = None
            await self._truncate(contents)
            await self._arrival.install()
            folded = dataclasses.replace(contents, start=position.serial, config_time=self._reader.config_time())
            if contents.end.serial == position.serial:
                folded = dataclasses.replace(folded, section="", good=0)
            self._cached = self._reader.with_times(folded)
        await self._disk.sync(self._folders.lib)

    async def forget(self) -> None:
        """Remove the replica with archived jobs, unless a running master daemon uses these files."""
        try:
            await self._mark.settle()
            # Not while a part of a checkpoint is stored, which would find its files gone.
            async with self._storing, self._locked():
                contents = await self._contents()
                self._cached = None
                self._open.close()
                await self._barrier.give_up(contents.end.epoch, contents.end.serial)
                await self._arrival.discard()
                if self._may_have_more(contents.end, self._barrier.epoch()):
                    await self._kept.move(await self._kept.begin(contents.end, "the copy here is to be deleted"))
                if self._disk.exists(self._folders.config):
                    await self._disk.remove(self._folders.config)
                    await self._disk.sync(self._folders.lib)
                await self._disk.remove_tree(self._folders.journal)
        except errors.WrongStateError as error:
            logger.warning("%s", error.message)
        else:
            await self._disk.remove_tree(self._folders.queue)

    def kept(self) -> list[str]:
        """Return a line for each copy that is kept aside here."""
        return self._kept.described()

    async def forget_lease(self) -> None:
        """Forget the lease, because the node leaves its cluster."""
        await self._lease.forget()

    async def following(self, call: calls.JournalFetch) -> tuple[str, ...]:
        """Return the frames after the frame with a chain hash; see ``calls.JournalFetch``."""
        async with self._locked():
            contents = await self._contents()
            if contents.end.digest == call.after:
                return ()
            lines = self._sections.following(call.after, call.serial, {contents.section: contents.good})
            return tuple(line.decode() for line in frames.first(lines))

    async def prune(self, call: calls.ReplicaPrune) -> int:
        """Remove what is beyond the retention; see ``calls.ReplicaPrune``. StorageError if that fails."""
        # Not while a checkpoint is installed: the frames before it are needed until it is on stable storage.
        async with self._storing, self._owned():
            try:
                async with self._lock:
                    before = min(call.before, (await self._contents()).start + 1)
                    await self._sections.prune(call.journal, before=before, now=self._clock.now())
                return await self._archive.trim(call.archive, most=call.most)
            except OSError as error:
                raise errors.StorageError(
                    f"old records on {self._runtime.host} cannot be removed: {error.strerror or error}"
                ) from error

    async def fetch(self, call: calls.CopyFetch) -> calls.CopyPart:
        """Return a part of the replica's files; see ``calls.CopyFetch``."""
        async with self._locked():
            contents = await self._contents()
            if not contents.end.serial:
                raise errors.WrongStateError(f"{self._runtime.host} has no copy of the state that can be read")
            sections = {path: self._reader.counted(contents, path) for path in self._sections.after(0)}
            return reading.part(self._disk, self._folders, sections, call)

    async def _contents(self) -> replica_contents.Contents:
        if self._cached is None or not self._reader.is_unchanged(self._cached):
            self._cached = None
            await self._recover()
            loaded = self._reader.load()
            await self._sync(loaded)
            self._cached = self._reader.with_times(loaded)
        return self._cached

    async def _recover(self) -> None:
        """Complete or remove a checkpoint whose installation was interrupted, and complete the move of a copy."""
        if self._arrival.active:
            return
        try:
            if self._disk.exists(self._folders.incoming):
                await self._arrival.recover()
            await self._kept.complete()
        except OSError as error:
            raise errors.StorageError(
                f"the replica on {self._runtime.host} cannot be written: {error.strerror}"
            ) from error

    async def _sync(self, loaded: replica_contents.Contents) -> None:
        """Bring the loaded files to stable storage.

        A previous daemon's sync may have failed, which the kernel reports only once, so the section is rewritten.
        """
        try:
            if loaded.section:
                await self._disk.write(loaded.section, self._disk.read(loaded.section))
            if loaded.config_time:
                await self._disk.sync(self._folders.lib)
        except OSError as error:
            raise errors.StorageError(
                f"the replica on {self._runtime.host} was read, but cannot be synced to its disk: {error.strerror}"
            ) from error
