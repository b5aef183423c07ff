"""The table of a node's calls: which handler answers which call of ``rpc.calls``.

The components of a node add their calls to the table; ``daemon.server`` looks up the call of each request.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from gantry import errors
from gantry.rpc import calls
from gantry.runtime import bounded_json

AnyCall = TypeVar("AnyCall", bound=calls.Call[object])


def decoded(call: type[AnyCall], body: bytes) -> AnyCall:
    """Return the call in the body of a request; ProtocolError if it cannot be decoded."""
    try:
        return bounded_json.decode(body, call)
    except bounded_json.UnreadableError as error:
        raise errors.ProtocolError(f"{call.procedure()}: {error}") from None


class Table:
    """Which handler answers which call; a handler's only argument is the decoded call."""

    def __init__(self) -> None:
        self._handlers: dict[str, Callable[[bytes], Awaitable[object]]] = {}
        self._fenced: dict[str, bool] = {}

    def add(self, call: type[AnyCall], handler: Callable[[AnyCall], Awaitable[object]]) -> None:
        """Register the handler of a call."""

        async def answer(body: bytes) -> object:
            return await handler(decoded(call, body))

        self._handlers[call.procedure()] = answer
        self._fenced[call.procedure()] = call.FENCED

    def procedures(self) -> set[str]:
        """Return the names of all registered calls."""
        return set(self._handlers)

    def is_fenced(self, procedure: str) -> bool:
        """Return whether only the newest master may make the call (``calls.Call.FENCED``); True if it is unknown."""
        return self._fenced.get(procedure, True)

    async def answer(self, procedure: str, body: bytes) -> object:
        """Run the handler of a call; ProtocolError if the call is not in the table or cannot be decoded."""
        if procedure not in self._handlers:
            raise errors.ProtocolError(f"this node has no call {procedure!r}")
        return await self._handlers[procedure](body)
