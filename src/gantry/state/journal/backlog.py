"""The frames that a master candidate lacks and that are no longer in memory, read from the master's journal on disk.

``candidates.candidate`` sends them instead of the whole state, so that the candidate's journal, and with it its
history, has no gap. Blocking: run each step in a thread.
"""

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.lib_files import frame, journal_names
from gantry.runtime import interface
from gantry.state.journal import journal, record

LIMIT = 256 << 20
"""Bytes of frames that are sent at most: a candidate that lacks more gets the whole state, and loses its history."""

BATCH = 1 << 20
"""Bytes of frames in one call, unless a single frame has more."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Frames that follow each other: ``end`` is the position after them, ``begins`` says that they begin a section."""

    lines: bytes
    previous: str
    end: journal.Position
    begins: bool


def read(
    disk: interface.Disk, folder: str, *, serial: int, digest: str, until: Callable[[], journal.Position]
) -> Iterator[Lines]:
    """Yield the frames after the one that ends with record ``serial`` and has the chain hash ``digest``.

    They end at the position that ``until`` returns, which may move on meanwhile, or before a record that is partial (as
    of a configuration that was edited by hand): no frame leads from the state before to the state after it. Nothing is
    yielded if that frame is not in the journal, or if there are more than ``LIMIT`` bytes after it.
    """
    firsts = journal.sections(disk, folder)
    firsts = firsts[max(bisect.bisect_right(firsts, serial + 1) - 1, 0) :]
    size = sum(disk.status(journal_names.path(folder, first)).size for first in firsts)
    if not digest or not firsts or firsts[0] > serial + 1 or size > LIMIT:
        return
    for first in firsts:
        for lines in _section(disk, folder, first=first, serial=serial, digest=digest, until=until):
            serial, digest = lines.end.serial, lines.end.digest
            yield lines


def ends(disk: interface.Disk, folder: str, *, serial: int) -> Iterator[list[journal.Position]]:
    """Yield where the frames end up to record ``serial``, of one section after another, the newest first; no epochs.

    Sections from which ``read`` would send nothing, because more than ``LIMIT`` bytes follow, are left out.
    """
    try:
        firsts = journal.sections(disk, folder)
        sizes = [disk.status(journal_names.path(folder, first)).size for first in firsts]
    except FileNotFoundError:  # the oldest was removed meanwhile, as it is beyond the retention
        return
    for first, size in reversed(list(zip(firsts, _remaining(sizes), strict=True))):
        if size > LIMIT:
            return
        positions, end = list[journal.Position](), first - 1
        for journal_frame in _frames(disk, journal_names.path(folder, first)) if first <= serial else ():
            end += len(journal_frame.records)
            if end > serial:
                break
            positions.append(journal.Position(end, journal_frame.digest))
        yield positions


def _remaining(sizes: Sequence[int]) -> list[int]:
    """Return the bytes from the beginning of each section to the end of the journal."""
    return list(itertools.accumulate(reversed(sizes)))[::-1]


def oldest_needed(firsts: Sequence[int], sizes: Sequence[int], serials: Iterable[int | None], *, end: int) -> int:
    """Return the first serial of the oldest section that ``read`` needs for the frames after any of the serials.

    The sections begin with ``firsts`` and have ``sizes``; the journal ends with record ``end``. None is an unknown
    serial: then all sections are needed that ``read`` might send. A candidate that would get the whole state needs
    none. The answer is ``end + 1`` if no section is needed.
    """
    remaining = _remaining(sizes)
    needed = [end + 1]
    for serial in serials:
        if serial is None:
            needed += [first for first, size in zip(firsts, remaining, strict=True) if size <= LIMIT]
        elif serial < end:
            number = bisect.bisect_right(firsts, serial + 1) - 1
            if number >= 0 and remaining[number] <= LIMIT:
                needed.append(firsts[number])
    return min(needed)


def _section(
    disk: interface.Disk,
    folder: str,
    *,
    first: int,
    serial: int,
    digest: str,
    until: Callable[[], journal.Position],
) -> Iterator[Lines]:
    """Yield what one section has of these frames."""
    gathered, previous, begins, end = b"", digest, False, first - 1
    for journal_frame in _frames(disk, journal_names.path(folder, first)):
        head = until()
        start, end = end, end + len(journal_frame.records)
        if end <= serial:
            continue
        if journal_frame.previous != digest or end > head.serial or _is_partial(journal_frame):
            break
        if gathered and len(gathered) + len(journal_frame.line) > BATCH:
            yield Lines(gathered, previous, journal.Position(start, digest, head.epoch), begins)
            gathered, previous = b"", digest
        if not gathered:
            begins = journal_frame.offset == 0
        gathered += journal_frame.line
        serial, digest = end, journal_frame.digest
    if gathered:
        yield Lines(gathered, previous, journal.Position(serial, digest, until().epoch), begins)


def _frames(disk: interface.Disk, path: str) -> Iterator[frame.Frame]:
    """Yield the frames of a section up to damage, or up to the one that is being written."""
    try:
        yield from frame.scan(disk.read(path))
    except (OSError, frame.DamageError):
        return


def _is_partial(journal_frame: frame.Frame) -> bool:
    try:
        return any(record.decode(raw, kinds=()).is_partial for raw in journal_frame.records)
    except errors.ConfigurationError:
        return True
