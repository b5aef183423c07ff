"""Ports of this machine for the servers that tests start.

A port that the kernel picked for a socket which is closed again can be picked once more, for another server or for the
near end of a connection, before the server that it was meant for listens, or while that is started anew. So these lie
outside the range that the kernel picks from, and whoever runs tests takes them by the block, under a name that no other
process of the machine can take until it ends.
"""

import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path

# Above those that clusters give to disks and to consoles.
FIRST = 15000
LAST = 65535
BLOCK = 50
KERNEL = Path("/proc/sys/net/ipv4/ip_local_port_range")

_held: list[socket.socket] = []


def free() -> int:
    """Return a port of the loopback interface on which nobody listens, and another one next time."""
    return next(port for port in _ours if _is_free(port))


def _blocks() -> list[int]:
    """Return the first ports of all blocks; where the kernel picks from all ports, of those too."""
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
                _held.append(holder)
                yield from range(first, first + BLOCK)


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        return True
    return False


_ours = _take()
