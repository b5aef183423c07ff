"""The frames at the end of a replica that the master's journal does not have: where they begin, and how they are cut.

A master that is cut off writes a frame to its own disk before it sends the frame. So when it is a candidate again, its
replica may end with frames that no other node has. ``replica`` cuts them off when the master sends the frames that
follow the last common one (``calls.JournalAppend``), and so the journal before them stays. In this order:

1. ``given-up`` records how far the replica reached (``fence``), so that a vote sees no difference.
2. The queue's files return to what they were at the last common frame. The frames that follow are still there, so a
   master daemon that opens the replica now restores the newer files from them.
3. The surplus sections are removed, the newest first, and the section of the last common frame is truncated.

After a crash between two of these steps the replica is valid and ends with a frame that it had, and the master cuts the
rest. Nothing before the replica's own checkpoint can be cut, because ``config.data`` includes it.
"""

import dataclasses
import logging

from gantry.lib_files import queue
from gantry.node.membership import frames, queue_files, replica_contents, sections
from gantry.rpc import calls
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Cut:
    """A cut: the ``contents`` of the replica after it, and what changes in the folder of the queue.

    ``moves`` returns files of jobs from the archive, ``surplus`` are files of jobs that only the cut frames have.
    """

    contents: replica_contents.Contents
    moves: dict[str, str]
    surplus: tuple[str, ...]


class Divergence:
    """Finds and cuts the frames of a replica that its master does not have."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, journal_sections: sections.Sections) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._folders = folders
        self._sections = journal_sections
        self._queue = queue_files.QueueFiles(runtime, folders.queue)

    async def find(self, contents: replica_contents.Contents, call: calls.JournalAppend) -> Cut | None:
        """Return how to cut the replica for the frames of a call; None if it may not be cut.

        A master cuts no frames of its own epoch: there is no other master that could have written them.
        """
        if not call.replaces or call.replaces != contents.end.digest or call.epoch <= contents.end.epoch:
            return None
        return await self._runtime.block(lambda: self._find(contents, call))

    def _find(self, contents: replica_contents.Contents, call: calls.JournalAppend) -> Cut | None:
        config = self._disk.read(self._folders.config)
        end = frames.checkpoint(config)
        lines = call.frame.encode()
        section, good = "", 0
        common: replica_contents.Contents | None = None
        kept_jobs, cut_jobs = set[int](), set[int]()
        for path in self._sections.after(contents.start):
            if path > contents.section:
                break
            size = contents.good if path == contents.section else None
            for line in self._disk.read(path)[:size].splitlines(keepends=True):
                if end.digest == call.previous:
                    common = dataclasses.replace(contents, end=end, section=section, good=good)
                    # Then it is not the last common frame: a frame that both have may be acknowledged.
                    if lines.startswith(line):
                        return None
                end = frames.follow(end, line)
                section, good = path, (good if section == path else 0) + len(line)
                (kept_jobs if common is None else cut_jobs).update(number for number, _ in frames.jobs(line))
        return self._planned(common, frames.listed_jobs(config), kept=kept_jobs, cut=cut_jobs) if common else None

    def _planned(
        self, common: replica_contents.Contents, listed: dict[int, str], *, kept: set[int], cut: set[int]
    ) -> Cut | None:
        """Return the cut; None if the file of a job that the checkpoint lists has a content that only the cut has."""
        moves, surplus = {}, []
        for number in sorted(cut):
            path, archived = self._queue.path(number), self._queue.archived_path(number)
            if number not in kept and number not in listed:
                surplus += [path, archived]
                continue
            is_archived = not self._disk.exists(path) and self._disk.exists(archived)
            if is_archived:
                moves[archived] = path
            # If a kept frame after the checkpoint has the job, a master daemon reads it there.
            if number not in kept and self._digest(archived if is_archived else path) != listed[number]:
                logger.warning("%s: the job has changed since the last record that the master has", path)
                return None
        return Cut(common, moves, tuple(surplus))

    def _digest(self, path: str) -> str:
        content = self._disk.read(path) if self._disk.exists(path) else b""
        return queue.digest(content)

    async def cut(self, cut: Cut) -> None:
        """Cut the frames off, in the order that the module describes; OSError if the disk fails."""
        await self._disk.rename(cut.moves)
        await self._disk.remove_all(cut.surplus)
        await self._queue.limit_serial(cut.contents.end.last_job)
        await self._disk.sync(self._folders.lib)
        for path in reversed(self._sections.after(cut.contents.end.serial)):
            if path != cut.contents.section:
                await self._disk.remove(path)
                await self._disk.sync(self._folders.lib)
        if cut.contents.section:
            file = await self._disk.append_file(cut.contents.section)
            try:
                await file.truncate(cut.contents.good)
            finally:
                file.close()
