"""The real world: the Runtime that daemons run on, thin over asyncio, aiohttp and the standard library.

A daemon makes one ``RealRuntime`` when it starts and hands it down; no other module of the house names this folder.
Nothing here blocks the event loop on a sync or on the removal of a tree: such work goes to a thread.
"""

import asyncio
import secrets
import socket
import time
import uuid
from collections.abc import Callable

from gantry.runtime.real import bulk, disk, network, processes


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
        return str(uuid.uuid4())

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

    async def compute(self, work: Callable[[], bytes]) -> bytes:
        """Run ``work`` in a thread."""
        return await asyncio.to_thread(work)
