"""A disk's data on its way between two nodes, as the units that export and import order it.

The master tells one node to wait for a stream and the other to send it; the data never comes here. Both say how much it
was, and the one that received it its checksum. On the way TLS sees to it that nothing is changed.
"""

from collections.abc import Awaitable, Callable

from msgspec import structs

from gantry import errors
from gantry.model import instance
from gantry.operations import base, cancellable
from gantry.rpc import calls, targets

Side = tuple[targets.Target, calls.Instance]
"""A node, and an instance as it has its disks there."""


class Transfer:
    """One stream from a node to a node, or to itself; ``done`` is what went over it, after ``run``."""

    def __init__(self, environment: base.Environment, *, source: targets.Target, sink: targets.Target) -> None:
        self._environment = environment
        self._nodes = environment.nodes
        self._source = source
        self._sink = sink
        self._token = environment.inputs.uuid()
        self.done: calls.Streamed | None = None

    async def run(self, begin: calls.StreamEnd, into: calls.StreamEnd) -> None:
        """Send from one end to the other; raises ExecutionError and what else the nodes say.

        Meanwhile the job can be canceled, and the programs of both ends are killed.
        """
        port = await self._nodes.call(self._sink, calls.StreamOpen(token=self._token, end=into))
        send = calls.StreamSend(token=self._token, host=self._sink.address, port=port, end=begin)
        try:
            sent = await cancellable.run(self._environment, self._nodes.call(self._source, send), self._stop)
        except errors.JobCanceledError:
            raise
        except errors.GantryError as error:
            raise await self._cause(error) from None
        came = await self._nodes.call(self._sink, calls.StreamClose(token=self._token))
        if sent.size != came.size:
            raise errors.ExecutionError(
                f"node {self._source.name} sent {sent.size} bytes, node {self._sink.name} received {came.size}"
            )
        self.done = came

    def procedure(self, run: Callable[[], Awaitable[None]]) -> base.Procedure:
        """Return the action of a step that copies by this transfer."""
        return base.Procedure("connects two nodes, ends when the job is canceled, compares what both counted", run)

    @property
    def undo(self) -> base.Procedure:
        """Return the undo of a step that copies by this transfer."""

        async def cancel() -> None:
            await self.cancel()

        return base.Procedure("a node that does not answer has dropped the stream itself", cancel)

    async def _stop(self) -> None:
        await self._nodes.call(self._source, calls.StreamCancel(token=self._token))
        await self.cancel()

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


def copies(environment: base.Environment, source: Side, sink: Side, *, compress: str = "none") -> list[base.Step]:
    """Return the steps that copy the disks of an instance, which are active on both sides, a step each."""
    return [_copy(environment, source, sink, index=index, compress=compress) for index in range(len(source[1].disks))]


def _copy(environment: base.Environment, source: Side, sink: Side, *, index: int, compress: str) -> base.Step:
    (sender, old), (receiver, new) = source, sink
    carrier = Transfer(environment, source=sender, sink=receiver)
    begin, end = (calls.StreamEnd(instance=one, disk=one.disks[index], compress=compress) for one in (old, new))

    async def copy() -> None:
        await carrier.run(begin, end)
        if carrier.done:
            environment.log.info(f"disk {index}: {carrier.done.size >> 20} MiB copied and compared")

    kinds = "" if old.disk_template == new.disk_template else f", from {old.disk_template} to {new.disk_template}"
    return base.Step(
        f"copy disk {index} of {old.name} to {receiver.name}{kinds}", (carrier.procedure(copy),), (carrier.undo,)
    )


def writable(vm: instance.Instance) -> instance.Instance:
    """Return an instance whose disks can all be written to, as what is copied to them has to be."""
    return structs.replace(vm, disks=tuple(structs.replace(disk, mode="rw") for disk in vm.disks))
