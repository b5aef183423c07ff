"""Who may work on the folder of a state (one daemon at a time, by the queue's lock), and what its disk's faults are.

Used by ``transaction`` when a state is opened or made.
"""

import contextlib
from collections.abc import Iterator

from gantry import errors
from gantry.runtime import interface, paths

PATIENCE = 10.0
"""Seconds to wait for a lock that no master daemon holds."""

POLL = 0.02


async def take(runtime: interface.Runtime, where: paths.Paths) -> interface.FileLock:
    """Take the queue's lock; WrongStateError that names the process which has it.

    A master daemon keeps it. The node daemon has it for a moment for each frame of the copy, and a master that was
    killed until its last write has ended: those are waited for.
    """
    path, until = f"{where.queue}/lock", runtime.clock.monotonic() + PATIENCE
    while True:
        try:
            return runtime.disk.lock(path)
        except BlockingIOError:
            holder = runtime.disk.read(path).decode(errors="replace").strip()
        if _is_master(runtime, holder) or runtime.clock.monotonic() >= until:
            raise errors.WrongStateError(
                f"the state is in use: process {holder or '(unknown)'} holds {path}",
                hint="a master daemon runs already; stop it before another is started",
            )
        await runtime.clock.sleep(POLL)


def _is_master(runtime: interface.Runtime, pid: str) -> bool:
    words = runtime.processes.command_line(int(pid)) if pid.isdecimal() else []
    return any(program in word for word in words for program in paths.MASTER_PROGRAMS)


@contextlib.contextmanager
def disk_faults(where: paths.Paths) -> Iterator[None]:
    """Turn the disk's errors into StorageError."""
    try:
        yield
    except OSError as error:
        raise errors.StorageError(
            f"{error.filename or where.lib}: {error.strerror or error}", hint=f"check the file system of {where.lib}"
        ) from error
