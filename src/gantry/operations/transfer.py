"""A disk's data on its way between two nodes, as the units that export and import order it.

The master tells one node to wait for a stream and the other to send it; the data never comes here. Both say how much it
was, and the one that received it its checksum. On the way TLS sees to it that nothing is changed.
"""

from gantry import errors
from gantry.operations import base
from gantry.rpc import calls, targets


class Transfer:
    """One stream from a node to a node, or to itself; ``done`` is what went over it, after ``run``."""

    def __init__(self, environment: base.Environment, *, source: targets.Target, sink: targets.Target) -> None:
        self._nodes = environment.nodes
        self._source = source
        self._sink = sink
        self._token = environment.inputs.uuid()
        self.done: calls.Streamed | None = None

    async def run(self, begin: calls.StreamEnd, into: calls.StreamEnd) -> None:
        """Send from one end to the other; raises ExecutionError and what else the nodes say."""
        port = await self._nodes.call(self._sink, calls.StreamOpen(token=self._token, end=into))
        send = calls.StreamSend(token=self._token, host=self._sink.address, port=port, end=begin)
        try:
            sent = await self._nodes.call(self._source, send)
        except errors.GantryError as error:
            raise await self._cause(error) from None
        came = await self._nodes.call(self._sink, calls.StreamClose(token=self._token))
        if sent.size != came.size:
            raise errors.ExecutionError(
                f"node {self._source.name} sent {sent.size} bytes, node {self._sink.name} received {came.size}"
            )
        self.done = came

    async def _cause(self, error: errors.GantryError) -> errors.GantryError:
        """Return what went wrong where it came from: a sender only sees that the receiver hangs up."""
        fault = await self.cancel()
        return errors.ExecutionError(f"node {self._sink.name}: {fault}") if fault else error

    async def cancel(self) -> str:
        """Break the stream off; return what had gone wrong at its end."""
        try:
            return await self._nodes.call(self._sink, calls.StreamCancel(token=self._token))
        except errors.RemoteError:
            return ""  # it breaks off by itself: a node that does not answer holds no other end
