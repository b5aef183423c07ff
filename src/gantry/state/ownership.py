"""Who may work on the folder of a state (one daemon at a time, by the queue's lock), and what its disk's faults are.

Used by ``transaction`` when a state is opened or made.
"""

import contextlib
from collections.abc import Iterator

from gantry import errors
from gantry.runtime import interface, paths


def take(disk: interface.Disk, where: paths.Paths) -> interface.FileLock:
    """Take the queue's lock; WrongStateError that names the process which has it."""
    path = f"{where.queue}/lock"
    try:
        return disk.lock(path)
    except BlockingIOError:
        holder = disk.read(path).decode(errors="replace").strip()
        raise errors.WrongStateError(
            f"the state is in use: process {holder or '(unknown)'} holds {path}",
            hint="a master daemon runs already; stop it before another is started",
        ) from None


@contextlib.contextmanager
def disk_faults(where: paths.Paths) -> Iterator[None]:
    """Turn the disk's errors into StorageError."""
    try:
        yield
    except OSError as error:
        raise errors.StorageError(
            f"{error.filename or where.lib}: {error.strerror or error}", hint=f"check the file system of {where.lib}"
        ) from error
