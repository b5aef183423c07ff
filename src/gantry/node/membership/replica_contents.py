"""The contents of a replica: where its valid frames end, and how many bytes of each section count.

``replica`` loads them, keeps them while the files are unchanged, and asks what a change concerns. Nothing here changes
a file: what does not follow from the checkpoint does not count, but stays.
"""

import dataclasses
import logging

from gantry.node.membership import frames, sections
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Contents:
    """The contents of the replica: its end, the last section (empty before the first), and how many bytes of it count.

    ``start`` is the serial of the checkpoint, ``written`` size and time of the section for the next frame,
    ``config_time`` the time of ``config.data``.
    """

    end: frames.Position = frames.START
    start: int = 0
    section: str = ""
    good: int = 0
    written: tuple[int, float] = (0, 0.0)
    config_time: float = 0.0


class Reader:
    """Reads the contents of a replica."""

    def __init__(self, disk: interface.Disk, folders: paths.Paths, journal_sections: sections.Sections) -> None:
        self._disk = disk
        self._folders = folders
        self._sections = journal_sections

    def load(self) -> Contents:
        """Read the replica as far as its frames are valid; empty if the checkpoint cannot be read."""
        config_time = self.config_time()
        try:
            end = frames.checkpoint(self._disk.read(self._folders.config))
        except FileNotFoundError:
            return Contents()
        except ValueError as error:
            logger.warning("%s: %s", self._folders.config, error)
            return Contents(config_time=config_time)
        section, good, start = "", 0, end.serial
        for path in self._sections.after(end.serial):
            if path != self._sections.path(end.serial + 1):
                logger.warning("%s: not read: the records before it are missing", path)
                break
            data = self._disk.read(path)
            section, good = path, 0
            try:
                for line in data.splitlines(keepends=True):
                    end = frames.follow(end, line)
                    good += len(line)
            except ValueError as error:
                logger.warning("%s: read up to byte offset %d: %s", path, good, error)
                break
        return Contents(end, start, section, good=good, config_time=config_time)

    def is_unchanged(self, contents: Contents) -> bool:
        """Return whether the files have the times and the size that they had when they were read."""
        return contents.written == self._written(contents) and self.config_time() == contents.config_time

    def with_times(self, contents: Contents) -> Contents:
        """Return the contents with the present size and times of the files."""
        return dataclasses.replace(contents, written=self._written(contents))

    def _written(self, contents: Contents) -> tuple[int, float]:
        path = self.next_section(contents, begins=False)
        status = self._disk.status(path) if self._disk.exists(path) else None
        return (status.size, status.mtime) if status else (0, 0.0)

    def next_section(self, contents: Contents, *, begins: bool) -> str:
        """Return the section to which the next frame is appended; a new one if the frame ``begins`` a section."""
        return self._sections.path(contents.end.serial + 1) if begins or not contents.section else contents.section

    def config_time(self) -> float:
        """Return the time of ``config.data``, 0 without one."""
        path = self._folders.config
        return self._disk.status(path).mtime if self._disk.exists(path) else 0.0

    def counted(self, contents: Contents, path: str) -> int:
        """Return how many bytes of a section count."""
        return contents.good if path == contents.section else self._disk.status(path).size

    def sizes(self, contents: Contents, *, until: int) -> dict[str, int]:
        """Return the sections between the checkpoint and a later record, with the bytes that count."""
        return {
            path: self.counted(contents, path)
            for path in self._sections.after(contents.start)
            if path <= self._sections.path(until)
        }

    def ends_section(self, contents: Contents, position: frames.Position) -> bool:
        """Return whether a later checkpoint is where the replica ends, or where one of its sections ends."""
        if position.serial <= contents.start:
            return False
        if position.serial == contents.end.serial:
            return position.digest == contents.end.digest
        path = self._sections.path(position.serial + 1)
        if path not in self._sections.after(position.serial) or position.serial > contents.end.serial:
            return False
        data = self._disk.read(path)
        return frames.previous(data[: data.find(b"\n") + 1]) == position.digest
