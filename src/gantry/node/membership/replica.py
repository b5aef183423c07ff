"""A master candidate's replica of the state: the same files as the master's own, so that a master can open them.

    lib/config.data                     the last stored checkpoint
    lib/journal/<serial>.log            the frames since that checkpoint, in one segment
    lib/queue/job-N, serial, version    the queue's files at the time of the checkpoint
    lib/queue/archive/K/job-N           jobs archived before a checkpoint that replaced another, or that came with it

``CheckpointStore`` first removes ``config.data`` and writes it last: files without ``config.data`` are not a replica,
and neither is a replica before all of its parts have received. ``JournalAppend`` answers when the frame is on stable
storage. Frames that do not follow from the checkpoint, one after another, do not count; they are truncated when a
master appends, not before.

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
import hashlib
import logging
import re
from collections.abc import AsyncIterator

from gantry import errors
from gantry.node.membership import fence, frames, ssconf
from gantry.rpc import calls
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)

QUEUE_FILE = re.compile(r"job-[1-9][0-9]*|serial|version")
ARCHIVED_FILE = re.compile(r"archive/[0-9]+/job-[1-9][0-9]*")
ARCHIVE_SIZE = 10_000
"""How many jobs a folder of the archive has (contracts/jobs.md#files)."""

FETCH_LIMIT = 1000
"""The maximum number of frames in an answer."""

SEGMENT = re.compile(r"[0-9]{16}\.log")


@dataclasses.dataclass(frozen=True)
class _Contents:
    """The contents of the replica: its end, the last segment (empty before the first), and how many bytes of it count.

    ``written`` is size and time of the segment for the next frame, ``config_time`` the time of ``config.data``.
    """

    end: frames.Position = frames.START
    segment: str = ""
    good: int = 0
    written: tuple[int, float] = (0, 0.0)
    config_time: float = 0.0


@dataclasses.dataclass(frozen=True)
class _Arriving:
    """A checkpoint that arrives in parts, with the parts so far; ``digest`` is that of the complete ``config``."""

    digest: str
    epoch: int
    parts: int
    config: str


class Replica:
    """The replica on a node."""

    def __init__(
        self, runtime: interface.Runtime, folders: paths.Paths, *, files: ssconf.Files, barrier: fence.Fence
    ) -> None:
        self._disk = runtime.disk
        self._host = runtime.host
        self._folders = folders
        self._files = files
        self._barrier = barrier
        self._cached: _Contents | None = None
        self._arriving: _Arriving | None = None
        # Open while a checkpoint arrives, so that its ``sync`` reports every failed write, also one that another
        # process has been notified of.
        self._file_system: interface.FileSystem | None = None
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Hold the queue's lock; WrongStateError while a master daemon holds it."""
        async with self._lock:
            if not self._disk.exists(self._folders.queue):
                await self._disk.make_directory(self._folders.queue)
            try:
                lock = self._disk.lock(f"{self._folders.queue}/lock")
            except BlockingIOError:
                raise errors.WrongStateError(
                    f"a master daemon runs on {self._host} and has locked its state: the node cannot store a replica",
                    hint="stop gantry-masterd there if it is no longer the master",
                ) from None
            try:
                yield
            finally:
                lock.release()

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
            heard=self._barrier.epoch(),
            given_up=self._barrier.given_up(),
        )

    async def append(self, call: calls.JournalAppend) -> calls.CandidateState:
        """Append a frame; see ``calls.JournalAppend``. StorageError if it cannot be written."""
        async with self._locked():
            contents = await self._contents()
            self._check_epoch(contents, call.epoch)
            if call.previous != contents.end.digest or not self._disk.exists(self._folders.config):
                return self._state(contents.end)
            line = call.frame.encode()
            try:
                end = frames.follow(contents.end, line)
            except ValueError as error:
                raise errors.ProtocolError(f"a frame cannot be appended on {self._host}: {error}") from None
            self._cached = await self._append(contents, end, line=line)
            return self._state(end)

    def _check_epoch(self, contents: _Contents, epoch: int) -> None:
        """Refuse a former master: its successor's epoch may be known only from a record in the replica."""
        self._barrier.check(epoch, at_least=max(contents.end.epoch, self._arriving.epoch if self._arriving else 0))
        self._barrier.check_promise(epoch)

    async def promise(self, call: calls.MasterPromise) -> calls.Promise:
        """Promise an epoch to a node whose replica has all of this one's records; see ``calls.MasterPromise``."""
        async with self._locked():
            end = (await self._contents()).end
            request = calls.Promised(epoch=call.epoch, node=call.node)
            lacks_records = max((end.epoch, end.serial), self._barrier.given_up()) > call.newest
            granted = not lacks_records and await self._barrier.promise(request)
            return calls.Promise(granted=granted, epoch=self._barrier.promised().epoch)

    async def _append(self, contents: _Contents, end: frames.Position, *, line: bytes) -> _Contents:
        segment = self._next_segment(contents)
        self._cached = None
        try:
            if not self._disk.exists(self._folders.journal):
                await self._disk.make_directory(self._folders.journal)
            await self._remove_segments(contents, keep=segment)
            file = await self._disk.append_file(segment)
            try:
                if file.size > contents.good:
                    logger.warning("%s: truncated at byte offset %d: the rest is not valid", segment, contents.good)
                    await file.truncate(contents.good)
                await file.append(line)
                size = file.size
            finally:
                file.close()
        except OSError as error:
            raise errors.StorageError(f"{segment} on {self._host} cannot be written: {error.strerror}") from error
        return self._with_times(_Contents(end, segment, good=size, config_time=contents.config_time))

    async def _remove_segments(self, contents: _Contents, *, keep: str) -> None:
        for path in self._segments(contents.end.serial):
            if path != keep:
                await self._disk.remove(path)

    async def store(self, call: calls.CheckpointStore) -> calls.CandidateState:
        """Replace the replica, or store a part of the replacement; see ``calls.CheckpointStore``."""
        invalid = [name for name in call.jobs if not QUEUE_FILE.fullmatch(name) and not ARCHIVED_FILE.fullmatch(name)]
        if invalid:
            raise errors.ProtocolError(f"{invalid[0]!r} is not a file of the queue")
        async with self._locked():
            contents = await self._contents()
            self._check_epoch(contents, call.epoch)
            received = self._received(call)
            end = self._end(received) if call.last else frames.START
            self._cached = self._arriving = None
            try:
                await self._store_part(call, received, before=contents)
            except OSError as error:
                raise errors.StorageError(f"the replica on {self._host} cannot be written: {error.strerror}") from error
            self._arriving = None if call.last else received
            return self._state(end)

    def _received(self, call: calls.CheckpointStore) -> _Arriving:
        """Return the checkpoint as received so far, with this part."""
        before = self._arriving
        if call.part == 0:
            return _Arriving(call.digest, call.epoch, 1, call.config)
        if before is None or (before.digest, before.epoch, before.parts) != (call.digest, call.epoch, call.part):
            raise errors.ProtocolError(
                f"part {call.part} of a checkpoint for {self._host} is not the expected next part"
            )
        return _Arriving(call.digest, call.epoch, call.part + 1, before.config + call.config)

    def _end(self, received: _Arriving) -> frames.Position:
        """Return the end of the replica after a complete checkpoint."""
        config = received.config.encode()
        try:
            if hashlib.sha256(config).hexdigest() != received.digest:
                raise ValueError("the configuration is incomplete or damaged: its checksum does not match")
            return frames.checkpoint(config)
        except ValueError as error:
            raise errors.ProtocolError(f"a checkpoint cannot be stored on {self._host}: {error}") from None

    async def _store_part(self, call: calls.CheckpointStore, received: _Arriving, *, before: _Contents) -> None:
        if call.part == 0:
            self._close_file_system()
            self._open_file_system()
            await self._archive_jobs(before)
            await self._delete(before)
        for name, content in call.jobs.items():
            path = f"{self._folders.queue}/{name}"
            if "/" in name:
                await self._disk.make_directory(path.rpartition("/")[0])
            await self._disk.write(path, content.encode(), sync=False)
        if call.last:
            await self._open_file_system().sync()
            self._close_file_system()
            await self._disk.write(self._folders.config, received.config.encode())

    def _open_file_system(self) -> interface.FileSystem:
        if self._file_system is None:
            self._file_system = self._disk.file_system(self._folders.queue)
        return self._file_system

    def _close_file_system(self) -> None:
        if self._file_system is not None:
            self._file_system.close()
            self._file_system = None

    async def _archive_jobs(self, contents: _Contents) -> None:
        """Move archived jobs from the queue to the archive, before the frames that archived them are deleted."""
        if not self._disk.exists(self._folders.config) or not contents.segment:
            return
        contents_by_job: dict[int, bytes] = {}
        start = frames.checkpoint(self._disk.read(self._folders.config)).serial
        for path in self._segments(start):
            data = self._disk.read(path)
            for line in data[: contents.good if path == contents.segment else None].splitlines(keepends=True):
                for number, content in frames.jobs(line):
                    if content is None:
                        await self._archive(number, contents_by_job.pop(number, None))
                    else:
                        contents_by_job[number] = content

    async def _archive(self, number: int, content: bytes | None) -> None:
        """Move a job to the archive: its last content, or its file if it has not changed since the checkpoint."""
        old = f"{self._folders.queue}/job-{number}"
        folder = f"{self._folders.queue}/archive/{number // ARCHIVE_SIZE}"
        if content is not None:
            await self._disk.make_directory(folder)
            await self._disk.write(f"{folder}/job-{number}", content, sync=False)
        elif self._disk.exists(old):
            await self._disk.make_directory(folder)
            await self._disk.rename({old: f"{folder}/job-{number}"})

    async def _delete(self, contents: _Contents) -> None:
        """Delete the replica, its ``config.data`` first."""
        await self._barrier.give_up(contents.end.epoch, contents.end.serial)
        if self._disk.exists(self._folders.config):
            await self._disk.remove(self._folders.config)
            await self._disk.sync(self._folders.lib)
        await self._disk.remove_tree(self._folders.journal)
        for name in self._disk.names(self._folders.queue):
            if QUEUE_FILE.fullmatch(name):
                await self._disk.remove(f"{self._folders.queue}/{name}")

    async def forget(self) -> None:
        """Remove the replica with archived jobs, unless a running master daemon uses these files."""
        try:
            async with self._locked():
                contents = await self._contents()
                self._cached = self._arriving = None
                await self._delete(contents)
        except errors.WrongStateError as error:
            logger.warning("%s", error.message)
        else:
            await self._disk.remove_tree(self._folders.queue)

    async def following(self, digest: str) -> tuple[str, ...]:
        """Return the frames after the frame with a chain hash; see ``calls.JournalFetch``."""
        async with self._locked():
            contents = await self._contents()
            if contents.end.digest == digest:
                return ()
            following: list[bytes] = []
            for path in reversed(self._segments(0)):
                data = self._disk.read(path)
                lines = data[: contents.good if path == contents.segment else None].splitlines(keepends=True)
                start = next((number for number, line in enumerate(lines) if frames.previous(line) == digest), None)
                following = [*lines[start or 0 :], *following]
                if start is not None:
                    return tuple(line.decode() for line in following[:FETCH_LIMIT])
            return ()

    async def _contents(self) -> _Contents:
        if self._cached is None or not self._unchanged(self._cached):
            self._cached = None
            loaded = self._load()
            await self._sync(loaded)
            self._cached = self._with_times(loaded)
        return self._cached

    async def _sync(self, loaded: _Contents) -> None:
        """Bring the loaded files to stable storage.

        A previous daemon's sync may have failed, which the kernel reports only once, so the segment is rewritten.
        """
        try:
            if loaded.segment:
                await self._disk.write(loaded.segment, self._disk.read(loaded.segment))
            if loaded.config_time:
                await self._disk.sync(self._folders.lib)
        except OSError as error:
            raise errors.StorageError(
                f"the replica on {self._host} was read, but cannot be synced to its disk: {error.strerror}"
            ) from error

    def _unchanged(self, contents: _Contents) -> bool:
        return contents == self._with_times(contents) and self._config_time() == contents.config_time

    def _with_times(self, contents: _Contents) -> _Contents:
        path = self._next_segment(contents)
        status = self._disk.status(path) if self._disk.exists(path) else None
        return dataclasses.replace(contents, written=(status.size, status.mtime) if status else (0, 0.0))

    def _next_segment(self, contents: _Contents) -> str:
        """Return the segment to which the next frame is appended."""
        return contents.segment or f"{self._folders.journal}/{contents.end.serial + 1:016d}.log"

    def _config_time(self) -> float:
        path = self._folders.config
        return self._disk.status(path).mtime if self._disk.exists(path) else 0.0

    def _load(self) -> _Contents:
        """Read the replica as far as its frames are valid; empty if the checkpoint cannot be read."""
        config_time = self._config_time()
        try:
            end = frames.checkpoint(self._disk.read(self._folders.config))
        except FileNotFoundError:
            return _Contents()
        except ValueError as error:
            logger.warning("%s: %s", self._folders.config, error)
            return _Contents(config_time=config_time)
        segment, good = "", 0
        for path in self._segments(end.serial):
            data = self._disk.read(path)
            segment, good = path, 0
            try:
                for line in data.splitlines(keepends=True):
                    end = frames.follow(end, line)
                    good += len(line)
            except ValueError as error:
                logger.warning("%s: read up to byte offset %d: %s", path, good, error)
                break
        return _Contents(end, segment, good=good, config_time=config_time)

    def _segments(self, serial: int) -> list[str]:
        """Return the non-empty segments after a checkpoint's serial, in order."""
        folder = self._folders.journal
        names = self._disk.names(folder) if self._disk.exists(folder) else []
        paths = [f"{folder}/{name}" for name in names if SEGMENT.fullmatch(name) and int(name[:16]) > serial]
        return [path for path in paths if self._disk.status(path).size]
