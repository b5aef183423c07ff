"""A checkpoint on its way into a master candidate's replica: it is kept beside the replica until all of it has arrived.

    lib/incoming/arriving        config.data, the parts so far
    lib/incoming/queue/          the files of the queue that came with it
    lib/incoming/config.data     config.data of a replacement that is complete and on stable storage
    lib/incoming/previous        the folder in which the replaced replica is kept (``kept_copies``), if it is

``replica`` receives the parts. When the last is stored, it does one of two things:

- It *folds* the replica's own frames up to the checkpoint into it: the queue's files and then ``config.data`` are
  replaced, the journal stays. A replica whose ``config.data`` is older than its job files is valid, since its journal
  has these jobs too. So a crash leaves the old checkpoint with all frames after it, or the new one.
- It *replaces* the replica: the removal of the old ``config.data`` is the moment from which the new replica is the
  valid one. Then the old queue's files and the journal are removed, the journal's folder last; then the new files move
  to their places, ``config.data`` last. Each step can be repeated, and ``recover`` completes what a crash interrupted.
  A replica that is kept is moved instead of removed, in the same order.
"""

import dataclasses
from collections.abc import Mapping

from gantry import errors
from gantry.node.membership import frames, kept_copies, queue_files
from gantry.rpc import calls
from gantry.runtime import file_interface, interface, paths


@dataclasses.dataclass(frozen=True)
class _Progress:
    """The checkpoint whose parts are arriving; ``digest`` is that of the complete ``config.data``."""

    digest: str
    epoch: int
    parts: int


class Arrival:
    """The checkpoint that a node is receiving, if any."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._folders = folders
        self._queue = queue_files.QueueFiles(runtime, folders.queue)
        self._kept = kept_copies.KeptCopies(runtime.disk, folders)
        self._arriving = f"{folders.incoming}/arriving"
        self._complete = f"{folders.incoming}/config.data"
        self._marker = f"{folders.incoming}/previous"
        self._progress: _Progress | None = None
        # Open while a checkpoint arrives, so that its ``sync`` reports every failed write, also one that another
        # process has been notified of.
        self._file_system: file_interface.FileSystem | None = None

    @property
    def active(self) -> bool:
        """Return whether a checkpoint is arriving or being installed."""
        return self._progress is not None

    @property
    def epoch(self) -> int:
        """Return the epoch of the arriving checkpoint, 0 without one."""
        return self._progress.epoch if self._progress else 0

    async def receive(self, call: calls.CheckpointStore) -> None:
        """Store a part; ProtocolError if it is not the next one."""
        progress = self._progress
        if call.part and progress != _Progress(call.digest, call.epoch, call.part):
            raise errors.ProtocolError(
                f"part {call.part} of a checkpoint for {self._runtime.host} is not the expected next part"
            )
        self._progress = _Progress(call.digest, call.epoch, call.part + 1)
        if call.part == 0:
            await self._begin()
        for folder in {name.rpartition("/")[0] for name in call.jobs}:
            await self._disk.make_directory(f"{self._folders.incoming}/queue/{folder}".rstrip("/"))
        files = {f"{self._folders.incoming}/queue/{name}": content.encode() for name, content in call.jobs.items()}
        for error in (await self._disk.write_all(files)).values():
            raise error
        if call.config:
            file = await self._disk.append_file(self._arriving)
            try:
                await file.append(call.config.encode())
            finally:
                file.close()

    async def _begin(self) -> None:
        self._close_file_system()
        await self._disk.remove_tree(self._folders.incoming)
        await self._disk.make_directory(f"{self._folders.incoming}/queue")
        self._file_system = self._disk.file_system(self._folders.incoming)

    async def position(self) -> frames.Position:
        """Return the position of the arrived ``config.data``; ProtocolError if it is not what the master has."""
        assert self._progress is not None
        try:
            if await self._disk.digest(self._arriving) != self._progress.digest:
                raise ValueError("the configuration is incomplete or damaged: its checksum does not match")
            return await self._runtime.block(lambda: frames.checkpoint(self._disk.read(self._arriving)))
        except ValueError as error:
            raise errors.ProtocolError(f"a checkpoint cannot be stored on {self._runtime.host}: {error}") from None

    async def fold(self, sections: Mapping[str, int]) -> None:
        """Bring the queue's files up to the checkpoint; ``sections`` are those since the replica's own checkpoint.

        They are paths, in order, with the number of bytes that count.
        """
        archived = await self._queue.write_archived(sections)
        await self._sync()
        await self._queue.move_archived(archived)
        await self._move_files()
        await self._sync()

    async def install(self) -> None:
        """Replace ``config.data`` after ``fold``; until the next sync a power failure may bring the old one back."""
        await self._disk.rename({self._arriving: self._folders.config})

    async def replace(self, sections: Mapping[str, int], *, previous: str = "") -> None:
        """Replace the replica, with its frames in ``sections`` (see ``fold``); archived jobs stay.

        The replica is kept in the folder ``previous``, or removed without one.
        """
        archived = await self._queue.write_archived(sections)
        await self._sync()
        await self._queue.move_archived(archived)
        await self._disk.rename({self._arriving: self._complete})
        await self._disk.make_directory(self._folders.journal)
        if previous:
            await self._disk.write(self._marker, previous.encode())
        await self._sync()
        if self._disk.exists(self._folders.config):
            if previous:
                await self._disk.rename({self._folders.config: f"{previous}/config.data"})
            else:
                await self._disk.remove(self._folders.config)
            await self._disk.sync(self._folders.lib)
        await self._complete_replacement()

    async def recover(self) -> None:
        """Complete a replacement that was interrupted, or discard the parts of a checkpoint."""
        if self._disk.exists(self._complete) and not self._disk.exists(self._folders.config):
            await self._complete_replacement()
        await self.discard()

    async def _complete_replacement(self) -> None:
        if self._disk.exists(self._folders.journal):
            if self._disk.exists(self._marker):
                await self._kept.move(self._disk.read(self._marker).decode())
            await self._queue.clear()
            await self._disk.sync(self._folders.lib)
            await self._disk.remove_tree(self._folders.journal)
        await self._disk.sync(self._folders.lib)
        await self._move_files()
        await self._disk.sync(self._folders.lib)
        await self._disk.rename({self._complete: self._folders.config})
        await self._disk.sync(self._folders.lib)

    async def _move_files(self) -> None:
        folder = f"{self._folders.incoming}/queue"
        archive = f"{folder}/archive"
        names = [name for name in self._disk.names(folder) if name != "archive"]
        for number in self._disk.names(archive) if self._disk.exists(archive) else []:
            await self._disk.make_directory(f"{self._folders.queue}/archive/{number}")
            names += [f"archive/{number}/{name}" for name in self._disk.names(f"{archive}/{number}")]
        for batch in queue_files.batches(names):
            await self._disk.rename({f"{folder}/{name}": f"{self._folders.queue}/{name}" for name in batch})

    async def _sync(self) -> None:
        assert self._file_system is not None
        await self._file_system.sync()

    def _close_file_system(self) -> None:
        if self._file_system is not None:
            self._file_system.close()
            self._file_system = None

    async def discard(self) -> None:
        """Remove the parts."""
        self.end()
        await self._disk.remove_tree(self._folders.incoming)

    def end(self) -> None:
        """Expect no more parts; ``recover`` removes those that have arrived, or completes what has begun with them."""
        self._progress = None
        self._close_file_system()
