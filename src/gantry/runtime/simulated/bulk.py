"""Bulk streams between programs of simulated machines: each stream is whole, in memory.

Programs run one after the other, each with the whole output of its predecessor. A network partition aborts a stream.
"""

import asyncio
import hashlib
import itertools
import ssl
from collections.abc import Sequence

from gantry.runtime import commands
from gantry.runtime.simulated import processes, wires

CONNECT_TIMEOUT_SECONDS = 60.0
FIRST_PORT = 49152


class Listeners:
    """The bulk listeners of all machines of a world, by machine and port."""

    def __init__(self, wires: wires.Wires) -> None:
        self.by_port: dict[tuple[str, int], BulkListener] = {}
        self.ports = itertools.count(FIRST_PORT)
        self.wires = wires


async def _run(
    programs: processes.Processes, stages: Sequence[commands.Stage], data: bytes
) -> tuple[bytes, list[commands.Completed]]:
    exits = []
    for stage in stages:
        completed = await programs.run(
            stage.arguments,
            environment=stage.environment,
            directory=stage.directory,
            stdin=data,
            timeout=float("inf"),
            tracked=stage.tracked,
        )
        data = completed.stdout
        exits.append(commands.Completed(completed.code, b"", completed.stderr))
    return data, exits


class BulkListener:
    """A port that waits for one stream (see ``commands.BulkListener``); the sender sets the result of ``data``."""

    def __init__(self, listeners: Listeners, machine: str, token: str, *, programs: processes.Processes) -> None:
        self.port = next(listeners.ports)
        self.token = token
        self.data: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._key = (machine, self.port)
        self._listeners = listeners
        self._programs = programs
        listeners.by_port[self._key] = self

    @property
    def received(self) -> int:
        """Return how many bytes have arrived: all of them at once."""
        has_arrived = self.data.done() and not self.data.cancelled() and not self.data.exception()
        return len(self.data.result()) if has_arrived else 0

    async def receive(self, stages: Sequence[commands.Stage], *, timeout: float) -> commands.Streamed:
        """Feed the stream to a pipeline."""
        try:
            async with asyncio.timeout(timeout):
                async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                    data = await asyncio.shield(self.data)
                _, exits = await _run(self._programs, stages, data)
        finally:
            await self.close()
        return commands.Streamed(len(data), hashlib.sha256(data).hexdigest(), exits)

    async def close(self) -> None:
        """Stop listening."""
        self._listeners.by_port.pop(self._key, None)
        if not self.closed.done():
            self.closed.set_result(None)


class Streams:
    """The streams of one machine (see ``commands.Streams``)."""

    def __init__(self, listeners: Listeners, machine: str, programs: processes.Processes) -> None:
        self._listeners = listeners
        self._machine = machine
        self._programs = programs

    async def send(
        self,
        stages: Sequence[commands.Stage],
        *,
        host: str,
        port: int,
        token: str,
        tls: ssl.SSLContext | None,
        timeout: float,
    ) -> commands.Streamed:
        """Run a pipeline and send the output of its last program if all programs succeed."""
        wires, machine = self._listeners.wires, self._machine
        target = wires.resolve(host, machine)
        listener = self._listeners.by_port.get((target, port))
        if listener is None or listener.token != token or wires.is_cut(machine, target):
            raise ConnectionRefusedError(f"no listener at {target}:{port} accepts the stream")
        # A listener accepts one connection, even if a call arrives twice.
        del self._listeners.by_port[target, port]
        async with asyncio.timeout(timeout):
            data, exits = await _run(self._programs, stages, b"")
            if any(program.code for program in exits):
                listener.data.set_exception(ConnectionResetError("the sender aborted the stream"))
            else:
                listener.data.set_result(data)
                await listener.closed
        return commands.Streamed(len(data), "", exits)

    async def listen(self, host: str, *, token: str, tls: ssl.SSLContext | None) -> BulkListener:
        """Listen for a stream."""
        return BulkListener(self._listeners, self._machine, token, programs=self._programs)
