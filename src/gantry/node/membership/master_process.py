"""The master daemon of this machine as its node daemon sees it: a process that holds the queue's lock.

``stop`` ends it when another node becomes the master (call StopMaster). Whoever holds the lock wrote its process id
into the file; a process that is no master daemon is never signalled.
"""

import logging
import signal

from gantry import errors
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)

POLL = 0.02


async def stop(runtime: interface.Runtime, queue: str, *, patience: float) -> bool:
    """End the daemon that holds the lock of the folder ``queue`` and return when it is gone; False when none does.

    Raises EnvironmentFaultError when it cannot be ended.
    """
    path = f"{queue}/lock"
    pid = await _holder(runtime, path, patience)
    if pid is None:
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        logger.warning("the master daemon, process %d, gets signal %d: another node becomes the master", pid, number)
        try:
            runtime.processes.signal(pid, number)
        except ProcessLookupError:
            logger.info("process %d has ended", pid)
        if await _is_released(runtime, path, patience):
            return True
    raise errors.EnvironmentFaultError(
        f"the master daemon of {runtime.host}, process {pid}, does not end", hint="end it there"
    )


async def _holder(runtime: interface.Runtime, path: str, patience: float) -> int | None:
    """Return the master daemon's process id; our own calls hold the lock too, for a moment."""
    text = ""
    until = runtime.clock.monotonic() + patience
    while runtime.clock.monotonic() <= until:
        if not _is_held(runtime.disk, path):
            return None
        text = runtime.disk.read(path).decode(errors="replace").strip()
        words = runtime.processes.command_line(int(text)) if text.isdecimal() else []
        if any(program in word for word in words for program in paths.MASTER_PROGRAMS):
            return int(text)
        await runtime.clock.sleep(POLL)
    raise errors.EnvironmentFaultError(
        f"{path} on {runtime.host} is held by process {text or '(unknown)'}, which is no {paths.MASTER_PROGRAMS[0]}",
        hint="end it there",
    )


def _is_held(disk: interface.Disk, path: str) -> bool:
    if not disk.exists(path):
        return False
    try:
        disk.lock(path).release()
    except BlockingIOError:
        return True
    return False


async def _is_released(runtime: interface.Runtime, path: str, patience: float) -> bool:
    until = runtime.clock.monotonic() + patience
    while _is_held(runtime.disk, path):
        if runtime.clock.monotonic() > until:
            return False
        await runtime.clock.sleep(POLL)
    return True
