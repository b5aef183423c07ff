"""Programs that must not outlive their daemon, even if the daemon is killed: how the next daemon finds and ends them.

    <folder>/mark       an empty file that tracked programs have open
    <folder>/<pid>      boot id and start time of the leader of each session of tracked programs

A tracked program inherits the open mark, and so do its children, even if they change their session or lose their
parent. A program that closes what it inherits, as Python does for its children, is found by its session. The mark needs
no write before the program starts, so that no kill of the daemon can fall between the program and its record.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)

TERMINATE_TIMEOUT_SECONDS = 5.0
"""For programs to end by themselves after SIGTERM."""
POLL_SECONDS = 0.02
WARN_SECONDS = 30.0
"""Between two messages about programs that hang in the kernel after SIGKILL."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class _Process:
    pid: int
    session: int
    started: str


class Tracker:
    """The tracked programs of this process; nothing is tracked before ``begin``."""

    def __init__(self) -> None:
        self._folder = ""
        self._mark = -1
        self._boot = ""

    def descriptors(self, tracked: bool) -> tuple[int, ...]:
        """Return what a program inherits."""
        return (self._mark,) if tracked and self._folder else ()

    def started(self, pid: int, tracked: bool) -> None:
        """Record the session of a program that has just started."""
        process = _process(pid) if tracked and self._folder else None
        if process:
            with open(f"{self._folder}/{pid}", "w", encoding="ascii") as file:
                file.write(f"{self._boot} {process.started}")

    def ended(self, pid: int, tracked: bool) -> None:
        """Remove the record of a program, unless processes of its session are left."""
        if not (tracked and self._folder):
            return
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._folder}/{pid}")
        except PermissionError:
            pass

    async def begin(self, folder: str) -> None:
        """End the programs that an earlier process has left in ``folder``, and track programs there from now on."""
        self._enter(folder)
        await self._end_all()
        for name in os.listdir(self._folder):
            if name.isdecimal():
                os.unlink(f"{self._folder}/{name}")
        if self._mark < 0:
            self._mark = os.open(f"{self._folder}/mark", os.O_RDONLY | os.O_CREAT, 0o600)

    def _enter(self, folder: str) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._folder = os.path.realpath(folder)
        with open(BOOT_ID, encoding="ascii") as file:
            self._boot = file.read().strip()

    async def _end_all(self) -> None:
        """Terminate the programs, then kill them until none is left: the caller may give their disks to others."""
        loop = asyncio.get_running_loop()
        began = warned = loop.time()
        terminated: set[int] = set()
        while remaining := await asyncio.to_thread(self._remaining):
            killing = loop.time() - began > TERMINATE_TIMEOUT_SECONDS
            if not terminated:
                log.warning("ending programs that the daemon before left running: %s", _described(remaining))
            for process in remaining:
                if killing or process.pid not in terminated:
                    terminated.add(process.pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGKILL if killing else signal.SIGTERM)
            if loop.time() - warned > WARN_SECONDS:
                warned = loop.time()
                log.error("waiting for programs that hang, perhaps for a disk: %s", _described(remaining))
            await asyncio.sleep(POLL_SECONDS)

    def _remaining(self) -> Sequence[_Process]:
        """Return the processes that have the mark open, and those in a session with them or of a record."""
        processes = list(_processes())
        mark, own = f"{self._folder}/mark", os.getpid()
        file = os.stat(mark) if os.path.exists(mark) else None
        marked = [
            process for process in processes if file and process.pid != own and _has_open(process.pid, mark, file)
        ]
        sessions = {process.session for process in marked} | self._sessions(processes)
        sessions.discard(os.getsid(0))
        return [process for process in processes if process in marked or process.session in sessions]

    def _sessions(self, processes: Sequence[_Process]) -> set[int]:
        """Return the recorded sessions of this boot; a leader that started at another time has reused the number."""
        leaders = {process.pid: process for process in processes}
        sessions = set()
        for name in os.listdir(self._folder):
            if name.isdecimal():
                with open(f"{self._folder}/{name}", encoding="ascii") as file:
                    boot, _, started = file.read().partition(" ")
                leader = leaders.get(int(name))
                if boot == self._boot and (leader is None or leader.started == started):
                    sessions.add(int(name))
        return sessions


def _processes() -> Iterator[_Process]:
    for name in os.listdir("/proc"):
        process = _process(int(name)) if name.isdecimal() else None
        if process:
            yield process


def _process(pid: int) -> _Process | None:
    """Return a process; None if it has ended, or is a zombie without threads."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X") and len(os.listdir(f"/proc/{pid}/task")) <= 1:
            return None
    except (FileNotFoundError, ProcessLookupError):
        return None
    return _Process(pid, int(fields[3]), fields[19].decode())


def _has_open(pid: int, path: str, file: os.stat_result) -> bool:
    """Return whether a process has a file open; False for a process of another user.

    In a mount namespace of its own a process may have another file under this path: a daemon of another machine that
    shares only the process ids, such as a container. Its files are examined only if the path is equal, because that
    may wait for a disk.
    """
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for number in numbers:
        with contextlib.suppress(OSError):
            link = f"/proc/{pid}/fd/{number}"
            if os.readlink(link) == path and os.path.samestat(os.stat(link), file):
                return True
    return False


def _described(processes: Sequence[_Process]) -> str:
    descriptions = []
    for process in processes[:5]:
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/cmdline", "rb") as file:
            descriptions.append(f"{process.pid} ({os.fsdecode(file.read().replace(bytes(1), b' ')).strip()[:80]})")
    return ", ".join(descriptions)
