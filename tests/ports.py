"""Ports of this machine for the servers that tests start.

The kernel may pick a port again after the socket with it is closed: for another server or for the local end of a
connection, before the intended server listens or while that server restarts. So these ports are outside the range that
the kernel picks from. Each test process reserves blocks of them, under a name that no other process of the machine can
bind until the first process ends.
"""

import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path

# Above the ports that clusters allocate to disks and consoles.
FIRST = 15000
LAST = 65535
BLOCK = 50
KERNEL = Path("/proc/sys/net/ipv4/ip_local_port_range")

_reservations: list[socket.socket] = []


def free() -> int:
    """Return a free port of the loopback interface, a different one each time."""
    return next(port for port in _ours if _is_free(port))


def _blocks() -> list[int]:
    """Return the first ports of all blocks outside the kernel's range; of all blocks if there are none."""
    low, high = map(int, KERNEL.read_text().split())
    every = range(FIRST, LAST - BLOCK, BLOCK)
    return [first for first in every if first + BLOCK <= low or first > high] or list(every)


def _take() -> Iterator[int]:
    blocks = _blocks()
    random.shuffle(blocks)
    for first in blocks:
        with contextlib.ExitStack() as failing:
            holder = failing.enter_context(socket.socket(socket.AF_UNIX))
            with contextlib.suppress(OSError):
                holder.bind(f"\0tests-of-gantry-ports-{first}")
                failing.pop_all()
                _reservations.append(holder)
                yield from range(first, first + BLOCK)


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        return True
    return False


_ours = _take()
