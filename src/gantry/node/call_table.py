"""The table of a node's calls: which handler answers which call of ``rpc.calls``.

The parts of a node add their calls to it; ``daemon.server`` looks up the call of each request.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from gantry import errors
from gantry.rpc import calls

AnyCall = TypeVar("AnyCall", bound=calls.Call[object])


class Table:
    """Which handler answers which call; the first thing a handler gets is the decoded call."""

    def __init__(self) -> None:
        self._handlers: dict[str, Callable[[bytes], Awaitable[object]]] = {}
        self._fenced: dict[str, bool] = {}

    def add(self, call: type[AnyCall], handler: Callable[[AnyCall], Awaitable[object]]) -> None:
        """Let ``handler`` answer ``call``."""
        decoder = msgspec.json.Decoder(call)

        async def answer(body: bytes) -> object:
            try:
                decoded = decoder.decode(body)
            except msgspec.DecodeError as error:
                raise errors.ProtocolError(f"{call.procedure()}: {error}") from None
            return await handler(decoded)

        self._handlers[call.procedure()] = answer
        self._fenced[call.procedure()] = call.FENCED

    def procedures(self) -> set[str]:
        """Return the names of all calls that are answered."""
        return set(self._handlers)

    def is_fenced(self, procedure: str) -> bool:
        """Tell whether only the newest master may make the call (``calls.Call.FENCED``)."""
        return self._fenced.get(procedure, True)

    async def answer(self, procedure: str, body: bytes) -> object:
        """Run the handler; ProtocolError for a call that is not in the table, or cannot be read."""
        if procedure not in self._handlers:
            raise errors.ProtocolError(f"there is no call {procedure!r} here")
        return await self._handlers[procedure](body)
