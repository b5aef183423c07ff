"""The limit of open files (RLIMIT_NOFILE): raised for a daemon, unchanged for the programs that it starts.

A connection is an open file, and the usual limit of 1,024 is less than a daemon serves. ``daemons.program`` raises it
once; programs get the limit with which the daemon was started, because some handle each possible file at their start.
This module also asks the kernel whether received bytes of a connection wait for the daemon.
"""

import array
import contextlib
import fcntl
import resource
import socket
import termios

LIMIT = 65_536
"""The limit of a daemon, unless the system's hard limit is lower."""

_before: list[int] = []
"""The limit with which this process was started; empty while it is in force."""


def raise_limit() -> int:
    """Raise this process's limit of open files to ``LIMIT`` or the hard limit, and return it; never lower it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = LIMIT if hard == resource.RLIM_INFINITY else min(LIMIT, hard)
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    _before[:] = [soft]
    return limit


def restore_for(pid: int) -> None:
    """Give a program that this process has just started the limit that this process had before."""
    for soft in _before:
        # The program may have ended, or run as another user.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def has_unread(accepted: socket.socket) -> bool:
    """Return whether received bytes of a connection wait in the kernel."""
    number = array.array("i", [0])
    with contextlib.suppress(OSError, ValueError):  # it may have been closed
        fcntl.ioctl(accepted, termios.FIONREAD, number)
    return bool(number[0])
