"""What a check of the doctor reports, and what all checks look at.

A check is an async function that gets a ``Machine`` and returns its results; ``doctor.examination`` has the list.
"""

import enum
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from gantry import errors
from gantry.daemons.options import config_file, machine_files
from gantry.lib_files import member as member_file
from gantry.lib_files import ssconf as ssconf_file
from gantry.runtime import interface, paths


class Level(enum.StrEnum):
    """How bad a result is; only an error changes the exit code."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Result(msgspec.Struct, frozen=True):
    """The result of a check: its name, how bad it is, what was seen, and what to do about it."""

    name: str
    level: Level
    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Machine:
    """The machine that is examined."""

    runtime: interface.Runtime
    folders: paths.Paths
    _ssconf: dict[str, list[str]] = field(default_factory=dict)

    @property
    def disk(self) -> interface.Disk:
        """Return the machine's file system."""
        return self.runtime.disk

    def text(self, path: str) -> str:
        """Return the text of a file, empty if it does not exist."""
        try:
            return self.disk.read(path).decode(errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return ""

    def ssconf(self, key: str) -> list[str]:
        """Return the lines of an ssconf file, nothing without a cluster."""
        if key not in self._ssconf:
            self._ssconf[key] = self.text(ssconf_file.path(self.folders.ssconf, key)).splitlines()
        return self._ssconf[key]

    def pairs(self, key: str) -> dict[str, str]:
        """Return an ssconf file whose lines are a name and a value."""
        parts = (line.split(maxsplit=1) for line in self.ssconf(key))
        return {part[0]: part[1] for part in parts if len(part) == 2}

    @property
    def member(self) -> member_file.Member | None:
        """Return the machine's identity in its cluster; None without a cluster or without a readable file."""
        if not self.disk.exists(f"{self.folders.certificates}/node.pem"):
            return None
        try:
            return member_file.decode(self.text(member_file.path(self.folders.certificates)).encode())
        except errors.ConfigurationError:
            return None

    def setting(self, file: str, key: str) -> object:
        """Return the value of a daemon's configuration file or its default; None if it is not installed."""
        program = machine_files.program(file)
        if program is None:
            return None
        values = config_file.read(program, f"{self.folders.etc}/{file}", self.disk)[0].get("", {})
        action = config_file.tables(program, program.command_line())[""][key]
        default: object = action.default
        return values.get(action.dest, default)

    async def output(self, *arguments: str) -> str | None:
        """Return what a program prints; None if it is not installed or fails."""
        try:
            ended = await self.runtime.processes.run(arguments, environment=ENVIRONMENT, timeout=TIMEOUT_SECONDS)
        except (FileNotFoundError, TimeoutError):
            return None
        return None if ended.code else ended.stdout.decode(errors="replace")


TIMEOUT_SECONDS = 10.0
FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin")
"""Where programs are searched."""

ENVIRONMENT = {"PATH": ":".join(FOLDERS), "LC_ALL": "C"}

Check = Callable[[Machine], Awaitable[Sequence[Result]]]
