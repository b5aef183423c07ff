"""QEMU's control connection (QMP): a JSON object per line, on a UNIX socket of the guest.

A ``Connection`` is opened for a single purpose and then closed: QEMU serves one client at a time, and an open
connection blocks all other clients. Callers set the timeouts (``asyncio.timeout``).

QEMU may send an answer to the next client if its own client closes before it came. So each request has an ID that no
other connection uses, and an answer without that ID is ignored.

The library ``qemu.qmp`` is not used because it opens its sockets itself; here the runtime opens them.
"""

import asyncio
from collections import deque
from collections.abc import Container, Mapping

import msgspec

from gantry import errors
from gantry.runtime import bytestream, interface

LINE_LIMIT = 1 << 20
ANSWER_TIMEOUT_SECONDS = 30.0
"""For a command or two: QEMU answers at once, unless its machine is overloaded."""

NOT_FOUND = "DeviceNotFound"


class Failure(msgspec.Struct):
    """Why QEMU refused a command; ``kind`` is QEMU's error class."""

    desc: str
    kind: str = msgspec.field(default="", name="class")


class Subject(msgspec.Struct):
    """The subject of an event: the device, if it has a name."""

    device: str = ""


class Message(msgspec.Struct):
    """A line from QEMU: greeting, answer or event; ``id`` is that of the request that it answers."""

    id: object = None
    result: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="return")
    error: Failure | None = None
    event: str = ""
    data: Subject = msgspec.field(default_factory=Subject)


class Status(msgspec.Struct):
    """The answer to ``query-status``; ``status`` is QEMU's run state (``running``, ``paused``, ``shutdown`` ...)."""

    status: str
    running: bool


class BlockNode(msgspec.Struct):
    """A node of the block layer, which has a file or device open."""

    name: str = msgspec.field(default="", name="node-name")


_MESSAGES = msgspec.json.Decoder(Message)


class Connection:
    """A control connection; ``connect`` creates it."""

    def __init__(
        self, runtime: interface.Runtime, reader: bytestream.Reader, writer: bytestream.Writer, *, guest: str
    ) -> None:
        self._network = runtime.network
        self._reader = reader
        self._writer = writer
        self._guest = guest
        self._name = runtime.random.uuid()
        self._requests = 0
        self._id = ""
        self._events: deque[Message] = deque()

    async def __aenter__(self) -> "Connection":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def execute(self, command: str, arguments: Mapping[str, object] | None = None) -> msgspec.Raw:
        """Run a command and return its result, undecoded.

        HypervisorError if QEMU refuses or has ended, NotFoundError if the guest has no such device.
        """
        self._writer.write(self._request(command, arguments))
        return await self._answer(command)

    async def connect(self, name: str, *, host: str, port: int, timeout_seconds: float) -> None:
        """Pass QEMU a connection to another machine under a name (``getfd``); HypervisorError if that fails.

        QEMU's own connections wait forever for a dead machine, some of them in its main loop, which blocks QEMU and its
        guest. This connection breaks after ``timeout_seconds``.
        """
        request = self._request("getfd", {"fdname": name})
        try:
            await self._network.pass_connection(
                self._writer, request, host=host, port=port, timeout_seconds=timeout_seconds
            )
        except OSError as error:
            raise errors.HypervisorError(
                f"instance {self._guest}: {host} port {port} cannot be reached: {error}"
            ) from None
        await self._answer("getfd")

    def _request(self, command: str, arguments: Mapping[str, object] | None) -> bytes:
        self._requests += 1
        self._id = f"{self._name}/{self._requests}"
        request = {"execute": command, "id": self._id} | ({"arguments": arguments} if arguments else {})
        return msgspec.json.encode(request) + b"\n"

    async def _answer(self, command: str) -> msgspec.Raw:
        while (message := await self._receive(command)).id != self._id:
            if message.event:
                self._events.append(message)
        if message.error is not None:
            error_class = errors.NotFoundError if message.error.kind == NOT_FOUND else errors.HypervisorError
            raise error_class(f"instance {self._guest}: {command}: {message.error.desc}")
        return message.result

    async def negotiate(self) -> None:
        """Receive the greeting and enter command mode."""
        await self._receive("greeting")
        await self.execute("qmp_capabilities")

    async def status(self) -> Status:
        """Query the guest's run state."""
        return msgspec.json.decode(await self.execute("query-status"), type=Status)

    async def block_nodes(self) -> set[str]:
        """Query the names of the block layer's nodes, including names that QEMU has generated."""
        answer = await self.execute("query-named-block-nodes", {"flat": True})
        return {node.name for node in msgspec.json.decode(answer, type=list[BlockNode])}

    async def event(self, names: Container[str], *, device: str = "") -> str:
        """Return the next event with one of the names and about the device; earlier events are discarded."""
        while True:
            message = self._events.popleft() if self._events else await self._receive("waiting for an event")
            if message.event in names and device in ("", message.data.device):
                return message.event

    async def _receive(self, activity: str) -> Message:
        try:
            await self._writer.drain()
            return _MESSAGES.decode(await self._reader.readuntil(b"\n"))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise errors.HypervisorError(f"instance {self._guest}: QEMU ended during {activity}") from None
        except (asyncio.LimitOverrunError, msgspec.DecodeError) as error:
            raise errors.HypervisorError(f"instance {self._guest}: {activity}: not QMP: {error}") from None


async def connect(runtime: interface.Runtime, path: str, *, guest: str) -> Connection:
    """Connect and negotiate; OSError while QEMU does not listen yet."""
    reader, writer = await runtime.network.connect_unix(path, limit=LINE_LIMIT)
    connection = Connection(runtime, reader, writer, guest=guest)
    try:
        await connection.negotiate()
    except BaseException:  # a cancelled task closes the connection too
        writer.close()
        raise
    return connection
