"""The journal: every change in order, in sections of frames, ``journal/<first serial, 16 digits>.log``.

``store.transaction`` appends, a frame at a time; recovery reads what follows the checkpoint; ``frame`` describes a
line. A section holds the records from its name's serial up to the next section's; a checkpoint at serial S starts the
section S + 1, and older ones stay, for history, until they are beyond the retention (``store.pruning``). The chain of
hashes runs through all sections. A write that failed is cut off before anything else is written, here or in the next
section, so what follows the last acknowledged frame is at most one torn frame. An empty section is ignored: a failing
disk may leave it behind, and the section before it continues.
"""

import errno
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from gantry import errors
from gantry.lib_files import frame, journal_names
from gantry.runtime import file_interface, interface, retention
from gantry.state.journal import record

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the journal: after the record ``serial``, the last of the frame with chain hash ``digest``."""

    serial: int = 0
    digest: str = frame.GENESIS
    epoch: int = 0


def damaged(path: str, what: str, *, offset: int | None = None) -> errors.ConfigurationError:
    """Return the error for a damaged file of the state."""
    where = path if offset is None else f"{path}, byte offset {offset}"
    return errors.ConfigurationError(
        f"the stored state is damaged: {where}: {what}",
        hint="install the copy of a master candidate, whose files are the same: gnt-cluster recover --from NODE",
    )


class Replay:
    """Reads the records after ``start``, checking every byte; iterate once, then ``end`` is the position reached.

    ``section`` is the path of the last section, empty if there is none; ``size`` is the length of its valid part, and
    ``torn`` describes the torn frame after it.
    """

    def __init__(self, disk: interface.Disk, folder: str, start: Position) -> None:
        self._disk = disk
        self._folder = folder
        self.start = self.end = start
        self.section = ""
        self.size = 0
        self.torn = ""

    def __iter__(self) -> Iterator[record.Record]:
        """Yield the records; raises ConfigurationError that names file and offset of the damage."""
        firsts = [serial for serial in sections(self._disk, self._folder) if serial > self.start.serial]
        for first in firsts:
            self.section = journal_names.path(self._folder, first)
            self.size = 0
            if first != self.end.serial + 1:
                raise damaged(self.section, f"records {self.end.serial + 1} to {first - 1} are missing before it")
            try:
                yield from self._read()
            except frame.TornError as error:
                if first != firsts[-1]:
                    raise damaged(self.section, error.what, offset=error.offset) from None
                self.torn = error.what
            except frame.DamageError as error:
                raise damaged(self.section, error.what, offset=error.offset) from None

    def _read(self) -> Iterator[record.Record]:
        for line in frame.scan(self._disk.read(self.section)):
            if line.previous != self.end.digest:
                raise frame.DamageError(line.offset, "the frame does not follow the one before it (chain hash)")
            for raw in line.records:
                try:
                    journal_record = record.decode(raw)
                except errors.ConfigurationError as error:
                    raise frame.DamageError(line.offset, error.message) from None
                if journal_record.serial != self.end.serial + 1:
                    raise frame.DamageError(
                        line.offset, f"record {journal_record.serial} follows record {self.end.serial}"
                    )
                self.end = Position(journal_record.serial, self.end.digest, journal_record.epoch)
                yield journal_record
            self.end = Position(self.end.serial, line.digest, self.end.epoch)
            self.size = line.offset + len(line.line)


class Journal:
    """The end of the journal, where frames are appended; ``written`` counts bytes in the current section."""

    def __init__(self, disk: interface.Disk, folder: str, *, path: str, file: file_interface.AppendFile) -> None:
        self._disk = disk
        self._folder = folder
        self._file = file
        self._dirty = False
        self.path = path
        self.written = file.size

    @classmethod
    async def open(cls, disk: interface.Disk, folder: str, *, replay: Replay, is_behind: bool = False) -> "Journal":
        """Open the journal where ``replay`` ended; a torn frame after that is cut off, with a warning in the log.

        With ``is_behind``, other files tell of records after that.
        """
        await disk.make_directory(folder)
        path = replay.section or journal_names.path(folder, replay.end.serial + 1)
        content = b""
        if replay.section:
            content = disk.read(path)
            if replay.torn:
                logger.warning(
                    "%s: dropped the last %d bytes, from byte offset %d: a frame that a crash interrupted (%s); %s",
                    path, len(content) - replay.size, replay.size, replay.torn,
                    "its changes may have been acknowledged: other files here tell of more"
                    if is_behind
                    else "its changes were never acknowledged",
                )  # fmt: skip
        # A previous daemon's fsync may have failed, and the kernel reports that only once. The data read may exist only
        # in the page cache, and later syncs would skip it, so rewrite the file.
        await disk.write(path, content[: replay.size])
        file = await disk.append_file(path)
        return cls(disk, folder, path=path, file=file)

    async def append(self, line: bytes, follow_up: file_interface.FollowUp | None = None) -> bool:
        """Write a frame, return when it is on stable storage, and whether ``follow_up`` is too; OSError if it is not.

        After an error the journal is as before; if even cutting it back failed, the next call tries that first. It is
        an error, too, if somebody has removed the section or put another file in its place: what it has is lost when
        the daemon ends.
        """
        await self._repair()
        self._dirty = True
        try:
            if follow_up is None:
                await self._file.append(line)
                is_followed = False
            else:
                is_followed = await self._file.append_with(line, self.path, follow_up)
            if not is_followed and not self.is_in_place():
                raise OSError(errno.ENOENT, "it was removed or replaced while the daemon runs")
        except OSError:
            try:
                await self._repair()
            except OSError as error:
                logger.error("%s: cannot be cut back to %d bytes: %s", self.path, self.written, error)
            raise
        self._dirty = False
        self.written += len(line)
        return is_followed

    def is_in_place(self) -> bool:
        """Return whether the current section is still the file to which frames are written."""
        return self._file.is_at(self.path)

    async def _repair(self) -> None:
        if self._dirty:
            await self._file.truncate(self.written)
            self._dirty = False

    async def rotate(self, serial: int) -> None:
        """Start the section whose first record is ``serial``; raises OSError, and then the current one stays."""
        path = journal_names.path(self._folder, serial)
        if path == self.path and self.is_in_place():
            return
        await self._repair()
        # An earlier attempt may have created the file without syncing its name, which syncs of its content omit.
        await self._disk.write(path, b"")
        file = await self._disk.append_file(path)
        self._file.close()
        self._file, self.path, self.written = file, path, file.size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


async def prune(disk: interface.Disk, folder: str, keep: retention.Retention, *, before: int, now: float) -> int:
    """Remove the oldest sections beyond the limits, except for records from serial ``before`` on; see ``retention``."""
    paths = {first: journal_names.path(folder, first) for first in sections(disk, folder)}
    return await retention.prune_sections(disk, paths, keep, before=before, now=now)


def sections(disk: interface.Disk, folder: str) -> list[int]:
    """Return the serials that the kept sections begin with, in order; empty sections are skipped."""
    if not disk.exists(folder):
        return []
    firsts = journal_names.firsts(disk.names(folder))
    return [first for first in firsts if disk.status(journal_names.path(folder, first)).size]
