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
    """Which handler answers which call; a handler's argument is the decoded call, for some also the caller's UUID."""

    def __init__(self) -> None:
        self._handlers: dict[str, Callable[[bytes, str], Awaitable[object]]] = {}
        self._fenced: dict[str, bool] = {}
        self._any_protocol: set[str] = set()

    def add(self, call: type[AnyCall], handler: Callable[[AnyCall], Awaitable[object]]) -> None:
        """Register the handler of a call."""
        self.add_for_caller(call, lambda decoded_call, _: handler(decoded_call))

    def add_for_caller(self, call: type[AnyCall], handler: Callable[[AnyCall, str], Awaitable[object]]) -> None:
        """Register a handler that also receives the UUID of the calling node; empty if it is not known."""

        async def answer(body: bytes, caller: str) -> object:
            return await handler(decoded(call, body), caller)

        self._handlers[call.procedure()] = answer
        self._fenced[call.procedure()] = call.FENCED
        if call.ANY_PROTOCOL:
            self._any_protocol.add(call.procedure())

    def procedures(self) -> set[str]:
        """Return the names of all registered calls."""
        return set(self._handlers)

    def is_fenced(self, procedure: str) -> bool:
        """Return whether only the newest master may make the call (``calls.Call.FENCED``); True if it is unknown."""
        return self._fenced.get(procedure, True)

    def takes_any_protocol(self, procedure: str) -> bool:
        """Return whether masters of every version may make the call (``calls.Call.ANY_PROTOCOL``)."""
        return procedure in self._any_protocol

    async def answer(self, procedure: str, body: bytes, *, caller: str = "") -> object:
        """Run the handler of a call; ProtocolError if the call is not in the table or cannot be decoded."""
        if procedure not in self._handlers:
            raise errors.ProtocolError(f"this node has no call {procedure!r}")
        return await self._handlers[procedure](body, caller)
