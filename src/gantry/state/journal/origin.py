"""Since when an object of the state has a property, and by which job: found in the journal by the object's text.

``History.origins`` calls ``find`` in a thread. A record contains the UUID of each object that it puts, so the bytes of
a section are searched for that text, and only the lines that contain it are decoded. The search begins at the time of
the object's last change, which the sections' files and the times of the lines find by bisection, and goes back from
there, to the record that gave the object the property.

Cost: a few hundred kilobytes for an object that never changed after its creation, whatever the number of objects and
the length of the journal; otherwise the bytes of the journal between both changes, at the speed of a search in memory.
"""

import bisect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from gantry.lib_files import frame, journal_names
from gantry.model import base
from gantry.runtime import interface
from gantry.state.journal import journal, record
from gantry.state.objects import kinds

FIRST_BLOCK = 256 << 10
BLOCK = 4 << 20
"""Bytes of the journal that are read at once: first, and at most, besides the rest of a line."""

HEAD = 512
"""Bytes at the beginning of a line that have the time of its first record."""

_TIME = re.compile(rb'"time":([0-9.eE+-]+)')


class Origin(msgspec.Struct, frozen=True):
    """When an object got a property, in seconds since the epoch, and why; None and empty if no kept record shows it."""

    time: float | None = None
    cause: record.Cause = record.Cause()


@dataclass(frozen=True)
class Search:
    """The present object that has a property, a test for the property, and the time of the object's last change.

    ``needle`` is a text that the object has in every record; a wrong time costs time only.
    """

    value: kinds.Stored
    has: Callable[[kinds.Stored], bool]
    needle: str
    near: float

    @property
    def kind(self) -> kinds.Kind[kinds.Stored]:
        """Return the descriptor of the object."""
        return kinds.kind_of(self.value)


def find(disk: interface.Disk, folder: str, search: Search) -> Origin:
    """Return the origin of a property; damage of the journal counts as its end."""
    firsts = journal.sections(disk, folder)
    paths = [journal_names.path(folder, first) for first in firsts]
    begin = bisect.bisect_left(paths, search.near, key=lambda path: disk.status(path).mtime)
    puts = _Puts(disk, paths, search)
    newest = puts.present(min(begin, len(paths) - 1)) if paths else None
    if newest is None:
        return Origin()
    origin = newest
    for put in puts.before(newest):
        if put.value is None or not search.has(put.value):
            return Origin(origin.time, origin.cause)
        origin = put
    created = isinstance(origin.value, base.Entity) and origin.value.serial_no > 1
    return Origin() if created and firsts[0] > 1 else Origin(origin.time, origin.cause)


@dataclass(frozen=True)
class _Put:
    """A record that puts the object, or removes it (None): where its line begins, its number in the line."""

    section: int
    offset: int
    index: int
    time: float
    cause: record.Cause
    value: kinds.Stored | None


class _Puts:
    """The records that put or remove the object of a search, in the sections ``paths``."""

    def __init__(self, disk: interface.Disk, paths: list[str], search: Search) -> None:
        self._sections = [_Section(disk, path) for path in paths]
        self._search = search
        self._needle = search.needle.encode()

    def present(self, begin: int) -> _Put | None:
        """Return the record that made the object as it is now; ``begin`` is the section of its last change."""
        for number in range(begin, len(self._sections)):
            section = self._sections[number]
            offset, step = section.line_at(self._search.near) if number == begin else 0, FIRST_BLOCK
            while offset < section.size:
                for put in self._puts(number, offset, offset + step):
                    if put.value == self._search.value:
                        return put
                offset, step = offset + step, min(2 * step, BLOCK)
        for put in self._backward(len(self._sections) - 1, None):
            if put.value == self._search.value:
                return put
        return None

    def before(self, put: _Put) -> Iterator[_Put]:
        """Yield the earlier records about the object, the newest first, up to its creation."""
        if _is_creation(put.value):
            return
        for earlier in self._backward(put.section, put):
            yield earlier
            if _is_creation(earlier.value):
                return

    def _backward(self, newest: int, stop: _Put | None) -> Iterator[_Put]:
        """Yield the records before ``stop``, the newest first."""
        for number in range(newest, -1, -1):
            high = self._sections[number].size if stop is None or stop.section != number else stop.offset + 1
            while high > 0:
                low = max(0, high - BLOCK)
                for put in reversed(list(self._puts(number, low, high))):
                    if stop is None or (put.section, put.offset, put.index) < (stop.section, stop.offset, stop.index):
                        yield put
                high = low

    def _puts(self, number: int, low: int, high: int) -> Iterator[_Put]:
        """Yield the records about the object in the lines that begin from ``low`` up to, not including, ``high``."""
        base, data = self._sections[number].lines(low, high)
        offset = 0
        while (position := data.find(self._needle, offset)) >= 0:
            start = data.rfind(b"\n", 0, position) + 1
            offset = data.find(b"\n", position) + 1 or len(data)
            yield from self._of_line(number, base + start, data[start:offset])

    def _of_line(self, section: int, offset: int, line: bytes) -> Iterator[_Put]:
        """Yield the records of a line that put or remove the object, in order."""
        try:
            (whole,) = frame.scan(line)
        except frame.DamageError:
            return
        kind = self._search.kind
        key = kind.key(self._search.value)
        for index, raw in enumerate(whole.records):
            if self._needle not in bytes(raw):
                continue
            journal_record = record.decode(raw, kinds={kind.collection})
            for change in journal_record.changes:
                if change.key == key:
                    value = change.value if isinstance(change, kinds.Put) else None
                    yield _Put(section, offset, index, journal_record.time, journal_record.cause, value)


class _Section:
    """The lines of a section, of which only parts are read."""

    def __init__(self, disk: interface.Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self.size = disk.status(path).size

    def lines(self, low: int, high: int) -> tuple[int, bytes]:
        """Return the lines that begin from ``low`` up to, not including, ``high``, and where the first begins."""
        begin, end = self._start(low), self._start(high)
        return begin, self._disk.read_part(self._path, begin, end - begin)

    def line_at(self, time: float) -> int:
        """Return an offset a little before the first line at or after a time."""
        low, high = 0, self.size
        while high - low > FIRST_BLOCK:
            middle = (low + high) // 2
            match = _TIME.search(self._disk.read_part(self._path, self._start(middle), HEAD))
            if match is not None and float(match[1]) < time:
                low = middle
            else:
                high = middle
        return low

    def _start(self, offset: int) -> int:
        """Return where the first line begins at or after an offset."""
        position = min(offset, self.size) - 1
        while 0 <= position < self.size - 1:
            block = self._disk.read_part(self._path, position, FIRST_BLOCK)
            if (end := block.find(b"\n")) >= 0:
                return position + end + 1
            position += len(block)
        return 0 if position < 0 else self.size


def _is_creation(value: kinds.Stored | None) -> bool:
    return value is None or (isinstance(value, base.Entity) and value.serial_no == 1)
