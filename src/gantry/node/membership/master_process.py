"""Stops the master daemon on this machine, which is the process that holds the queue's lock.

The call StopMaster uses it when another node becomes the master. The process that holds the lock has written its id to
the lock file; only a process that is a master daemon gets a signal. Any candidate may become the master, and the daemon
has to end before other nodes can prove that one does. So a candidate may stop it a few times without becoming the
master, then not for a while (``Stops``).
"""

import logging
import signal
from typing import NamedTuple

from gantry import errors
from gantry.node.membership import fence
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02

MAX_VAIN_STOPS = 3
"""How often a candidate may stop the master daemon in ``VAIN_SECONDS`` without becoming the master."""

VAIN_SECONDS = 3600.0


class _Stop(NamedTuple):
    """When a candidate stopped the master daemon, and the last proven epoch at that time."""

    at: float
    epoch: int


class Stops:
    """The master daemons that candidates have stopped on this machine, since this daemon started."""

    def __init__(self, runtime: interface.Runtime, queue: str, barrier: fence.Fence) -> None:
        self._runtime = runtime
        self._queue = queue
        self._barrier = barrier
        self._stops: dict[str, list[_Stop]] = {}

    async def stop(self, caller: str, *, timeout_seconds: float) -> bool:
        """End the master daemon for the candidate with UUID ``caller``; result and errors are those of ``stop``.

        WrongStateError if the candidate has done that too often, and did not become the master.
        """
        now, became_master = self._runtime.clock.monotonic(), self._barrier.proven_epoch_of(caller)
        vain = [
            each for each in self._stops.get(caller, ()) if each.at > now - VAIN_SECONDS and each.epoch >= became_master
        ]
        if len(vain) >= MAX_VAIN_STOPS:
            raise errors.WrongStateError(
                f"the node with UUID {caller} has stopped the master daemon of {self._runtime.host} {len(vain)} times, "
                "and did not become the master",
                hint=f"stop the daemon on {self._runtime.host}, or wait {vain[0].at + VAIN_SECONDS - now:.0f} s",
            )
        self._stops[caller] = vain
        stopped = await stop(self._runtime, self._queue, timeout_seconds=timeout_seconds)
        if stopped:
            vain.append(_Stop(now, self._barrier.proven().epoch))
        return stopped


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
