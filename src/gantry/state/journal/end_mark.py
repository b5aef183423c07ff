"""The second place that says where the journal ends: the file ``journal-end`` (``lib_files.journal_end``).

``store.transaction`` writes it after the frame is on stable storage and before the change is acknowledged. So an intact
journal is never behind the mark; a journal that is behind has lost its tail, which the journal alone cannot show. A
mark that is behind the journal is normal: the daemon was killed between the two, or the mark could not be written.

A master without candidates writes mark and frame in one call to the journal's thread (``follow_up``). With candidates
the mark is written while they get the frame.

The file is replaced at the first write of each daemon and when it has grown.
"""

import asyncio
import logging

from gantry import errors
from gantry.lib_files import journal_end
from gantry.runtime import file_interface, interface
from gantry.state.journal import journal

logger = logging.getLogger(__name__)


class EndMark:
    """The writer of the mark; one per store."""

    def __init__(self, disk: interface.Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: file_interface.AppendFile | None = None
        self._turn = asyncio.Lock()
        self._failing = False
        self._last: journal_end.Mark | None = None

    def follow_up(self, mark: journal_end.Mark) -> file_interface.FollowUp | None:
        """Return the mark for the journal to write after a frame; None if the file has to be replaced or is in use."""
        # A write goes on when the candidates refuse its frame, and may close the file.
        if self._turn.locked() or self._file is None or self._file.size >= journal_end.SIZE:
            return None
        return file_interface.FollowUp(self._file, journal_end.encode(mark))

    def followed(self, mark: journal_end.Mark, *, is_written: bool) -> None:
        """Note what has become of the last follow-up; if it has failed, ``write`` replaces the file."""
        if is_written:
            self._last = mark
        else:
            self.close()

    def has(self, mark: journal_end.Mark) -> bool:
        """Return whether the mark is the last one that was written."""
        return self._last == mark

    async def write(self, mark: journal_end.Mark) -> None:
        """Return when the mark is on stable storage; a failure is logged, and the next call replaces the file.

        The frame is durable in the journal and may be on candidates: to report its change as failed would be wrong, and
        to undo it is not possible. Without a mark the change only lacks its second witness.
        """
        async with self._turn:
            try:
                await self._write(journal_end.encode(mark))
                self._last, self._failing = mark, False
            except OSError as error:
                self.close()
                if not self._failing:
                    logger.error(
                        "%s cannot be written: %s; until it can, a journal that loses its end is not detected here",
                        self._path,
                        error.strerror or error,
                    )
                self._failing = True

    async def _write(self, lines: bytes) -> None:
        if self._file is None or self._file.size >= journal_end.SIZE:
            self.close()
            await self._disk.write(self._path, lines)
            self._file = await self._disk.append_file(self._path)
        else:
            await self._file.append(lines)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def at(position: journal.Position, last_job: int | None = None) -> journal_end.Mark:
    """Return the mark of a position; ``last_job`` is the highest job number there."""
    return journal_end.Mark(position.serial, position.epoch, position.digest, last_job)


def read(disk: interface.Disk, path: str) -> journal_end.Mark | None:
    """Return the mark with the highest position, None without a file; ConfigurationError if no position is valid."""
    if not disk.exists(path):
        return None
    content = journal_end.decode(disk.read(path))
    if content.furthest is None:
        raise errors.ConfigurationError(
            f"{path} is damaged: it does not say where the journal ends",
            hint="compare the end of journal/ with the copies on the master candidates; if it is the newest, remove "
            f"{path} and start the daemon again",
        )
    if content.invalid:
        logger.warning("%s: %d lines are not valid and were ignored", path, content.invalid)
    return content.furthest
