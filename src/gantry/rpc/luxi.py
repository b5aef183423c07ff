"""The client side of LUXI for daemons: the master's own protocol on its UNIX socket, asynchronous.

Front ends that run as separate processes use it to call the master. A connection carries one request at a time;
``Pool`` keeps as many connections as there are concurrent calls.

See contracts/luxi.md#framing.
"""

import asyncio
import contextlib
import contextvars
import functools
from typing import Protocol, TypeVar

import msgspec

from gantry import errors
from gantry.runtime import bytestream, interface, request_ids

T = TypeVar("T")

ETX = b"\x03"
LIMIT = 64 << 20
TIMEOUT_SECONDS = 180.0
"""Longest answer in bytes, longest wait for it in seconds: the master may itself wait for silent nodes."""

CONNECTIONS = 200
"""The maximum number of connections of a pool, unless it has a number of its own."""

BUSY_SECONDS = 60.0
MAX_WAIT_SECONDS = 5.0
"""For how long a request is sent again to a master that is too busy for it, and the longest wait between two times."""


NOTICES: contextvars.ContextVar[list[str]] = contextvars.ContextVar("NOTICES")
"""Where a task collects what the master says about the state of its answers, such as that they may be out of date."""


class NamedUser(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user for whom a process calls the master, and from which address; with ``write`` may change everything.

    ``groups`` have the user as a member, by the names of access rules; ``token`` is the UUID of the API token of the
    request. A master that does not know these keys refuses a request that has them.
    """

    name: str
    write: bool = False
    peer: str = ""
    groups: tuple[str, ...] = ()
    token: str = ""


WITHOUT_RIGHTS = NamedUser("")
USER: contextvars.ContextVar[NamedUser | None] = contextvars.ContextVar("USER")
"""The user for whom a task calls the master, if its client names users; without a value it is ``WITHOUT_RIGHTS``.

None is for what a daemon reads for itself, whoever gets a part of it later.
"""


class _Answer(msgspec.Struct):
    success: bool
    result: msgspec.Raw
    notice: str = ""
    retry_after: int = 0


class Caller(Protocol):
    """What calls the master (``Client``, ``Pool``)."""

    async def call(self, kind: type[T], method: str, *arguments: object) -> T:
        """Call a method whose result is a ``kind``; raises the master's error."""
        ...


class Client:
    """A connection to the master daemon whose socket is ``path``; opened by the first call, ended by ``close``.

    With ``remote``, the master does not treat the requests as root's, whoever runs this process. With ``naming``, it
    decides about them by the rights of ``USER``.
    """

    def __init__(self, network: interface.Network, path: str, *, remote: bool = False, naming: bool = False) -> None:
        self._network = network
        self._path = path
        self._remote = {"remote": True} if remote else {}
        self._naming = naming
        self._streams: tuple[bytestream.Reader, bytestream.Writer] | None = None

    async def call(self, kind: type[T], method: str, *arguments: object) -> T:
        """Call a method whose result is a ``kind``; raises the master's error, RemoteError without an answer."""
        user = {"user": USER.get(WITHOUT_RIGHTS)} if self._naming else {}
        # A master that does not know the key ignores it.
        identified = {"request": number} if (number := request_ids.CURRENT.get()) else {}
        body = {"method": method, "args": arguments, **self._remote, **user, **identified}
        request = msgspec.json.encode(body) + ETX
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                answer = await self._patient_exchange(request)
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            raise errors.RemoteError(
                f"the master daemon does not answer on {self._path}: {error}", hint="is gantry-masterd running?"
            ) from None
        if answer.notice and (notices := NOTICES.get(None)) is not None:
            notices.append(answer.notice)
        if answer.success:
            return _decode(answer.result, kind)
        name, details = _decode(answer.result, tuple[str, list[object]])
        raise errors.from_luxi(name, details)

    async def _patient_exchange(self, request: bytes) -> _Answer:
        """Send a request, again as long as the master has too many connections for it."""
        end = asyncio.get_running_loop().time() + BUSY_SECONDS
        while True:
            answer = _decode(await self._exchange(request), _Answer)
            if answer.success or not answer.retry_after or asyncio.get_running_loop().time() > end:
                return answer
            await self.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(answer.retry_after, MAX_WAIT_SECONDS)):
                    await asyncio.Event().wait()

    async def _exchange(self, request: bytes) -> bytes:
        if self._streams is None or self._streams[0].at_eof():
            await self.close()
            self._streams = await self._network.connect_unix(self._path, limit=LIMIT)
        reader, writer = self._streams
        try:
            writer.write(request)
            await writer.drain()
            return (await reader.readuntil(ETX))[:-1]
        except BaseException:
            # A cancelled call leaves an answer under way, which the next caller must not read as its own.
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection; the next call opens a new connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Pool:
    """Connections that are kept for the next call: callers at the same time do not wait for each other's answers.

    A connection whose master has ended is opened again before its next use, so calls reach a restarted master at once.
    """

    def __init__(
        self,
        network: interface.Network,
        path: str,
        *,
        remote: bool = False,
        naming: bool = False,
        connections: int = CONNECTIONS,
    ) -> None:
        self._new_client = functools.partial(Client, network, path, remote=remote, naming=naming)
        self._slots = asyncio.Semaphore(connections)
        self._idle: list[Client] = []

    async def call(self, kind: type[T], method: str, *arguments: object) -> T:
        """Call a method as ``Client.call`` does; waits while all connections of the pool are in use."""
        async with self._slots:
            client = self._idle.pop() if self._idle else self._new_client()
            try:
                return await client.call(kind, method, *arguments)
            finally:
                self._idle.append(client)

    async def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            await self._idle.pop().close()


def _decode(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise errors.ProtocolError(f"the master's answer cannot be decoded: {error}") from None
