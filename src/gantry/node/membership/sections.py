"""The sections of the journal in a master candidate's replica: their files, and a search in them. ``replica`` uses it.

lib/journal/<serial of the first record, 16 digits>.log
"""

from collections.abc import Mapping

from gantry.lib_files import journal_names
from gantry.node.membership import frames
from gantry.runtime import interface, retention


class Sections:
    """The sections in the folder ``folder``; empty ones are ignored."""

    def __init__(self, disk: interface.Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder

    def path(self, serial: int) -> str:
        """Return the path of the section whose first record is ``serial``."""
        return journal_names.path(self._folder, serial)

    def after(self, serial: int) -> list[str]:
        """Return the paths of the sections that begin after a serial, in order."""
        return [self.path(first) for first in self._firsts(after=serial)]

    def _firsts(self, *, after: int = -1) -> list[int]:
        names = self._disk.names(self._folder) if self._disk.exists(self._folder) else []
        return [
            first for first in journal_names.firsts(names) if first > after and self._disk.status(self.path(first)).size
        ]

    def following(self, digest: str, serial: int, sizes: Mapping[str, int]) -> list[bytes]:
        """Return the frames after the one with a chain hash, which ends with record ``serial``; empty without it.

        Of a section in ``sizes`` only that many bytes count.
        """
        following: list[bytes] = []
        paths = self.after(0)
        older = [path for path in paths if path <= self.path(serial + 1)]
        for path in reversed([*older[-1:], *paths[len(older) :]]):
            lines = self._disk.read(path)[: sizes.get(path)].splitlines(keepends=True)
            start = next((number for number, line in enumerate(lines) if frames.previous(line) == digest), None)
            following = [*lines[start or 0 :], *following]
            if start is not None:
                return following
        return []

    async def prune(self, keep: retention.Retention, *, before: int, now: float) -> None:
        """Remove the oldest sections beyond the limits, except for records from serial ``before`` on."""
        paths = {first: self.path(first) for first in self._firsts()}
        await retention.prune_sections(self._disk, paths, keep, before=before, now=now)
