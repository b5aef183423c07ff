"""The real world: the Runtime that daemons run on, thin over asyncio, aiohttp and the standard library.

A daemon makes one ``RealRuntime`` when it starts and hands it down; no other module of the house names this folder.
Nothing here blocks the event loop on a sync or on the removal of a tree: such work goes to a thread.
"""

import asyncio
import concurrent.futures
import secrets
import socket
import time
from collections.abc import Callable
from typing import TypeVar

from gantry.runtime.real import bulk, disk, network, processes

T = TypeVar("T")

BLOCKED = 8
"""How many threads may wait for others (``RealRuntime.block``): what comes then waits for one of them."""


class Clock:
    """The machine's clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since some moment; never goes backwards."""
        return time.monotonic()

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
    """All doors to this machine; ``host`` is its name, the system's own when it is empty."""

    def __init__(self, host: str = "") -> None:
        self.host = host or socket.gethostname()
        self.clock = Clock()
        self.random = Randomness()
        self.disk = disk.Disk()
        self.network = network.Network()
        self.processes = processes.Processes()
        self.streams = bulk.Streams()
        # Its threads begin with the first work; those of the disk never stand behind one that waits.
        self._waiting = concurrent.futures.ThreadPoolExecutor(BLOCKED, thread_name_prefix="waiting")

    async def compute(self, work: Callable[[], bytes]) -> bytes:
        """Run ``work`` in a thread."""
        return await asyncio.to_thread(work)

    async def block(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread for such work."""
        return await asyncio.get_running_loop().run_in_executor(self._waiting, work)
