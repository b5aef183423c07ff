"""The consoles of a node's guests, and the streams by which programs elsewhere use them.

``calls.ConsoleOpen`` connects to a console and listens for one client with the secret of the call, on a port of its
own, with the node's certificate. Data goes both ways, never faster than the slower side reads it. A stream ends with
the guest, the client, or a user who takes the console over; and when another master commands the node (``permits``).
A serial console has one client at a time, VNC any number.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gantry import errors
from gantry.lib_files import member as member_file
from gantry.node import call_table, drivers, permits
from gantry.node.os import stream_tls
from gantry.rpc import calls
from gantry.rpc.calls import console
from gantry.runtime import bytestream, frames, interface

log = logging.getLogger(__name__)

MOST = 100
"""Streams of consoles at a time."""
CLIENT_TIMEOUT_SECONDS = 20.0
"""For the client to connect and present the secret."""
END_TIMEOUT_SECONDS = 5.0
"""For the last word to a client that may not read."""

Stream = tuple[bytestream.Reader, bytestream.Writer]


@dataclass(eq=False)
class _Open:
    """A console that is open, or is being opened; ``stop`` gets the word with which it has to end."""

    call: calls.ConsoleOpen
    port: asyncio.Future[int]
    stop: asyncio.Future[str]
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def console(self) -> tuple[str, str, str]:
        """Return which console it is."""
        return self.call.hypervisor, self.call.instance, self.call.kind


class Consoles:
    """The consoles of a node."""

    def __init__(
        self,
        runtime: interface.Runtime,
        registry: drivers.Registry,
        *,
        certificates: str,
        tls: stream_tls.Contexts,
    ) -> None:
        self._runtime = runtime
        self._registry = registry
        self._certificates = certificates
        self._tls = tls
        self._open: dict[str, _Open] = {}

    def add_to(self, table: call_table.Table) -> None:
        """Add the calls to a table."""
        table.add(calls.InstanceConsole, self._find)
        table.add(calls.ConsoleOpen, self._enter)

    async def _find(self, call: calls.InstanceConsole) -> calls.Console:
        """Return how a terminal reaches a console, and whether somebody else has it."""
        vm = call.instance
        answer = await self._registry.hypervisor(vm.hypervisor).console(vm.name)
        present = self._owner((vm.hypervisor, vm.name, "serial"))
        if answer.kind != "socat" or present is None:
            return answer
        user = present.call.user
        message = f"{user} has this console open in a browser: it answers here when {user} has closed it"
        return msgspec.structs.replace(answer, message=message)

    def _owner(self, which: tuple[str, str, str]) -> _Open | None:
        """Return the stream of a console that only one may have."""
        return next(
            (each for each in self._open.values() if each.console == which and each.call.kind == "serial"), None
        )

    async def _enter(self, call: calls.ConsoleOpen) -> calls.ConsoleEntrance:
        if call.token in self._open:  # a repeated call
            return calls.ConsoleEntrance(port=await asyncio.shield(self._open[call.token].port))
        loop = asyncio.get_running_loop()
        new = _Open(call, loop.create_future(), loop.create_future())
        while (present := self._owner(new.console)) is not None:
            if not call.takes_over:
                return calls.ConsoleEntrance(user=present.call.user)
            log.info("%s takes the serial console of %s over from %s", call.user, call.instance, present.call.user)
            if not present.stop.done():
                present.stop.set_result(f"{console.TAKEN} {call.user}")
            await present.ended.wait()
        if len(self._open) >= MOST:
            raise errors.BusyError(
                f"{MOST} consoles are open on node {self._registry.node}", hint="close one of them, or try again later"
            )
        self._open[call.token] = new
        return calls.ConsoleEntrance(port=await self._begin(new))

    async def _begin(self, new: _Open) -> int:
        """Connect to the guest and listen for the client; return the port."""
        try:
            hypervisor = self._registry.hypervisor(new.call.hypervisor)
            guest = await hypervisor.connect_console(new.call.instance, new.call.kind)
            try:
                entrance = await self._runtime.network.listen_once(
                    self._address(), token=new.call.token, tls=self._tls.server(), limit=frames.PIECE_BYTES
                )
            except BaseException as error:
                guest[1].close()
                if not isinstance(error, OSError):
                    raise
                raise errors.EnvironmentFaultError(
                    f"node {self._registry.node} cannot listen for a console: {error}"
                ) from None
        except BaseException as error:
            new.port.set_exception(error if isinstance(error, errors.GantryError) else errors.ExecutionError())
            new.port.exception()  # asyncio warns of one that nobody retrieves
            self._forget(new)
            raise
        serving = asyncio.ensure_future(self._serve(new, guest, entrance))
        permits.keep(serving)
        serving.add_done_callback(lambda done: done.cancelled() or done.exception())
        new.port.set_result(entrance.port)
        return entrance.port

    def _forget(self, ended: _Open) -> None:
        self._open.pop(ended.call.token, None)
        ended.ended.set()

    def _address(self) -> str:
        return member_file.decode(self._runtime.disk.read(member_file.path(self._certificates))).address

    async def _serve(self, current: _Open, guest: Stream, entrance: bytestream.Entrance) -> None:
        """Pass the data of a console on until one side ends, or somebody takes the console over."""
        call = current.call
        client: Stream | None = None
        try:
            client = await _arrival(entrance, current.stop)
            if client is None:
                return
            log.info("%s uses the %s console of %s", call.user, call.kind, call.instance)
            word = await _relay(guest, client, current.stop)
            if word:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(END_TIMEOUT_SECONDS):
                        client[1].write(frames.end(word))
                        await client[1].drain()
            log.info("the %s console of %s that %s used is closed", call.kind, call.instance, call.user)
        except OSError as error:  # a TimeoutError is an OSError too
            log.info("the %s console of %s for %s ended: %s", call.kind, call.instance, call.user, error)
        finally:
            for stream in (guest, client):
                if stream:
                    stream[1].close()
            await entrance.close()
            self._forget(current)


async def _arrival(entrance: bytestream.Entrance, stop: asyncio.Future[str]) -> Stream | None:
    """Return the client's stream; None if the console has to end before it comes, TimeoutError if it does not come."""
    waiting = asyncio.ensure_future(entrance.accept(timeout=CLIENT_TIMEOUT_SECONDS))
    ends: list[asyncio.Future[Any]] = [waiting, stop]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else None
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def _relay(guest: Stream, client: Stream, stop: asyncio.Future[str]) -> str:
    """Pass data on in both directions; return the word for the client, empty if the client has gone."""
    tasks = [asyncio.ensure_future(work) for work in (_to_client(guest, client), _to_guest(client, guest))]
    try:
        ends: list[asyncio.Future[str]] = [stop, *tasks]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return next(end.result() for end in ends if end.done())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _to_client(guest: Stream, client: Stream) -> str:
    while True:
        try:
            data = await guest[0].read(frames.PIECE_BYTES)
        except OSError:  # QEMU was killed
            data = b""
        if not data:
            return console.ENDED
        client[1].write(frames.piece(data))
        await client[1].drain()


async def _to_guest(client: Stream, guest: Stream) -> str:
    while data := await client[0].read(frames.PIECE_BYTES):
        guest[1].write(data)
        try:
            await guest[1].drain()
        except OSError:
            return console.ENDED
    return ""
