"""A master candidate's copy of the state: the same files as the master's own, so that it opens as it is.

    lib/config.data                     the checkpoint that was stored last
    lib/journal/<serial>.log            the frames since then, in one segment
    lib/queue/job-N, serial, version    the queue's files as of the checkpoint

``CheckpointStore`` takes ``config.data`` away first and writes it last: a copy without it is none, and a crash in the
middle leaves none. ``JournalAppend`` answers when the frame is on stable storage. What does not follow from the
checkpoint, frame by frame, does not count; it is cut off when a master appends, and not before.

These files have one writer: whoever holds ``queue/lock``. A master daemon that runs on this node holds it all the time,
so nothing here can touch its files; calls of its own wait for each other. Because it may have written since, what is
known of the copy holds only while the files have the size and time that they had.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from gantry import errors
from gantry.node import frames, ssconf
from gantry.rpc import calls
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)

QUEUE_FILE = re.compile(r"job-[1-9][0-9]*|serial|version")
FETCH_LIMIT = 1000
"""Most frames in one answer."""

SEGMENT = re.compile(r"[0-9]{16}\.log")


@dataclass(frozen=True)
class _Copy:
    """What is known of the copy: where it ends, the last segment (none yet: empty), and how much of it counts.

    ``size`` and ``config_time`` are the segment's size and the time of ``config.data`` when they were read.
    """

    end: frames.Position = frames.START
    segment: str = ""
    good: int = 0
    size: int = 0
    config_time: float = 0.0


class Replica:
    """The copy on one node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, files: ssconf.Files) -> None:
        self._disk = runtime.disk
        self._host = runtime.host
        self._folders = folders
        self._files = files
        self._copy: _Copy | None = None
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def _owned(self) -> AsyncIterator[None]:
        """Hold the queue's lock; WrongStateError while a master daemon does."""
        async with self._turn:
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
            return self._state(self._known().end)

    def _state(self, end: frames.Position) -> calls.CandidateState:
        return calls.CandidateState(
            serial=end.serial,
            digest=end.digest,
            epoch=end.epoch,
            job=end.last_job,
            master=self._files.read("master_node"),
            heard=self._files.epoch(),
        )

    async def append(self, call: calls.JournalAppend) -> calls.CandidateState:
        """Append a frame; see ``calls.JournalAppend``. StorageError when the disk does not take it."""
        async with self._owned():
            known = self._known()
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
        if epoch < known.end.epoch:
            raise errors.WrongStateError(
                f"epoch {epoch} has passed: {self._host} has records of a master that was confirmed later, "
                f"in epoch {known.end.epoch}",
                hint="this master has been replaced; stop it",
            )

    async def _append(self, known: _Copy, end: frames.Position, *, line: bytes) -> _Copy:
        segment = known.segment or f"{self._folders.journal}/{known.end.serial + 1:016d}.log"
        self._copy = None
        try:
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
        return _Copy(end, segment, good=size, size=size, config_time=known.config_time)

    async def _remove_segments(self, known: _Copy, *, keep: str) -> None:
        for path in self._segments(known.end.serial):
            if path != keep:
                await self._disk.remove(path)

    async def store(self, call: calls.CheckpointStore) -> calls.CandidateState:
        """Replace the copy as a whole; see ``calls.CheckpointStore``."""
        try:
            end = frames.checkpoint(call.config.encode())
        except ValueError as error:
            raise errors.ProtocolError(f"what came to be stored on {self._host} is {error}") from None
        wrong = [name for name in call.jobs if not QUEUE_FILE.fullmatch(name)]
        if wrong:
            raise errors.ProtocolError(f"{wrong[0]!r} is no file of the queue")
        async with self._owned():
            self._check_epoch(self._known(), call.epoch)
            self._copy = None
            try:
                await self._replace(call)
            except OSError as error:
                raise errors.StorageError(f"the copy on {self._host} cannot be written: {error.strerror}") from error
            return self._state(end)

    async def _replace(self, call: calls.CheckpointStore) -> None:
        await self._drop()
        for name, content in call.jobs.items():
            await self._disk.write(f"{self._folders.queue}/{name}", content.encode(), sync=False)
        await self._disk.sync(self._folders.queue)
        await self._disk.write(self._folders.config, call.config.encode())

    async def _drop(self) -> None:
        """Take the copy away, its most telling file first."""
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
                self._copy = None
                await self._drop()
        except errors.WrongStateError as error:
            logger.warning("%s", error.message)
        else:
            await self._disk.remove_tree(self._folders.queue)

    async def following(self, digest: str) -> tuple[str, ...]:
        """Return the frames behind the one with that chain hash; see ``calls.JournalFetch``."""
        async with self._owned():
            known = self._known()
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

    def _known(self) -> _Copy:
        if self._copy is None or not self._unchanged(self._copy):
            self._copy = self._load()
        return self._copy

    def _unchanged(self, known: _Copy) -> bool:
        size = self._disk.status(known.segment).size if self._disk.exists(known.segment) else 0
        return size == known.size and self._config_time() == known.config_time

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
        segment, good, size = "", 0, 0
        for path in self._segments(end.serial):
            data = self._disk.read(path)
            segment, good, size = path, 0, len(data)
            try:
                for line in data.splitlines(keepends=True):
                    end = frames.follow(end, line)
                    good += len(line)
            except ValueError as error:
                logger.warning("%s: read up to byte offset %d: %s", path, good, error)
                break
        return _Copy(end, segment, good=good, size=size, config_time=config_time)

    def _segments(self, serial: int) -> list[str]:
        """List the segments after a checkpoint's serial, in order; older ones are history."""
        folder = self._folders.journal
        names = self._disk.names(folder) if self._disk.exists(folder) else []
        return [f"{folder}/{name}" for name in names if SEGMENT.fullmatch(name) and int(name[:16]) > serial]
