"""The content of a simulated disk (``disk``): files and directories, changes of their names, locks.

Of a file's content, the first ``stable`` bytes are on stable storage; ``tear`` applies a power loss to the other bytes.
"""

import os
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from gantry.runtime.simulated import boot


def error(number: int, path: str) -> OSError:
    """Return the error that the operating system raises with this number."""
    return OSError(number, os.strerror(number), path)


@dataclass(eq=False)
class Node:
    """A file or directory. ``hole`` is the number of zero bytes after the content that use no capacity."""

    mode: int
    mtime: float
    directory: bool = False
    content: bytearray = field(default_factory=bytearray)
    hole: int = 0
    stable: int = 0
    # A sync has failed. As in Linux, later syncs succeed but do not write the data that the failed sync lost. Each open
    # file reports each failure once; a newly opened file reports failures that no other has reported (errseq_t).
    lost: bool = False
    failures: int = 0
    reported: int = 0

    @property
    def size(self) -> int:
        """Return the length in bytes."""
        return len(self.content) + self.hole

    def tear(self, source: random.Random) -> None:
        """Lose content that is not stable, from a point that ``source`` chooses."""
        unstable = len(self.content) - self.stable
        if unstable > 0:
            # Always one draw, because the length of certificates in some files is random.
            del self.content[self.stable + int(source.random() * (unstable + 1)) :]
        self.stable = len(self.content)
        self.lost = False
        self.reported = self.failures


Change = dict[str, Node | None]
"""An atomic change of names: the file or directory of each path afterwards, None if removed."""


def apply(names: dict[str, Node], change: Change) -> None:
    """Apply a change to names."""
    for path, node in change.items():
        if node is None:
            names.pop(path, None)
        else:
            names[path] = node


def parent(path: str) -> str:
    """Return the directory of a path, which is absolute and normal."""
    return path.rpartition("/")[0] or "/"


class Lists:
    """The lists of directories in ``names``, each made when it is needed, and kept until a name in it changes."""

    def __init__(self, names: dict[str, Node]) -> None:
        self._names = names
        self._known: dict[str, list[str]] = {}

    def names(self, folder: str) -> list[str]:
        """Return the names in a directory, sorted."""
        if folder not in self._known:
            beginning = folder if folder.endswith("/") else f"{folder}/"
            start = len(beginning)
            below = [path for path in self._names if path.startswith(beginning) and path.find("/", start) < 0]
            self._known[folder] = sorted(path[start:] for path in below if path != beginning)
        return list(self._known[folder])

    def forget(self, changed: Iterable[str]) -> None:
        """Forget the lists that have one of these paths."""
        for path in changed if self._known else ():
            self._known.pop(parent(path), None)


class FileLock:
    """A lock on a simulated file; the end of the process that acquired the lock releases it."""

    def __init__(self, locks: dict[str, "FileLock"], path: str, owner: boot.Boot | None) -> None:
        self._locks = locks
        self._path = path
        self._owner = owner

    @property
    def valid(self) -> bool:
        """Return whether the process that acquired the lock still runs."""
        return self._owner is None or not self._owner.ended

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._locks.get(self._path) is self:
            del self._locks[self._path]
