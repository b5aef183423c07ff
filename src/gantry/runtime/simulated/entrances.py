"""Ports of simulated machines that wait for one client, which must present a token.

A stream between two machines is that of ``streams``: it does not break in a partition, which only prevents new ones.
"""

import asyncio
import errno
import itertools
import os

from gantry.runtime.simulated import boot, streams

FIRST_PORT = 40000


class Entrances:
    """The entrances of all machines of a world, by machine and port."""

    def __init__(self) -> None:
        self.by_port: dict[tuple[str, int], Entrance] = {}
        self.ports = itertools.count(FIRST_PORT)

    def enter(self, machine: str, port: int, *, limit: int) -> streams.End:
        """Return the client's end of a new stream; ConnectionRefusedError without an entrance."""
        entrance = self.by_port.get((machine, port))
        if entrance is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED), f"{machine}:{port}")
        return entrance.admit(limit)


class Entrance:
    """A port that waits for one client (see ``bytestream.Entrance``)."""

    def __init__(self, entrances: Entrances, machine: str, token: str, *, limit: int) -> None:
        self.port = next(entrances.ports)
        self._entrances = entrances
        self._key = (machine, self.port)
        self._token = token.encode() + b"\n"
        self._limit = limit
        self._clients: asyncio.Queue[streams.End] = asyncio.Queue()
        entrances.by_port[self._key] = self

    def admit(self, limit: int) -> streams.End:
        """Return the client's end of a new stream."""
        end, own = streams.pair(limit, self._limit)
        self._clients.put_nowait(own)
        return end

    async def accept(self, *, timeout: float) -> streams.End:
        """Return the stream of the client that presents the token."""
        boot.check()
        try:
            async with asyncio.timeout(timeout):
                while True:
                    reader, writer = await self._clients.get()
                    try:
                        if await reader.readuntil(b"\n") == self._token:
                            return reader, writer
                    except (EOFError, asyncio.LimitOverrunError):
                        pass
                    writer.close()
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop listening, and close the streams of strangers."""
        self._entrances.by_port.pop(self._key, None)
        while not self._clients.empty():
            self._clients.get_nowait()[1].close()
