"""Streams of a simulated machine: whole, in memory, from the programs of one machine to those of another.

Programs run one after the other, each with all that the one before wrote. A partition of the network breaks them off.
"""

import asyncio
import hashlib
import itertools
import ssl
from collections.abc import Sequence

from gantry.runtime import commands
from gantry.runtime.simulated import network, processes

ACCEPT = 60.0
PORTS = 49152


class Waiting:
    """The streams that the machines of a world wait for, by machine and port."""

    def __init__(self, wires: network.Wires) -> None:
        self.arrivals: dict[tuple[str, int], Arrival] = {}
        self.ports = itertools.count(PORTS)
        self.wires = wires


async def _run(
    programs: processes.Processes, stages: Sequence[commands.Stage], data: bytes
) -> tuple[bytes, list[commands.Completed]]:
    ended = []
    for stage in stages:
        done = await programs.run(
            stage.arguments,
            environment=stage.environment,
            directory=stage.directory,
            stdin=data,
            timeout=float("inf"),
        )
        data = done.stdout
        ended.append(commands.Completed(done.code, b"", done.stderr))
    return data, ended


class Arrival:
    """A stream that is waited for (see ``commands.Arrival``)."""

    def __init__(self, waiting: Waiting, machine: str, token: str, *, programs: processes.Processes) -> None:
        self.port = next(waiting.ports)
        self.token = token
        self.came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._key = (machine, self.port)
        self._waiting = waiting
        self._programs = programs
        waiting.arrivals[self._key] = self

    async def receive(self, stages: Sequence[commands.Stage], *, timeout: float) -> commands.Streamed:
        """Feed a pipeline with what comes."""
        try:
            async with asyncio.timeout(timeout):
                async with asyncio.timeout(ACCEPT):
                    data = await asyncio.shield(self.came)
                _, ended = await _run(self._programs, stages, data)
        finally:
            await self.close()
        return commands.Streamed(len(data), hashlib.sha256(data).hexdigest(), ended)

    async def close(self) -> None:
        """Stop waiting."""
        self._waiting.arrivals.pop(self._key, None)
        if not self.taken.done():
            self.taken.set_result(None)


class Streams:
    """The streams of one machine (see ``commands.Streams``)."""

    def __init__(self, waiting: Waiting, machine: str, programs: processes.Processes) -> None:
        self._waiting = waiting
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
        """Run a pipeline and hand over what its last program wrote, if all went well."""
        wires, machine = self._waiting.wires, self._machine
        target = wires.resolve(host, machine)
        arrival = self._waiting.arrivals.get((target, port))
        if arrival is None or arrival.token != token or wires.is_cut(machine, target):
            raise ConnectionRefusedError("nobody waits for the stream")
        async with asyncio.timeout(timeout):
            data, ended = await _run(self._programs, stages, b"")
            if any(one.code for one in ended):
                arrival.came.set_exception(ConnectionResetError("the sender broke off"))
            else:
                arrival.came.set_result(data)
                await arrival.taken
        return commands.Streamed(len(data), "", ended)

    async def listen(self, host: str, *, token: str, tls: ssl.SSLContext | None) -> Arrival:
        """Wait for a stream."""
        return Arrival(self._waiting, self._machine, token, programs=self._programs)
