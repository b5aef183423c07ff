"""The second place that says where the journal ends: ``lib/journal-end``, two lines for each frame.

    job <highest job number> <CRC-32 of the text before it, 8 hex digits>
    <serial> <epoch> <chain hash of the frame> <CRC-32 of the text before it, 8 hex digits>

``transaction`` writes them after the frame is on stable storage and before the change is acknowledged. So an intact
journal is never behind the mark; a journal that is behind has lost its tail, which the journal alone cannot show. A
mark that is behind the journal is normal: the daemon was killed between the two, or the mark could not be written.

The highest valid position counts, with the job number in the line before it. Earlier versions wrote no job number, and
still read this file: they ignore lines of another form. A crash may leave one torn line at the end; the file is
replaced at the first write of each daemon and when it has grown, atomically, so its first two lines are always valid.
"""

import asyncio
import logging
import re
import zlib
from dataclasses import dataclass

from gantry import errors
from gantry.rpc import calls
from gantry.runtime import interface
from gantry.state import journal

logger = logging.getLogger(__name__)

SIZE = 64 << 10
"""Bytes after which the file is replaced by its last two lines."""

_LINE = re.compile(rb"(([0-9]{1,15}) ([0-9]{1,%d}) ([0-9a-f]*)) ([0-9a-f]{8})\n" % calls.EPOCH_DIGITS)
_JOB_LINE = re.compile(rb"(job ([0-9]{1,15})) ([0-9a-f]{8})\n")


@dataclass(frozen=True)
class Mark:
    """The end of the journal, and the highest job number there; None if an earlier version wrote the mark."""

    position: journal.Position
    last_job: int | None = None


class EndMark:
    """The writer of the mark; one per store."""

    def __init__(self, disk: interface.Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: interface.AppendFile | None = None
        self._turn = asyncio.Lock()
        self._failing = False

    async def write(self, mark: Mark) -> None:
        """Return when the mark is on stable storage; a failure is logged, and the next call replaces the file.

        The frame is durable in the journal and may be on candidates: to report its change as failed would be wrong, and
        to undo it is not possible. Without a mark the change only lacks its second witness.
        """
        async with self._turn:
            try:
                await self._write(encode(mark))
                self._failing = False
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
        if self._file is None or self._file.size >= SIZE:
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


def encode(mark: Mark) -> bytes:
    """Return the lines of a mark."""
    position = mark.position
    line = _checked(f"{position.serial} {position.epoch} {position.digest}")
    return line if mark.last_job is None else _checked(f"job {mark.last_job}") + line


def _checked(text: str) -> bytes:
    return b"%s %08x\n" % (text.encode(), zlib.crc32(text.encode()))


def read(disk: interface.Disk, path: str) -> Mark | None:
    """Return the mark with the highest position, None without a file; ConfigurationError if no position is valid."""
    if not disk.exists(path):
        return None
    lines = disk.read(path).splitlines(keepends=True)
    marks: list[Mark] = []
    last_job, invalid = None, 0
    for line in lines:
        number, position = _job(line), _position(line)
        if position:
            marks.append(Mark(position, last_job))
        invalid += position is None and number is None
        last_job = number
    if not marks:
        raise errors.ConfigurationError(
            f"{path} is damaged: it does not say where the journal ends",
            hint="compare the end of journal/ with the copies on the master candidates; if it is the newest, remove "
            f"{path} and start the daemon again",
        )
    if invalid:
        logger.warning("%s: %d lines are not valid and were ignored", path, invalid)
    return max(marks, key=lambda mark: (mark.position.epoch, mark.position.serial))


def _job(line: bytes) -> int | None:
    match = _JOB_LINE.fullmatch(line)
    return int(match[2]) if match and int(match[3], 16) == zlib.crc32(match[1]) else None


def _position(line: bytes) -> journal.Position | None:
    match = _LINE.fullmatch(line)
    if match is None or int(match[5], 16) != zlib.crc32(match[1]):
        return None
    return journal.Position(int(match[2]), match[4].decode(), int(match[3]))
