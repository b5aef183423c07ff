"""The Runtime of the daemons: a thin layer over asyncio, aiohttp and the standard library.

A daemon creates a ``RealRuntime`` when it starts and passes it down; no other module imports this package. Slow work,
such as a sync or the removal of a tree, runs in a thread and does not block the event loop.
"""

import asyncio
import concurrent.futures
import secrets
import socket
import time
from collections.abc import Callable
from typing import TypeVar

from gantry.runtime.real import bulk, disk, network, processes, tracking

T = TypeVar("T")

BLOCKING_THREADS = 8
"""Threads for blocking libraries (``RealRuntime.block``); further work waits until a thread is free."""


class Clock:
    """The machine's clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment, those of a machine that slept too; never decreases."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        await asyncio.sleep(seconds)


class Randomness:
    """The system's cryptographically strong random source."""

    def below(self, limit: int) -> int:
        """Return a number from 0 to ``limit - 1``."""
        return secrets.randbelow(limit)

    def uuid(self) -> str:
        """Return a random UUID in lower case."""
        raw = bytearray(secrets.token_bytes(16))
        raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def token(self, size: int) -> bytes:
        """Return ``size`` random bytes, fit for a secret."""
        return secrets.token_bytes(size)


class RealRuntime:
    """Access to this machine; ``host`` is its name, by default the system's host name."""

    def __init__(self, host: str = "") -> None:
        self.host = host or socket.gethostname()
        self.clock = Clock()
        self.random = Randomness()
        self.disk = disk.Disk()
        self.network = network.Network()
        tracker = tracking.Tracker()
        self.processes = processes.Processes(tracker)
        self.streams = bulk.Streams(tracker)
        # Threads start with the first work. They are separate: disk work never queues behind blocking libraries.
        self._blocking = concurrent.futures.ThreadPoolExecutor(BLOCKING_THREADS, thread_name_prefix="blocking")

    async def compute(self, work: Callable[[], bytes]) -> bytes:
        """Run ``work`` in a thread."""
        return await asyncio.to_thread(work)

    async def block(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread for blocking work."""
        return await asyncio.get_running_loop().run_in_executor(self._blocking, work)
