"""Exclusive use of the folder of a state, by the queue's lock, and the translation of disk errors.

``store.transaction`` uses both when it opens or creates a state.
"""

import contextlib
from collections.abc import Iterator

from gantry import errors
from gantry.runtime import file_interface, interface, paths

TIMEOUT_SECONDS = 10.0
"""Seconds to wait for a lock that no master daemon holds."""

POLL_SECONDS = 0.02


async def take(runtime: interface.Runtime, where: paths.Paths) -> file_interface.FileLock:
    """Take the queue's lock; raises WrongStateError that names the process which holds the lock.

    A master daemon holds the lock until it ends. The node daemon holds it briefly for each frame of a replica, and a
    killed master until its last write has ended: wait for those.
    """
    path, until = f"{where.queue}/lock", runtime.clock.monotonic() + TIMEOUT_SECONDS
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
        await runtime.clock.sleep(POLL_SECONDS)


def _is_master(runtime: interface.Runtime, pid: str) -> bool:
    words = runtime.processes.command_line(int(pid)) if pid.isdecimal() else []
    return any(program in word for word in words for program in paths.MASTER_PROGRAMS)


@contextlib.contextmanager
def disk_faults(where: paths.Paths) -> Iterator[None]:
    """Convert errors of the disk to StorageError."""
    try:
        yield
    except OSError as error:
        raise errors.StorageError(
            f"{error.filename or where.lib}: {error.strerror or error}", hint=f"check the file system of {where.lib}"
        ) from error
