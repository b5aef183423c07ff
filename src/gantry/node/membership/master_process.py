"""Stops the master daemon on this machine, which is the process that holds the queue's lock.

The call StopMaster uses it when another node becomes the master. The process that holds the lock has written its id to
the lock file; only a process that is a master daemon gets a signal.
"""

import logging
import signal

from gantry import errors
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02


async def stop(runtime: interface.Runtime, queue: str, *, timeout_seconds: float) -> bool:
    """End the master daemon that holds the lock of the folder ``queue``; return whether there was such a daemon.

    ``timeout_seconds`` is the time for each of both signals. EnvironmentFaultError if the daemon does not end.
    """
    path = f"{queue}/lock"
    pid = await _holder(runtime, path, timeout_seconds)
    if pid is None:
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        logger.warning("stopping the master daemon, process %d, by signal %d: another node is now master", pid, number)
        try:
            runtime.processes.signal(pid, number)
        except ProcessLookupError:
            logger.info("process %d has ended", pid)
        if await _is_released(runtime, path, timeout_seconds):
            return True
    raise errors.EnvironmentFaultError(
        f"the master daemon of {runtime.host}, process {pid}, does not end", hint="end it on that node"
    )


async def _holder(runtime: interface.Runtime, path: str, timeout_seconds: float) -> int | None:
    """Return the master daemon's process id; None if the lock is free.

    Calls of the node daemon also hold the lock for short times, so another holder is an error only after the timeout.
    """
    text = ""
    until = runtime.clock.monotonic() + timeout_seconds
    while runtime.clock.monotonic() <= until:
        if not _is_held(runtime.disk, path):
            return None
        text = runtime.disk.read(path).decode(errors="replace").strip()
        words = runtime.processes.command_line(int(text)) if text.isdecimal() else []
        if any(program in word for word in words for program in paths.MASTER_PROGRAMS):
            return int(text)
        await runtime.clock.sleep(POLL_SECONDS)
    raise errors.EnvironmentFaultError(
        f"{path} on {runtime.host} is locked by process {text or '(unknown)'}, which is not {paths.MASTER_PROGRAMS[0]}",
        hint="end this process on that node",
    )


def _is_held(disk: interface.Disk, path: str) -> bool:
    if not disk.exists(path):
        return False
    try:
        disk.lock(path).release()
    except BlockingIOError:
        return True
    return False


async def _is_released(runtime: interface.Runtime, path: str, timeout_seconds: float) -> bool:
    until = runtime.clock.monotonic() + timeout_seconds
    while _is_held(runtime.disk, path):
        if runtime.clock.monotonic() > until:
            return False
        await runtime.clock.sleep(POLL_SECONDS)
    return True
