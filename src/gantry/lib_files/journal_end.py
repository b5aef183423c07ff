"""``lib/journal-end``: how far the journal on a machine ever reached, two lines each time. Pure.

    job <highest job number> <CRC-32 of the text before it, 8 hex digits>
    <serial> <epoch> <chain hash of the frame> <CRC-32 of the text before it, 8 hex digits>

The highest valid position counts, with the job number in the line before it. Earlier versions wrote no job number, and
still read this file: they ignore lines of another form. A crash may leave one torn line at the end; whoever replaces
the file does so atomically, so its first two lines are always valid.

The master daemon (``state.journal.end_mark``) and the node daemon (``node.membership.journal_end``) write it, each
while it has the lock of the queue.
"""

import re
import zlib
from dataclasses import dataclass

from gantry.rpc import calls

SIZE = 64 << 10
"""Bytes after which the file is replaced by its last two lines."""

_LINE = re.compile(rb"(([0-9]{1,15}) ([0-9]{1,%d}) ([0-9a-f]*)) ([0-9a-f]{8})\n" % calls.EPOCH_DIGITS)
_JOB_LINE = re.compile(rb"(job ([0-9]{1,15})) ([0-9a-f]{8})\n")


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of the journal, and the highest job number there; None if an earlier version wrote the mark."""

    serial: int
    epoch: int
    digest: str
    last_job: int | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """The marks of a file in the order of its lines, and how many lines were neither a mark nor a job number."""

    marks: tuple[Mark, ...] = ()
    invalid: int = 0

    @property
    def furthest(self) -> Mark | None:
        """Return the mark with the highest position; None without a valid one."""
        return max(self.marks, key=lambda mark: (mark.epoch, mark.serial), default=None)


def encode(mark: Mark) -> bytes:
    r"""Return the lines of a mark.

    >>> encode(Mark(41, 2, "ab", last_job=7))
    b'job 7 108fe147\n41 2 ab 7292896b\n'
    """
    line = _checked(f"{mark.serial} {mark.epoch} {mark.digest}")
    return line if mark.last_job is None else _checked(f"job {mark.last_job}") + line


def _checked(text: str) -> bytes:
    return b"%s %08x\n" % (text.encode(), zlib.crc32(text.encode()))


def decode(content: bytes) -> Content:
    """Return what the lines of a file say; one that is torn or damaged only counts as invalid."""
    marks: list[Mark] = []
    last_job, invalid = None, 0
    for line in content.splitlines(keepends=True):
        number, mark = _job(line), _mark(line, last_job)
        if mark:
            marks.append(mark)
        invalid += mark is None and number is None
        last_job = number
    return Content(tuple(marks), invalid)


def _job(line: bytes) -> int | None:
    match = _JOB_LINE.fullmatch(line)
    return int(match[2]) if match and int(match[3], 16) == zlib.crc32(match[1]) else None


def _mark(line: bytes, last_job: int | None) -> Mark | None:
    match = _LINE.fullmatch(line)
    if match is None or int(match[5], 16) != zlib.crc32(match[1]):
        return None
    return Mark(int(match[2]), int(match[3]), match[4].decode(), last_job)
