"""The machines that nodes run on: each is a process, which boots the image of ``image.sh`` or another one.

``choice`` decides which kind there is here: User-Mode Linux (``uml``) or QEMU (``qemu``). The tests need not know it.
"""

import abc
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import cache

NODES = Path(__file__).parents[1]


class UnavailableError(Exception):
    """A kind of machine cannot be used here; its text says why, and what to do."""


def image() -> Path:
    """Return the nodes' root file system."""
    return cache.cached("node", NODES / "image.sh", suffix=".ext4")


class Hardware(abc.ABC):
    """A machine with one network card, whose cable is the tap ``tap``, and with disks, which are sparse files.

    The number of a disk is its position among all that were ever added, from 0; the disk of the operating system has
    none. What is on the disks outlives ``kill``. ``folder`` holds all files of the machine; it must exist when the
    machine starts.
    """

    def __init__(self, folder: Path, *, tap: str, mac: str, memory: int) -> None:
        self.folder = folder
        self.tap = tap
        self.mac = mac
        self.memory = memory
        """MiB."""
        self.console = folder / "console"
        """What the machine has written since it was switched on."""
        self.disks: dict[int, Path] = {}
        """The disks that are plugged in, by number."""
        self._added = 0
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @abc.abstractmethod
    def prepare(cls) -> None:
        """Make what the machine boots from, unless it is cached."""

    @abc.abstractmethod
    def device(self, number: int) -> str:
        """Return the path that the kernel has for a disk, once the machine has been started."""

    @abc.abstractmethod
    def _plug(self, number: int) -> None:
        """Plug a disk of ``disks`` into a machine that runs."""

    @abc.abstractmethod
    def _unplug(self, number: int) -> None:
        """Pull a disk of a machine that runs; return when its kernel no longer has it."""

    @abc.abstractmethod
    def _command(self, words: Sequence[str]) -> list[str | Path]:
        """Return the command that is the machine; its kernel's command line gets ``words`` too."""

    def start(self, words: Mapping[str, str]) -> None:
        """Switch the machine on; its first process finds ``words`` on the kernel's command line, as ``name=value``."""
        command = self._command([f"{name}={value}" for name, value in words.items()])
        with open(self.console, "ab") as log:
            log.truncate(0)
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                # User-Mode Linux has its memory in a file there.
                env={**os.environ, "TMPDIR": "/dev/shm"},
            )  # fmt: skip

    @property
    def is_on(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Cut the power."""
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def add_disk(self, size: int) -> int:
        """Add an empty disk of ``size`` MiB, to a machine that runs too; return its number."""
        number, self._added = self._added, self._added + 1
        path = self.folder / f"disk{number}"
        path.touch()
        os.truncate(path, size << 20)
        self.disks[number] = path
        if self._process:
            self._plug(number)
        return number

    def pull_disk(self, number: int) -> None:
        """Pull a disk that nothing in the machine's kernel holds."""
        self._unplug(number)
        del self.disks[number]
