"""What a simulated disk has on it: files and directories, changes of their names, locks (``disk``).

A file's content is a run of bytes of which the first ``stable`` are safe; ``tear`` is what a power failure does to the
others.
"""

import os
import random
from dataclasses import dataclass, field

from gantry.runtime.simulated import boot


def error(number: int, path: str) -> OSError:
    """Return the error that the operating system raises with this number."""
    return OSError(number, os.strerror(number), path)


@dataclass(eq=False)
class Node:
    """A file or directory. ``hole`` counts the zero bytes behind the content that take no room."""

    mode: int
    mtime: float
    directory: bool = False
    content: bytearray = field(default_factory=bytearray)
    hole: int = 0
    stable: int = 0
    # A sync failed: as with Linux, later syncs succeed and do not bring back what that one lost. Who has the file open
    # is told of each failure once; who opens it, of those that nobody was told of (errseq_t in the kernel).
    lost: bool = False
    failures: int = 0
    told: int = 0

    @property
    def size(self) -> int:
        """Return the length in bytes."""
        return len(self.content) + self.hole

    def tear(self, source: random.Random) -> None:
        """Lose what is not stable, up to a point that the seed chooses."""
        unsafe = len(self.content) - self.stable
        if unsafe > 0:
            # One draw, whatever the length: the certificates in some files have random ones.
            del self.content[self.stable + int(source.random() * (unsafe + 1)) :]
        self.stable = len(self.content)
        self.lost = False
        self.told = self.failures


Change = dict[str, Node | None]
"""A change of names, whole or not at all: what each path means afterwards."""


def apply(names: dict[str, Node], change: Change) -> None:
    """Carry out a change of names."""
    for path, node in change.items():
        if node is None:
            names.pop(path, None)
        else:
            names[path] = node


class FileLock:
    """A lock on a simulated file; it is given back when the process that took it ends."""

    def __init__(self, locks: dict[str, "FileLock"], path: str, owner: boot.Boot | None) -> None:
        self._locks = locks
        self._path = path
        self._owner = owner

    @property
    def held(self) -> bool:
        """Tell whether it still counts."""
        return self._owner is None or not self._owner.ended

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._locks.get(self._path) is self:
            del self._locks[self._path]
