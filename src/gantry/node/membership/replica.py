"""A master candidate's copy of the state: the same files as the master's own, so that it opens as it is.

    lib/config.data                     the checkpoint that was stored last
    lib/journal/<serial>.log            the frames since then, in one segment
    lib/queue/job-N, serial, version    the queue's files as of the checkpoint
    lib/queue/archive/K/job-N           jobs archived before a checkpoint that replaced another, or that came with it

``CheckpointStore`` takes ``config.data`` away first and writes it last: a copy without it is none, and so is one of
which parts are still to come. ``JournalAppend`` answers when the frame is on stable storage. What does not follow from
the checkpoint, frame by frame, does not count; it is cut off when a master appends, and not before.

What is reported is on the disk. A frame whose sync failed, or that a killed daemon left without one, can be read and is
lost with the power all the same: a copy that was read is brought to the disk before anybody hears how far it reaches.

These files have one writer: whoever holds ``queue/lock``. A master daemon that runs on this node holds it all the time,
so nothing here can touch its files; calls of its own wait for each other. Because it may have written since, with a
sync that failed, what is known of the copy holds only while the files have the size and time that they had.
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
"""How many jobs a folder of the archive holds (contracts/jobs.md#files)."""

FETCH_LIMIT = 1000
"""Most frames in one answer."""

SEGMENT = re.compile(r"[0-9]{16}\.log")


@dataclasses.dataclass(frozen=True)
class _Copy:
    """What is known of the copy: where it ends, the last segment (none yet: empty), and how much of it counts.

    ``written`` is the size and time of the segment that frames go to, ``config_time`` the time of ``config.data``.
    """

    end: frames.Position = frames.START
    segment: str = ""
    good: int = 0
    written: tuple[int, float] = (0, 0.0)
    config_time: float = 0.0


@dataclasses.dataclass(frozen=True)
class _Arriving:
    """A copy that comes in parts, as far as it has come; ``digest`` is that of the whole ``config``."""

    digest: str
    epoch: int
    parts: int
    config: str


class Replica:
    """The copy on one node."""

    def __init__(
        self, runtime: interface.Runtime, folders: paths.Paths, *, files: ssconf.Files, barrier: fence.Fence
    ) -> None:
        self._disk = runtime.disk
        self._host = runtime.host
        self._folders = folders
        self._files = files
        self._barrier = barrier
        self._copy: _Copy | None = None
        self._arriving: _Arriving | None = None
        # held open while a copy comes, so that what cannot be written of it is told here, whoever else hears of it
        self._file_system: interface.FileSystem | None = None
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def _owned(self) -> AsyncIterator[None]:
        """Hold the queue's lock; WrongStateError while a master daemon does."""
        async with self._turn:
            if not self._disk.exists(self._folders.queue):
                await self._disk.make_directory(self._folders.queue)
            try:
                lock = self._disk.lock(f"{self._folders.queue}/lock")
            except BlockingIOError:
                raise errors.WrongStateError(
                    f"a master daemon works on the state of {self._host}: it takes no copy",
                    hint="stop gantry-masterd there if it is not the master any more",
                ) from None
            try:
                yield
            finally:
                lock.release()

    async def status(self) -> calls.CandidateState:
        """Tell how far the copy reaches; serial 0 when there is none."""
        async with self._owned():
            return self._state((await self._known()).end)

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
        """Append a frame; see ``calls.JournalAppend``. StorageError when the disk does not take it."""
        async with self._owned():
            known = await self._known()
            self._check_epoch(known, call.epoch)
            if call.previous != known.end.digest or not self._disk.exists(self._folders.config):
                return self._state(known.end)
            line = call.frame.encode()
            try:
                end = frames.follow(known.end, line)
            except ValueError as error:
                raise errors.ProtocolError(f"what came to be appended on {self._host} is {error}") from None
            self._copy = await self._append(known, end, line=line)
            return self._state(end)

    def _check_epoch(self, known: _Copy, epoch: int) -> None:
        """Refuse a master that was replaced: the copy may have a record of its successor before anything else has."""
        self._barrier.check(epoch, at_least=max(known.end.epoch, self._arriving.epoch if self._arriving else 0))
        self._barrier.check_promise(epoch)

    async def promise(self, call: calls.MasterPromise) -> calls.Promise:
        """Promise an epoch to one whose copy lacks nothing of this one; see ``calls.MasterPromise``."""
        async with self._owned():
            end = (await self._known()).end
            wanted = calls.Promised(epoch=call.epoch, node=call.node)
            lacks = max((end.epoch, end.serial), self._barrier.given_up()) > call.newest
            granted = not lacks and await self._barrier.promise(wanted)
            return calls.Promise(granted=granted, epoch=self._barrier.promised().epoch)

    async def _append(self, known: _Copy, end: frames.Position, *, line: bytes) -> _Copy:
        segment = self._goes_to(known)
        self._copy = None
        try:
            if not self._disk.exists(self._folders.journal):
                await self._disk.make_directory(self._folders.journal)
            await self._remove_segments(known, keep=segment)
            file = await self._disk.append_file(segment)
            try:
                if file.size > known.good:
                    logger.warning("%s: cut off at byte offset %d: what follows does not count", segment, known.good)
                    await file.truncate(known.good)
                await file.append(line)
                size = file.size
            finally:
                file.close()
        except OSError as error:
            raise errors.StorageError(f"{segment} on {self._host} cannot be written: {error.strerror}") from error
        return self._stamped(_Copy(end, segment, good=size, config_time=known.config_time))

    async def _remove_segments(self, known: _Copy, *, keep: str) -> None:
        for path in self._segments(known.end.serial):
            if path != keep:
                await self._disk.remove(path)

    async def store(self, call: calls.CheckpointStore) -> calls.CandidateState:
        """Replace the copy, or take a part of what is to replace it; see ``calls.CheckpointStore``."""
        wrong = [name for name in call.jobs if not QUEUE_FILE.fullmatch(name) and not ARCHIVED_FILE.fullmatch(name)]
        if wrong:
            raise errors.ProtocolError(f"{wrong[0]!r} is no file of the queue")
        async with self._owned():
            known = await self._known()
            self._check_epoch(known, call.epoch)
            arrived = self._arrived(call)
            end = self._end(arrived) if call.last else frames.START
            self._copy = self._arriving = None
            try:
                await self._take(call, arrived, before=known)
            except OSError as error:
                raise errors.StorageError(f"the copy on {self._host} cannot be written: {error.strerror}") from error
            self._arriving = None if call.last else arrived
            return self._state(end)

    def _arrived(self, call: calls.CheckpointStore) -> _Arriving:
        """Return what has come with this part."""
        before = self._arriving
        if call.part == 0:
            return _Arriving(call.digest, call.epoch, 1, call.config)
        if before is None or (before.digest, before.epoch, before.parts) != (call.digest, call.epoch, call.part):
            raise errors.ProtocolError(f"part {call.part} of a copy came to {self._host} without the one before it")
        return _Arriving(call.digest, call.epoch, call.part + 1, before.config + call.config)

    def _end(self, arrived: _Arriving) -> frames.Position:
        """Return where the copy will end that has come as a whole."""
        config = arrived.config.encode()
        try:
            if hashlib.sha256(config).hexdigest() != arrived.digest:
                raise ValueError("no whole configuration: its checksum does not fit")
            return frames.checkpoint(config)
        except ValueError as error:
            raise errors.ProtocolError(f"what came to be stored on {self._host} is {error}") from None

    async def _take(self, call: calls.CheckpointStore, arrived: _Arriving, *, before: _Copy) -> None:
        if call.part == 0:
            self._let_go()
            self._held()
            await self._keep_archived(before)
            await self._drop(before)
        for name, content in call.jobs.items():
            path = f"{self._folders.queue}/{name}"
            if "/" in name:
                await self._disk.make_directory(path.rpartition("/")[0])
            await self._disk.write(path, content.encode(), sync=False)
        if call.last:
            await self._held().sync()
            self._let_go()
            await self._disk.write(self._folders.config, arrived.config.encode())

    def _held(self) -> interface.FileSystem:
        if self._file_system is None:
            self._file_system = self._disk.file_system(self._folders.queue)
        return self._file_system

    def _let_go(self) -> None:
        if self._file_system is not None:
            self._file_system.close()
            self._file_system = None

    async def _keep_archived(self, known: _Copy) -> None:
        """Move the jobs that left the queue to the archive: the frames that tell of them go now."""
        if not self._disk.exists(self._folders.config) or not known.segment:
            return
        newest: dict[int, bytes] = {}
        start = frames.checkpoint(self._disk.read(self._folders.config)).serial
        for path in self._segments(start):
            data = self._disk.read(path)
            for line in data[: known.good if path == known.segment else None].splitlines(keepends=True):
                for number, content in frames.jobs(line):
                    if content is None:
                        await self._archive(number, newest.pop(number, None))
                    else:
                        newest[number] = content

    async def _archive(self, number: int, content: bytes | None) -> None:
        """Bring a job to the archive: its last content, or its file, which has not changed since the checkpoint."""
        old = f"{self._folders.queue}/job-{number}"
        place = f"{self._folders.queue}/archive/{number // ARCHIVE_SIZE}"
        if content is not None:
            await self._disk.make_directory(place)
            await self._disk.write(f"{place}/job-{number}", content, sync=False)
        elif self._disk.exists(old):
            await self._disk.make_directory(place)
            await self._disk.rename({old: f"{place}/job-{number}"})

    async def _drop(self, known: _Copy) -> None:
        """Take the copy away, its most telling file first."""
        await self._barrier.give_up(known.end.epoch, known.end.serial)
        if self._disk.exists(self._folders.config):
            await self._disk.remove(self._folders.config)
            await self._disk.sync(self._folders.lib)
        await self._disk.remove_tree(self._folders.journal)
        for name in self._disk.names(self._folders.queue):
            if QUEUE_FILE.fullmatch(name):
                await self._disk.remove(f"{self._folders.queue}/{name}")

    async def forget(self) -> None:
        """Remove the copy, archived jobs too; what belongs to a running master daemon stays."""
        try:
            async with self._owned():
                known = await self._known()
                self._copy = self._arriving = None
                await self._drop(known)
        except errors.WrongStateError as error:
            logger.warning("%s", error.message)
        else:
            await self._disk.remove_tree(self._folders.queue)

    async def following(self, digest: str) -> tuple[str, ...]:
        """Return the frames behind the one with that chain hash; see ``calls.JournalFetch``."""
        async with self._owned():
            known = await self._known()
            if known.end.digest == digest:
                return ()
            found: list[bytes] = []
            for path in reversed(self._segments(0)):
                data = self._disk.read(path)
                lines = data[: known.good if path == known.segment else None].splitlines(keepends=True)
                start = next((number for number, line in enumerate(lines) if frames.previous(line) == digest), None)
                found = [*lines[start or 0 :], *found]
                if start is not None:
                    return tuple(line.decode() for line in found[:FETCH_LIMIT])
            return ()

    async def _known(self) -> _Copy:
        if self._copy is None or not self._unchanged(self._copy):
            self._copy = None
            found = self._load()
            await self._secure(found)
            self._copy = self._stamped(found)
        return self._copy

    async def _secure(self, found: _Copy) -> None:
        """Bring what was read to the disk; the kernel tells of a failed sync once, a file written anew is there."""
        try:
            if found.segment:
                await self._disk.write(found.segment, self._disk.read(found.segment))
            if found.config_time:
                await self._disk.sync(self._folders.lib)
        except OSError as error:
            raise errors.StorageError(
                f"the copy on {self._host} was read, but cannot be brought to its disk: {error.strerror}"
            ) from error

    def _unchanged(self, known: _Copy) -> bool:
        return known == self._stamped(known) and self._config_time() == known.config_time

    def _stamped(self, copy: _Copy) -> _Copy:
        path = self._goes_to(copy)
        status = self._disk.status(path) if self._disk.exists(path) else None
        return dataclasses.replace(copy, written=(status.size, status.mtime) if status else (0, 0.0))

    def _goes_to(self, copy: _Copy) -> str:
        """Return the segment that the next frame is appended to."""
        return copy.segment or f"{self._folders.journal}/{copy.end.serial + 1:016d}.log"

    def _config_time(self) -> float:
        path = self._folders.config
        return self._disk.status(path).mtime if self._disk.exists(path) else 0.0

    def _load(self) -> _Copy:
        """Read the copy as far as it fits together; one whose checkpoint cannot be read is none."""
        config_time = self._config_time()
        try:
            end = frames.checkpoint(self._disk.read(self._folders.config))
        except FileNotFoundError:
            return _Copy()
        except ValueError as error:
            logger.warning("%s: %s", self._folders.config, error)
            return _Copy(config_time=config_time)
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
        return _Copy(end, segment, good=good, config_time=config_time)

    def _segments(self, serial: int) -> list[str]:
        """List the segments after a checkpoint's serial, in order; older ones are history, and empty ones nothing."""
        folder = self._folders.journal
        names = self._disk.names(folder) if self._disk.exists(folder) else []
        paths = [f"{folder}/{name}" for name in names if SEGMENT.fullmatch(name) and int(name[:16]) > serial]
        return [path for path in paths if self._disk.status(path).size]
