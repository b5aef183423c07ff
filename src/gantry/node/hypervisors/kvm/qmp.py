"""QEMU's control connection (QMP): one JSON object a line, on a UNIX socket of the guest.

A ``Connection`` is opened for one purpose and closed again: QEMU serves one client at a time, and whoever keeps the
line busy blocks the rest. Time limits are the caller's (``asyncio.timeout``).

Not ``command_line.qmp``: that library opens its sockets by itself, and here they come from the runtime.
"""

import asyncio
from collections import deque
from collections.abc import Container, Mapping

import msgspec

from gantry import errors
from gantry.runtime import bytestream, interface

LINE_LIMIT = 1 << 20
ANSWER_LIMIT = 30.0
"""Seconds for a command or two: QEMU answers at once, unless its machine has nothing left for it."""

ABSENT = "DeviceNotFound"


class Failure(msgspec.Struct):
    """Why QEMU refused a command; ``kind`` is its word for it."""

    desc: str
    kind: str = msgspec.field(default="", name="class")


class Subject(msgspec.Struct):
    """What an event is about: the device, where it has a name."""

    device: str = ""


class Message(msgspec.Struct):
    """A line from QEMU: greeting, answer or event."""

    result: msgspec.Raw | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="return")
    error: Failure | None = None
    event: str = ""
    data: Subject = msgspec.field(default_factory=Subject)


class Status(msgspec.Struct):
    """The answer to ``query-status``; ``status`` is QEMU's word (``running``, ``paused``, ``shutdown`` ...)."""

    status: str
    running: bool


class BlockNode(msgspec.Struct):
    """A node of the block layer: what holds a file or device open."""

    name: str = msgspec.field(default="", name="node-name")


_MESSAGES = msgspec.json.Decoder(Message)


class Connection:
    """A control connection; made by ``connect``."""

    def __init__(
        self, network: interface.Network, reader: bytestream.Reader, writer: bytestream.Writer, *, guest: str
    ) -> None:
        self._network = network
        self._reader = reader
        self._writer = writer
        self._guest = guest
        self._events: deque[Message] = deque()

    async def __aenter__(self) -> "Connection":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def execute(self, command: str, arguments: Mapping[str, object] | None = None) -> msgspec.Raw:
        """Run a command and return its result as it came.

        HypervisorError when QEMU refuses or is gone, NotFoundError when it has no such device.
        """
        self._writer.write(_request(command, arguments))
        return await self._answer(command)

    async def connect(self, name: str, *, host: str, port: int, patience: float) -> None:
        """Give QEMU a connection to another machine under a name (``getfd``); HypervisorError when it cannot be made.

        QEMU's own connections wait without an end for a machine that is dead, some in its main loop, so that neither
        QEMU nor its guest can do anything. This one breaks after ``patience`` seconds.
        """
        request = _request("getfd", {"fdname": name})
        try:
            await self._network.pass_connection(self._writer, request, host=host, port=port, patience=patience)
        except OSError as error:
            raise errors.HypervisorError(
                f"instance {self._guest}: {host} port {port} cannot be reached: {error}"
            ) from None
        await self._answer("getfd")

    async def _answer(self, command: str) -> msgspec.Raw:
        while True:
            message = await self._receive(command)
            if message.error is not None:
                fault = errors.NotFoundError if message.error.kind == ABSENT else errors.HypervisorError
                raise fault(f"instance {self._guest}: {command}: {message.error.desc}")
            if not isinstance(message.result, msgspec.UnsetType):
                return message.result
            self._events.append(message)

    async def negotiate(self) -> None:
        """Take the greeting and enter command mode."""
        await self._receive("greeting")
        await self.execute("qmp_capabilities")

    async def status(self) -> Status:
        """Ask what the guest does."""
        return msgspec.json.decode(await self.execute("query-status"), type=Status)

    async def block_nodes(self) -> set[str]:
        """Ask for the names of the block layer's nodes; those without a name of their own have one of QEMU's."""
        found = await self.execute("query-named-block-nodes", {"flat": True})
        return {node.name for node in msgspec.json.decode(found, type=list[BlockNode])}

    async def event(self, names: Container[str], *, device: str = "") -> str:
        """Return the next event that has one of the names, and is about the device; earlier ones are forgotten."""
        while True:
            message = self._events.popleft() if self._events else await self._receive("waiting")
            if message.event in names and device in ("", message.data.device):
                return message.event

    async def _receive(self, doing: str) -> Message:
        try:
            await self._writer.drain()
            return _MESSAGES.decode(await self._reader.readuntil(b"\n"))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise errors.HypervisorError(f"instance {self._guest}: QEMU ended during {doing}") from None
        except (asyncio.LimitOverrunError, msgspec.DecodeError) as error:
            raise errors.HypervisorError(f"instance {self._guest}: {doing}: not QMP: {error}") from None


def _request(command: str, arguments: Mapping[str, object] | None) -> bytes:
    request = {"execute": command} | ({"arguments": arguments} if arguments else {})
    return msgspec.json.encode(request) + b"\n"


async def connect(network: interface.Network, path: str, *, guest: str) -> Connection:
    """Connect and negotiate; OSError while nobody listens yet."""
    reader, writer = await network.connect_unix(path, limit=LINE_LIMIT)
    connection = Connection(network, reader, writer, guest=guest)
    try:
        await connection.negotiate()
    except BaseException:  # who is cancelled here hangs up too
        writer.close()
        raise
    return connection
